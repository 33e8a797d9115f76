//! The button in a browser: who clicks it sees a run, and other sites click in vain.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::looks::{assert_legible, keep_picture};
use crate::support::{Browser, Rig, Served};

const REFUSED: &str = "urn:tallyd:problem:cross-site";

/// How many runs the page, or any other request, has started.
async fn started(rig: &Rig) -> usize {
    rig.sql("SELECT run_id FROM sync_run WHERE caused_by = 'api'").await.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_click_starts_a_run_and_its_outcome_is_shown_with_and_without_scripts() {
    let Some(mut browser) = Browser::start().await else { return };
    let rig = Rig::start("").await;
    let served = rig.serve(&["--no-schedule"]).await;
    for (user, scripts) in [(1, true), (2, false)] {
        served.api().put(&format!("/v1/like/note/10086/users/{user}")).await.expect(200);
        browser.let_scripts_run(scripts).await;
        browser.open(&format!("http://{}/", served.admin.address)).await;
        browser.click("button").await;
        browser.wait_for("is done: 1 change in").await;
        assert_eq!(started(&rig).await, user);
    }
    assert_eq!(rig.sql("SELECT user_id FROM interaction_record").await.len(), 2);
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
}

#[tokio::test(flavor = "multi_thread")]
async fn with_tokens_a_click_needs_one() {
    let Some(mut browser) = Browser::start().await else { return };
    let rig = Rig::start("").await;
    let served = with_token(&rig, "open-sesame").await;
    assert_legible(&mut browser, &served, "token").await;
    // The browser itself asks for the missing token.
    browser.click("button").await;
    assert_eq!(browser.evaluate("document.activeElement.name").await, Some("token".into()));
    browser.fill("input", "sesame").await;
    browser.click("button").await;
    browser.wait_for("The token is none of those that are configured").await;
    keep_picture(&mut browser, "refused").await;
    assert_eq!((started(&rig).await, browser.evaluate("document.forms[0].token.value").await), (0, Some("".into())));
    browser.fill("input", "open-sesame").await;
    browser.click("button").await;
    browser.wait_for("is done").await;
    keep_picture(&mut browser, "ran").await;
    assert_eq!(started(&rig).await, 1);
    assert!(browser.requests().iter().all(|url| !url.contains("sesame")), "{:?}", browser.requests());
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
}

async fn with_token(rig: &Rig, token: &str) -> Served {
    let file = rig.dir().join("tokens");
    fs::write(&file, token).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    rig.configure(&format!("admin.token_file = {:?}", file.display().to_string()));
    rig.serve(&["--no-schedule"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_sites_click_in_vain() {
    let Some(mut browser) = Browser::start().await else { return };
    let rig = Rig::start("").await;
    let served = rig.serve(&["--no-schedule"]).await;
    let admin = served.admin.address;
    for path in ["", "sync"] {
        let other = other_site(&format!("http://{admin}/{path}")).await;
        // Another site; the same one by another port; the same by another name.
        for host in ["evil.example", "127.0.0.1", "localhost"] {
            browser.open(&format!("http://{host}:{}/", other.port())).await;
            browser.click("button").await;
            browser.wait_for(REFUSED).await;
        }
    }
    // A name that its owner lets point to this machine: for the browser, the page and its form are of one site.
    browser.open(&format!("http://evil.example:{}/", admin.port())).await;
    browser.click("button").await;
    browser.wait_for(REFUSED).await;
    assert_eq!(started(&rig).await, 0);

    browser.open(&format!("http://localhost:{}/", admin.port())).await;
    browser.click("button").await;
    browser.wait_for("is done").await;
    assert_eq!(started(&rig).await, 1);
}

/// A site with one page, whose button posts to `action`.
async fn other_site(action: &str) -> SocketAddr {
    let page = format!("<!doctype html><form method=post action=\"{action}\"><button>You have won</button></form>");
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n", page.len());
    let answer = format!("{head}connection: close\r\n\r\n{page}");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let _ = connection.read(&mut [0; 4096]).await;
                let _ = connection.write_all(answer.as_bytes()).await;
            });
        }
    });
    address
}
