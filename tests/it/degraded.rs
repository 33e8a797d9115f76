//! Redis is down, or as good as: writes go to MySQL and its journal, reads are answered by MySQL and say so.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tallyd::model::{Partition, RecordRow};
use tallyd::sink::SinkError;

use crate::likes::context;
use crate::support::{
    Http, PrivateMysql, PrivateRedis, Proxy, Redis, RedisAt, Reply, Rig, Served, create_database, eventually,
};

/// What is promised of every answer.
const AT_ONCE: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_secs(20);

async fn all(requests: impl Iterator<Item = (Http, String)>) -> Vec<(Reply, Duration)> {
    let ask = |(api, path): (Http, String)| {
        tokio::spawn(async move {
            let sent = Instant::now();
            (api.put(&path).await, sent.elapsed())
        })
    };
    let sent: Vec<_> = requests.map(ask).collect();
    let mut answers = Vec::new();
    for answer in sent {
        answers.push(answer.await.unwrap());
    }
    answers
}

fn from_mysql(reply: &Reply) -> bool {
    reply.header("tallyd-source") == Some("mysql")
}

async fn set(redis: &RedisAt, name: &str, value: &str) {
    let mut command = redis::cmd("CONFIG");
    let () = command.arg("SET").arg(name).arg(value).query_async(&mut redis.connect().await).await.unwrap();
}

async fn number(rig: &Rig, query: &str) -> i64 {
    rig.sql(query).await[0][0].as_deref().unwrap_or("0").parse().unwrap()
}

async fn breaker(served: &Served) -> String {
    served.admin.get("/status").await.expect(200).json()["breaker"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_likes_without_redis_are_answered_at_once_and_are_in_mysql() {
    let Some(mut redis) = PrivateRedis::start(&[]).await else { return };
    let db = create_database().await;
    let rig = Rig::on(&redis, &db, "degraded.probe_seconds = 1");
    let served = rig.serve(&["--no-schedule"]).await;
    let api = served.api().clone();
    api.put("/v1/like/note/1/users/1000").await.expect(200);
    redis.stop().await;
    let likes = (1..=100).map(|user| (api.clone(), format!("/v1/like/note/1/users/{user}")));
    for (answer, took) in all(likes).await {
        assert!(took < AT_ONCE, "{took:?}");
        let answer = answer.expect(200);
        assert!(from_mysql(&answer), "{answer:?}");
        assert_eq!(answer.json()["changed"], true);
    }
    assert_eq!(number(&rig, "SELECT SUM(status) FROM interaction_record WHERE target_id = 1").await, 100);
    assert_eq!(number(&rig, "SELECT count FROM interaction_count WHERE target_id = 1").await, 100);
    assert_eq!(number(&rig, "SELECT COUNT(*) FROM degraded_write WHERE target_id = 1 AND status = 1").await, 100);
    assert_eq!(breaker(&served).await, "open");
    let ready = served.admin.get("/readyz").await.expect(200);
    assert_eq!(ready.json()["status"], "degraded");
    let metrics = served.admin.get("/metrics").await.expect(200).body;
    for line in ["tallyd_breaker_open 1", "tallyd_degraded_writes_total 100"] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    }
    let one_line = served.daemon.log().matches("breaker open").count();
    assert_eq!(one_line, 1, "{}", served.daemon.log());

    let state = api.get("/v1/like/note/1/users/7").await.expect(200);
    assert!(from_mysql(&state) && state.json()["active"] == true, "{state:?}");
    let counts = api.get("/v1/targets/note/1").await.expect(200);
    assert!(from_mysql(&counts), "{counts:?}");
    assert_eq!(counts.json()["counts"], json!({"like": "100", "collect": "0", "follow": "0", "view": "0"}));
    let view = api.post("/v1/view/note/1", r#"{"viewer":"anna"}"#).await.expect(200);
    assert!(from_mysql(&view) && view.json() == json!({"counted": false, "count": "0"}), "{view:?}");
    let items = r#"{"items":[{"interaction":"like","target_type":1,"target_id":1,"user_id":100},
        {"interaction":"like","target_type":1,"target_id":1,"user_id":101},
        {"interaction":"like","target_type":2,"target_id":9}]}"#;
    let answers = api.post("/v1/query", items).await.expect(200);
    assert!(from_mysql(&answers), "{answers:?}");
    let [yes, no, none] =
        [("100", Some(true)), ("100", Some(false)), ("0", None)].map(|(count, active)| match active {
            Some(active) => json!({"count": count, "active": active}),
            None => json!({"count": count}),
        });
    assert_eq!(answers.json()["results"], json!([yes, no, none]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_start_does_not_wait_for_redis() {
    let redis = RedisAt::at("redis://127.0.0.1:1/0".to_owned());
    let db = create_database().await;
    let rig = Rig::on(&redis, &db, "");
    let begun = Instant::now();
    let served = rig.serve(&["--no-schedule"]).await;
    let answer = served.api().put("/v1/like/note/1/users/1").await.expect(200);
    assert!(from_mysql(&answer) && begun.elapsed() < 5 * AT_ONCE, "{answer:?} after {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_user_counts_once_however_often_and_at_once_he_acts() {
    let redis = RedisAt::at("redis://127.0.0.1:1/0".to_owned());
    let db = create_database().await;
    let rig = Rig::on(&redis, &db, "");
    let served = rig.serve(&["--no-schedule"]).await;
    let likes = (0..50).map(|_| (served.api().clone(), "/v1/like/note/5/users/42".to_owned()));
    let changed = all(likes).await.into_iter().filter(|(answer, _)| answer.json()["changed"] == true).count();
    assert_eq!(changed, 1);
    assert_eq!(number(&rig, "SELECT count FROM interaction_count WHERE target_id = 5").await, 1);
    assert_eq!(number(&rig, "SELECT COUNT(*) FROM degraded_write").await, 50, "what changes nothing, too");
    let batch = |ops: &[(&str, i64)]| {
        let op = |(op, user): &(&str, i64)| json!({"op": op, "interaction": "like", "target_type": 1, "target_id": "5", "user_id": user});
        json!({"ops": ops.iter().map(op).collect::<Vec<Value>>()}).to_string()
    };
    let ops = batch(&[("cancel", 42), ("set", 43), ("set", 42), ("cancel", 44), ("cancel", 42)]);
    let answer = served.api().post("/v1/batch", ops).await.expect(200);
    assert!(from_mysql(&answer));
    let told = |changed: bool, active: bool, count: &str| json!({"changed": changed, "active": active, "count": count});
    let expected = [(true, false, "0"), (true, true, "1"), (true, true, "2"), (false, false, "2"), (true, false, "1")];
    assert_eq!(answer.json()["results"], json!(expected.map(|(changed, active, count)| told(changed, active, count))));
    let rows = rig.sql("SELECT user_id, status, create_time <= update_time FROM interaction_record ORDER BY 1").await;
    let text = |row: [&str; 3]| row.map(|value| Some(value.to_owned())).to_vec();
    assert_eq!(rows, [["42", "0", "1"], ["43", "1", "1"], ["44", "0", "1"]].map(text));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_row_wins_over_any_older_event_and_a_missing_count_is_counted() {
    let redis = RedisAt::at("redis://127.0.0.1:1/0".to_owned());
    let db = create_database().await;
    let rig = Rig::on(&redis, &db, "");
    rig.migrate().await;
    rig.sql_exec(
        "INSERT INTO interaction_record VALUES (1,7,1,1,1,'2026-01-01','2037-01-01'), (1,7,1,2,1,'2026-01-01','2026-01-01')",
    )
    .await;
    let served = rig.serve(&["--no-schedule"]).await;
    let answer = served.api().delete("/v1/like/note/7/users/1").await.expect(200).json();
    assert_eq!(answer, json!({"changed": true, "active": false, "count": "1"}));
    let query = "SELECT status, update_time = '2037-01-01 00:00:00.001', create_time = '2026-01-01' \
                 FROM interaction_record WHERE user_id = 1";
    assert_eq!(rig.sql(query).await, [["0", "1", "1"].map(|value| Some(value.to_owned()))]);
    assert_eq!(number(&rig, "SELECT count FROM interaction_count").await, 1);
    assert_eq!(number(&rig, "SELECT event_ms FROM degraded_write").await, 2_114_380_800_001);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_answers_and_does_nothing_counts_as_down() {
    let Some(redis) = PrivateRedis::start(&[]).await else { return };
    let db = create_database().await;
    let rig = Rig::on(&redis, &db, "");
    let served = rig.serve(&["--no-schedule"]).await;
    let api = served.api();
    let mut user = 0;
    let mut like = async || {
        user += 1;
        api.put(&format!("/v1/like/note/1/users/{user}")).await.expect(200)
    };
    assert!(!from_mysql(&like().await));
    set(&redis, "maxmemory", "1").await;
    assert!(from_mysql(&like().await));
    set(&redis, "maxmemory", "0").await;
    assert!(!from_mysql(&like().await));
    let mut connection = redis.connect().await;
    let () = redis::cmd("REPLICAOF").arg("127.0.0.1").arg("1").query_async(&mut connection).await.unwrap();
    assert!(from_mysql(&like().await));
    let () = redis::cmd("REPLICAOF").arg("NO").arg("ONE").query_async(&mut connection).await.unwrap();
    assert!(!from_mysql(&like().await));
    // A snapshot that cannot be written.
    std::fs::create_dir(redis.server().home().join("dump.rdb")).unwrap();
    set(&redis, "save", "3600 1").await;
    let failed = async || {
        let _begun: Result<(), _> = redis::cmd("BGSAVE").query_async(&mut redis.connect().await).await;
        let info: String = redis::cmd("INFO").arg("persistence").query_async(&mut redis.connect().await).await.unwrap();
        info.contains("rdb_last_bgsave_status:err")
    };
    eventually(SOON, failed, "a snapshot that failed").await;
    assert!(from_mysql(&like().await));
    assert_eq!(number(&rig, "SELECT COUNT(*) FROM degraded_write").await, 3);
    assert_eq!(breaker(&served).await, "closed", "single failures do not open it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_black_hole_before_redis_holds_nobody_up() {
    let redis = Redis::start().await;
    let db = create_database().await;
    let proxy = Proxy::start(redis.url(), "").await;
    let through = RedisAt::at(proxy.in_front_of(redis.url()));
    let rig = Rig::on(&through, &db, "degraded.probe_seconds = 1");
    let served = rig.serve(&["--no-schedule"]).await;
    let api = served.api().clone();
    api.put("/v1/like/note/1/users/1000").await.expect(200);
    proxy.freeze();
    for round in 0..5 {
        let likes = (1..=20).map(|user| (api.clone(), format!("/v1/like/note/1/users/{}", round * 100 + user)));
        for (answer, took) in all(likes).await {
            assert!(took < AT_ONCE, "{took:?}");
            assert!(from_mysql(&answer.expect(200)));
        }
    }
    assert_eq!(number(&rig, "SELECT COUNT(*) FROM degraded_write").await, 100);
    assert_eq!(breaker(&served).await, "open");
}

#[tokio::test(flavor = "multi_thread")]
async fn both_down_is_said_at_once() {
    let Some(mut mysql) = PrivateMysql::start(&[]).await else { return };
    let Some(mut redis) = PrivateRedis::start(&[]).await else { return };
    let db = mysql.create_database("tallyd").await;
    let rig = Rig::on(&redis, &db, "");
    let served = rig.serve(&["--no-schedule"]).await;
    let api = served.api();
    api.put("/v1/like/note/1/users/1").await.expect(200);
    redis.stop().await;
    mysql.stop().await;
    for path in ["/v1/like/note/1/users/2", "/v1/like/note/1/users/3"] {
        let asked = Instant::now();
        let answer = api.put(path).await.expect_problem(503, "unavailable");
        assert!(answer.header("retry-after").is_some() && asked.elapsed() < AT_ONCE, "{answer:?}");
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("Redis") && detail.contains("MySQL"), "{detail}");
    }
    api.get("/v1/like/note/1").await.expect_problem(503, "unavailable");
    served.admin.get("/readyz").await.expect(503);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_goes_to_mysql_than_is_allowed() {
    let redis = RedisAt::at("redis://127.0.0.1:1/0".to_owned());
    let db = create_database().await;
    let rig = Rig::on(&redis, &db, "degraded.max_qps = 5");
    let served = rig.serve(&["--no-schedule"]).await;
    let likes = (1..=60).map(|user| (served.api().clone(), format!("/v1/like/note/1/users/{user}")));
    let (mut taken, mut limited) = (0, 0);
    for (answer, _) in all(likes).await {
        if answer.status == 200 {
            taken += 1;
        } else {
            let answer = answer.expect_problem(429, "rate-limited");
            assert!(answer.header("retry-after").is_some());
            limited += 1;
        }
    }
    assert!(taken >= 5 && limited > 0, "{taken} taken, {limited} limited");
    assert_eq!(number(&rig, "SELECT COUNT(*) FROM degraded_write").await, taken, "what is refused has not happened");
    served.api().get("/v1/like/note/1").await.expect(200);
}

/// Who was told that his write failed has perhaps written something else since.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_waits_for_its_row_for_too_long_is_not_made() {
    let rig = Rig::start("").await;
    rig.migrate().await;
    rig.sql_exec("INSERT INTO interaction_record VALUES (1,7,1,1,1,'2026-01-01','2026-01-01')").await;
    let db = rig.db.clone();
    let holder = tokio::spawn(async move {
        let turn = "UPDATE interaction_record SET status = 0, update_time = '2026-01-02'";
        db.sql_exec(&format!("START TRANSACTION; {turn}; DO GET_LOCK(DATABASE(), 9); DO SLEEP(1); COMMIT")).await
    });
    let held = async || number(&rig, "SELECT IS_USED_LOCK(DATABASE()) IS NOT NULL").await > 0;
    eventually(SOON, held, "the row is locked").await;
    let id = |n: i64| n.try_into().unwrap();
    let row = RecordRow { target: id(7), interaction: 1, user: id(1), active: true, at_ms: 0 };
    let partition = Partition { target_type: 1, shard: 0 };
    let mut session = context(&rig).sink.session();
    let soon = Instant::now() + Duration::from_millis(100);
    let late = session.degrade(partition, vec![row], None, soon).await;
    assert!(matches!(late, Err(SinkError::Late { .. })), "{late:?}");
    holder.await.unwrap();
    assert_eq!(number(&rig, "SELECT status FROM interaction_record").await, 0);
    assert_eq!(number(&rig, "SELECT COUNT(*) FROM degraded_write").await, 0);
    session.degrade(partition, vec![row], None, Instant::now() + SOON).await.unwrap();
    assert_eq!(number(&rig, "SELECT status FROM interaction_record").await, 1);
}
