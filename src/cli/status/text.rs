//! The status as text, for people.

use chrono::SecondsFormat;

use crate::last_run::{LastRun, name};
use crate::model::{Partition, Vocabulary};
use crate::report::words::{UNKNOWN, duration, known};
use crate::report::{Figures, Verdict};
use crate::status::{Finding, PartitionStatus, Status};

pub(super) fn render(vocabulary: &Vocabulary, status: &Status) -> String {
    let mut lines = vec![
        format!("tallyd {}", status.version),
        if status.verdict.well { "all is well" } else { "not well:" }.to_owned(),
    ];
    lines.extend(status.verdict.findings.iter().map(finding));
    let redis = (format!("redis ({})", status.redis.mode), &status.redis.version);
    let mysql = ("mysql".to_owned(), &status.mysql.version);
    lines.extend([
        String::new(),
        server(redis, status.redis.up, status.redis.error.as_deref()),
        server(mysql, status.mysql.up, status.mysql.error.as_deref()),
        format!("breaker: {}, degraded writes to replay: {}", status.breaker, number(status.degraded.pending)),
        status.lag_ms.map_or_else(
            || "lag of the last runs: none".to_owned(),
            |lag| format!("lag of the last runs: half within {}, 99 % within {}", duration(lag.p50), duration(lag.p99)),
        ),
        String::new(),
        format!(
            "{:<14} {:>10} {:>10} {:>10} {:>10} {:>14}  lease",
            "partition", "dirty", "changes", "in flight", "oldest", "checkpoint"
        ),
    ]);
    lines.extend(status.partitions.iter().map(|partition| partition_line(vocabulary, partition)));
    lines.push(String::new());
    lines.push(format!(
        "{:<24} {:>8} {:>9} {:>9} {:>9} {:>8} {:>6} {:>9}",
        "run", "outcome", "trigger", "changes", "rows", "rejected", "left", "took"
    ));
    let runs: Vec<_> = status.last_runs.iter().filter_map(|run| LastRun::of(run.get())).collect();
    lines.extend(runs.iter().map(run_line));
    if let Some(newest) = runs.first().filter(|run| !run.is_done()) {
        lines.extend([String::new(), "why the last run is not done:".to_owned()]);
        lines.extend(newest.reasons(vocabulary).iter().map(|reason| format!("  {reason}")));
    }
    let passes: Vec<Figures> =
        status.reconcile.passes.iter().filter_map(|pass| serde_json::from_str(pass.get()).ok()).collect();
    if !passes.is_empty() {
        let head = ["outcome", "looked at", "differing", "repaired", "left", "took"];
        lines.extend([String::new(), pass_columns("reconciled", head)]);
        lines.extend(passes.iter().map(pass_line));
    }
    lines.join("\n")
}

fn finding(Finding { what, why, since }: &Finding) -> String {
    let since = since.as_ref().map_or_else(String::new, |since| format!(" {since}"));
    let why = why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
    format!("  {what}{since}{why}")
}

fn pass_line(pass: &Figures) -> String {
    let started =
        pass.started_at.map_or_else(|| UNKNOWN.to_owned(), |at| at.to_rfc3339_opts(SecondsFormat::Millis, true));
    let outcome = match pass.outcome {
        Verdict::Clean => "clean",
        Verdict::Repaired => "repaired",
        Verdict::Drift => "drift",
        Verdict::Stopped => "stopped",
        Verdict::Failed => "failed",
        Verdict::Unknown => "unknown",
    };
    let took = pass.duration_ms.map_or_else(|| UNKNOWN.to_owned(), duration);
    let figures = [pass.looked_at, pass.differing, pass.repaired, pass.residual].map(known);
    let [looked_at, differing, repaired, left] = figures.each_ref().map(String::as_str);
    pass_columns(&started, [outcome, looked_at, differing, repaired, left, &took])
}

fn pass_columns(started: &str, [outcome, looked_at, differing, repaired, left, took]: [&str; 6]) -> String {
    format!("{started:<24} {outcome:>8} {looked_at:>9} {differing:>9} {repaired:>9} {left:>8} {took:>12}")
}

fn server((name, version): (String, &Option<String>), up: bool, error: Option<&str>) -> String {
    match error {
        Some(error) if up => format!("{name}: up, but {error}"),
        Some(error) => format!("{name}: down: {error}"),
        None => version.as_ref().map_or_else(|| format!("{name}: up"), |version| format!("{name}: up, {version}")),
    }
}

fn partition_line(vocabulary: &Vocabulary, partition: &PartitionStatus) -> String {
    let PartitionStatus {
        target_type,
        name: _,
        shard,
        dirty,
        changes,
        inflight,
        oldest_change_ms,
        checkpoint,
        lease_owner,
        restoring,
    } = partition;
    let oldest = oldest_change_ms.map_or_else(|| "-".to_owned(), |ms| format!("{} s", ms / 1000));
    format!(
        "{:<14} {:>10} {:>10} {:>10} {:>10} {:>14}  {}{}",
        name(vocabulary, Partition { target_type: *target_type, shard: *shard }),
        number(*dirty),
        number(*changes),
        number(*inflight),
        oldest,
        checkpoint.as_deref().unwrap_or("-"),
        lease_owner.as_deref().unwrap_or("free"),
        if *restoring == Some(true) { ", restoring" } else { "" },
    )
}

fn run_line(run: &LastRun) -> String {
    format!(
        "{:<24} {:>8} {:>9} {:>9} {:>9} {:>8} {:>6} {:>6} ms",
        run.started_at,
        run.outcome,
        run.trigger,
        run.changes,
        run.rows_written,
        run.rejected,
        run.left,
        run.duration_ms
    )
}

fn number<T: ToString>(number: Option<T>) -> String {
    number.map_or_else(|| "?".to_owned(), |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json::value::RawValue;

    use super::*;
    use crate::model::TargetType;
    use crate::status::{DegradedStatus, LagStatus, MysqlStatus, ReconcileStatus, RedisStatus};

    fn vocabulary() -> Vocabulary {
        let target = |name: &str, code| TargetType { name: name.into(), code };
        Vocabulary { targets: vec![target("note", 1), target("video", 2)], interactions: vec![] }
    }

    fn run(started_at: &str, outcome: &str, partitions: &serde_json::Value) -> Box<RawValue> {
        let run = json!({
            "run_id": "0199", "trigger": "schedule", "started_at": started_at, "outcome": outcome,
            "partitions": partitions, "targets": 4, "changes": 130, "rows_written": 131, "rejected": 0, "left": 2,
            "drift": 0, "retries": 0, "duration_ms": 1234, "dry_run": false,
        });
        RawValue::from_string(run.to_string()).unwrap()
    }

    fn partition(target_type: u16, restoring: bool) -> PartitionStatus {
        PartitionStatus {
            target_type,
            name: String::new(),
            shard: 0,
            dirty: Some(2),
            changes: Some(1_234_567),
            inflight: Some(0),
            oldest_change_ms: restoring.then_some(90_500),
            checkpoint: Some("17.3".into()),
            lease_owner: restoring.then(|| "db1-77-a8".into()),
            restoring: Some(restoring),
        }
    }

    fn pass() -> Box<RawValue> {
        let pass = json!({
            "started_at": "2026-01-02T03:00:00.000Z", "outcome": "repaired", "looked_at": 12_345, "differing": 2,
            "repaired": 3, "residual": 0, "duration_ms": 65_000,
        });
        RawValue::from_string(pass.to_string()).unwrap()
    }

    fn status(last_runs: Vec<Box<RawValue>>) -> Status {
        Status {
            version: "0.0.0",
            verdict: crate::status::Verdict { well: true, findings: vec![] },
            uptime_s: None,
            breaker_since_s: None,
            writes_per_second: None,
            lag_ms: Some(LagStatus { p50: 1_500, p99: 61_000 }),
            redis: RedisStatus { up: true, mode: "standalone".into(), version: Some("7.0.15".into()), error: None },
            mysql: MysqlStatus { up: true, version: Some("10.11.6-MariaDB".into()), error: None },
            breaker: "closed",
            partitions: vec![partition(1, false), partition(2, true)],
            last_runs,
            degraded: DegradedStatus { pending: Some(0), accepted_total: Some(0), replayed_total: Some(0) },
            reconcile: ReconcileStatus { last: None, passes: vec![pass()] },
        }
    }

    fn ended(target_type: u16, shard: u16, outcome: &str, error: Option<&str>) -> serde_json::Value {
        let mut ended = json!({ "target_type": target_type, "shard": shard, "outcome": outcome });
        if let Some(error) = error {
            ended["error"] = error.into();
        }
        ended
    }

    #[test]
    fn a_run_that_failed_is_told_with_its_reasons_equal_ones_once() {
        let away = Some("Redis at 127.0.0.1:6379 cannot be reached: Connection refused");
        let newest = json!([
            ended(1, 0, "failed", away),
            ended(2, 0, "done", None),
            ended(9, 3, "failed", away),
            ended(2, 1, "busy", Some("the lease is held by db2-9-f0")),
        ]);
        let older = json!([ended(1, 0, "failed", Some("not the newest"))]);
        let runs = vec![
            run("2026-01-02T03:05:00.000Z", "partial", &newest),
            run("2026-01-02T03:04:05.678Z", "failed", &older),
        ];
        let expected = "\
tallyd 0.0.0
all is well

redis (standalone): up, 7.0.15
mysql: up, 10.11.6-MariaDB
breaker: closed, degraded writes to replay: 0
lag of the last runs: half within 1.5 s, 99 % within 1 min 1 s

partition           dirty    changes  in flight     oldest     checkpoint  lease
note 1/0                2    1234567          0          -           17.3  free
video 2/0               2    1234567          0       90 s           17.3  db1-77-a8, restoring

run                       outcome   trigger   changes      rows rejected   left      took
2026-01-02T03:05:00.000Z  partial  schedule       130       131        0      2   1234 ms
2026-01-02T03:04:05.678Z   failed  schedule       130       131        0      2   1234 ms

why the last run is not done:
  note 1/0, 9/3 failed: Redis at 127.0.0.1:6379 cannot be reached: Connection refused
  video 2/1 busy: the lease is held by db2-9-f0

reconciled                outcome looked at differing  repaired     left         took
2026-01-02T03:00:00.000Z repaired    12,345         2         3        0    1 min 5 s";
        assert_eq!(render(&vocabulary(), &status(runs)), expected);
    }

    #[test]
    fn a_newest_run_that_is_done_needs_no_reasons() {
        let failed = json!([ended(1, 0, "failed", Some("not the newest"))]);
        let runs = vec![
            run("2026-01-02T03:05:00.000Z", "done", &json!([])),
            run("2026-01-02T03:04:05.678Z", "failed", &failed),
        ];
        let text = render(&vocabulary(), &status(runs));
        assert!(!text.contains("why") && !text.contains("not the newest"), "{text}");
    }

    #[test]
    fn a_server_that_answers_and_cannot_be_used_is_up() {
        let problem = "the schema is not current: 1 of 2 migrations are missing; run `tallyd migrate`";
        let mut status = status(vec![]);
        status.mysql.error = Some(problem.into());
        assert!(render(&vocabulary(), &status).contains(&format!("\nmysql: up, but {problem}\n")));
        status.mysql = MysqlStatus { up: false, version: None, error: Some("away".into()) };
        assert!(render(&vocabulary(), &status).contains("\nmysql: down: away\n"));
    }
}
