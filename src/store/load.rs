//! Loading a target: its rows from MySQL are merged into Redis, page by page, under the loader's lock.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{RedisResult, ScriptInvocation};

use super::read::HashPage;
use super::{Store, StoreError, script};
use crate::model::{Id, Partition};

/// How long the lock holds; every page prolongs it.
const LOCK: Duration = Duration::from_secs(10);
/// The largest hash that is counted in the last script itself.
const COUNT_HERE: usize = 10_000;
/// Fields asked for in one HSCAN.
const PAGE: usize = 1000;

/// What a caller who wants to load finds.
#[derive(Debug)]
pub enum Loading {
    /// All is known already.
    Loaded,
    /// Somebody else is at it: ask again soon.
    Wait,
    /// The caller is the loader.
    Yours(Box<Loader>),
}

/// The right to load one target.
pub struct Loader {
    store: Store,
    partition: Partition,
    target: Id,
    token: String,
    checkpoint: String,
    clean: String,
    /// Rows merged, by interaction.
    merged: BTreeMap<u16, usize>,
}

impl std::fmt::Debug for Loader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader")
            .field("partition", &self.partition)
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

/// Whether the loader may go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Merged {
    /// It is merged.
    Yes,
    /// Something came between: start over.
    Again,
}

impl Store {
    fn stateful(&self) -> impl Iterator<Item = &str> {
        self.vocabulary.interactions.iter().filter(|i| i.has_states()).map(|i| i.name.as_str())
    }

    fn counters(&self) -> impl Iterator<Item = &str> {
        self.vocabulary.interactions.iter().filter(|i| !i.has_states()).map(|i| i.name.as_str())
    }

    /// Asks for the loader's lock of a target, unless its counts are known and, if `complete`, its hashes hold
    /// everybody.
    pub async fn begin_load(&self, target_type: u16, target: Id, complete: bool) -> Result<Loading, StoreError> {
        let keys = self.keys;
        let partition = keys.partition(target_type, target);
        let token = uuid::Uuid::new_v4().simple().to_string();
        let mut invocation = script::LOAD_BEGIN.key(keys.checkpoint(partition));
        invocation
            .key(keys.restoring(partition))
            .key(keys.dirty(partition))
            .key(keys.dirty_inflight(partition))
            .key(keys.done(partition))
            .key(keys.load_lock(target_type, target))
            .key(keys.count(target_type, target))
            .arg(&token)
            .arg(millis(LOCK))
            .arg(target.get())
            .arg(i32::from(complete))
            .arg(self.stateful().count());
        for name in self.stateful() {
            invocation.key(keys.state(name, target_type, target)).arg(name);
        }
        for name in self.counters() {
            invocation.arg(name);
        }
        let mut connection = self.connection.clone();
        let answer: RedisResult<Vec<String>> = script::invoke(&invocation, &mut connection).await;
        let mut words = answer.map_err(self.failed("the beginning of a load"))?.into_iter();
        Ok(match (words.next().as_deref(), words.next(), words.next()) {
            (Some("loaded"), ..) => Loading::Loaded,
            (Some("locked"), Some(checkpoint), Some(clean)) => Loading::Yours(Box::new(Loader {
                store: self.clone(),
                partition,
                target,
                token,
                checkpoint,
                clean,
                merged: BTreeMap::new(),
            })),
            _ => Loading::Wait,
        })
    }
}

impl Loader {
    fn guarded<'s>(&self, script: &'s redis::Script) -> ScriptInvocation<'s> {
        let keys = self.store.keys;
        let mut invocation = script.key(keys.checkpoint(self.partition));
        invocation
            .key(keys.restoring(self.partition))
            .key(keys.load_lock(self.partition.target_type, self.target))
            .arg(&self.token)
            .arg(millis(LOCK))
            .arg(&self.checkpoint)
            .arg(&self.clean);
        invocation
    }

    async fn invoke(&self, invocation: &ScriptInvocation<'_>) -> Result<String, StoreError> {
        let mut connection = self.store.connection.clone();
        let answer: RedisResult<String> = script::invoke(invocation, &mut connection).await;
        answer.map_err(self.store.failed("the merge of a load"))
    }

    /// Gives up, so that the next one need not wait for the lock to run out.
    pub async fn release(&self) -> Result<(), StoreError> {
        let lock = self.store.keys.load_lock(self.partition.target_type, self.target);
        let mut connection = self.store.connection.clone();
        let mut invocation = script::LOAD_RELEASE.key(lock);
        invocation.arg(&self.token);
        let answer = script::invoke(&invocation, &mut connection).await;
        answer.map_err(self.store.failed("the release of a load"))
    }

    /// Merges rows of one interaction, a thousand or so at a time.
    pub async fn merge(&mut self, interaction: u16, rows: &[(Id, bool)]) -> Result<Merged, StoreError> {
        let keys = self.store.keys;
        let name = self.store.name(interaction);
        let mut invocation = self.guarded(&script::LOAD_PAGE);
        invocation
            .key(keys.state(name, self.partition.target_type, self.target))
            .key(keys.changes(self.partition))
            .key(keys.changes_inflight(self.partition))
            .arg(format!("{name}:{}:", self.target));
        for (user, active) in rows {
            invocation.arg(user.get()).arg(i32::from(*active));
        }
        if self.invoke(&invocation).await? != "ok" {
            return Ok(Merged::Again);
        }
        *self.merged.entry(interaction).or_default() += rows.len();
        Ok(Merged::Yes)
    }

    /// Ends the load after every row is merged: sets counts (those of counters to `counters`, by code, if larger) and
    /// completeness. With `remember`, a target of which there is nothing is remembered as empty for so long instead.
    pub async fn end(&self, counters: &[(u16, i64)], remember: Option<Duration>) -> Result<Merged, StoreError> {
        match self.try_end(counters, remember, false).await?.as_str() {
            "count" => {
                let answer = self.try_end(counters, remember, true).await?;
                Ok(if answer == "ok" { Merged::Yes } else { Merged::Again })
            }
            "ok" => Ok(Merged::Yes),
            _ => Ok(Merged::Again),
        }
    }

    async fn try_end(
        &self,
        counters: &[(u16, i64)],
        remember: Option<Duration>,
        count: bool,
    ) -> Result<String, StoreError> {
        let (keys, target_type) = (self.store.keys, self.partition.target_type);
        let mut invocation = self.guarded(&script::LOAD_END);
        invocation
            .key(keys.count(target_type, self.target))
            .arg(millis(remember.unwrap_or_default()))
            .arg(COUNT_HERE)
            .arg(self.store.stateful().count());
        for name in self.store.stateful() {
            let states = keys.state(name, target_type, self.target);
            let active = if count { self.count_active(&states).await? } else { -1 };
            let code = self.store.vocabulary.interaction(name).map(|i| i.code).unwrap_or_default();
            let rows = self.merged.get(&code).copied().unwrap_or_default();
            invocation.key(states).arg(name).arg(active).arg(rows);
        }
        for name in self.store.counters() {
            let code = self.store.vocabulary.interaction(name).map(|i| i.code);
            let row = counters.iter().find(|(counter, _)| Some(*counter) == code).map_or(0, |(_, count)| *count);
            invocation.arg(name).arg(row);
        }
        self.invoke(&invocation).await
    }

    /// How many states of a large hash are active. Nobody writes to it while it has no count.
    async fn count_active(&self, states: &str) -> Result<i64, StoreError> {
        let mut connection = self.store.connection.clone();
        let mut active = std::collections::HashSet::new();
        let mut cursor = 0;
        loop {
            let (next, fields): HashPage = redis::cmd("HSCAN")
                .arg(states)
                .arg(cursor)
                .arg("COUNT")
                .arg(PAGE)
                .query_async(&mut connection)
                .await
                .map_err(self.store.failed("HSCAN of a loaded hash"))?;
            active.extend(fields.into_iter().filter(|(_, state)| state == b"1").map(|(user, _)| user));
            cursor = next;
            if cursor == 0 {
                return Ok(active.len().try_into().unwrap_or(i64::MAX));
            }
        }
    }
}

fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}
