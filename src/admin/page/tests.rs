use std::fs;
use std::path::Path;

use chrono::DateTime;
use serde_json::json;
use serde_json::value::RawValue;

use super::render::{Form, Notice, page};
use crate::model::{TargetType, Vocabulary};
use crate::status::{
    DegradedStatus, Finding, LagStatus, MysqlStatus, PartitionStatus, ReconcileStatus, RedisStatus, Status, Verdict,
};

fn raw(value: &serde_json::Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

fn status() -> Status {
    let run = json!({
        "run_id": "0199", "trigger": "schedule", "started_at": "2026-01-02T03:05:00.000Z", "outcome": "partial",
        "partitions": [], "changes": 130, "rows_written": 131, "rejected": 0, "left": 2, "duration_ms": 1234,
    });
    let pass = json!({
        "started_at": "2026-01-02T03:00:00.000Z", "outcome": "repaired", "scope": "all", "looked_at": 12_345,
        "differing": 2, "repaired": 3, "residual": 0, "duration_ms": 65_000,
    });
    let partition = PartitionStatus {
        target_type: 1,
        name: "note".into(),
        shard: 0,
        dirty: Some(2),
        changes: Some(1_234_567),
        inflight: Some(0),
        oldest_change_ms: Some(90_500),
        checkpoint: Some("17.3".into()),
        lease_owner: Some("db1-77-a8".into()),
        restoring: Some(true),
    };
    Status {
        version: "0.0.0",
        verdict: Verdict {
            well: false,
            findings: vec![Finding {
                what: "Redis is <up>".into(),
                why: Some("a & b".into()),
                since: Some("for 2 min".into()),
            }],
        },
        uptime_s: Some(3600),
        breaker_since_s: None,
        writes_per_second: Some(12.345),
        lag_ms: Some(LagStatus { p50: 1_500, p99: 61_000 }),
        redis: RedisStatus { up: true, mode: "standalone".into(), version: Some("7.0.15".into()), error: None },
        mysql: MysqlStatus { up: true, version: Some("10.11.6-MariaDB".into()), error: None },
        breaker: "closed",
        partitions: vec![partition],
        last_runs: vec![raw(&run)],
        degraded: DegradedStatus { pending: Some(0), accepted_total: Some(7), replayed_total: Some(7) },
        reconcile: ReconcileStatus { last: None, passes: vec![raw(&pass)] },
    }
}

/// Compared from the body on: styles are looked at in a browser.
#[test]
fn the_page_is_as_it_was_reviewed() {
    let targets = vec![TargetType { name: "note".into(), code: 1 }];
    let vocabulary = Vocabulary { targets, interactions: vec![] };
    let notice = Notice::Run("0199".into());
    let html = page(&status(), DateTime::UNIX_EPOCH, &vocabulary, Form::WithToken, &notice, "N").into_string();
    let body = &html[html.find("<body>").unwrap()..];
    let found = body.replace('<', "\n<").replace("\n</", "</");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/admin/page/golden.html");
    let expected = fs::read_to_string(&file).unwrap_or_default();
    if expected.trim() != found.trim() {
        let found_in = file.with_extension("found.html");
        fs::write(&found_in, found).unwrap();
        panic!("{} is not what was found: look at {}", file.display(), found_in.display());
    }
}
