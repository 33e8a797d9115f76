//! Answers from Redis: states, counts, and counting viewers.

use std::time::{Duration, Instant};

use redis::{Pipeline, RedisResult, Value};

use super::kept::Kept;
use super::{EventClock, Store, StoreError, script};
use crate::model::Id;

/// What Redis knows of one question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// The count.
    pub count: Option<i64>,
    /// Whether the user's state is active; `None` also when no user was asked for.
    pub active: Option<bool>,
}

/// What became of a viewer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Viewed {
    /// Whether it was counted, and the count.
    Seen(bool, i64),
    /// Nothing was done: the target must be loaded first.
    NotLoaded,
    /// Nothing was done: the deadline had passed, in Redis' time, when the script ran.
    Expired,
}

impl Store {
    /// Asks for counts and states, each as (interaction, target type, target, user). Answered in order; an error of
    /// one (a key of a wrong type) is its own.
    pub async fn ask(
        &self,
        questions: &[(u16, u16, Id, Option<Id>)],
    ) -> Result<Vec<Result<Known, String>>, StoreError> {
        let mut pipe = Pipeline::with_capacity(2 * questions.len());
        pipe.ignore_errors();
        for &(interaction, target_type, target, user) in questions {
            let name = self.name(interaction);
            pipe.cmd("HGET").arg(self.keys.count(target_type, target)).arg(name);
            if let Some(user) = user {
                pipe.cmd("HMGET").arg(self.keys.state(name, target_type, target)).arg(0).arg(user.get());
            }
        }
        if questions.is_empty() {
            return Ok(vec![]);
        }
        let mut connection = self.connection.clone();
        let answers: RedisResult<Vec<RedisResult<Value>>> = pipe.query_async(&mut connection).await;
        let mut answers = answers.map_err(self.failed("the question"))?.into_iter();
        let known = |user: Option<Id>, answers: &mut std::vec::IntoIter<RedisResult<Value>>| {
            let count: Result<Option<String>, String> = take(answers.next());
            let state: Result<[Option<Vec<u8>>; 2], String> =
                if user.is_some() { take(answers.next()) } else { Ok([None, None]) };
            let count: Option<i64> = count?.and_then(|text| text.parse().ok());
            let [kept, state] = state?;
            let active = match (state.as_deref(), Kept::of(kept.as_deref())) {
                (Some(state), _) => Some(state == b"1"),
                (None, Kept::Full) => Some(false),
                // Nobody is active where the count says so.
                (None, _) => (count == Some(0)).then_some(false),
            };
            Ok(Known { count, active: active.filter(|_| user.is_some()) })
        };
        Ok(questions.iter().map(|&(_, _, _, user)| known(user, &mut answers)).collect())
    }

    /// Counts a viewer, at most once in `window`, within `patience`.
    pub async fn view(
        &self,
        (interaction, target_type, target): (u16, u16, Id),
        viewer: &str,
        window: Duration,
        clock: &EventClock,
        patience: Duration,
    ) -> Result<Viewed, StoreError> {
        let partition = self.keys.partition(target_type, target);
        let name = self.name(interaction);
        let (deadline, floor) = self.times(clock, patience).await?;
        let mut invocation = script::VIEW.key(self.keys.dirty(partition));
        invocation
            .key(self.keys.changes(partition))
            .key(self.keys.count(target_type, target))
            .key(self.keys.viewer_lock(name, target_type, target, viewer))
            .arg(deadline)
            .arg(floor)
            .arg(name)
            .arg(target.get())
            .arg(u64::try_from(window.as_millis()).unwrap_or(u64::MAX).max(1));
        let mut connection = self.connection.clone();
        let sent = Instant::now();
        let answer: RedisResult<(i64, i64, String, String)> = script::invoke(&invocation, &mut connection).await;
        let (redis_ms, event_ms, word, count) = answer.map_err(self.failed("the view script"))?;
        clock.saw(redis_ms, event_ms, sent);
        Ok(match word.as_str() {
            "not_loaded" => Viewed::NotLoaded,
            "expired" => Viewed::Expired,
            _ => Viewed::Seen(word == "counted", count.parse().unwrap_or_default()),
        })
    }

    /// Whether the server takes writes: not as a replica, nor when it is out of memory or cannot save.
    pub async fn try_write(&self) -> Result<(), StoreError> {
        let mut connection = self.connection.clone();
        let answer =
            redis::cmd("SET").arg(self.keys.probe()).arg(1).arg("PX").arg(1000).query_async(&mut connection).await;
        answer.map_err(self.failed("a write"))
    }

    /// Whether the server answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let mut connection = self.connection.clone();
        redis::cmd("PING").query_async(&mut connection).await.map_err(self.failed("PING"))
    }
}

fn take<T: redis::FromRedisValue>(answer: Option<RedisResult<Value>>) -> Result<T, String> {
    let value = answer.unwrap_or(Ok(Value::Nil)).map_err(|error| error.to_string())?;
    redis::from_redis_value(value).map_err(|error| error.to_string())
}
