//! Targets that Redis does not hold, or not whole: loading, accepting, warming, unloading.

mod accept;
mod lookups;
mod older;
mod partial;
mod unload;
mod warm;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use redis::FromRedisValue;
use tallyd::config::Config;
use tallyd::live::{Answer, Live, LiveError, Question, Source, StateOp, Told};
use tallyd::metrics::BreakerMetrics;
use tallyd::model::Id;
use tallyd::sync::{Context, Extent, Outcome, Progress, Trigger, run};
use tokio_util::sync::CancellationToken;

use crate::support::Rig;

fn id(number: i64) -> Id {
    number.try_into().unwrap()
}

/// A migrated rig, and the live data on it in this process.
struct Scene {
    rig: Rig,
    context: Arc<Context>,
    live: Live,
}

impl Deref for Scene {
    type Target = Rig;

    fn deref(&self) -> &Rig {
        &self.rig
    }
}

impl Scene {
    /// For `extra` see [`Rig::configure`].
    async fn start(extra: &str) -> Self {
        Self::of(Rig::start(extra).await).await
    }

    async fn of(rig: Rig) -> Self {
        rig.migrate().await;
        let text = std::fs::read_to_string(rig.config()).unwrap();
        let context = Arc::new(Context::new(Config::parse(&text, [], &rig.config()).unwrap()));
        Self { live: Live::new(context.clone(), BreakerMetrics::default()), rig, context }
    }

    /// One Redis command, its words separated by spaces.
    async fn redis<T: FromRedisValue>(&self, command: &str) -> T {
        let mut words = command.split_whitespace();
        let mut request = redis::cmd(words.next().unwrap());
        request.arg(words.collect::<Vec<_>>());
        request.query_async(&mut self.rig.redis.connect().await).await.unwrap_or_else(|e| panic!("{command}: {e}"))
    }

    /// A note with active likes of users 1 to `users` in MySQL.
    async fn liked(&self, target: i64, users: i64) {
        let rows = (1..=users).map(|user| format!("(1,{target},1,{user},1,'2026-01-01','2026-01-01')"));
        let rows = rows.collect::<Vec<_>>().join(",");
        self.sql_exec(&format!(
            "INSERT INTO interaction_record
               (target_type, target_id, interaction_type, user_id, status, create_time, update_time) VALUES {rows};
             INSERT INTO interaction_count (target_type, target_id, interaction_type, count, update_time)
               VALUES (1, {target}, 1, {users}, '2026-01-01')"
        ))
        .await;
    }

    async fn set(&self, target: i64, user: i64, active: bool) -> Answer {
        let op = StateOp { interaction: 1, target_type: 1, target: id(target), user: id(user), active };
        self.live.set(op).await.unwrap()
    }

    async fn ask(&self, target: i64, user: Option<i64>) -> Result<Told, LiveError> {
        let question = Question { interaction: 1, target_type: 1, target: id(target), user: user.map(id) };
        self.live.ask(&[question]).await.pop().unwrap()
    }

    /// The count as Redis knows it; else what was told instead.
    async fn try_count(&self, target: i64) -> Result<i64, String> {
        match self.ask(target, None).await {
            Ok(Told { count, source: Source::Redis, .. }) => Ok(count),
            Ok(Told { count, source: Source::Mysql, .. }) => Err(format!("MySQL says {count}")),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn count(&self, target: i64) -> i64 {
        self.try_count(target).await.unwrap()
    }

    async fn is_active(&self, target: i64, user: i64) -> bool {
        self.live.is_active(1, 1, id(target), id(user)).await.unwrap().0
    }

    async fn sync(&self) {
        let (stop, progress) = (CancellationToken::new(), Progress::default());
        let wait = Duration::from_secs(20);
        let report = run(&self.context, Trigger::Command, Extent::Changed, wait, &progress, &stop).await;
        assert_eq!(report.outcome, Outcome::Done, "{report:?}");
    }

    /// The likes of a note: count row, and active rows.
    async fn durable(&self, target: i64) -> (i64, i64) {
        let number = |rows: Vec<Vec<Option<String>>>| {
            rows.first().and_then(|row| row[0].as_deref()?.parse().ok()).unwrap_or_default()
        };
        let of = format!("WHERE target_type = 1 AND target_id = {target} AND interaction_type = 1");
        let count = self.sql(&format!("SELECT count FROM interaction_count {of}")).await;
        let active = self.sql(&format!("SELECT COUNT(*) FROM interaction_record {of} AND status = 1")).await;
        (number(count), number(active))
    }
}
