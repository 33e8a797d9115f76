//! Who has lost his lease reads nothing more, and repairs nothing.

use redis::AsyncCommands;
use tallyd::model::{Checkpoint, Id};
use tallyd::store::{Repair, StoreError, Verdict};

use super::synced;
use crate::likes::{NOTES, store};

#[tokio::test(flavor = "multi_thread")]
async fn a_repair_by_a_holder_of_old_is_refused() {
    let rig = synced("").await;
    let mut redis = rig.redis.connect().await;
    redis.hdel::<_, _, ()>("like:1:3", 5).await.unwrap();
    redis.hset::<_, _, _, ()>("like:1:4", 0, "partial").await.unwrap();
    redis.hset::<_, _, _, ()>("cnt:1:4", "like", 3).await.unwrap();
    redis.del::<_, ()>("like:1:6").await.unwrap();
    let lease = "SELECT lease_token, checkpoint FROM sync_partition WHERE target_type = 1";
    let row = rig.sql(lease).await[0].clone();
    let token: u64 = row[0].as_deref().unwrap().parse().unwrap();
    let mysql: Checkpoint = row[1].as_deref().unwrap().parse().unwrap();
    let store = store(&rig).await;
    let (one, other) = (store.check(NOTES, mysql, token + 1).await, store.check(NOTES, mysql, token + 2).await);
    let (Verdict::Held(mut one), Verdict::Held(mut other)) = (one.unwrap(), other.unwrap()) else {
        panic!("nothing is lost")
    };
    let id = |n: i64| Id::try_from(n).unwrap();
    let repairs = [
        (id(3), 1, Repair::Fill(id(5), true)),
        (id(4), 1, Repair::Count("3".into(), 8)),
        (id(6), 1, Repair::Drop("8".into())),
    ];
    let fenced = |answer: Option<StoreError>| assert!(matches!(answer, Some(StoreError::Fenced { .. })), "{answer:?}");
    fenced(one.inspect(&[id(3)]).await.err());
    fenced(one.repair(&repairs).await.err());
    fenced(one.begin_recount(id(8), 1).await.err());
    fenced(one.end_recount(id(8), 1, 5).await.err());
    assert!(!redis.hexists::<_, _, bool>("like:1:3", 5).await.unwrap());
    assert_eq!(redis.hget::<_, _, i64>("cnt:1:4", "like").await.unwrap(), 3);
    assert_eq!(redis.hget::<_, _, i64>("cnt:1:6", "like").await.unwrap(), 8);

    // Only what still is as it was found, and is not marked, is repaired.
    redis.hset::<_, _, _, ()>("cnt:1:4", "like", 2).await.unwrap();
    redis.sadd::<_, _, ()>("dirty:1", 6).await.unwrap();
    assert_eq!(other.repair(&repairs).await.unwrap(), [true, false, false]);
    redis.srem::<_, _, ()>("dirty:1", 6).await.unwrap();
    redis.hset::<_, _, _, ()>("cnt:1:4", "like", 3).await.unwrap();
    assert_eq!(other.repair(&repairs).await.unwrap(), [false, true, true]);
}
