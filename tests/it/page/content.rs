//! What the page says.

use std::time::{Duration, Instant};

use crate::support::{PrivateMysql, PrivateRedis, Redis, Rig};

/// What a page may do; the nonce is another one each time.
const POLICY: [&str; 2] =
    ["default-src 'none'; style-src 'nonce-", "'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"];

#[tokio::test(flavor = "multi_thread")]
async fn it_shows_what_is_there_and_nothing_of_it_is_markup() {
    let rig = Rig::start("").await;
    let served = rig.serve(&["--no-schedule"]).await;
    served.api().put("/v1/like/note/10086/users/42").await.expect(200);
    let evil = r#"{"run_id":"<script>1","started_at":"<script>2","outcome":"<script>3","trigger":"<script>4","changes":1,
        "rows_written":1,"rejected":0,"left":0,"duration_ms":1,
        "partitions":[{"target_type":1,"shard":0,"outcome":"<script>5","error":"<script>6"}]}"#;
    rig.sql(&format!(
        "INSERT INTO sync_run (run_id, caused_by, owner, started_at, duration_ms, outcome, retries, report) \
         VALUES ('x', 'api', 'x', '2038-01-01', 1, 'failed', 0, '{evil}')"
    ))
    .await;
    let page = served.admin.get("/?run=%3Cscript%3E7").await.expect(200);
    for part in
        ["Changes waiting", "note 1/0", "Sync now", "&lt;script&gt;3", "note 1/0 &lt;script&gt;5: &lt;script&gt;6"]
    {
        assert!(page.body.contains(part), "{part} is not in\n{}", page.body);
    }
    assert!(!page.body.contains("<script") && !page.body.contains(" style="), "{}", page.body);
    let policy = page.header("content-security-policy").unwrap();
    let nonce = policy.strip_prefix(POLICY[0]).and_then(|rest| rest.strip_suffix(POLICY[1])).unwrap();
    assert!(nonce.len() == 32 && page.body.contains(&format!("<style nonce=\"{nonce}\">")), "{policy}");
    for (name, value) in
        [("x-content-type-options", "nosniff"), ("referrer-policy", "same-origin"), ("cache-control", "no-store")]
    {
        assert_eq!(page.header(name), Some(value));
    }
    assert_ne!(served.admin.get("/").await.header("content-security-policy"), Some(policy));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_comes_soon_when_both_servers_are_down() {
    let (Some(mut redis), Some(mut mysql)) = (PrivateRedis::start(&[]).await, PrivateMysql::start(&[]).await) else {
        return;
    };
    let db = mysql.create_database("page").await;
    let rig = Rig::on(&redis, &db, "");
    let served = rig.serve(&["--no-schedule"]).await;
    assert!(served.admin.get("/").await.expect(200).body.contains("All is well"));
    redis.kill();
    mysql.kill();
    let begun = Instant::now();
    let page = served.admin.get("/").await.expect(200).body;
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    for part in ["Redis is down", "MySQL is down", "cannot be reached"] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_mysql_refuses_to_record_is_told_all_the_same() {
    let Some(mysql) = PrivateMysql::start(&["--log-bin=binlog"]).await else { return };
    let db = mysql.create_database("page").await;
    let redis = Redis::start().await;
    let rig = Rig::on(&redis, &db, "");
    let served = rig.serve(&["--no-schedule"]).await;
    served.api().put("/v1/like/note/1/users/1").await.expect(200);
    db.sql_exec("SET GLOBAL binlog_format = 'STATEMENT'").await;
    let run = served.admin.post("/sync?wait_seconds=60", "").await.expect(200).json();
    assert_eq!(run["outcome"], "failed", "{run:#}");
    let status = served.admin.get("/status").await.expect(200).json();
    assert_eq!(status["last_runs"][0]["run_id"], run["run_id"], "{status:#}");
    assert!(!served.admin.get("/").await.expect(200).body.contains("All is well"));
    // With its statements taken again, it is as any other.
    db.sql_exec("SET GLOBAL binlog_format = 'ROW'").await;
    assert_eq!(served.admin.post("/sync?wait_seconds=60", "").await.expect(200).json()["outcome"], "done");
    assert!(served.admin.get("/").await.expect(200).body.contains("All is well"));

    db.sql_exec("SET GLOBAL read_only = ON").await;
    let text = rig.tallyd(&["status"]).await.stdout;
    assert!(text.contains("MySQL is up, but cannot be used: the server is read-only"), "{text}");
}
