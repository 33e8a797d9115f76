//! A lease that somebody else holds.

use std::time::{Duration, Instant};

use crate::likes::{assert_agreement, like, load, marks, store};
use crate::support::Rig;

/// One like, and the lease of notes held by somebody for `seconds`.
async fn start(seconds: u32) -> Rig {
    let rig = Rig::start("").await;
    rig.migrate().await;
    load(&mut rig.redis.connect().await, [1]).await;
    like(&store(&rig).await, 1, 7, true).await;
    rig.sql_exec(&format!(
        "INSERT INTO sync_partition (target_type, shard, lease_token, lease_owner, lease_until) \
         VALUES (1, 0, 5, 'elsewhere:1:cafe', UTC_TIMESTAMP(3) + INTERVAL {seconds} SECOND)"
    ))
    .await;
    rig
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_held_for_longer_than_one_waits_is_exit_75() {
    let rig = start(600).await;
    for wait in [0, 1] {
        let begun = Instant::now();
        let output = rig.tallyd(&["sync", "--json", "--wait-seconds", &wait.to_string()]).await.expect_code(75);
        let waited = begun.elapsed();
        assert!(waited >= Duration::from_secs(wait) && waited < Duration::from_secs(wait + 10), "{wait}: {waited:?}");
        let json = output.json();
        assert_eq!(json["outcome"], "busy");
        assert_eq!(json["partitions"][0]["outcome"], "busy");
        let error = json["partitions"][0]["error"].as_str().unwrap();
        assert!(error.contains("elsewhere:1:cafe"), "it names the owner: {error}");
        assert_eq!(json["partitions"][1]["outcome"], "done");
    }
    let output = rig.tallyd(&["sync", "--wait-seconds", "0"]).await.expect_code(75);
    assert!(output.stdout.starts_with("busy") && output.stdout.contains("elsewhere:1:cafe"), "{}", output.stdout);
    assert_eq!(marks(&rig).await, ["dirty:1", "chg:1"], "nothing was touched");
    let token = rig.sql("SELECT lease_token FROM sync_partition WHERE target_type = 1").await;
    assert_eq!(token[0][0].as_deref(), Some("5"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_waited_for() {
    let rig = start(2).await;
    let begun = Instant::now();
    rig.tallyd(&["sync", "--json", "--wait-seconds", "30"]).await.expect_code(0);
    assert!(begun.elapsed() > Duration::from_secs(1));
    assert_agreement(&rig).await;
    // The run's own lease is given back.
    let lease = rig.sql("SELECT lease_token, lease_owner, lease_until FROM sync_partition WHERE target_type = 1").await;
    assert_eq!(lease, [[Some("6".to_owned()), None, None]]);
}
