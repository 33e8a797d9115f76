//! The cost of a sync grows with what changed, not with what exists.

use std::collections::BTreeMap;

use super::{Bench, execute};
use crate::support::{Command, PrivateMysql, Redis, Rig, sequence};

/// A note that has so many likes, in both stores; 10 is small, and a million is not.
async fn liked(bench: &Bench, target: i64, users: i64) {
    for first in (1..=users).step_by(100_000) {
        let last = users.min(first + 99_999);
        bench
            .lua(&format!(
                "for first = {first}, {last}, 1000 do
                   local states = {{}}
                   for user = first, math.min(first + 999, {last}) do
                     states[#states + 1] = user
                     states[#states + 1] = '1'
                   end
                   redis.call('HSET', 'like:1:{target}', unpack(states))
                 end"
            ))
            .await;
    }
    bench.redis_all(&format!("HSET like:1:{target} 0 full\n HSET cnt:1:{target} like {users}")).await;
    let rows = format!(
        "SET unique_checks = 0;
         INSERT INTO interaction_record SELECT 1, {target}, 1, seq, 1, '2026-01-01', '2026-01-01' FROM {} s;
         INSERT INTO interaction_count VALUES (1, {target}, 1, {users}, '2026-01-01')",
        sequence(users)
    );
    execute(&bench.db.url, &rows).await;
}

/// What a server has read, written and executed since it started.
async fn status(bench: &Bench) -> BTreeMap<String, i64> {
    let names = "'Handler_read_key','Handler_read_next','Handler_read_prev','Handler_read_rnd','Handler_read_rnd_next',\
                 'Handler_read_first','Handler_write','Handler_update','Handler_delete','Com_insert','Com_update',\
                 'Com_delete','Com_select','Com_commit','Com_rollback','Com_stmt_prepare','Com_stmt_execute'";
    let rows = bench.sql(&format!("SHOW GLOBAL STATUS WHERE Variable_name IN ({names})")).await;
    let pair = |row: Vec<Option<String>>| (row[0].clone().unwrap(), row[1].as_ref().unwrap().parse().unwrap());
    rows.into_iter().map(pair).collect()
}

/// One like of one more user, synced: the commands that Redis saw, and what MySQL did.
async fn cost_of_one_change(bench: &Bench, target: i64, user: i64) -> (Vec<Command>, BTreeMap<String, i64>) {
    bench.like(target, user, true).await;
    let mut done = BTreeMap::new();
    let commands = bench
        .redis
        .commands_of(async || {
            let before = status(bench).await;
            let figures = bench.sync(&[]).await;
            let after = status(bench).await;
            assert_eq!((figures.targets, figures.changes, figures.rows_written, figures.drift), (1, 1, 2, 0));
            done = after.into_iter().map(|(name, value)| (name.clone(), value - before[&name])).collect();
        })
        .await;
    (commands, done)
}

/// The commands without what differs by nature: ids of notes and users, times, tokens, texts of scripts.
fn shapes(commands: &[Command]) -> Vec<String> {
    let shape = |c: &Command| format!("{}{} {}", if c.from_script { "lua " } else { "" }, c.name(), c.words.len());
    commands.iter().map(shape).collect()
}

/// Invariant 9.
#[tokio::test(flavor = "multi_thread")]
async fn one_change_costs_the_same_on_a_million_states_as_on_ten() {
    const MILLION: i64 = 1_000_000;
    let Some(mysql) = PrivateMysql::start(&["--innodb-flush-log-at-trx-commit=0", "--skip-innodb-doublewrite"]).await
    else {
        return;
    };
    let redis = Redis::start().await;
    let bench = Bench::of(Rig::on(&redis, &mysql.create_database("cost").await, "")).await;
    liked(&bench, 1, 10).await;
    liked(&bench, 2, MILLION).await;
    // The first run makes what every run finds afterwards: leases, and the scripts in Redis' cache.
    bench.like(1, 10, true).await;
    bench.sync(&[]).await;

    let (of_ten, done_for_ten) = cost_of_one_change(&bench, 1, 11).await;
    let (of_million, done_for_million) = cost_of_one_change(&bench, 2, MILLION + 1).await;

    assert_eq!(bench.redis::<i64>("HGET cnt:1:2 like").await, MILLION + 1);
    assert_eq!(bench.column("SELECT count FROM interaction_count ORDER BY target_id").await, ["11", "1000001"]);
    assert_eq!(bench.column("SELECT COUNT(*) FROM interaction_record WHERE target_id = 2").await, ["1000001"]);

    // A small hash is verified besides, by reading it.
    let without_verification: Vec<_> = of_ten.iter().filter(|c| c.name() != "HVALS").cloned().collect();
    assert_eq!(of_ten.len(), without_verification.len() + 1, "{of_ten:?}");
    assert_eq!(shapes(&without_verification), shapes(&of_million));
    assert!(of_million.len() < 150, "{of_million:#?}");
    let whole = ["HGETALL", "HVALS", "HKEYS", "SMEMBERS", "KEYS", "SCAN"];
    assert!(of_million.iter().all(|c| !whole.contains(&c.name())), "{of_million:#?}");
    let on_states: Vec<_> = of_million.iter().filter(|c| c.words.get(1).is_some_and(|w| w == "like:1:2")).collect();
    let words: Vec<String> = on_states.iter().map(|c| c.words.join(" ")).collect();
    assert_eq!(words, ["HMGET like:1:2 0 1000001", "HGET like:1:2 0", "HLEN like:1:2"]);

    assert_eq!(done_for_ten, done_for_million);
    let done = |name: &str| done_for_million[name];
    assert_eq!(done("Handler_write"), 3, "the record, the count that is there, the run: {done_for_million:?}");
    assert_eq!(done("Handler_update"), 10, "four leases twice, the checkpoint, the count: {done_for_million:?}");
    assert_eq!((done("Handler_delete"), done("Handler_read_next")), (0, 0), "{done_for_million:?}");
    assert!(done("Handler_read_key") < 30, "{done_for_million:?}");
}
