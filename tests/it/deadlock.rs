//! Others write the same rows: deadlocks and lock waits are tried again (hazard 12, error numbers 1213 and 1205).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection, Row};
use tallyd::store::{EventClock, Store, Unloaded, WriteOp, Written};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::likes::{
    LIKE, NOTES, SOON, active, assert_agreement, count_rows, id, like_all, load, marks, records, same, store,
};
use crate::support::{Rig, Signal, eventually};
use crate::writers::Random;

/// A minute of this is no other than ten seconds: some four deadlocks come in each.
const HOW_LONG: Duration = Duration::from_secs(10);
/// 25 targets × 20 users: 500 rows.
const TARGETS: i64 = 25;
const USERS: i64 = 20;

/// The greatest event time that a state was given, and that state.
type Newest = BTreeMap<(i64, i64), (i64, i64)>;

#[tokio::test(flavor = "multi_thread")]
async fn deadlocks_with_direct_writes_and_a_second_daemon_are_tried_again() {
    let rig = Rig::start("sync.batch_rows = 25\nsync.cron = \"* * * * * *\"").await;
    rig.migrate().await;
    rig.sql_exec("CREATE TABLE ballast (n BIGINT NOT NULL)").await;
    // Hashes that vouch for nothing, as those of other programs: counts come from the record rows, which is where
    // both kinds of writes meet.
    let mut pipe = redis::pipe();
    for target in 1..=TARGETS {
        for user in 1..=USERS {
            pipe.hset(format!("like:1:{target}"), user, 0);
        }
        pipe.hset(format!("cnt:1:{target}"), "like", 0);
    }
    pipe.exec_async(&mut rig.redis.connect().await).await.unwrap();

    let debug = [("RUST_LOG", "tallyd=debug")];
    let daemons = [rig.spawn(&["serve", "--no-api"], &debug), rig.spawn(&["serve", "--no-api"], &debug)];
    let stop = CancellationToken::new();
    let redis_writer = tokio::spawn(write_redis(store(&rig).await, stop.clone()));
    let mut direct: Vec<JoinHandle<(Newest, u64)>> = Vec::new();
    for task in 1..=3 {
        direct.push(tokio::spawn(write_directly(rig.db.connect().await, task, stop.clone())));
    }
    let (begun, mut by_hand) = (Instant::now(), String::new());
    let met = |log: &str| log.lines().filter(|line| line.contains("tried again") && line.contains("1213")).count();
    // Longer only where the machine is too slow for a single one.
    while begun.elapsed() < HOW_LONG
        || (met(&by_hand) + daemons.iter().map(|daemon| met(&daemon.log())).sum::<usize>() == 0
            && begun.elapsed() < 6 * HOW_LONG)
    {
        by_hand.push_str(&rig.tallyd_with(&["sync", "--now"], &debug).await.stderr);
    }
    stop.cancel();

    let mut newest = redis_writer.await.unwrap();
    let mut deadlocks_of_others = 0;
    for task in direct {
        let (written, deadlocks) = task.await.unwrap();
        deadlocks_of_others += deadlocks;
        for (key, at) in written {
            // At the same time the one that came by way of Redis stands: a direct write is later than the row.
            let held = newest.entry(key).or_insert(at);
            *held = if at.0 > held.0 { at } else { *held };
        }
    }
    let mut logs = by_hand;
    for daemon in daemons {
        daemon.signal(Signal::TERM);
        logs.push_str(&daemon.output(SOON).await.expect_code(0).stderr);
    }
    rig.tallyd(&["sync"]).await.expect_code(0);
    assert_eq!(marks(&rig).await, [""; 0]);

    let ours = met(&logs);
    eprintln!("error 1213: {ours} times in a sync, {deadlocks_of_others} times in a direct write");
    assert!(ours > 0, "no transaction of a sync met a deadlock");
    // A chunk is tried six times. When that is not enough, its run ends, says why, and leaves it to the next.
    let runs = rig.sql("SELECT outcome, SUM(retries), COUNT(*), MAX(report) FROM sync_run GROUP BY outcome").await;
    let number = |outcome: &str, column: usize| {
        let row = runs.iter().find(|row| row[0].as_deref() == Some(outcome));
        row.map_or(0, |row| row[column].as_deref().unwrap().parse::<usize>().unwrap())
    };
    let (done, failed) = (number("done", 2), number("failed", 2));
    assert!(done > 3 && failed * 3 < done, "{done} runs were done, {failed} failed: {runs:?}");
    assert!(number("done", 1) + number("failed", 1) + number("partial", 1) >= ours, "they are reported: {runs:?}");
    let stored = records(&rig).await;
    same("the newest writes and the record rows", &newest.into_iter().map(|(key, (_, s))| (key, s)).collect(), &stored);
    same("active record rows and count rows", &active(&stored), &count_rows(&rig).await);
}

async fn write_redis(store: Store, stop: CancellationToken) -> Newest {
    let (clock, mut random, mut newest) = (EventClock::default(), Random::new(99), Newest::new());
    while !stop.is_cancelled() {
        let mut ops = BTreeMap::new();
        for _ in 0..20 {
            let (target, user) = (any(&mut random, TARGETS), any(&mut random, USERS));
            let active = random.below(2) == 0;
            ops.insert((target, user), WriteOp { interaction: LIKE, target: id(target), user: id(user), active });
        }
        let all: Vec<_> = ops.values().copied().collect();
        let (at, written) = store.write(NOTES, &all, Unloaded::Refuse, &clock, SOON).await.unwrap();
        assert!(written.iter().all(|w| matches!(w, Written::Recorded { .. })), "{written:?}");
        newest.extend(ops.iter().map(|(&key, op)| (key, (at, i64::from(op.active)))));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    newest
}

fn any(random: &mut Random, among: i64) -> i64 {
    i64::try_from(random.below(among.unsigned_abs())).unwrap() + 1
}

/// What a write is while Redis is down (record, count when the state flips, event time above the row's), several in
/// one transaction, against the order in which a sync takes them.
async fn write_directly(mut mysql: MySqlConnection, task: u64, stop: CancellationToken) -> (Newest, u64) {
    let (mut random, mut newest, mut deadlocks) = (Random::new(task), Newest::new(), 0);
    while !stop.is_cancelled() {
        let mut rows = Newest::new();
        for _ in 0..10 {
            rows.insert((any(&mut random, TARGETS), any(&mut random, USERS)), (0, i64::from(random.below(2) == 0)));
        }
        // InnoDB ends the transaction that has written less: half of the time that is to be the sync's.
        let ballast = random.below(2) == 0;
        match transact(&mut mysql, &mut rows, ballast).await {
            Ok(()) => newest.extend(rows),
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains("1213") || error.contains("1205"), "{error}");
                deadlocks += u64::from(error.contains("1213"));
                mysql.execute("ROLLBACK").await.unwrap();
            }
        }
    }
    (newest, deadlocks)
}

async fn transact(mysql: &mut MySqlConnection, rows: &mut Newest, ballast: bool) -> sqlx::Result<()> {
    mysql.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
    mysql.execute("START TRANSACTION").await?;
    if ballast {
        let rows = vec!["(1)"; 300].join(",");
        mysql.execute(sqlx::raw_sql(AssertSqlSafe(format!("INSERT INTO ballast VALUES {rows}")))).await?;
    }
    for (&(target, user), (at, status)) in rows.iter_mut().rev() {
        let key = format!("target_type = 1 AND target_id = {target} AND interaction_type = 1");
        let ms = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', update_time) DIV 1000";
        let held = format!(
            "SELECT {ms}, CAST(status AS SIGNED) FROM interaction_record WHERE {key} AND user_id = {user} FOR UPDATE"
        );
        let held = mysql.fetch_optional(sqlx::raw_sql(AssertSqlSafe(held))).await?;
        let held: Option<(i64, i64)> =
            held.map(|row| Ok::<_, sqlx::Error>((row.try_get(0)?, row.try_get(1)?))).transpose()?;
        *at = held.map_or(0, |(held, _)| held + 1).max(chrono::Utc::now().timestamp_millis());
        let flip = *status - held.map_or(0, |(_, status)| status);
        let time = format!("'1970-01-01' + INTERVAL {at} * 1000 MICROSECOND");
        let mut statements = vec![format!(
            "INSERT INTO interaction_record VALUES (1, {target}, 1, {user}, {status}, {time}, {time}) \
             ON DUPLICATE KEY UPDATE status = VALUES(status), update_time = VALUES(update_time)"
        )];
        if flip != 0 {
            statements.push(format!(
                "INSERT INTO interaction_count VALUES (1, {target}, 1, {flip}, {time}) \
                 ON DUPLICATE KEY UPDATE count = count + VALUES(count)"
            ));
        }
        for statement in statements {
            mysql.execute(sqlx::raw_sql(AssertSqlSafe(statement))).await?;
        }
    }
    mysql.execute("COMMIT").await?;
    Ok(())
}

/// Error 1205: a row is locked for longer than a statement waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_locked_for_long_is_waited_for_again() {
    let rig = Rig::start("").await;
    rig.migrate().await;
    load(&mut rig.redis.connect().await, 1..=2).await;
    like_all(&store(&rig).await, 1..=2, 1..21).await;
    let mut holder = rig.db.connect().await;
    holder.execute("START TRANSACTION").await.unwrap();
    holder.execute("INSERT INTO interaction_record VALUES (1, 2, 1, 5, 0, NOW(3), NOW(3))").await.unwrap();
    let run = rig.spawn(&["sync", "--json"], &[("RUST_LOG", "tallyd=debug")]);
    let log = run.wait_for_log("1205", SOON).await;
    assert!(log.contains("transaction is tried again"), "{log}");
    // Nothing of the first attempt is half there: a lock timeout undoes one statement, not the transaction.
    eventually(SOON, async || records(&rig).await.is_empty(), "nothing is stored").await;
    assert!(run.is_running());
    holder.close().await.unwrap();
    let output = run.output(SOON).await.expect_code(0);
    assert!(output.json()["retries"].as_u64().unwrap() >= 1, "{}", output.stdout);
    assert_agreement(&rig).await;
}
