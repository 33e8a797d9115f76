//! When the rows of a loader may be merged: each rule of the loader's lock, one by one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tallyd::config::Config;
use tallyd::model::Id;
use tallyd::store::{Busy, Ended, Loader, Loading, Merged, Store, Uncounted, Wanted, Why};

use crate::support::Rig;

struct Scene {
    rig: Rig,
    store: Store,
}

const TARGET: i64 = 8;

fn id(number: i64) -> Id {
    number.try_into().unwrap()
}

impl Scene {
    async fn new() -> Self {
        let rig = Rig::start("").await;
        let text = std::fs::read_to_string(rig.config()).unwrap();
        let config = Config::parse(&text, [], &rig.config()).unwrap();
        let vocabulary = Arc::new(config.vocabulary.clone());
        let store = Store::connect(&config.redis, vocabulary, Duration::from_secs(5)).await.unwrap();
        Self { rig, store }
    }

    async fn redis(&self, command: &[&str]) {
        let mut connection = self.rig.redis.connect().await;
        let _: redis::Value = redis::cmd(command[0]).arg(&command[1..]).query_async(&mut connection).await.unwrap();
    }

    async fn get(&self, command: &[&str]) -> Option<String> {
        let mut connection = self.rig.redis.connect().await;
        redis::cmd(command[0]).arg(&command[1..]).query_async(&mut connection).await.unwrap()
    }

    async fn begin(&self) -> Loading {
        let wanted = Wanted { whole: true, states: [(1, id(1))].into(), ..Wanted::default() };
        self.store.begin_load(1, id(TARGET), &wanted).await.unwrap()
    }

    async fn loader(&self) -> Box<Loader> {
        match self.begin().await {
            Loading::Yours(loader) => loader,
            other => panic!("{other:?}"),
        }
    }
}

fn done() -> Ended {
    Ended::Done(Uncounted::default())
}

/// What comes between the lock and the merge, and whether the merge goes through all the same.
async fn merged_after(before: &[&[&str]], between: &[&[&str]]) -> Merged {
    let scene = Scene::new().await;
    for command in before {
        scene.redis(command).await;
    }
    let mut loader = scene.loader().await;
    for command in between {
        scene.redis(command).await;
    }
    let merged = loader.merge(1, &[(id(1), true), (id(2), false)]).await.unwrap();
    let ended = loader.end(&BTreeMap::new(), true, None).await.unwrap();
    assert_eq!(merged == Merged::Again, ended == Ended::Again);
    let state = scene.get(&["HGET", "like:1:8", "1"]).await;
    assert_eq!(state.is_some(), merged == Merged::Yes);
    merged
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_target_is_merged_whatever_runs_do() {
    assert_eq!(merged_after(&[], &[]).await, Merged::Yes);
    let step: &[&str] = &["SET", "ckpt:1", "7.4"];
    let dirty: &[&str] = &["SADD", "dirty:1", "8"];
    assert_eq!(merged_after(&[&["SET", "ckpt:1", "7.3"]], &[dirty, step]).await, Merged::Yes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dirty_target_is_merged_only_while_no_run_has_read() {
    let dirty: &[&str] = &["SADD", "dirty:1", "8"];
    let held: &[&str] = &["SET", "ckpt:1", "7.3"];
    assert_eq!(merged_after(&[dirty, held], &[]).await, Merged::Yes);
    assert_eq!(merged_after(&[dirty, held], &[&["SET", "ckpt:1", "7.4"]]).await, Merged::Again);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_merged_across_owners_restores_or_lost_locks() {
    let held: &[&str] = &["SET", "ckpt:1", "7.3"];
    assert_eq!(merged_after(&[held], &[&["SET", "ckpt:1", "8.0"]]).await, Merged::Again);
    assert_eq!(merged_after(&[held], &[&["DEL", "ckpt:1"]]).await, Merged::Again);
    assert_eq!(merged_after(&[held], &[&["SET", "restoring:1", "8.0"]]).await, Merged::Again);
    assert_eq!(merged_after(&[held], &[&["DEL", "lock:1:8"]]).await, Merged::Again);
    assert_eq!(merged_after(&[held], &[&["SET", "lock:1:8", "of somebody else"]]).await, Merged::Again);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_loads_and_the_others_wait_as_they_do_for_a_run_and_a_restore() {
    let scene = Scene::new().await;
    let loader = scene.loader().await;
    assert!(matches!(scene.begin().await, Loading::Wait(Busy::Lock)));
    loader.release().await.unwrap();
    for mark in ["dirty:1:inflight", "dirty:1:inflight:done"] {
        scene.redis(&["SADD", mark, "8"]).await;
        assert!(matches!(scene.begin().await, Loading::Wait(Busy::Run)), "{mark}");
        scene.redis(&["DEL", mark]).await;
    }
    scene.redis(&["SET", "restoring:1", "8.0"]).await;
    assert!(matches!(scene.begin().await, Loading::Wait(Busy::Restore)));
    scene.redis(&["DEL", "restoring:1"]).await;
    let loader = scene.loader().await;
    assert_eq!(loader.end(&BTreeMap::new(), true, None).await.unwrap(), done());
    assert!(matches!(scene.begin().await, Loading::Loaded));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_is_present_wins_and_an_absent_one_loses_its_mark() {
    let scene = Scene::new().await;
    for command in [
        &["HSET", "like:1:8", "1", "0", "3", "1"][..],
        &["SADD", "dirty:1", "8"],
        &["HSET", "chg:1", "like:8:1", "5", "like:8:2", "5"],
    ] {
        scene.redis(command).await;
    }
    let mut loader = scene.loader().await;
    assert_eq!(loader.merge(1, &[(id(1), true), (id(2), true)]).await.unwrap(), Merged::Yes);
    assert_eq!(loader.end(&[(4, 9)].into(), true, None).await.unwrap(), done());
    assert_eq!(scene.get(&["HGET", "like:1:8", "1"]).await.as_deref(), Some("0"));
    assert_eq!(scene.get(&["HGET", "like:1:8", "2"]).await.as_deref(), Some("1"));
    assert_eq!(scene.get(&["HGET", "chg:1", "like:8:1"]).await.as_deref(), Some("5"));
    assert_eq!(scene.get(&["HGET", "chg:1", "like:8:2"]).await, None, "what its row says is no news");
    assert_eq!(scene.get(&["HGET", "cnt:1:8", "like"]).await.as_deref(), Some("2"));
    assert_eq!(scene.get(&["HGET", "cnt:1:8", "collect"]).await.as_deref(), Some("0"));
    assert_eq!(scene.get(&["HGET", "cnt:1:8", "view"]).await.as_deref(), Some("9"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hash_that_is_gone_between_two_pages_is_not_called_full() {
    let scene = Scene::new().await;
    let mut loader = scene.loader().await;
    assert_eq!(loader.merge(1, &[(id(1), true), (id(2), true)]).await.unwrap(), Merged::Yes);
    scene.redis(&["DEL", "like:1:8"]).await;
    assert_eq!(loader.merge(1, &[(id(3), true)]).await.unwrap(), Merged::Yes);
    assert_eq!(loader.end(&BTreeMap::new(), true, None).await.unwrap(), Ended::Again);
    assert_eq!(scene.get(&["HGET", "like:1:8", "0"]).await, None);
    assert_eq!(scene.get(&["HGET", "cnt:1:8", "like"]).await, None);
    scene.loader().await;
}

/// What an end says of the count of likes that are loaded by users, after something came before or between.
async fn counted_after(before: &[&[&str]], between: &[&[&str]]) -> Result<Option<String>, Why> {
    let scene = Scene::new().await;
    for command in before {
        scene.redis(command).await;
    }
    let mut loader = scene.loader().await;
    loader.by_users(1);
    assert_eq!(loader.merge_users(1, &[(id(1), true), (id(2), false)], false).await.unwrap(), Merged::Yes);
    for command in between {
        scene.redis(command).await;
    }
    let Ended::Done(uncounted) = loader.end(&[(1, 77)].into(), true, None).await.unwrap() else { panic!("again") };
    assert_eq!(scene.get(&["HGET", "like:1:8", "0"]).await.as_deref(), Some("partial"));
    assert_eq!(scene.get(&["HGET", "cnt:1:8", "collect"]).await.as_deref(), Some("0"));
    let count = scene.get(&["HGET", "cnt:1:8", "like"]).await;
    assert_eq!(uncounted.interactions.contains(&1), count.is_none());
    if count.is_none() { Err(uncounted.why) } else { Ok(count) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_row_is_taken_only_if_nothing_could_have_changed_it() {
    let row = Ok(Some("77".to_owned()));
    let held: &[&str] = &["SET", "ckpt:1", "7.3"];
    let step: &[&str] = &["SET", "ckpt:1", "7.4"];
    let dirty: &[&str] = &["SADD", "dirty:1", "8"];
    assert_eq!(counted_after(&[held], &[]).await, row);
    assert_eq!(counted_after(&[held], &[step]).await, Err(Why::Moved), "a run may have committed between");
    assert_eq!(counted_after(&[held, dirty], &[]).await, Err(Why::Pending));
    assert_eq!(counted_after(&[held, dirty], &[&["DEL", "dirty:1"]]).await, Err(Why::Moved), "was dirty");
    for mark in ["dirty:1", "dirty:1:inflight", "dirty:1:inflight:done"] {
        assert_eq!(counted_after(&[held], &[&["SADD", mark, "8"]]).await, Err(Why::Pending), "{mark}");
    }
    // A count that stands: believed beside a partial hash only.
    let count: &[&str] = &["HSET", "cnt:1:8", "like", "5"];
    let partial: &[&str] = &["HSET", "like:1:8", "0", "partial"];
    assert_eq!(counted_after(&[count], &[]).await, row);
    assert_eq!(counted_after(&[count, dirty], &[]).await, Err(Why::Pending));
    assert_eq!(counted_after(&[count, partial, dirty], &[]).await, Ok(Some("5".to_owned())));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_does_not_outlive_a_mark_that_a_row_has_taken_away() {
    let change = |user: &str| vec!["HSET".to_owned(), "chg:1".to_owned(), format!("like:8:{user}"), "5".to_owned()];
    for (user, count) in [("1", None), ("3", Some("5"))] {
        let scene = Scene::new().await;
        let change = change(user);
        for command in [
            &["HSET", "cnt:1:8", "like", "5"][..],
            &["HSET", "like:1:8", "0", "partial", "3", "1"],
            &["SADD", "dirty:1", "8"],
            &change.iter().map(String::as_str).collect::<Vec<_>>(),
        ] {
            scene.redis(command).await;
        }
        let mut loader = scene.loader().await;
        loader.by_users(1);
        let merged = loader.merge_users(1, &[(id(1), true), (id(3), false)], false).await.unwrap();
        assert_eq!(merged, Merged::Yes);
        loader.end(&[(1, 77)].into(), true, None).await.unwrap();
        assert_eq!(scene.get(&["HGET", "cnt:1:8", "like"]).await.as_deref(), count);
        assert_eq!(scene.get(&["HGET", "chg:1", &format!("like:8:{user}")]).await.is_some(), user == "3");
        assert_eq!(scene.get(&["HGET", "like:1:8", "3"]).await.as_deref(), Some("1"), "what is present wins");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_hash_that_is_gone_at_the_end_is_not_called_full_again() {
    let scene = Scene::new().await;
    scene.redis(&["HSET", "like:1:8", "0", "full", "1", "1"]).await;
    let loader = scene.loader().await;
    assert!(loader.is_full(1));
    scene.redis(&["DEL", "like:1:8"]).await;
    assert_eq!(loader.end(&BTreeMap::new(), true, None).await.unwrap(), Ended::Again);
    assert_eq!(scene.get(&["HGET", "like:1:8", "0"]).await, None);
    assert_eq!(scene.get(&["HGET", "cnt:1:8", "like"]).await, None);
}
