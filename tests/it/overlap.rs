//! Daemons and runs by hand on the same databases: one at a time on a partition (hazard 2).

use std::time::Duration;

use sqlx::{Connection, Executor};

use crate::likes::{SOON, assert_agreement, load, same, states};
use crate::support::{Daemon, Rig, Signal, eventually};
use crate::writers::Writers;

/// A tick every second, and runs that MySQL makes take longer than several.
const CONFIG: &str = "sync.batch_rows = 50\nsync.cron = \"* * * * * *\"";
const SLOW: Duration = Duration::from_secs(5);

/// Keeps every change of `sync_partition`, in the order in which the transactions made them.
const LEDGER: &str = "
    CREATE TABLE ledger (
      id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, target_type INT NOT NULL,
      old_token BIGINT NOT NULL, token BIGINT NOT NULL, was_held TINYINT NOT NULL, held TINYINT NOT NULL,
      owner VARCHAR(255) NULL, stepped TINYINT NOT NULL);
    CREATE TRIGGER keep AFTER UPDATE ON sync_partition FOR EACH ROW INSERT INTO ledger
      (target_type, old_token, token, was_held, held, owner, stepped)
      VALUES (NEW.target_type, OLD.lease_token, NEW.lease_token, OLD.lease_until IS NOT NULL,
              NEW.lease_until IS NOT NULL, NEW.lease_owner, OLD.checkpoint <> NEW.checkpoint);";

async fn number(rig: &Rig, query: &str) -> u64 {
    rig.sql(query).await[0][0].as_deref().unwrap_or("0").parse().unwrap()
}

fn skips(daemon: &Daemon) -> usize {
    daemon.log().matches("skipped: a run is under way").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_two_runs_are_ever_on_one_partition() {
    let rig = Rig::start(CONFIG).await;
    rig.migrate().await;
    rig.sql_exec(LEDGER).await;
    let targets: Vec<_> = (1..=20).collect();
    load(&mut rig.redis.connect().await, targets.clone()).await;
    let writers = Writers::start(&rig, 3, &targets, 25, Some(Duration::from_millis(2)));
    let daemons = [rig.spawn(&["serve", "--no-api"], &[]), rig.spawn(&["serve", "--no-api"], &[])];
    eventually(SOON, async || number(&rig, "SELECT COUNT(*) FROM sync_run").await >= 4, "both daemons run").await;

    // One run holds its lease for so long, the others wait for it.
    let mut holder = rig.db.connect().await;
    holder.execute("LOCK TABLES interaction_record WRITE").await.unwrap();
    let by_hand: Vec<_> = (0..2).map(|_| rig.spawn(&["sync", "--now", "--json"], &[])).collect();
    let begun = tokio::time::Instant::now();
    eventually(SOON, async || daemons.iter().all(|d| skips(d) >= 3), "both daemons skip ticks").await;
    tokio::time::sleep_until(begun + SLOW).await;
    holder.close().await.unwrap();
    for run in by_hand {
        let output = run.output(SOON).await.expect_code(0);
        assert_eq!(output.json()["outcome"], "done", "{}", output.stdout);
    }
    for _ in 0..6 {
        let runs = [rig.spawn(&["sync", "--now"], &[]), rig.spawn(&["sync", "--now"], &[])];
        for run in runs {
            run.output(SOON).await.expect_code(0);
        }
    }
    let (last, sent) = writers.finish().await;
    assert!(sent > 1_000, "only {sent} writes");
    for daemon in daemons {
        assert!(daemon.log().contains("skipped=3"), "skipped ticks are counted:\n{}", daemon.log());
        daemon.signal(Signal::TERM);
        daemon.output(SOON).await.expect_code(0);
    }
    rig.tallyd(&["sync"]).await.expect_code(0);
    same("the answers and the states", &last, &states(&rig).await);
    assert_agreement(&rig).await;

    // A lease is taken only after the last owner gave it back (none ran out here), and everything that a run stores
    // is stored under the lease it holds.
    let taken = number(&rig, "SELECT COUNT(*) FROM ledger WHERE token <> old_token").await;
    let stolen = rig.sql("SELECT * FROM ledger WHERE token <> old_token AND was_held").await;
    assert!(taken > 20 && stolen.is_empty(), "of {taken} leases: {stolen:?}");
    let without = rig.sql("SELECT * FROM ledger WHERE stepped AND NOT held").await;
    assert!(without.is_empty(), "stored without a lease: {without:?}");
    let owners = number(&rig, "SELECT COUNT(DISTINCT owner) FROM ledger WHERE stepped AND target_type = 1").await;
    assert!(owners >= 3, "both daemons and a run by hand stored something, not {owners}");
    // Who is overtaken finds its checkpoint changed, and fails: nobody did. (A daemon that is told to stop may have
    // stopped in the middle of a run.)
    let outcomes = rig.sql("SELECT report FROM sync_run WHERE outcome NOT IN ('done', 'partial')").await;
    assert!(outcomes.is_empty(), "{outcomes:?}");
}
