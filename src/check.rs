//! `tallyd check`: what is wrong, why it matters, and how to mend it.

use serde::Serialize;

use crate::config::{Config, RedisAddress, SslMode};
use crate::sync::Context;
use crate::{sink, store};

/// Below this, statements are cut so small that a sync is slow.
const SMALL_PACKET: i64 = 1 << 20;
/// Clocks that differ by more make the newer event time the wrong one.
const CLOCKS_MS: i64 = 1000;

/// How a finding is to be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// It works, and may hurt.
    Warn,
    /// It does not work, or is not safe.
    Fail,
}

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// What.
    pub name: &'static str,
    /// How it is.
    pub level: Level,
    /// What was found, and why it matters.
    pub detail: String,
    /// What mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// Everything that was looked at.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Whether nothing failed.
    pub ok: bool,
    /// In the order in which it was looked at.
    pub findings: Vec<Finding>,
}

fn ok(name: &'static str, detail: impl Into<String>) -> Finding {
    Finding { name, level: Level::Ok, detail: detail.into(), fix: None }
}

fn bad(name: &'static str, level: Level, detail: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { name, level, detail: detail.into(), fix: Some(fix.into()) }
}

/// Looks at the configuration and both servers, and changes nothing.
pub async fn check(context: &Context) -> Report {
    let mut findings = vec![ok("configuration", context.config.file.display().to_string())];
    let (redis, mysql) = tokio::join!(redis(context), mysql(context));
    let (redis_ms, redis) = redis;
    let (mysql_ms, mysql) = mysql;
    findings.extend(redis);
    findings.extend(mysql);
    if let (Some(redis_ms), Some(mysql_ms)) = (redis_ms, mysql_ms) {
        findings.push(clocks((redis_ms - mysql_ms).abs()));
    }
    Report { ok: findings.iter().all(|finding| finding.level != Level::Fail), findings }
}

fn clocks(apart_ms: i64) -> Finding {
    if apart_ms <= CLOCKS_MS {
        return ok("clocks", format!("Redis and MySQL are {apart_ms} ms apart"));
    }
    bad(
        "clocks",
        Level::Warn,
        format!("Redis and MySQL are {apart_ms} ms apart: while one of them is down, the older of two writes may win"),
        "let NTP set the clocks of both servers",
    )
}

async fn redis(context: &Context) -> (Option<i64>, Vec<Finding>) {
    let facts = match context.store().await {
        Ok(store) => store.server_facts().await,
        Err(error) => Err(error),
    };
    match facts {
        Ok(facts) => (Some(facts.now_ms), redis_findings(&facts, &context.config)),
        Err(error) => {
            let fix = "start Redis, or correct redis.url, redis.username and redis.password_file";
            (None, vec![bad("redis connection", Level::Fail, error.to_string(), fix)])
        }
    }
}

fn redis_findings(facts: &store::ServerFacts, config: &Config) -> Vec<Finding> {
    let mut findings = vec![ok("redis connection", config.redis.url_redacted.clone())];
    let version: Vec<u32> = facts.version.split('.').filter_map(|part| part.parse().ok()).collect();
    findings.push(if version.first().is_some_and(|&major| major >= 6) {
        ok("redis version", facts.version.clone())
    } else {
        let detail = format!("{}: the scripts need Redis 6 or newer", facts.version);
        bad("redis version", Level::Fail, detail, "upgrade Redis")
    });
    findings.push(if facts.role == "master" {
        ok("redis role", "master")
    } else {
        let detail = format!("this server is a replica ({}): it refuses writes, and lags", facts.role);
        bad("redis role", Level::Fail, detail, "point redis.url at the master")
    });
    findings.push(eviction(facts));
    if facts.append_only {
        findings.push(ok("redis persistence", "the append-only file is on"));
    } else {
        findings.push(bad(
            "redis persistence",
            Level::Warn,
            "no append-only file: a crash of Redis loses every write since its last snapshot that is not synced yet",
            "redis-cli CONFIG SET appendonly yes, and the same in redis.conf",
        ));
    }
    let remote = |address: &RedisAddress| matches!(address, RedisAddress::Tcp { host, .. } if !is_loopback(host));
    if !config.redis.tls && config.redis.password.is_some() && config.redis.addresses.iter().any(remote) {
        let detail = "the password crosses the network unencrypted";
        findings.push(bad("redis encryption", Level::Warn, detail, "use rediss:// in redis.url"));
    }
    findings
}

fn eviction(facts: &store::ServerFacts) -> Finding {
    let policy = &facts.eviction_policy;
    if policy.starts_with("allkeys-") {
        return bad(
            "redis eviction",
            Level::Fail,
            format!("maxmemory-policy is {policy}: Redis may throw away marks and states that MySQL does not have yet"),
            "redis-cli CONFIG SET maxmemory-policy noeviction, and the same in redis.conf",
        );
    }
    ok("redis eviction", format!("maxmemory-policy is {policy}"))
}

async fn mysql(context: &Context) -> (Option<i64>, Vec<Finding>) {
    let mut session = context.sink.session();
    let facts = match session.server_facts().await {
        Ok(facts) => facts,
        Err(error) => {
            let fix = "start MySQL, or correct mysql.url and mysql.password_file";
            return (None, vec![bad("mysql connection", Level::Fail, error.to_string(), fix)]);
        }
    };
    let schema = session.require_schema().await;
    session.close().await;
    let mut findings = mysql_findings(&facts, &context.config);
    findings.push(match schema {
        Ok(_) => ok("mysql schema", "current"),
        Err(error) => bad("mysql schema", Level::Fail, error.to_string(), "tallyd migrate"),
    });
    findings.extend(layout(&facts));
    (Some(facts.now_ms), findings)
}

fn mysql_findings(facts: &sink::ServerFacts, config: &Config) -> Vec<Finding> {
    let mut findings = vec![ok("mysql connection", config.mysql.address()), ok("mysql version", facts.version.clone())];
    findings.push(if facts.read_only {
        let detail = "this server is read-only: nothing can be synced, the backlog stays in Redis";
        bad("mysql read-only", Level::Fail, detail, "point mysql.url at the primary, or SET GLOBAL read_only = OFF")
    } else {
        ok("mysql read-only", "off")
    });
    let packet = format!("max_allowed_packet is {} bytes", facts.max_packet);
    findings.push(if facts.max_packet >= SMALL_PACKET {
        ok("mysql packet size", packet)
    } else {
        let detail = format!("{packet}: statements are cut to fit, and a sync needs many of them");
        bad("mysql packet size", Level::Warn, detail, "SET GLOBAL max_allowed_packet = 16777216")
    });
    if facts.binlog_format == "STATEMENT" {
        findings.push(bad(
            "mysql binary log",
            Level::Fail,
            "binlog_format is STATEMENT: MySQL refuses transactions that read what is committed (error 1665)",
            "SET GLOBAL binlog_format = 'ROW'",
        ));
    }
    let remote = config.mysql.socket.is_none() && !is_loopback(&config.mysql.host);
    if remote && facts.cipher.is_empty() && config.mysql.ssl_mode != SslMode::Disabled {
        let detail = "the server has no TLS, so that everything crosses the network unencrypted";
        findings.push(bad(
            "mysql encryption",
            Level::Warn,
            detail,
            "set up TLS and use ?ssl-mode=REQUIRED in mysql.url",
        ));
    }
    findings
}

fn layout(facts: &sink::ServerFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if facts.layout.is_some_and(|layout| !layout.by_target) {
        findings.push(bad(
            "mysql layout",
            Level::Warn,
            "interaction_record has the older layout: rows of a target cannot be found without a scan of the table, so \
             that counts are moved by what flips instead of counted",
            "CREATE INDEX by_target ON interaction_record (target_type, target_id, interaction_type, status)",
        ));
    }
    if let Some(digits) = facts.time_digits.filter(|&digits| digits < 3) {
        findings.push(bad(
            "mysql time precision",
            Level::Warn,
            format!("update_time keeps {digits} digits after the seconds: two writes within a second are not told apart"),
            "ALTER TABLE interaction_record MODIFY create_time DATETIME(3) NOT NULL, MODIFY update_time DATETIME(3) NOT NULL",
        ));
    }
    findings
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
