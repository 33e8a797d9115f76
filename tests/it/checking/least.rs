//! The least that the users of both servers must be allowed: enough for everything, and nothing of it too much.

use std::collections::HashMap;
use std::time::Duration;

use super::{carry_out, expect, finding};
use crate::support::{
    DatabaseAt, PrivateMysql, PrivateRedis, RedisAt, Rig, Served, Smtp, SmtpRules, eventually, new_home,
};

const LIMIT: Duration = Duration::from_secs(30);

struct Servers {
    redis: PrivateRedis,
    _mysql: PrivateMysql,
    /// As root.
    db: DatabaseAt,
    /// With users of its own, who may do nothing at first but log in.
    rig: Rig,
    _home: tempfile::TempDir,
}

impl Servers {
    async fn start() -> Option<Self> {
        let home = new_home("acl");
        let users = home.path().join("users.acl");
        std::fs::write(&users, "user default on nopass ~* &* +@all\nuser tallyd on >secret\n").unwrap();
        let redis = PrivateRedis::start(&["--aclfile", users.to_str().unwrap()]).await?;
        let mysql = PrivateMysql::start(&[]).await?;
        let db = mysql.create_database("tally_test").await;
        db.sql_exec("CREATE USER tallyd@'127.0.0.%' IDENTIFIED BY 'secret'").await;
        let own = |url: &str, from: &str| url.replace(from, "tallyd:secret@");
        let own_redis = RedisAt::at(redis.url().replace("redis://", "redis://tallyd:secret@"));
        let own_db = DatabaseAt { url: own(&db.url, "root@"), name: db.name.clone() };
        let rig = Rig::on(&own_redis, &own_db, "degraded.probe_seconds = 1");
        Some(Self { redis, _mysql: mysql, db, rig, _home: home })
    }

    /// Does what a finding says.
    async fn mend(&self, finding: &serde_json::Value) {
        let command = finding["command"].as_str().unwrap_or_else(|| panic!("no command: {finding:#}"));
        assert!(finding["fix"].as_str().unwrap().starts_with(command), "{finding:#}");
        carry_out(command, self.redis.server().port(), &self.db).await;
    }

    async fn acl(&self, rules: &[&str]) {
        let mut command = redis::cmd("ACL");
        command.arg("SETUSER").arg("tallyd").arg(rules);
        command.query_async::<()>(&mut self.redis.connect().await).await.unwrap();
    }
}

/// Both users get what `check` says, and the schema is made.
async fn least() -> Option<Servers> {
    let servers = Servers::start().await?;
    let rig = &servers.rig;
    let refused = expect(rig, "mysql privileges", "fail").await;
    servers.mend(&refused).await;
    expect(rig, "mysql privileges", "ok").await;
    expect(rig, "mysql schema", "fail").await;
    // What the migrations of today do without.
    servers.db.sql_exec("REVOKE ALTER, INDEX ON `tally\\_test`.* FROM tallyd@'127.0.0.%'").await;
    rig.migrate().await;
    servers.db.sql_exec("REVOKE CREATE ON `tally\\_test`.* FROM tallyd@'127.0.0.%'").await;
    expect(rig, "mysql privileges", "ok").await;

    let refused = expect(rig, "redis user", "fail").await;
    servers.mend(&refused).await;
    carry_out("redis-cli ACL SAVE", servers.redis.server().port(), &servers.db).await;
    expect(rig, "redis user", "ok").await;
    Some(servers)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_least_is_enough_for_everything() {
    let Some(mut servers) = least().await else { return };
    everything(&mut servers).await;
}

/// What `check` has explained for each table: no statement was forgotten there.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_checked_of_each_table_is_all_that_is_sent() {
    let Some(mut servers) = least().await else { return };
    servers.db.sql_exec("REVOKE ALL ON `tally\\_test`.* FROM tallyd@'127.0.0.%'").await;
    for (table, privileges) in [
        ("interaction_record", "SELECT, INSERT, UPDATE"),
        ("interaction_count", "SELECT, INSERT, UPDATE"),
        ("tallyd_meta", "SELECT, INSERT, UPDATE, DELETE"),
        ("sync_partition", "SELECT, INSERT, UPDATE"),
        ("sync_run", "SELECT, INSERT, DELETE"),
        ("sync_rejected", "SELECT, INSERT, UPDATE"),
        ("degraded_write", "SELECT, INSERT, DELETE"),
        ("unsettled_count", "SELECT, INSERT, UPDATE, DELETE"),
        ("reconcile_run", "SELECT, INSERT, UPDATE, DELETE"),
        ("reconcile_drift", "SELECT, INSERT, DELETE"),
        ("_sqlx_migrations", "SELECT"),
    ] {
        servers.db.sql_exec(&format!("GRANT {privileges} ON tally_test.{table} TO tallyd@'127.0.0.%'")).await;
    }
    expect(&servers.rig, "mysql privileges", "ok").await;
    everything(&mut servers).await;
}

/// All that tallyd does, on servers where it has not done anything.
async fn everything(servers: &mut Servers) {
    let rig = &servers.rig;
    let smtp = Smtp::start(SmtpRules::default()).await;
    rig.configure(&format!(
        "degraded.probe_seconds = 1\nreport.from = 't@example.com'\nreport.to = ['o@example.com']\n\
         report.smtp.host = '127.0.0.1'\nreport.smtp.tls = 'none'\nreport.smtp.port = {}",
        smtp.port()
    ));
    let served = Served::by(rig.spawn(&["serve"], &[]), true).await;
    writes(&served).await;
    let mut admin = servers.redis.connect().await;
    for command in [&["sync"][..], &["sync", "--full"], &["sync", "--target", "1:7"], &["sync", "--dry-run"]] {
        // What nobody can read is set aside, the second time in the row of the first.
        redis::cmd("SADD").arg("dirty:1").arg("x").query_async::<()>(&mut admin).await.unwrap();
        rig.tallyd(command).await.expect_code(0);
    }
    // Drift on both sides, to be repaired.
    redis::cmd("HSET").arg("cnt:1:7").arg("like").arg(99).query_async::<()>(&mut admin).await.unwrap();
    let drift = "UPDATE interaction_count SET count = 98 WHERE target_id = 7; UPDATE interaction_record SET status = 0";
    servers.db.sql_exec(drift).await;
    rig.tallyd(&["reconcile", "--dry-run", "--target", "1:7"]).await.expect_code(3);
    let reconciled = rig.tallyd(&["reconcile", "--target", "1:7", "--json"]).await.expect_code(0).json();
    assert_eq!(reconciled["outcome"], "repaired", "{reconciled:#}");
    for command in [&["reconcile"][..], &["report", "--send"], &["warm", "--top", "10"], &["status"], &["check"]] {
        rig.tallyd(command).await.expect_code(0);
    }
    // Redis goes with all that it held: writes go to MySQL, then there is a restore, a replay and a load.
    drop(admin);
    servers.redis.kill();
    let like = served.api().put("/v1/like/1/7/users/51").await;
    assert_eq!(like.status, 200, "{like:?}");
    servers.redis.start_again().await;
    let pending = async || served.admin.get("/status").await.json()["degraded"]["pending"] == 0;
    eventually(LIMIT, pending, "the journal is replayed").await;
    writes(&served).await;
    servers.rig.tallyd(&["sync"]).await.expect_code(0);
    let rows = servers.db.sql("SELECT COUNT(*) FROM interaction_record WHERE status = 1 AND user_id = 51").await;
    assert_eq!(rows, [[Some("1".to_owned())]]);
    let mut admin = servers.redis.connect().await;
    let refused: Vec<HashMap<String, redis::Value>> =
        redis::cmd("ACL").arg("LOG").query_async(&mut admin).await.unwrap();
    let refused: Vec<String> =
        refused.iter().map(|entry| redis::from_redis_value(entry["object"].clone()).unwrap()).collect();
    // The library is content when its name is not wanted.
    assert!(refused.iter().all(|command| command.starts_with("client")), "refused to tallyd: {refused:?}");
    let log = served.daemon.log();
    assert!(!log.contains("NOPERM") && !log.contains("denied"), "{log}");
}

/// Every kind of call.
async fn writes(served: &Served) {
    let api = served.api();
    for user in 41..50 {
        assert_eq!(api.put(&format!("/v1/like/1/7/users/{user}")).await.status, 200);
    }
    assert_eq!(api.delete("/v1/like/1/7/users/42").await.status, 200);
    assert_eq!(api.get("/v1/like/1/7/users/43").await.status, 200);
    assert_eq!(api.post("/v1/view/1/7", r#"{"viewer":"v"}"#).await.status, 200);
    for path in ["/v1/like/1/7", "/v1/targets/1/7", "/v1/users/43/like", "/v1/like/2/404"] {
        assert_eq!(api.get(path).await.status, 200, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_the_least_can_be_spared_in_mysql() {
    let Some(servers) = least().await else { return };
    for privilege in ["SELECT", "INSERT", "UPDATE", "DELETE"] {
        servers.db.sql_exec(&format!("REVOKE {privilege} ON `tally\\_test`.* FROM tallyd@'127.0.0.%'")).await;
        let refused = expect(&servers.rig, "mysql privileges", "fail").await;
        assert!(refused["detail"].as_str().unwrap().contains(&format!(" {privilege} (")), "{refused:#}");
        servers.mend(&refused).await;
        expect(&servers.rig, "mysql privileges", "ok").await;
    }
    // As good as on the database: by a role.
    servers.db.sql_exec("REVOKE ALL ON `tally\\_test`.* FROM tallyd@'127.0.0.%'").await;
    let role = "CREATE ROLE writers; GRANT SELECT, INSERT, UPDATE, DELETE ON tally_test.* TO writers; \
         GRANT writers TO tallyd@'127.0.0.%'; SET DEFAULT ROLE writers FOR tallyd@'127.0.0.%'";
    servers.db.sql_exec(role).await;
    expect(&servers.rig, "mysql privileges", "ok").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_the_least_can_be_spared_in_redis() {
    let Some(servers) = least().await else { return };
    let refused = async || finding(&servers.rig, "redis user").await;
    servers.acl(&["-ping"]).await;
    let rules = refused().await["command"].as_str().unwrap().replace('\'', "");
    let (mut commands, mut keys) = (0, 0);
    for rule in rules.split(' ') {
        if rule == "+client|setinfo" {
            continue;
        }
        if let Some(command) = rule.strip_prefix('+') {
            commands += 1;
            // Redis 6 can take back no part of a command.
            servers.acl(&[&format!("-{}", command.split('|').next().unwrap())]).await;
        } else if let Some(pattern) = rule.strip_prefix('~') {
            keys += 1;
            let rest: Vec<_> = rules.split(' ').filter(|other| other.starts_with('~') && *other != rule).collect();
            servers.acl(&[&["resetkeys"], &rest[..]].concat()).await;
            assert!(refused().await["detail"].as_str().unwrap().contains(pattern), "{rule}");
        } else {
            continue;
        }
        let found = refused().await;
        assert_eq!(found["level"], "fail", "{rule}: {found:#}");
        let detail = found["detail"].as_str().unwrap();
        assert!(detail.contains(&rule[1..]), "{rule}: {detail}");
        servers.mend(&found).await;
        expect(&servers.rig, "redis user", "ok").await;
    }
    assert!(commands > 30 && keys == 10, "{rules}");
}

#[tokio::test(flavor = "multi_thread")]
async fn to_look_at_rights_changes_nothing() {
    let Some(servers) = least().await else { return };
    let rig = &servers.rig;
    let tables = "SELECT GROUP_CONCAT(table_name ORDER BY table_name) FROM information_schema.tables \
         WHERE table_schema = DATABASE() AND table_name <> '_sqlx_migrations'";
    let tables = servers.db.sql(tables).await[0][0].clone().unwrap().replace(',', ", ");
    let digest = async || servers.db.sql(&format!("CHECKSUM TABLE {tables}")).await;
    let before = digest().await;
    let commands = servers.redis.commands_of(async || drop(rig.tallyd(&["check"]).await.expect_code(0))).await;
    let harmless = ["AUTH", "CLIENT", "INFO", "TIME", "MULTI", "EXEC", "DISCARD", "ACL", "CONFIG"];
    for command in &commands {
        assert!(harmless.contains(&command.name()), "{commands:#?}");
    }
    assert_eq!(digest().await, before);
}
