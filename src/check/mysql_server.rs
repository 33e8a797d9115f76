//! How the server of MySQL is set up.

use super::{Finding, Level, bad, is_loopback, ok};
use crate::config::{Config, SslMode};
use crate::sink::ServerFacts;

/// Below this, statements are cut so small that a sync is slow.
const SMALL_PACKET: i64 = 1 << 20;

/// A setting that ends with the server unless it is written down.
const AND_IN_FILE: &str = "and the same in my.cnf";

pub(super) fn findings(facts: &ServerFacts, config: &Config) -> Vec<Finding> {
    let mut findings = vec![ok("mysql connection", config.mysql.address()), version(&facts.version)];
    findings.push(if facts.read_only {
        let detail = "this server is read-only: nothing can be synced, the backlog stays in Redis";
        bad("mysql read-only", Level::Fail, detail, "unless it is a replica: then point mysql.url at the primary")
            .by("SET GLOBAL read_only = OFF")
    } else {
        ok("mysql read-only", "off")
    });
    let packet = format!("max_allowed_packet is {} bytes", facts.max_packet);
    findings.push(if facts.max_packet >= SMALL_PACKET {
        ok("mysql packet size", packet)
    } else {
        let detail = format!("{packet}: statements are cut to fit, and a sync needs many of them");
        bad("mysql packet size", Level::Warn, detail, AND_IN_FILE).by("SET GLOBAL max_allowed_packet = 16777216")
    });
    if facts.binlog_format == "STATEMENT" {
        let detail = "binlog_format is STATEMENT: MySQL refuses transactions that read what is committed (error 1665)";
        let found = bad("mysql binary log", Level::Fail, detail, AND_IN_FILE);
        findings.push(found.by("SET GLOBAL binlog_format = 'ROW'"));
    }
    findings.push(durability(facts));
    findings.extend(connections(facts, config.mysql.max_connections));
    let remote = config.mysql.socket.is_none() && !is_loopback(&config.mysql.host);
    if remote && facts.cipher.is_empty() && config.mysql.ssl_mode != SslMode::Disabled {
        let detail = "the server has no TLS, so that everything crosses the network unencrypted";
        let fix = "set up TLS and use ?ssl-mode=REQUIRED in mysql.url";
        findings.push(bad("mysql encryption", Level::Warn, detail, fix));
    }
    findings
}

/// What tallyd was written for; older servers may do, but nobody has seen it.
fn version(text: &str) -> Finding {
    const NAME: &str = "mysql version";
    let mariadb = text.contains("MariaDB");
    // MariaDB puts this before its own for the sake of old replicas.
    let number = if mariadb { text.strip_prefix("5.5.5-").unwrap_or(text) } else { text };
    let mut parts = number.split(['.', '-']).map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else { return ok(NAME, text) };
    let least = if mariadb { (10, 2) } else { (5, 7) };
    if (major, minor) >= least {
        return ok(NAME, format!("{text} (tested: MariaDB 10.11, MySQL 8)"));
    }
    let detail =
        format!("{text}: tallyd is written for MySQL 5.7 and MariaDB 10.2, and newer; nobody tests it with older ones");
    bad(NAME, Level::Warn, detail, "upgrade it")
}

/// Redis forgets what MySQL has committed; what is not on disk by then is in neither after a crash.
fn durability(facts: &ServerFacts) -> Finding {
    const NAME: &str = "mysql durability";
    // MariaDB's 3 flushes more often still.
    let flush_log = facts.flush_log.filter(|&value| value != 3);
    let settings = [("innodb_flush_log_at_trx_commit", flush_log), ("sync_binlog", facts.sync_binlog)];
    let loose: Vec<_> = settings
        .iter()
        .filter_map(|(name, value)| value.filter(|&value| value != 1).map(|value| (name, value)))
        .collect();
    if loose.is_empty() {
        return ok(NAME, "a commit is on disk before Redis forgets its changes");
    }
    let said: Vec<_> = loose.iter().map(|(name, value)| format!("{name} is {value}")).collect();
    let detail = format!(
        "{}: a crash of the server may lose the newest commits, whose changes Redis has forgotten by then: runs would be \
         refused then, until somebody puts that right",
        said.join(" and ")
    );
    let command: Vec<_> = loose.iter().map(|(name, _)| format!("SET GLOBAL {name} = 1")).collect();
    bad(NAME, Level::Warn, detail, AND_IN_FILE).by(command.join("; "))
}

/// Whether the server allows as many connections as are configured.
fn connections(facts: &ServerFacts, configured: u32) -> Option<Finding> {
    const NAME: &str = "mysql connections";
    let configured = i64::from(configured);
    let of_user = facts.max_user_connections.filter(|&limit| limit > 0 && limit < configured);
    if let Some(limit) = of_user {
        let detail = format!(
            "the user may have {limit} connections, and mysql.max_connections is {configured}: some are refused"
        );
        return Some(bad(
            NAME,
            Level::Warn,
            detail,
            "allow the user more (MAX_USER_CONNECTIONS), or lower mysql.max_connections",
        ));
    }
    // Whoever else uses the server needs some, too.
    let limit = facts.max_connections.filter(|&limit| limit <= configured)?;
    let detail = format!(
        "the server takes {limit} connections in all, and mysql.max_connections is {configured}: some are refused"
    );
    let command = format!("SET GLOBAL max_connections = {}", configured.saturating_add(100));
    Some(bad(NAME, Level::Warn, detail, format!("{AND_IN_FILE}; or lower mysql.max_connections")).by(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_apart() {
        for (text, level) in [
            ("10.11.19-MariaDB-0+deb12u1", Level::Ok),
            ("5.5.5-10.6.12-MariaDB", Level::Ok),
            ("8.0.36", Level::Ok),
            ("8.4.0-commercial", Level::Ok),
            ("5.7.44-log", Level::Ok),
            ("something else", Level::Ok),
            ("10.1.48-MariaDB", Level::Warn),
            ("5.6.51", Level::Warn),
            ("5.5.68-MariaDB", Level::Warn),
        ] {
            assert_eq!(version(text).level, level, "{text}");
        }
    }

    fn facts(flush_log: i64, sync_binlog: Option<i64>, max_connections: i64, max_user_connections: i64) -> ServerFacts {
        ServerFacts {
            version: String::new(),
            max_packet: 1 << 24,
            read_only: false,
            now_ms: 0,
            cipher: String::new(),
            binlog_format: String::new(),
            flush_log: Some(flush_log),
            sync_binlog,
            max_connections: Some(max_connections),
            max_user_connections: Some(max_user_connections),
            time_digits: None,
            layout: None,
        }
    }

    #[test]
    fn a_commit_that_may_be_lost_is_told() {
        let command = |flush_log, sync_binlog| durability(&facts(flush_log, sync_binlog, 151, 0)).command;
        assert_eq!([command(1, None), command(3, Some(1))], [None, None]);
        assert_eq!(command(0, Some(1)).as_deref(), Some("SET GLOBAL innodb_flush_log_at_trx_commit = 1"));
        assert_eq!(command(1, Some(0)).as_deref(), Some("SET GLOBAL sync_binlog = 1"));
    }

    #[test]
    fn a_server_with_too_few_connections_is_told() {
        let level = |all, of_user| connections(&facts(1, None, all, of_user), 8).map(|found| found.level);
        assert_eq!([level(151, 0), level(151, 8), level(9, 0)], [None; 3]);
        assert_eq!([level(151, 7), level(8, 0)], [Some(Level::Warn); 2]);
    }
}
