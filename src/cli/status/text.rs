//! The status as text, for people.

use crate::last_run::{LastRun, name};
use crate::model::{Partition, Vocabulary};
use crate::status::{PartitionStatus, Status};

pub(super) fn render(vocabulary: &Vocabulary, status: &Status) -> String {
    let mut lines = vec![
        format!("tallyd {}", status.version),
        server(&format!("redis ({})", status.redis.mode), status.redis.up, status.redis.error.as_deref()),
        server("mysql", status.mysql.up, status.mysql.error.as_deref()),
        format!("breaker: {}, degraded writes to replay: {}", status.breaker, number(status.degraded.pending)),
        String::new(),
        format!(
            "{:<14} {:>10} {:>10} {:>10} {:>10} {:>14}  lease",
            "partition", "dirty", "changes", "in flight", "oldest", "checkpoint"
        ),
    ];
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
    lines.join("\n")
}

fn server(name: &str, up: bool, error: Option<&str>) -> String {
    match error {
        Some(error) if up => format!("{name}: up, but {error}"),
        Some(error) => format!("{name}: down: {error}"),
        None => format!("{name}: up"),
    }
}

fn partition_line(vocabulary: &Vocabulary, partition: &PartitionStatus) -> String {
    let PartitionStatus {
        target_type,
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
    use crate::status::{DegradedStatus, MysqlStatus, ReconcileStatus, RedisStatus};

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

    fn status(last_runs: Vec<Box<RawValue>>) -> Status {
        Status {
            version: "0.0.0",
            uptime_s: None,
            redis: RedisStatus { up: true, mode: "standalone".into(), error: None },
            mysql: MysqlStatus { up: true, error: None },
            breaker: "closed",
            partitions: vec![partition(1, false), partition(2, true)],
            last_runs,
            degraded: DegradedStatus { pending: Some(0), accepted_total: Some(0), replayed_total: Some(0) },
            reconcile: ReconcileStatus { last: None },
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
redis (standalone): up
mysql: up
breaker: closed, degraded writes to replay: 0

partition           dirty    changes  in flight     oldest     checkpoint  lease
note 1/0                2    1234567          0          -           17.3  free
video 2/0               2    1234567          0       90 s           17.3  db1-77-a8, restoring

run                       outcome   trigger   changes      rows rejected   left      took
2026-01-02T03:05:00.000Z  partial  schedule       130       131        0      2   1234 ms
2026-01-02T03:04:05.678Z   failed  schedule       130       131        0      2   1234 ms

why the last run is not done:
  note 1/0, 9/3 failed: Redis at 127.0.0.1:6379 cannot be reached: Connection refused
  video 2/1 busy: the lease is held by db2-9-f0";
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
        status.mysql = MysqlStatus { up: false, error: Some("away".into()) };
        assert!(render(&vocabulary(), &status).contains("\nmysql: down: away\n"));
    }
}
