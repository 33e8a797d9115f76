//! Writes to targets that are not loaded and cannot be.

use std::time::{Duration, Instant};

use tallyd::store::{Ended, EventClock, Loading, Unloaded, Wanted, WriteOp, Written};

use super::{Scene, id};
use crate::support::{PrivateMysql, Redis, Rig, eventually};

const SOON: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn a_write_does_not_need_mysql_and_counts_come_right_when_it_is_back() {
    for limit in [5000, 3] {
        let Some(mut mysql) = PrivateMysql::start(&[]).await else { return };
        let redis = Redis::start().await;
        let extra = format!("cache.full_load_limit = {limit}");
        let scene = Scene::of(Rig::on(&redis, &mysql.create_database("tallyd").await, &extra)).await;
        for target in 1..=3 {
            scene.liked(target, 5).await;
        }
        assert_eq!(scene.count(3).await, 5);
        mysql.stop().await;

        for (user, active, changed) in [(4, true, true), (5, false, false), (6, true, true), (6, true, false)] {
            let answer = scene.set(1, user, active).await;
            assert_eq!((answer.changed, answer.active, answer.count), (changed, active, None));
        }
        assert!(scene.is_active(1, 6).await, "a state that is known needs no count");
        assert_eq!(scene.set(2, 9, false).await.count, None);
        assert_eq!(scene.set(50, 1, true).await.count, None, "of which nothing is known");
        if limit == 5000 {
            assert_eq!(scene.set(3, 9, true).await.count, Some(6), "what is loaded has its count");
        }
        let begun = Instant::now();
        let ops = (1000..1500).map(|target| tallyd::live::StateOp {
            interaction: 1,
            target_type: 1,
            target: id(target),
            user: id(1),
            active: true,
        });
        for answer in scene.live.set_many(&ops.collect::<Vec<_>>()).await {
            assert_eq!(answer.unwrap().count, None);
        }
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        assert!(scene.live.view(4, 1, id(1), "anna").await.is_err(), "a counter has no state to be counted from");
        assert!(scene.try_count(1).await.is_err());

        mysql.start_again().await;
        if limit == 5000 {
            // Merged by a read or a write before anything is synced.
            eventually(SOON, async || scene.try_count(1).await == Ok(5), "the count: 4 stays, 5 goes, 6 comes").await;
            let answer = scene.set(50, 2, true).await;
            assert_eq!((answer.changed, answer.count), (true, Some(2)));
        }
        scene.sync().await;
        eventually(SOON, async || scene.try_count(1).await == Ok(5), "the count").await;
        for (target, count) in [(1, 5), (2, 5), (1000, 1), (1499, 1)] {
            assert_eq!(scene.count(target).await, count, "{target}");
            assert_eq!(scene.durable(target).await, (count, count), "{target}");
        }
        assert!(!scene.is_active(1, 5).await);
        assert!(scene.live.view(4, 1, id(1), "anna").await.unwrap().0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_does_not_wait_long_for_a_run_a_restore_or_another_load() {
    let scene = Scene::start("").await;
    for (target, command) in [
        (1, "SADD dirty:1:inflight 1"),
        (2, "SADD dirty:1:inflight:done 2"),
        (3, "SET lock:1:3 somebody PX 60000"),
        (4, "SET restoring:1 9.0"),
    ] {
        scene.liked(target, 5).await;
        let _: redis::Value = scene.redis(command).await;
        let begun = Instant::now();
        assert!(scene.try_count(target).await.is_err(), "{command}");
        let answer = scene.set(target, 9, true).await;
        assert_eq!((answer.changed, answer.count), (true, None), "{command}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{command}: {:?}", begun.elapsed());
    }
    let _: i64 = scene.redis("DEL restoring:1 dirty:1:inflight dirty:1:inflight:done lock:1:3").await;
    for target in 1..=4 {
        assert_eq!(scene.count(target).await, 6, "{target}");
    }
    scene.sync().await;
    for target in 1..=4 {
        assert_eq!(scene.durable(target).await, (6, 6), "{target}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_a_wrong_type_hinders_no_other_interaction() {
    let scene = Scene::start("").await;
    scene.liked(1, 5).await;
    let _: String = scene.redis("SET collect:1:1 text").await;
    let answer = scene.set(1, 9, true).await;
    assert_eq!((answer.changed, answer.count), (true, None));
    scene.sync().await;
    assert_eq!(scene.durable(1).await, (6, 6));
    let _: i64 = scene.redis("DEL collect:1:1").await;
    assert_eq!(scene.count(1).await, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn accepting_changes_only_what_would_be_refused_and_ends_a_load_under_way() {
    let scene = Scene::start("").await;
    let store = scene.context.store().await.unwrap();
    let partition = store.keys().partition(1, id(7));
    let clock = EventClock::default();
    let write = async |user: i64, active| {
        let op = WriteOp { interaction: 1, target: id(7), user: id(user), active };
        let (_, mut written) = store.write(partition, &[op], Unloaded::Accept, &clock, SOON).await.unwrap();
        written.pop().unwrap()
    };
    scene.set(7, 1, true).await;
    assert_eq!(write(2, true).await, Written::Recorded { changed: true, count: Some(2) });
    assert_eq!(scene.redis::<String>("HGET like:1:7 0").await, "full");
    // The count is gone: the write is recorded, and the hash vouches for nothing.
    let _: i64 = scene.redis("HDEL cnt:1:7 like").await;
    let wanted = Wanted { counts: [1].into(), ..Wanted::default() };
    let Loading::Yours(loader) = store.begin_load(1, id(7), &wanted).await.unwrap() else { panic!("not the loader") };
    assert_eq!(write(3, true).await, Written::Recorded { changed: true, count: None });
    assert_eq!(scene.redis::<Option<String>>("HGET like:1:7 0").await, None);
    assert_eq!(scene.redis::<Option<String>>("HGET cnt:1:7 like").await, None);
    assert_eq!(scene.redis::<Option<String>>("HGET cnt:1:7 collect").await.as_deref(), Some("0"));
    assert_eq!(loader.end(&[].into(), true, None).await.unwrap(), Ended::Again);
    let change: Option<String> = scene.redis("HGET chg:1 like:7:3").await;
    assert!(change.is_some());
    assert_eq!(scene.count(7).await, 3);
    // Also where the load would have come to a good end: one that counts page by page would not.
    scene.liked(9, 3).await;
    let Loading::Yours(loader) = store.begin_load(1, id(9), &wanted).await.unwrap() else { panic!("not the loader") };
    let op = WriteOp { interaction: 1, target: id(9), user: id(1), active: false };
    store.write(partition, &[op], Unloaded::Accept, &clock, SOON).await.unwrap();
    assert_eq!(loader.end(&[].into(), true, None).await.unwrap(), Ended::Again);
    assert_eq!(scene.count(9).await, 2);
    // A target that was remembered as empty does not vanish with what is written to it.
    assert_eq!(scene.count(8).await, 0);
    let op = WriteOp { interaction: 1, target: id(8), user: id(1), active: true };
    store.write(partition, &[op], Unloaded::Accept, &clock, SOON).await.unwrap();
    assert_eq!(scene.redis::<i64>("PTTL cnt:1:8").await, -1);
}
