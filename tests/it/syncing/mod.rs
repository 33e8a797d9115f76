//! A sync, as its users see it: what is in Redis before, and in both stores afterwards.

mod cost;
mod counts;
mod drift;
mod dry;
mod large;
mod newer;
mod older_layout;
mod rejected;
mod scans;
mod schema;
mod story;
mod tagged;
mod writing;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, Value};
use serde_json::Value as Json;
use sqlx::{AssertSqlSafe, Connection};
use tallyd::config::{self, Config};
use tallyd::model::{Id, Partition};
use tallyd::store::{EventClock, Store, Unloaded, WriteOp, Written};
use tallyd::sync::Context;

use crate::support::{Output, Rig};

/// The notes of a standalone set-up.
const NOTES: Partition = Partition { target_type: 1, shard: 0 };

/// No write of a test takes this long.
const PATIENCE: Duration = Duration::from_secs(30);

fn id(number: i64) -> Id {
    number.try_into().unwrap()
}

/// Sets the state of `like` of a note.
fn like(target: i64, user: i64, active: bool) -> WriteOp {
    WriteOp { interaction: 1, target: id(target), user: id(user), active }
}

fn recorded(changed: bool, count: impl Into<Option<i64>>) -> Written {
    Written::Recorded { changed, count: count.into() }
}

/// A migrated rig, a connection to its Redis, and a writer.
struct Bench {
    rig: Rig,
    connection: MultiplexedConnection,
    store: Store,
    clock: EventClock,
}

impl Deref for Bench {
    type Target = Rig;

    fn deref(&self) -> &Rig {
        &self.rig
    }
}

impl Bench {
    /// For `extra` see [`Rig::configure`].
    async fn start(extra: &str) -> Self {
        Self::of(Rig::start(extra).await).await
    }

    /// Migrates what is there.
    async fn of(rig: Rig) -> Self {
        rig.migrate().await;
        let connection = rig.redis.connect().await;
        let store = Context::new(load(&rig)).store().await.unwrap();
        Self { rig, connection, store, clock: EventClock::default() }
    }

    /// One Redis command, its words separated by spaces.
    async fn redis<T: FromRedisValue>(&self, command: &str) -> T {
        let mut words = command.split_whitespace();
        let mut request = redis::cmd(words.next().unwrap());
        request.arg(words.collect::<Vec<_>>());
        let answer: redis::RedisResult<T> = request.query_async(&mut self.connection.clone()).await;
        answer.unwrap_or_else(|e| panic!("{command}: {e}"))
    }

    /// Redis commands, one a line.
    async fn redis_all(&self, commands: &str) {
        for command in commands.lines().map(str::trim).filter(|line| !line.is_empty()) {
            self.redis::<Value>(command).await;
        }
    }

    /// Runs a Lua script without keys: the quickest way to make much data.
    async fn lua(&self, script: &str) {
        redis::cmd("EVAL").arg(script).arg(0).query_async::<()>(&mut self.connection.clone()).await.unwrap();
    }

    /// Every key with what DUMP says of it.
    async fn dump(&self) -> BTreeMap<String, Vec<u8>> {
        let mut all = BTreeMap::new();
        for key in self.redis::<Vec<String>>("KEYS *").await {
            let dump = redis::cmd("DUMP").arg(&key).query_async(&mut self.connection.clone()).await.unwrap();
            all.insert(key, dump);
        }
        all
    }

    /// Every table with all its rows.
    async fn tables(&self) -> BTreeMap<String, Vec<Vec<Option<String>>>> {
        let mut all = BTreeMap::new();
        for mut row in self.sql("SHOW TABLES").await {
            let table = row.remove(0).unwrap();
            all.insert(table.clone(), self.sql(&format!("SELECT * FROM {table}")).await);
        }
        all
    }

    async fn write(&self, ops: &[WriteOp]) -> (i64, Vec<Written>) {
        self.store.write(NOTES, ops, Unloaded::Refuse, &self.clock, PATIENCE).await.unwrap()
    }

    /// One change of a `like`, which must be recorded; its event time.
    async fn like(&self, target: i64, user: i64, active: bool) -> i64 {
        let (at_ms, written) = self.write(&[like(target, user, active)]).await;
        assert!(matches!(written[..], [Written::Recorded { .. }]), "{written:?}");
        at_ms
    }

    /// `tallyd sync --now --json` with further arguments.
    async fn try_sync(&self, args: &[&str]) -> Output {
        self.tallyd(&[&["sync", "--now", "--json"], args].concat()).await
    }

    /// The same, which must exit with 0 and say `done`.
    async fn sync(&self, args: &[&str]) -> Figures {
        let report = self.try_sync(args).await.expect_code(0).json();
        assert_eq!(report["outcome"], "done", "{report:#}");
        Figures::of(&report)
    }

    /// `type:target:interaction:user=status`, in key order.
    async fn records(&self) -> Vec<String> {
        self.column(
            "SELECT CONCAT(CONCAT_WS(':', target_type, target_id, interaction_type, user_id), '=', status) \
             FROM interaction_record ORDER BY target_type, target_id, interaction_type, user_id",
        )
        .await
    }

    /// `create_time` and `update_time` of a like of a note, Unix milliseconds.
    async fn times(&self, target: i64, user: i64) -> (i64, i64) {
        let ms = |column| format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {column}) DIV 1000");
        let (create, update) = (ms("create_time"), ms("update_time"));
        let row = format!(
            "SELECT {create}, {update} FROM interaction_record \
             WHERE target_type = 1 AND target_id = {target} AND interaction_type = 1 AND user_id = {user}"
        );
        let row = self.sql(&row).await.remove(0);
        let ms = |i: usize| row[i].as_ref().unwrap().parse().unwrap();
        (ms(0), ms(1))
    }

    /// `type:target:interaction=count`, in key order.
    async fn counts(&self) -> Vec<String> {
        self.column(
            "SELECT CONCAT(CONCAT_WS(':', target_type, target_id, interaction_type), '=', count) \
             FROM interaction_count ORDER BY target_type, target_id, interaction_type",
        )
        .await
    }

    /// `mark reason`, in order.
    async fn rejected(&self) -> Vec<String> {
        self.column("SELECT CONCAT(mark, ' ', reason) FROM sync_rejected ORDER BY mark, reason").await
    }

    /// The first column of a query.
    async fn column(&self, query: &str) -> Vec<String> {
        self.sql(query).await.into_iter().map(|mut row| row.remove(0).unwrap()).collect()
    }

    /// Asserts that no partition has a mark left, fresh or claimed or done.
    async fn expect_no_marks(&self) {
        let left: Vec<String> = self.redis::<Vec<String>>("KEYS *").await;
        let marks: Vec<_> = left.iter().filter(|key| key.contains("dirty:") || key.contains("chg:")).collect();
        assert!(marks.is_empty(), "{marks:?}");
    }
}

/// What the test configuration says, as the library reads it.
fn load(rig: &Rig) -> Config {
    config::load(Some(&rig.config())).unwrap()
}

/// Executes statements on a connection of its own, with a longer patience than a test's queries need.
async fn execute(url: &str, statements: &str) {
    let mut connection = sqlx::MySqlConnection::connect(url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statements)).execute(&mut connection).await.unwrap();
}

/// The figures of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Figures {
    targets: u64,
    changes: u64,
    rows_written: u64,
    rejected: u64,
    left: u64,
    drift: u64,
}

impl Figures {
    fn of(report: &Json) -> Self {
        let figure = |name: &str| report[name].as_u64().unwrap_or_else(|| panic!("{name} in {report:#}"));
        Self {
            targets: figure("targets"),
            changes: figure("changes"),
            rows_written: figure("rows_written"),
            rejected: figure("rejected"),
            left: figure("left"),
            drift: figure("drift"),
        }
    }
}
