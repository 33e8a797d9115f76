//! Two daemons on the same servers, of which one does not see Redis.

use std::time::Duration;

use crate::likes::assert_agreement;
use crate::recovery::{RECOVERED, closed, from_mysql, synced};
use crate::support::{Db, Proxy, Redis, RedisAt, Rig, Served, create_database};

/// What the far one's way to Redis takes, one way.
const LINK: Duration = Duration::from_millis(20);

/// One beside Redis, and one behind a proxy.
struct Pair {
    near: Served,
    far: Served,
    proxy: Proxy,
    rig: Rig,
    _far_rig: Rig,
    _servers: (Redis, Db),
}

impl Pair {
    async fn start() -> Self {
        let (redis, db) = (Redis::start().await, create_database().await);
        let proxy = Proxy::start(redis.url(), "").await;
        let config = "degraded.probe_seconds = 1";
        let rig = Rig::on(&redis, &db, config);
        let far_rig = Rig::on(&RedisAt::at(proxy.in_front_of(redis.url())), &db, config);
        let (near, far) = (rig.serve(&["--no-schedule"]).await, far_rig.serve(&["--no-schedule"]).await);
        Self { near, far, proxy, rig, _far_rig: far_rig, _servers: (redis, db) }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_sees_redis_down_while_another_does_not() {
    let pair = Pair::start().await;
    let (one, other) = (pair.near.api(), pair.far.api());
    one.put("/v1/like/note/1/users/1000").await.expect(200);
    pair.proxy.freeze();
    for user in 1..=60 {
        let path = format!("/v1/like/note/1/users/{user}");
        assert!(from_mysql(&other.put(&path).await.expect(200)));
        if user % 2 == 0 {
            assert!(!from_mysql(&one.delete(&path).await.expect(200)), "later, and elsewhere");
        }
    }
    pair.proxy.thaw();
    closed(&pair.far, RECOVERED).await;
    closed(&pair.near, RECOVERED).await;
    synced(&pair.near).await;
    assert_agreement(&pair.rig).await;
    for user in 1..=60 {
        let state = one.get(&format!("/v1/like/note/1/users/{user}")).await.expect(200);
        assert_eq!(state.json()["active"], user % 2 == 1, "of two acknowledged writes the later one stands: {user}");
    }
    assert_eq!(other.get("/v1/like/note/1").await.expect(200).json()["count"], "31");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_writes_by_two_processes_the_later_one_stands_also_within_a_round_trip() {
    let pair = Pair::start().await;
    let (one, other) = (pair.near.api(), pair.far.api());
    pair.proxy.delay(LINK);
    for user in 900..950 {
        other.put(&format!("/v1/like/note/1/users/{user}")).await.expect(200);
    }
    pair.proxy.freeze();
    for user in 900..930 {
        assert!(from_mysql(&other.put(&format!("/v1/like/note/2/users/{user}")).await.expect(200)));
    }
    for user in 1..=60 {
        let path = format!("/v1/like/note/1/users/{user}");
        if user % 2 == 0 {
            assert!(!from_mysql(&one.put(&path).await.expect(200)));
            // Less than its answers take: by what Redis had said when they came, it would be too early.
            tokio::time::sleep(LINK / 4).await;
            assert!(from_mysql(&other.delete(&path).await.expect(200)));
        } else {
            assert!(from_mysql(&other.delete(&path).await.expect(200)));
            // More than half of a round trip, which is as far as it knows the clock.
            tokio::time::sleep(LINK * 2).await;
            assert!(!from_mysql(&one.put(&path).await.expect(200)));
        }
    }
    pair.proxy.thaw();
    closed(&pair.far, RECOVERED).await;
    synced(&pair.near).await;
    for user in 1..=60 {
        let state = one.get(&format!("/v1/like/note/1/users/{user}")).await.expect(200);
        assert_eq!(state.json()["active"], user % 2 == 1, "the later one stands: {user}");
    }
    for target in 1..=2 {
        one.get(&format!("/v1/like/note/{target}")).await.expect(200);
    }
    assert_agreement(&pair.rig).await;
}
