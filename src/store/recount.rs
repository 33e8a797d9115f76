//! Going through a state hash of any size, page by page, and counting it while writers change it.

use redis::RedisResult;

use super::inspect::{states, take};
use super::read::HashPage;
use super::{Holder, StoreError, script};
use crate::model::Id;

/// Fields asked for in one page: about a millisecond of Redis.
const PAGE: usize = 1000;
/// For how long writers save states after the last page that was asked for.
const SAVED_MS: u64 = 600_000;

/// One page of a state hash.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatePage {
    /// Where to go on; `0` at the end.
    pub cursor: u64,
    /// Users and whether their state is active; what a scan repeats may come again.
    pub states: Vec<(Id, bool)>,
    /// Those of them who were active when the recount began; empty outside of one.
    pub then_active: Vec<Id>,
    /// Whether nothing of the target is marked.
    pub settled: bool,
}

impl Holder {
    /// Begins a recount; the count, or `None` where there is nothing to be counted.
    pub async fn begin_recount(&mut self, target: Id, interaction: u16) -> Result<Option<i64>, StoreError> {
        let mut invocation = self.fenced(&script::RECOUNT_BEGIN);
        self.recounted(&mut invocation, target, interaction).arg(SAVED_MS);
        let count: String = self.invoke("the beginning of a recount", &invocation).await?;
        Ok(count.parse().ok())
    }

    /// Ends a recount, and adds `lacking` to the count. Answers the count as it was before; `None` when nothing was
    /// measured, for the hash was evicted, loaded or emptied meanwhile.
    pub async fn end_recount(&mut self, target: Id, interaction: u16, lacking: i64) -> Result<Option<i64>, StoreError> {
        let mut invocation = self.fenced(&script::RECOUNT_END);
        self.recounted(&mut invocation, target, interaction).arg(lacking);
        let count: String = self.invoke("the end of a recount", &invocation).await?;
        Ok(count.parse().ok())
    }

    /// Reads a page of a hash and steps the checkpoint, in one MULTI; in a recount, what users on it had then. `None` where a
    /// field is no state.
    pub async fn state_page(
        &mut self,
        target: Id,
        interaction: u16,
        cursor: u64,
        recount: bool,
    ) -> Result<Option<StatePage>, StoreError> {
        let (keys, partition) = (self.store.keys, self.partition);
        let name = self.store.name(interaction);
        let saved = keys.saved_states(name, partition.target_type, target);
        let mut pipe = self.stepping_pipe();
        let state = keys.state(name, partition.target_type, target);
        pipe.cmd("HSCAN").arg(state).arg(cursor).arg("COUNT").arg(PAGE);
        for set in [keys.dirty(partition), keys.dirty_inflight(partition), keys.done(partition)] {
            pipe.cmd("SISMEMBER").arg(set).arg(target.get());
        }
        if recount {
            pipe.cmd("PEXPIRE").arg(&saved).arg(SAVED_MS);
        }
        let mut answers = self.step_and_read(&pipe).await?.into_iter();
        let page: RedisResult<HashPage> = take(answers.next());
        let (cursor, fields) = page.map_err(self.store.failed("HSCAN of the states"))?;
        let mut settled = true;
        for _ in 0..3 {
            let marked: RedisResult<bool> = take(answers.next());
            settled &= !marked.map_err(self.store.failed("SISMEMBER of the dirty sets"))?;
        }
        let Some(states) = states(&fields) else { return Ok(None) };
        let mut then_active = Vec::new();
        if recount && !states.is_empty() {
            // A state that is not saved by now had not flipped when the page was read.
            let mut command = redis::cmd("HMGET");
            command.arg(&saved);
            for (user, _) in &states {
                command.arg(user.get());
            }
            let mut connection = self.store.connection.clone();
            let answer: RedisResult<Vec<Option<String>>> = command.query_async(&mut connection).await;
            let then = answer.map_err(self.store.failed("HMGET of saved states"))?;
            let was_active = states.iter().zip(then).filter(|((_, now), then)| match then {
                Some(then) => then == "1",
                None => *now,
            });
            then_active = was_active.map(|((user, _), _)| *user).collect();
        }
        Ok(Some(StatePage { cursor, states, then_active, settled }))
    }

    /// Which of some users, a thousand or so, have no field in a hash.
    pub async fn without_state(&mut self, target: Id, interaction: u16, users: &[Id]) -> Result<Vec<Id>, StoreError> {
        if users.is_empty() {
            return Ok(vec![]);
        }
        let name = self.store.name(interaction);
        let mut pipe = self.stepping_pipe();
        pipe.cmd("HMGET").arg(self.store.keys.state(name, self.partition.target_type, target));
        for user in users {
            pipe.arg(user.get());
        }
        let mut answers = self.step_and_read(&pipe).await?.into_iter();
        let held: RedisResult<Vec<Option<Vec<u8>>>> = take(answers.next());
        let held = held.map_err(self.store.failed("HMGET of the states"))?;
        Ok(users.iter().zip(held).filter(|(_, state)| state.is_none()).map(|(user, _)| *user).collect())
    }

    fn recounted<'a, 's>(
        &self,
        invocation: &'a mut redis::ScriptInvocation<'s>,
        target: Id,
        interaction: u16,
    ) -> &'a mut redis::ScriptInvocation<'s> {
        let (keys, target_type) = (self.store.keys, self.partition.target_type);
        let name = self.store.name(interaction);
        invocation
            .key(keys.state(name, target_type, target))
            .key(keys.count(target_type, target))
            .key(keys.saved_states(name, target_type, target))
            .arg(name)
    }
}
