//! What stays and what goes, field by field.

use redis::AsyncCommands;

use super::{hget, lose, redis_all, restored};
use crate::likes::{NOTES, active, assert_agreement, count_rows, marks, records, reload, same, store};
use crate::support::{Rig, sequence};

/// A time of rows, Unix milliseconds, and MySQL's word for it.
const ROW: i64 = 1_700_000_000_000;
const ROW_SQL: &str = "'2023-11-14 22:13:20'";

async fn start() -> Rig {
    // Whatever is loaded is loaded whole, to be compared.
    let rig = Rig::start("cache.full_load_limit = 100000").await;
    rig.migrate().await;
    // A first run, so that there is a checkpoint to lose.
    redis_all(&rig, "HSET like:1:99 1 1\n SADD dirty:1 99").await;
    rig.tallyd(&["sync"]).await.expect_code(0);
    rig
}

/// A stale state and the marks that came back with it: users of note 7, whose rows say 1.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_stays_only_when_it_is_newer_than_its_row() {
    let rig = start().await;
    // User, time in chg, time in chg:inflight (0 for none), and whether it stays.
    let cases: [(i64, i64, i64, bool); 9] = [
        (1, ROW + 1, 0, true),
        (2, ROW - 1, 0, false),
        (3, 0, ROW + 1, true),
        (4, 0, ROW - 1, false),
        (5, ROW - 1, ROW + 1, true),
        (6, ROW + 1, ROW - 1, true),
        (7, ROW, 0, false),
        (8, ROW - 2, ROW - 1, false),
        (9, 0, 0, false),
    ];
    redis_all(&rig, "HSET like:1:7 0 full\n HSET cnt:1:7 like 4\n SADD dirty:1 7\n SADD dirty:1:inflight 7").await;
    for (user, fresh, claimed, _) in cases {
        redis_all(&rig, &format!("HSET like:1:7 {user} 0")).await;
        rig.sql_exec(&format!("INSERT INTO interaction_record VALUES (1, 7, 1, {user}, 1, {ROW_SQL}, {ROW_SQL})"))
            .await;
        for (key, at) in [("chg:1", fresh), ("chg:1:inflight", claimed)] {
            if at > 0 {
                redis_all(&rig, &format!("HSET {key} like:7:{user} {at}")).await;
            }
        }
    }
    // Without a row a change is newer; without a state there is nothing to keep.
    redis_all(&rig, &format!("HSET like:1:7 20 1\n HSET chg:1 like:7:20 5\n HSET chg:1 like:7:21 {}", ROW + 9)).await;
    rig.sql_exec(&format!("INSERT INTO interaction_record VALUES (1, 7, 1, 21, 1, {ROW_SQL}, {ROW_SQL})")).await;
    rig.sql_exec("INSERT INTO interaction_count VALUES (1, 7, 1, 10, '2023-11-14')").await;
    let mut expected = records(&rig).await;
    expected.extend(cases.iter().filter(|case| case.3).map(|case| ((7, case.0), 0)));
    expected.insert((7, 20), 1);

    lose(&rig).await;
    let output = rig.tallyd(&["sync", "--json"]).await.expect_code(0);
    let kept = 1 + cases.iter().filter(|case| case.3).count();
    // Of note 7 those that did not stay, and the one of note 99.
    assert_eq!((&restored(&output)["kept"], &restored(&output)["dropped"]), (&kept.into(), &6.into()));
    assert_eq!((&output.json()["changes"], &output.json()["targets"]), (&kept.into(), &1.into()));
    same("what must be and record rows", &expected, &records(&rig).await);
    same("active rows and count rows", &active(&expected), &count_rows(&rig).await);
    assert_eq!((hget(&rig, "like:1:7", "0").await, hget(&rig, "cnt:1:7", "like").await), (None, None));
    let users: Vec<String> = rig.redis.connect().await.hkeys("like:1:7").await.unwrap();
    assert_eq!(users.len(), kept, "{users:?}");
    reload(&rig, [7, 99]).await;
    assert_agreement(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_takes_the_larger_value() {
    let rig = start().await;
    let now = "1764522000000";
    // Target, what Redis holds, whether it is marked, what MySQL holds; then Redis and MySQL afterwards.
    let cases = [
        (1, "50", true, Some(80), Some("80"), Some("80")),
        (2, "90", true, Some(80), Some("90"), Some("90")),
        (3, "50", false, Some(80), None, Some("80")),
        (4, "7", true, None, Some("7"), Some("7")),
        (5, "7", false, None, None, None),
    ];
    for (target, held, marked, row, ..) in cases {
        redis_all(&rig, &format!("HSET cnt:1:{target} view {held} like 3 .seen {now}\n SADD dirty:1 {target}")).await;
        if marked {
            let key = if target == 2 { "chg:1:inflight" } else { "chg:1" };
            redis_all(&rig, &format!("HSET {key} view:{target}:0 {now}")).await;
        }
        if let Some(row) = row {
            rig.sql_exec(&format!("INSERT INTO interaction_count VALUES (1, {target}, 4, {row}, {ROW_SQL})")).await;
        }
    }
    lose(&rig).await;
    rig.tallyd(&["sync"]).await.expect_code(0);
    for (target, .., redis, mysql) in cases {
        let key = format!("cnt:1:{target}");
        assert_eq!(hget(&rig, &key, "view").await.as_deref(), redis, "{target}");
        assert_eq!((hget(&rig, &key, "like").await, hget(&rig, &key, ".seen").await), (None, None), "{target}");
        let select = format!("SELECT count FROM interaction_count WHERE target_id = {target} AND interaction_type = 4");
        assert_eq!(rig.sql(&select).await.first().and_then(|row| row[0].clone()).as_deref(), mysql, "{target}");
    }
    assert_eq!(marks(&rig).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_tallyds_goes() {
    let rig = start().await;
    redis_all(
        &rig,
        "HSET other:1:5 9 1
         HSET cnt:1:5 like 3 shares 7
         HSET like:1:5 0 full 1 1 2 0
         HSET like:2:5 1 1
         SET lock:1:5 token
         SET lock:view:1:5:bob 1
         SET like:1:6 text
         SADD dirty:1 5
         HSET chg:1 dislike:5:9 1764522000000
         HSET chg:1:inflight like:5:x 1764522000000
         HSET chg:1 like:5:1 soon",
    )
    .await;
    lose(&rig).await;
    let output = rig.tallyd(&["sync", "--json"]).await.expect_code(0);
    // Nothing says of a target without a change that it must be scanned.
    assert_eq!((&output.json()["targets"], &output.json()["rejected"]), (&0.into(), &3.into()), "{}", output.stdout);
    let rejected = rig.sql("SELECT mark FROM sync_rejected ORDER BY mark").await;
    assert_eq!(
        rejected,
        [["dislike:5:9"], ["like:5:1"], ["like:5:x"]].map(|row| row.map(|m| Some(m.to_owned())).to_vec())
    );
    let mut redis = rig.redis.connect().await;
    let mut keys: Vec<String> = redis.keys("*:[12]:*").await.unwrap();
    keys.sort_unstable();
    assert_eq!(keys, ["cnt:1:5", "like:1:6", "like:2:5", "lock:view:1:5:bob", "other:1:5"]);
    assert_eq!(redis.hkeys::<_, Vec<String>>("cnt:1:5").await.unwrap(), ["shares"]);
    assert_eq!(store(&rig).await.pending(NOTES).await.unwrap(), (0, true));
}

/// Hashes that no script may go through whole, with and without a change.
#[tokio::test(flavor = "multi_thread")]
async fn large_hashes_are_gone_through_page_by_page() {
    const USERS: i64 = 12_000;
    let rig = start().await;
    let mut redis = rig.redis.connect().await;
    let fill = "for user = 1, 12000 do
                  redis.call('HSET', 'like:1:7', user, '0')
                  redis.call('HSET', 'like:1:8', user, '0')
                end";
    redis::cmd("EVAL").arg(fill).arg(0).query_async::<()>(&mut redis).await.unwrap();
    redis_all(&rig, "HSET like:1:7 0 full\n HSET like:1:8 0 full\n HSET cnt:1:7 like 0\n HSET cnt:1:8 like 0").await;
    for target in [7, 8] {
        rig.sql_exec(&format!(
            "INSERT INTO interaction_record SELECT 1, {target}, 1, seq, 1, {ROW_SQL}, {ROW_SQL} FROM {} s;
             INSERT INTO interaction_count VALUES (1, {target}, 1, {USERS}, {ROW_SQL})",
            sequence(USERS)
        ))
        .await;
    }
    let fresh: Vec<i64> = (1..=USERS).step_by(100).collect();
    for user in &fresh {
        redis_all(&rig, &format!("HSET chg:1 like:7:{user} {}", ROW + 1)).await;
    }
    redis_all(&rig, "SADD dirty:1 7 8").await;
    let mut expected = records(&rig).await;
    expected.extend(fresh.iter().map(|&user| ((7, user), 0)));
    lose(&rig).await;
    let commands = rig.redis.commands_of(async || {
        let output = rig.tallyd(&["sync", "--json"]).await.expect_code(0);
        let kept = i64::try_from(fresh.len()).unwrap();
        assert_eq!(restored(&output)["kept"], kept, "{}", output.stdout);
        assert_eq!(restored(&output)["dropped"], 2 * USERS - kept + 1, "{}", output.stdout);
    });
    let commands = commands.await;
    let longest = commands.iter().map(|command| command.words.len()).max().unwrap();
    assert!(longest < 3000, "no command has {longest} words");
    same("what must be and record rows", &expected, &records(&rig).await);
    same("active rows and count rows", &active(&expected), &count_rows(&rig).await);
    assert_eq!(redis.hlen::<_, usize>("like:1:7").await.unwrap(), fresh.len());
    assert!(!redis.exists::<_, bool>("like:1:8").await.unwrap());
    reload(&rig, [7, 8, 99]).await;
    assert_agreement(&rig).await;
}
