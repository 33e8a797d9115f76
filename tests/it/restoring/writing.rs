//! Writers go on while a partition is restored.

use std::sync::Arc;

use redis::AsyncCommands;
use tokio_util::sync::CancellationToken;

use super::{hget, liked, lose, redis_all};
use crate::likes::{SOON, Table, assert_agreement, records, reload, same, until_paused};
use crate::support::{RedisAt, Rig, Signal, failpoints};
use crate::writers::Random;

/// A write to a target that is not loaded, as it is accepted: mark, state, and neither count nor completeness.
const ACCEPT: &str = "
    local time = redis.call('TIME')
    local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
    redis.call('SADD', 'dirty:1', ARGV[1])
    redis.call('HSET', 'chg:1', 'like:' .. ARGV[1] .. ':' .. ARGV[2], now)
    redis.call('HSET', 'like:1:' .. ARGV[1], ARGV[2], ARGV[3])
    redis.call('HDEL', 'like:1:' .. ARGV[1], '0')
    redis.call('HDEL', 'cnt:1:' .. ARGV[1], 'like')";

async fn accept(redis: &mut redis::aio::MultiplexedConnection, target: i64, user: i64, active: bool) {
    let mut command = redis::cmd("EVAL");
    command.arg(ACCEPT).arg(0).arg(target).arg(user).arg(i32::from(active));
    command.query_async::<()>(redis).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_in_the_middle_of_a_restore_stays() {
    if !failpoints() {
        return;
    }
    let rig = Rig::start("").await;
    rig.migrate().await;
    liked(&rig, 1..=3).await;
    let mut expected = records(&rig).await;
    let mut redis = rig.redis.connect().await;
    // An old mark, so that the first batch is one of marks.
    redis_all(&rig, "SADD dirty:1 1\n HSET chg:1 like:1:1 5").await;
    lose(&rig).await;
    let run = rig.spawn(&["sync"], &[("TALLYD_FAILPOINT", "in_restore:pause")]);
    until_paused(&run).await;
    assert!(!redis.exists::<_, bool>("dirty:1").await.unwrap());
    // The hash that lost a state vouches for nobody any more.
    assert_eq!((hget(&rig, "like:1:1", "0").await, hget(&rig, "cnt:1:1", "like").await), (None, None));
    // Of a mark that was dropped, of a hash not yet looked at, of one that is new.
    for (target, user, active) in [(1, 1, false), (2, 3, false), (2, 50, true), (9, 1, true)] {
        accept(&mut redis, target, user, active).await;
        expected.insert((target, user), i64::from(active));
    }
    run.signal(Signal::CONT);
    run.output(SOON).await.expect_code(0);
    same("what must be and record rows", &expected, &records(&rig).await);
    reload(&rig, [1, 2, 3, 9]).await;
    assert_agreement(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_of_what_is_written_all_through_a_restore() {
    const TARGETS: i64 = 150;
    let rig = Rig::start("").await;
    rig.migrate().await;
    liked(&rig, 1..=TARGETS).await;
    let mut expected = records(&rig).await;
    lose(&rig).await;
    let stop = CancellationToken::new();
    let writers: Vec<_> = (1..=3).map(|n| tokio::spawn(write(Arc::new(rig.redis.clone()), n, stop.clone()))).collect();
    let output = rig.tallyd(&["sync", "--json"]).await.expect_code(0);
    assert_eq!(super::restored(&output)["kind"], "missing", "{}", output.stdout);
    stop.cancel();
    let mut total = 0;
    for writer in writers {
        let (last, number) = writer.await.unwrap();
        expected.extend(last);
        total += number;
    }
    assert!(total > 50, "{total} writes");
    rig.tallyd(&["sync"]).await.expect_code(0);
    same("what must be and record rows", &expected, &records(&rig).await);
    reload(&rig, 1..=TARGETS).await;
    assert_agreement(&rig).await;
}

/// Writes until it is told to stop: the last of each user, who is its own.
async fn write(redis: Arc<RedisAt>, number: i64, stop: CancellationToken) -> (Table, u64) {
    let mut redis = redis.connect().await;
    let (mut random, mut last, mut writes) = (Random::new(number.unsigned_abs()), Table::new(), 0);
    while !stop.is_cancelled() {
        let target = 1 + i64::try_from(random.below(150)).unwrap();
        let user = number + 3 * i64::try_from(random.below(10)).unwrap();
        let active = random.below(2) == 0;
        accept(&mut redis, target, user, active).await;
        last.insert((target, user), i64::from(active));
        writes += 1;
    }
    (last, writes)
}
