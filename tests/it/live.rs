//! The live data: recording, asking, and loading from MySQL what Redis does not hold.

use std::sync::Arc;
use std::time::Duration;

use tallyd::config::Config;
use tallyd::live::{Live, Question, Source, StateOp, Told};
use tallyd::metrics::BreakerMetrics;
use tallyd::model::Id;
use tallyd::sync::{Context, Extent, Outcome, Progress, Trigger, run};
use tokio_util::sync::CancellationToken;

use crate::support::{PrivateRedis, Rig, create_database};

fn id(number: i64) -> Id {
    number.try_into().unwrap()
}

fn context(rig: &Rig) -> Arc<Context> {
    let text = std::fs::read_to_string(rig.config()).unwrap();
    Arc::new(Context::new(Config::parse(&text, [], &rig.config()).unwrap()))
}

fn like(target: i64, user: i64, active: bool) -> StateOp {
    StateOp { interaction: 1, target_type: 1, target: id(target), user: id(user), active }
}

async fn sync(context: &Context) -> tallyd::sync::RunReport {
    let stop = CancellationToken::new();
    run(context, Trigger::Command, Extent::Changed, Duration::from_secs(20), &Progress::default(), &stop).await
}

async fn redis<T: redis::FromRedisValue>(rig: &Rig, command: &[&str]) -> T {
    let mut connection = rig.redis.connect().await;
    redis::cmd(command[0]).arg(&command[1..]).query_async(&mut connection).await.unwrap()
}

/// A target with `users` active likes in MySQL, user ids from 1.
async fn liked(rig: &Rig, target: i64, users: i64) {
    for chunk in (1..=users).collect::<Vec<_>>().chunks(5000) {
        let rows = chunk.iter().map(|user| format!("(1,{target},1,{user},1,'2026-01-01','2026-01-01')"));
        let rows = rows.collect::<Vec<_>>().join(",");
        rig.sql_exec(&format!("INSERT INTO interaction_record VALUES {rows}")).await;
    }
    rig.sql_exec(&format!("INSERT INTO interaction_count VALUES (1, {target}, 1, {users}, '2026-01-01')")).await;
}

fn seen((counted, told): (bool, Told)) -> (bool, i64) {
    (counted, told.count)
}

async fn rig() -> (Rig, Arc<Context>, Live) {
    let rig = Rig::start("").await;
    rig.migrate().await;
    let context = context(&rig);
    let live = Live::new(context.clone(), BreakerMetrics::default());
    (rig, context, live)
}

async fn count(live: &Live, target: i64) -> i64 {
    let counts = live.counts(1, id(target)).await.unwrap();
    counts.0.iter().find(|(code, _)| *code == 1).unwrap().1
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_redis_before_a_full_mysql_never_counts_from_zero() {
    let (rig, context, live) = rig().await;
    liked(&rig, 10086, 1000).await;
    liked(&rig, 10087, 25_000).await;
    for (target, users) in [(10086, 1000), (10087, 25_000)] {
        let answer = live.set(like(target, 1_000_000, true)).await.unwrap();
        assert_eq!((answer.changed, answer.count), (true, Some(users + 1)));
        let again = live.set(like(target, 7, true)).await.unwrap();
        assert_eq!((again.changed, again.count), (false, Some(users + 1)), "user 7 had liked it long ago");
        assert!(live.is_active(1, 1, id(target), id(7)).await.unwrap().0);
        assert!(!live.is_active(1, 1, id(target), id(2_000_000)).await.unwrap().0);
    }
    assert_eq!(sync(&context).await.outcome, Outcome::Done);
    let counts = rig.sql("SELECT target_id, count FROM interaction_count ORDER BY target_id").await;
    let rows = rig.sql("SELECT target_id, SUM(status) FROM interaction_record GROUP BY 1 ORDER BY 1").await;
    assert_eq!(counts, rows);
    assert_eq!(counts[1][1].as_deref(), Some("25001"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_or_evicted_target_is_loaded_again_with_what_was_not_synced() {
    let (rig, context, live) = rig().await;
    liked(&rig, 5, 100).await;
    live.set(like(5, 500, true)).await.unwrap();
    live.set(like(5, 1, false)).await.unwrap();
    let _: i64 = redis(&rig, &["DEL", "cnt:1:5"]).await;
    assert_eq!(count(&live, 5).await, 100, "one more, one less");
    assert_eq!(sync(&context).await.outcome, Outcome::Done);
    let _: i64 = redis(&rig, &["DEL", "cnt:1:5", "like:1:5"]).await;
    assert_eq!(count(&live, 5).await, 100);
    assert!(!live.is_active(1, 1, id(5), id(1)).await.unwrap().0);
    assert!(live.is_active(1, 1, id(5), id(500)).await.unwrap().0);
    let active: Vec<String> = redis(&rig, &["HVALS", "like:1:5"]).await;
    assert_eq!(active.iter().filter(|state| *state == "1").count(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_likes_of_one_user_are_one_and_a_cancel_of_nothing_is_nothing() {
    let (_rig, _context, live) = rig().await;
    let cancel = live.set(like(9, 42, false)).await.unwrap();
    assert_eq!((cancel.changed, cancel.active, cancel.count), (false, false, Some(0)));
    for active in [true, false] {
        let writes = (0..50).map(|_| {
            let live = live.clone();
            tokio::spawn(async move { live.set(like(9, 42, active)).await.unwrap() })
        });
        let answers = futures::future::join_all(writes).await;
        let changed = answers.iter().filter(|answer| answer.as_ref().unwrap().changed).count();
        assert_eq!(changed, 1);
        assert_eq!(count(&live, 9).await, i64::from(active));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_does_not_exist_is_remembered_for_a_while_until_the_first_write() {
    let (rig, _context, live) = rig().await;
    assert_eq!(count(&live, 77).await, 0);
    assert!(!live.is_active(1, 1, id(77), id(1)).await.unwrap().0);
    let ttl: i64 = redis(&rig, &["PTTL", "cnt:1:77"]).await;
    assert!((50_000..=90_000).contains(&ttl), "{ttl}");
    assert_eq!(redis::<i64>(&rig, &["EXISTS", "like:1:77"]).await, 0);
    assert_eq!(live.set(like(77, 1, true)).await.unwrap().count, Some(1));
    assert_eq!(redis::<i64>(&rig, &["PTTL", "cnt:1:77"]).await, -1, "a count that somebody is in stays");
    assert_eq!(redis::<String>(&rig, &["HGET", "like:1:77", "0"]).await, "full");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_counts_once_in_a_window_and_a_lost_counter_goes_on_from_mysql() {
    let (rig, context, live) = rig().await;
    rig.sql_exec("INSERT INTO interaction_count VALUES (1, 3, 4, 76, '2026-01-01')").await;
    assert_eq!(seen(live.view(4, 1, id(3), "anna").await.unwrap()), (true, 77));
    assert_eq!(seen(live.view(4, 1, id(3), "anna").await.unwrap()), (false, 77));
    assert_eq!(seen(live.view(4, 1, id(3), "bert").await.unwrap()), (true, 78));
    assert_eq!(seen(live.view(4, 1, id(4), "anna").await.unwrap()), (true, 1), "another target");
    assert_eq!(redis::<i64>(&rig, &["PTTL", "cnt:1:4"]).await, -1);
    assert_eq!(sync(&context).await.outcome, Outcome::Done);
    let _: i64 = redis(&rig, &["DEL", "cnt:1:3"]).await;
    assert_eq!(seen(live.view(4, 1, id(3), "carl").await.unwrap()), (true, 79));
    let rows = rig.sql("SELECT count FROM interaction_count WHERE target_id = 3").await;
    assert_eq!(rows, [[Some("78".to_owned())]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_answers_in_order_and_applies_in_order() {
    let (rig, _context, live) = rig().await;
    liked(&rig, 1, 10).await;
    let ops = [like(1, 5, false), like(2, 5, true), like(1, 5, true), like(1, 5, true), like(3, 5, false)];
    let answers: Vec<_> = live.set_many(&ops).await.into_iter().map(Result::unwrap).collect();
    let told: Vec<_> = answers.iter().map(|answer| (answer.changed, answer.active, answer.count)).collect();
    assert_eq!(
        told,
        [
            (true, false, Some(9)),
            (true, true, Some(1)),
            (true, true, Some(10)),
            (false, true, Some(10)),
            (false, false, Some(0))
        ]
    );
    let question =
        |target, user: Option<i64>| Question { interaction: 1, target_type: 1, target: id(target), user: user.map(id) };
    let asked = live.ask(&[question(1, Some(5)), question(1, None), question(99, Some(5)), question(2, None)]).await;
    let asked: Vec<_> = asked.into_iter().map(Result::unwrap).collect();
    assert_eq!(
        asked.iter().map(|told| (told.count, told.active)).collect::<Vec<_>>(),
        [(10, Some(true)), (10, None), (0, Some(false)), (1, None)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_timed_out_does_not_happen_later() {
    let Some(redis) = PrivateRedis::start(&[]).await else { return };
    let db = create_database().await;
    let rig = Rig::on(&redis, &db, "redis.timeout_ms = 100");
    rig.migrate().await;
    let context = context(&rig);
    let live = Live::new(context.clone(), BreakerMetrics::default());
    assert_eq!(live.set(like(6, 1, true)).await.unwrap().count, Some(1));
    let mut connection = redis.connect().await;
    let () = redis::cmd("CLIENT").arg("PAUSE").arg(600).arg("WRITE").query_async(&mut connection).await.unwrap();
    let late = live.set(like(6, 2, true)).await.unwrap();
    assert_eq!((late.changed, late.source), (true, Source::Mysql));
    let () = redis::cmd("CLIENT").arg("UNPAUSE").query_async(&mut connection).await.unwrap();
    let state: Option<String> = redis::cmd("HGET").arg("like:1:6").arg(2).query_async(&mut connection).await.unwrap();
    assert_eq!(state, None, "the deadline had passed when it ran");
    let again = crate::support::eventually(
        Duration::from_secs(5),
        async || live.set(like(6, 2, true)).await.ok(),
        "a write that is answered again",
    )
    .await;
    assert_eq!((again.changed, again.count), (true, Some(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_a_user_is_newest_first_and_pages_without_gaps() {
    let (rig, context, live) = rig().await;
    for target in 1..=30 {
        live.set(like(target, 42, true)).await.unwrap();
    }
    live.set(like(7, 42, false)).await.unwrap();
    let before = chrono::Utc::now();
    assert_eq!(sync(&context).await.outcome, Outcome::Done);
    let times = rig.sql("SELECT COUNT(DISTINCT update_time) FROM interaction_record").await;
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = live.user_targets(id(42), 1, 4, after).await.unwrap();
        assert!(page.as_of >= before - chrono::TimeDelta::milliseconds(1), "{}", page.as_of);
        found.extend(page.targets.iter().map(|target| (target.at, target.target.get())));
        after = page.targets.last().copied();
        if !page.more {
            break;
        }
    }
    let mut targets: Vec<i64> = found.iter().map(|(_, target)| *target).collect();
    assert!(found.windows(2).all(|pair| pair[0].0 >= pair[1].0), "{found:?} of {times:?}");
    targets.sort_unstable();
    assert_eq!(targets, (1..=30).filter(|target| *target != 7).collect::<Vec<_>>());
}
