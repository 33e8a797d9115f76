//! Connections: their limits, and their end.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Connection, Reply, Rig, Served, Signal, eventually};

const LIMIT: Duration = Duration::from_secs(30);

async fn served(extra: &str) -> (Rig, Served) {
    let rig = Rig::start(extra).await;
    let served = rig.serve(&["--no-schedule"]).await;
    (rig, served)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_in_use_is_said_and_ends_the_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let rig = Rig::start("").await;
    for section in ["api", "admin"] {
        rig.configure(&format!("{section}.listen = \"{address}\""));
        let output = rig.tallyd(&["serve"]).await.expect_code(1);
        assert!(
            output.stderr.contains(&format!("{section}.listen: cannot listen on {address}: ")),
            "{}",
            output.stderr
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_schema_is_said_and_ends_the_start() {
    let rig = Rig::start("").await;
    let output = rig.tallyd(&["serve"]).await.expect_code(1);
    assert!(output.stderr.contains("tallyd migrate"), "{}", output.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_idle_do_not_hold_up_the_end() {
    let (_rig, served) = served("").await;
    let request = b"GET /openapi.json HTTP/1.1\r\nhost: a\r\n\r\n";
    let mut idle = Vec::new();
    for http in [served.api(), &served.admin] {
        let mut kept_alive = http.connect().await;
        for _ in 0..2 {
            kept_alive.write_all(request).await.unwrap();
            let mut answer = vec![0; 64];
            assert!(kept_alive.read(&mut answer).await.unwrap() > 0);
            // The rest of the answer.
            while let Ok(Ok(1..)) = tokio::time::timeout(Duration::from_millis(200), kept_alive.read(&mut answer)).await
            {
            }
        }
        let silent = http.connect().await;
        let mut halfway = http.connect().await;
        halfway.write_all(&request[..20]).await.unwrap();
        idle.extend([kept_alive, silent, halfway]);
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let begun = Instant::now();
    served.signal(Signal::TERM);
    assert_eq!(served.wait(LIMIT).await.code(), Some(0), "{}", served.log());
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(served.log().contains("tallyd has stopped"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_under_way_is_answered_before_the_end() {
    let (_rig, served) = served("").await;
    let body = " ".repeat(1000);
    let head = format!("POST /v1/batch HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n", body.len() + 2);
    let mut connection = served.api().connect().await;
    connection.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    served.signal(Signal::TERM);
    served.wait_for_log("tallyd stops", LIMIT).await;
    let closed = async || tokio::net::TcpStream::connect(served.api().address).await.is_err();
    eventually(LIMIT, closed, "an end of new connections").await;
    connection.write_all(b"[]").await.unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await.unwrap();
    Reply::parse(&answer).expect_problem(400, "malformed");
    assert_eq!(served.wait(LIMIT).await.code(), Some(0), "{}", served.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_does_not_end_is_cut_off_after_the_grace_time() {
    let (_rig, served) = served("serve.grace_seconds = 2").await;
    let mut connection = served.api().connect().await;
    connection.write_all(b"POST /v1/batch HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n{").await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let begun = Instant::now();
    served.signal(Signal::TERM);
    assert_eq!(served.wait(LIMIT).await.code(), Some(1), "{}", served.log());
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_and_bodies_that_do_not_come_are_not_waited_for() {
    let (_rig, served) = served("").await;
    let api = served.api();
    let begun = Instant::now();
    let slow_head = async {
        let mut connection = api.connect().await;
        connection.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n").await.unwrap();
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(LIMIT, connection.read_to_end(&mut answer)).await.expect("it is closed");
    };
    let slow_body = async {
        let request = b"POST /v1/batch HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n{";
        api.exchange(request).await.expect_problem(408, "request-timeout");
    };
    tokio::join!(slow_head, slow_body);
    assert!((9..20).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}

/// Who sends the next request on a connection that is closed cannot know whether it was carried out.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_says_that_the_connection_closes_when_nobody_reads_the_body() {
    let (_rig, served) = served("").await;
    for path in ["/nowhere", "/v1/batch"] {
        let mut connection = Connection::to(served.api());
        let head = format!("PATCH {path} HTTP/1.1\r\nhost: tallyd\r\ncontent-length: 100000\r\n\r\nthe beginning");
        let reply = connection.exchange(head.as_bytes(), false).await.unwrap();
        assert!(matches!(reply.status, 404 | 405), "{reply:?}");
        assert_eq!(reply.header("connection"), Some("close"), "{reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_api_only_the_admin_listens() {
    let rig = Rig::start("").await;
    let served = rig.serve(&["--no-api", "--no-schedule"]).await;
    served.admin.get("/healthz").await.expect(200);
    assert!(!served.log().contains("api listens"), "{}", served.log());
    served.signal(Signal::TERM);
    assert_eq!(served.wait(LIMIT).await.code(), Some(0));
}
