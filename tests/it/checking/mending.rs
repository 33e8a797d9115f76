//! Servers that are set up badly in every way: each thing found says what mends it, and that does.

use super::{carry_out, expect, finding};
use crate::support::{DatabaseAt, PrivateMysql, PrivateRedis, Rig, Smtp, SmtpRules};

/// What `check` says, as (name, finding), without what is as it should be.
async fn bad(rig: &Rig) -> Vec<(String, serde_json::Value)> {
    let report = rig.tallyd(&["check", "--json"]).await.json();
    let findings = report["findings"].as_array().unwrap().iter().filter(|finding| finding["level"] != "ok");
    findings.map(|finding| (finding["name"].as_str().unwrap().to_owned(), finding.clone())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_check_says_mends_what_it_finds() {
    let Some(redis) = PrivateRedis::start(&["--maxmemory", "500kb", "--maxmemory-policy", "allkeys-lru"]).await else {
        return;
    };
    let Some(mysql) = PrivateMysql::start(&["--log-bin=binlog", "--sync-binlog=0"]).await else { return };
    let root = mysql.create_database("tally").await;
    root.sql_exec(
        "CREATE USER tallyd@'127.0.0.1'; GRANT FILE, PROCESS ON *.* TO tallyd@'127.0.0.1'; \
         GRANT ALL PRIVILEGES ON tally.* TO tallyd@'127.0.0.1' WITH GRANT OPTION",
    )
    .await;
    let db = DatabaseAt { url: root.url.replace("root@", "tallyd@"), name: root.name.clone() };
    let rig = Rig::on(&redis, &db, "mysql.max_connections = 600");
    rig.migrate().await;
    root.sql_exec(
        "SET GLOBAL binlog_format = 'STATEMENT'; SET GLOBAL innodb_flush_log_at_trx_commit = 2; \
         SET GLOBAL max_allowed_packet = 65536; SET GLOBAL read_only = ON; \
         ALTER TABLE interaction_record DROP PRIMARY KEY, ADD id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, \
         ADD UNIQUE KEY (user_id, target_type, target_id, interaction_type), MODIFY update_time DATETIME NOT NULL",
    )
    .await;

    let found = bad(&rig).await;
    let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "redis eviction",
            "redis memory",
            "redis persistence",
            "mysql read-only",
            "mysql packet size",
            "mysql binary log",
            "mysql durability",
            "mysql connections",
            "mysql privileges",
            "mysql layout",
            "mysql time precision",
        ],
        "{found:#?}"
    );
    let text = rig.tallyd(&["check"]).await.expect_code(1).stdout;
    for (name, finding) in &found {
        let detail = finding["detail"].as_str().unwrap();
        assert!(detail.contains(": ") || detail.contains(", "), "{name} does not say why it matters: {detail}");
        if name == "mysql privileges" {
            assert!(detail.contains("could not be determined") && detail.contains("--read-only"), "{detail}");
            continue;
        }
        let command = finding["command"].as_str().unwrap();
        // What is used is another figure each time.
        let said = text.contains(&format!("\n      mend it: {command}\n")) || name == "redis memory";
        assert!(said, "{name}: {text}");
        carry_out(command, redis.server().port(), &root).await;
    }
    let beyond = expect(&rig, "mysql privileges", "warn").await;
    let detail = beyond["detail"].as_str().unwrap();
    let words = ["PROCESS, FILE on *.*", "ALL PRIVILEGES, GRANT OPTION on `tally`.*"];
    assert!(words.iter().all(|word| detail.contains(word)), "{detail}");
    carry_out(beyond["command"].as_str().unwrap(), redis.server().port(), &root).await;
    let left = bad(&rig).await;
    assert!(left.is_empty(), "{left:#?}");
    let grants = root.sql("SHOW GRANTS FOR tallyd@'127.0.0.1'").await.concat();
    assert_eq!(grants.len(), 2, "{grants:?}");
    assert!(
        grants[1].as_deref().unwrap().starts_with("GRANT SELECT, INSERT, UPDATE, DELETE ON `tally`.* TO "),
        "{grants:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mail_server_is_tried_and_no_mail_is_sent() {
    let rig = Rig::start("").await;
    rig.migrate().await;
    let rules = SmtpRules { login: Some(("PLAIN", "ops", "right")), ..SmtpRules::default() };
    let smtp = Smtp::start(rules).await;
    let configure = |port: u16, password: &str| {
        let file = rig.dir().join("mail-password");
        std::fs::write(&file, password).unwrap();
        rig.configure(&format!(
            "report.from = \"t@example.com\"\nreport.to = [\"o@example.com\"]\nreport.smtp.host = \"127.0.0.1\"\n\
             report.smtp.port = {port}\nreport.smtp.tls = \"none\"\nreport.smtp.username = \"ops\"\n\
             report.smtp.password_file = {file:?}"
        ));
    };
    configure(smtp.port(), "right");
    expect(&rig, "mail", "ok").await;
    configure(smtp.port(), "wrong-Hunter2");
    let refused = expect(&rig, "mail", "warn").await;
    assert!(refused["detail"].as_str().unwrap().contains("535"), "{refused:#}");
    assert!(!refused.to_string().contains("Hunter2"), "{refused:#}");
    assert!(refused["fix"].as_str().unwrap().contains("tallyd report --test"), "{refused:#}");
    configure(9, "right");
    assert_eq!(finding(&rig, "mail").await["level"], "warn");
    rig.tallyd(&["check"]).await.expect_code(0);
    assert!(smtp.received().is_empty());
}
