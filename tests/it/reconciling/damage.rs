//! An injector: damage of each kind, on notes of one's choice.

use redis::AsyncCommands;

use crate::likes::{like, store};
use crate::support::Rig;

/// The kinds that are injected, each on notes of its own, and where the drift is to be told: user or 0, before, after.
pub const INJECTED: [(&str, i64, Option<&str>, Option<&str>); 10] = [
    ("redis_count_off", 0, Some("15"), Some("8")),
    ("redis_count_negative", 0, Some("-3"), Some("8")),
    ("count_row_off", 0, Some("11"), Some("8")),
    ("count_row_missing", 0, None, Some("8")),
    ("record_row_off", 3, Some("0"), Some("1")),
    ("record_row_missing", 4, None, Some("1")),
    ("state_missing", 5, None, Some("1")),
    ("hash_missing", 0, Some("8"), None),
    ("mark_lost", 99, None, Some("1")),
    ("orphan_row", 0, None, Some("2")),
];

/// Damages a note so; an orphan is a note that nobody knows.
pub async fn inject(rig: &Rig, kind: &str, note: i64) {
    let mut redis = rig.redis.connect().await;
    let (states, counts) = (format!("like:1:{note}"), format!("cnt:1:{note}"));
    let at = format!("target_type = 1 AND target_id = {note} AND interaction_type = 1");
    match kind {
        "redis_count_off" => redis.hincr::<_, _, _, ()>(counts, "like", 7).await.unwrap(),
        "redis_count_negative" => redis.hset::<_, _, _, ()>(counts, "like", -3).await.unwrap(),
        "count_row_off" => changed(rig, format!("UPDATE interaction_count SET count = 11 WHERE {at}")).await,
        "count_row_missing" => changed(rig, format!("DELETE FROM interaction_count WHERE {at}")).await,
        "record_row_off" => {
            changed(rig, format!("UPDATE interaction_record SET status = 0 WHERE {at} AND user_id = 3")).await;
        }
        "record_row_missing" => {
            changed(rig, format!("DELETE FROM interaction_record WHERE {at} AND user_id = 4")).await;
        }
        "state_missing" => redis.hdel::<_, _, ()>(states, 5).await.unwrap(),
        "hash_missing" => redis.del::<_, ()>(states).await.unwrap(),
        "mark_lost" => {
            like(&store(rig).await, note, 99, true).await;
            redis.srem::<_, _, ()>("dirty:1", note).await.unwrap();
            redis.hdel::<_, _, ()>("chg:1", format!("like:{note}:99")).await.unwrap();
        }
        "orphan_row" => {
            let rows = format!("(1, {note}, 1, 7, 1, '2026-01-01', '2026-01-01')");
            let more = format!("(1, {note}, 1, 8, 1, '2026-01-01', '2026-01-01')");
            rig.sql_exec(&format!("INSERT INTO interaction_record VALUES {rows}, {more}")).await;
        }
        other => panic!("no damage of kind {other}"),
    }
}

async fn changed(rig: &Rig, sql: String) {
    assert_eq!(rig.sql_exec(&sql).await, 1, "{sql}");
}
