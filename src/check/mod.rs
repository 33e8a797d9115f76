//! `tallyd check`: what is wrong, why it matters, and how to mend it.

mod last_run;
mod mail;
mod mysql;
mod mysql_server;
mod privileges;
mod redis;
mod redis_data;
mod redis_user;

use std::time::Instant;

use serde::Serialize;

use crate::last_run::name;
use crate::model::Vocabulary;
use crate::sink::PartitionRow;
use crate::sync::Context;

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
    /// What mends it, in whole: the command, if there is one, and what else is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// A command of `redis-cli` or statements of SQL, to be copied as they are: the fix without the rest, or, where
    /// nothing is wrong with a user who may do more, what would make one who may not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
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
    Finding { name, level: Level::Ok, detail: detail.into(), fix: None, command: None }
}

fn bad(name: &'static str, level: Level, detail: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { name, level, detail: detail.into(), fix: Some(fix.into()), command: None }
}

impl Finding {
    /// With the command that begins its fix; what it says already comes after that.
    fn by(mut self, command: impl Into<String>) -> Self {
        let command = command.into();
        self.fix = self.fix.map(|rest| if rest.is_empty() { command.clone() } else { format!("{command}, {rest}") });
        self.command = Some(command);
        self
    }
}

/// A server's time, Unix milliseconds, and when it was asked for: servers do not answer at the same moment.
struct Clock {
    said_ms: i64,
    at: Instant,
}

impl Clock {
    fn says(said_ms: i64) -> Self {
        Self { said_ms, at: Instant::now() }
    }

    fn now_ms(&self) -> i64 {
        let since = self.at.elapsed().as_millis();
        self.said_ms.saturating_add(i64::try_from(since).unwrap_or(i64::MAX))
    }
}

/// Looks at the configuration and both servers, and changes nothing.
pub async fn check(context: &Context) -> Report {
    let mut findings = vec![ok("configuration", context.config.file.display().to_string())];
    let mail = mail::finding(context.config.report.mail.as_ref());
    let (mail, redis, mysql) = tokio::join!(mail, redis::look(context), mysql::look(context));
    findings.push(mail);
    findings.extend(redis.findings);
    findings.extend(mysql.findings);
    if let (Some(redis), Some(mysql)) = (&redis.clock, &mysql.clock) {
        findings.push(clocks((redis.now_ms() - mysql.now_ms()).abs()));
    }
    if let (Some(redis), Some(partitions)) = (&redis.clock, &mysql.partitions) {
        findings.push(event_times(redis.now_ms(), partitions, &context.vocabulary));
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

/// Event times are Redis' time, unless a writer of another program takes its own.
fn event_times(redis_ms: i64, partitions: &[PartitionRow], vocabulary: &Vocabulary) -> Finding {
    let ahead_ms = |row: &PartitionRow| row.last_event_ms.saturating_sub(redis_ms);
    let ahead: Vec<_> = partitions
        .iter()
        .filter(|row| ahead_ms(row) > CLOCKS_MS)
        .map(|row| format!("{} by {} s", name(vocabulary, row.partition), ahead_ms(row) / 1000))
        .collect();
    if ahead.is_empty() {
        return ok("event times", "none ahead of Redis' time");
    }
    bad(
        "event times",
        Level::Warn,
        format!(
            "the newest are ahead of Redis' time ({}): the clock of a writer is wrong, and a row with such a time cannot \
             be changed until then",
            ahead.join(", ")
        ),
        "set the clock of the writer, best by NTP; programs that write should take the event time from Redis",
    )
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Partition, TargetType};

    #[test]
    fn an_event_time_may_be_ahead_by_a_second_and_no_more() {
        let vocabulary =
            Vocabulary { targets: vec![TargetType { name: "note".into(), code: 1 }], interactions: vec![] };
        let row = |shard, last_event_ms| PartitionRow {
            partition: Partition { target_type: 1, shard },
            checkpoint: "1.0".into(),
            lease_owner: None,
            last_event_ms,
        };
        let found = |rows: &[PartitionRow]| event_times(10_000, rows, &vocabulary);
        assert_eq!(found(&[row(0, 0), row(1, 11_000)]).level, Level::Ok);
        let late = found(&[row(0, 11_000), row(1, 11_001), row(2, 75_000)]);
        assert_eq!(late.level, Level::Warn);
        assert!(late.detail.contains("(note 1/1 by 1 s, note 1/2 by 65 s)"), "{}", late.detail);
    }
}
