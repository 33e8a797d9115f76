//! The names and partitions of cluster mode, on one server: only the connection to a cluster is of a later version.

use std::collections::BTreeSet;
use std::time::Duration;

use tallyd::model::Partition;
use tallyd::store::{EventClock, Keys, Unloaded, WriteOp, Written};
use tallyd::sync::{Context, Extent, Outcome, Progress, RunReport, Trigger, dry_run, run};
use tokio_util::sync::CancellationToken;

use crate::support::Command;

use super::{Bench, PATIENCE, id, load, recorded};

const SHARDS: u16 = 16;
const NOTES_ONLY: &str = "[[target]]\nname = \"note\"\ncode = 1";

async fn sync(context: &Context, extent: Extent) -> RunReport {
    let (progress, stop) = (Progress::default(), CancellationToken::new());
    run(context, Trigger::Command, extent, Duration::from_secs(1), &progress, &stop).await
}

/// Standalone settings, and the shards of a cluster.
fn sharded(bench: &Bench) -> Context {
    let mut config = load(bench);
    config.redis.shards = SHARDS;
    Context::new(config)
}

/// Every key of a command is of one partition.
fn expect_one_slot(command: &Command) {
    let words = &command.words;
    let keys = match command.name() {
        "EVAL" | "EVALSHA" => &words[3..3 + words[2].parse::<usize>().unwrap()],
        "MULTI" | "EXEC" | "TIME" | "SCRIPT" | "CLIENT" | "SELECT" => &[],
        "RENAME" | "SMOVE" => &words[1..3],
        _ => &words[1..2],
    };
    let tags: BTreeSet<_> = keys.iter().map(|key| key.split_once("}:").map(|(tag, _)| tag)).collect();
    let one = keys.is_empty() || (tags.len() == 1 && tags.iter().all(|tag| tag.is_some_and(|t| t.starts_with("{p"))));
    assert!(one, "{command:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_spread_over_the_shards_and_all_are_copied() {
    let bench = Bench::start(NOTES_ONLY).await;
    let context = sharded(&bench);
    let store = context.store().await.unwrap();
    let keys = Keys::tagged(SHARDS);
    assert_eq!(store.keys(), keys);
    let clock = EventClock::default();
    let mut shards = BTreeSet::new();
    for target in (1..=64).map(id) {
        let partition = keys.partition(1, target);
        shards.insert(partition.shard);
        let (state, count) = (keys.state("like", 1, target), keys.count(1, target));
        bench.redis_all(&format!("HSET {state} 0 full\n HSET {count} like 0")).await;
        let op = WriteOp { interaction: 1, target, user: id(42), active: true };
        let (_, written) = store.write(partition, &[op], Unloaded::Refuse, &clock, PATIENCE).await.unwrap();
        assert_eq!(written, [recorded(true, 1)]);
    }
    // Another program's, and one that no mark tells of.
    let (shared, silent) = (id(100), id(101));
    let partition = keys.partition(1, shared);
    bench.redis_all(&format!("HSET {} 7 1", keys.state("like", 1, shared))).await;
    bench.redis_all(&format!("SADD {} {shared}", keys.dirty(partition))).await;
    bench.redis_all(&format!("HSET {} 7 1", keys.state("like", 1, silent))).await;
    for key in bench.redis::<Vec<String>>("KEYS *").await {
        assert!(key.starts_with("{p"), "{key}");
    }

    let before = bench.dump().await;
    let dry = dry_run(&context, Extent::Changed).await;
    assert_eq!(bench.dump().await, before);
    let mut report = None;
    let work = async || report = Some(sync(&context, Extent::Changed).await);
    for command in bench.redis.commands_of(work).await {
        expect_one_slot(&command);
    }
    let report = report.unwrap();
    assert_eq!(report.outcome, Outcome::Done, "{report:?}");
    assert_eq!((report.tally.targets, report.tally.changes, report.tally.rows_written), (65, 64, 64 * 2 + 2));
    assert_eq!(dry.tally, report.tally);
    let partitions: Vec<_> = report.partitions.iter().map(|p| (p.target_type, p.shard)).collect();
    assert_eq!(partitions, (0..SHARDS).map(|shard| (1, shard)).collect::<Vec<_>>());
    let busy: BTreeSet<_> = report.partitions.iter().filter(|p| p.tally.changes > 0).map(|p| p.shard).collect();
    assert_eq!(busy, shards);
    assert!(shards.len() > 8, "64 targets spread: {shards:?}");
    assert_eq!(bench.records().await.len(), 65);
    assert_eq!(bench.column("SELECT SUM(count) FROM interaction_count").await, ["65"]);
    bench.expect_no_marks().await;

    assert_eq!(sync(&context, Extent::Target(1, silent)).await.tally.targets, 1);
    assert_eq!(bench.records().await.len(), 66);
    let known = sync(&context, Extent::All).await;
    assert_eq!((known.tally.targets, known.tally.drift, known.outcome), (66, 0, Outcome::Done));
    assert_eq!(bench.records().await.len(), 66);

    // The plain names are another program's from now on.
    let plain = bench.try_sync(&[]).await.expect_code(1).json();
    let error = plain["partitions"][0]["error"].as_str().unwrap();
    assert!(error.contains("redis.shards is 1") && error.contains("with 16"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_connection_may_use_either_names() {
    let bench = Bench::start("").await;
    let keys = Keys::tagged(1);
    let store = bench.store.clone().with_keys(keys);
    let partition = Partition { target_type: 1, shard: 0 };
    let op = WriteOp { interaction: 1, target: id(7), user: id(42), active: true };
    let not_loaded = store.write(partition, &[op], Unloaded::Refuse, &bench.clock, PATIENCE).await.unwrap().1;
    assert_eq!(not_loaded, [Written::NotLoaded]);
    bench.redis_all("HSET {p0}:like:1:7 0 full\n HSET {p0}:cnt:1:7 like 0").await;
    let written = store.write(partition, &[op], Unloaded::Refuse, &bench.clock, PATIENCE).await.unwrap().1;
    assert_eq!(written, [recorded(true, 1)]);
    let mut found: Vec<String> = bench.redis("KEYS *").await;
    found.sort();
    assert_eq!(found, ["{p0}:chg:1", "{p0}:cnt:1:7", "{p0}:dirty:1", "{p0}:like:1:7"]);
}
