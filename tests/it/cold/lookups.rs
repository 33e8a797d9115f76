//! How little reaches MySQL, however many ask.

use std::collections::BTreeSet;

use futures::StreamExt;
use tallyd::live::{LiveError, Question, Source, Told};

use super::{Scene, id};
use crate::support::{PrivateMysql, Redis, Rig};

async fn number(scene: &Scene, query: &str) -> i64 {
    let rows = scene.sql(query).await;
    rows[0].last().unwrap().as_deref().unwrap().parse().unwrap()
}

fn told(mut answers: Vec<Result<Told, LiveError>>) -> (i64, Option<bool>) {
    let Told { count, active, source } = answers.pop().unwrap().unwrap();
    assert_eq!(source, Source::Redis);
    (count, active)
}

/// Statements of loads so far.
async fn loads(scene: &Scene) -> i64 {
    let query = "SELECT COUNT(*) FROM mysql.general_log WHERE command_type IN ('Query', 'Execute') \
                 AND argument LIKE '/* tallyd load */%'";
    number(scene, query).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_clients_of_a_cold_target_cost_one_load() {
    let Some(mysql) = PrivateMysql::start(&["--general-log=1", "--log-output=TABLE"]).await else { return };
    let redis = Redis::start().await;
    let extra = "cache.full_load_limit = 100\nredis.timeout_ms = 5000";
    let scene = Scene::of(Rig::on(&redis, &mysql.create_database("tallyd").await, extra)).await;
    scene.liked(1, 100).await;
    scene.liked(2, 300).await;
    let ask = async |target: i64| {
        let asked = (1..=200).map(|user| {
            let live = scene.live.clone();
            let question = Question { interaction: 1, target_type: 1, target: id(target), user: Some(id(user)) };
            tokio::spawn(async move { told(live.ask(&[question]).await) })
        });
        futures::future::join_all(asked).await.into_iter().map(Result::unwrap).collect::<BTreeSet<_>>()
    };
    let before = loads(&scene).await;
    assert_eq!(ask(1).await, [(100, Some(true)), (100, Some(false))].into());
    assert_eq!(loads(&scene).await - before, 3, "count rows, whether others have rows, and one page");

    // Each asks for another user of a target that is too large to be loaded whole.
    let before = loads(&scene).await;
    assert_eq!(ask(2).await, [(300, Some(true))].into());
    let statements = loads(&scene).await - before;
    assert!(statements < 60, "{statements} statements for 200 users");
}

/// `TALLYD_TEST_MADE_UP_IDS=50000` for a trial of its own.
#[tokio::test(flavor = "multi_thread")]
async fn made_up_ids_reach_mysql_once() {
    let Some(mysql) = PrivateMysql::start(&[]).await else { return };
    let redis = Redis::start().await;
    let scene = Scene::of(Rig::on(&redis, &mysql.create_database("tallyd").await, "redis.timeout_ms = 5000")).await;
    let ids: i64 = std::env::var("TALLYD_TEST_MADE_UP_IDS").map_or(3_000, |text| text.parse().unwrap());
    let asked = "SHOW GLOBAL STATUS LIKE 'Questions'";
    let look = async || {
        let before = number(&scene, asked).await;
        let looks = futures::stream::iter(1..=ids).map(|target| {
            let live = scene.live.clone();
            let user = (target % 2 == 0).then(|| id(7));
            let question = Question { interaction: 1, target_type: 1, target: id(target), user };
            async move { told(live.ask(&[question]).await) }
        });
        let answers: BTreeSet<_> = looks.buffer_unordered(64).collect().await;
        assert_eq!(answers, [(0, None), (0, Some(false))].into());
        number(&scene, asked).await - before
    };
    let (first, again) = (look().await, look().await);
    println!("{ids} ids: {first} statements, then {again}");
    assert!(first <= 2 * ids + 100, "{first} statements");
    assert!(again < 100, "{again} statements");
    let mut times = BTreeSet::new();
    for target in 1..=200 {
        times.insert(scene.redis::<i64>(&format!("PTTL cnt:1:{target}")).await / 1000);
    }
    assert!(times.len() > 10 && times.iter().all(|seconds| (0..90).contains(seconds)), "spread: {times:?}");
}
