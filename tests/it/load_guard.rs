//! When the rows of a loader may be merged: each rule of the loader's lock, one by one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tallyd::config::Config;
use tallyd::model::Id;
use tallyd::store::{Busy, Ended, Loader, Loading, Merged, Store, Uncounted, Wanted};

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
        self.store.begin_load(1, id(TARGET), &Wanted { whole: true, ..Wanted::default() }).await.unwrap()
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
    let ended = loader.end(&BTreeMap::new(), false, None).await.unwrap();
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
    assert_eq!(loader.end(&BTreeMap::new(), false, None).await.unwrap(), done());
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
    assert_eq!(loader.end(&[(4, 9)].into(), false, None).await.unwrap(), done());
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
    assert_eq!(loader.end(&BTreeMap::new(), false, None).await.unwrap(), Ended::Again);
    assert_eq!(scene.get(&["HGET", "like:1:8", "0"]).await, None);
    assert_eq!(scene.get(&["HGET", "cnt:1:8", "like"]).await, None);
    scene.loader().await;
}
