//! Loading a target: what MySQL holds of it is merged into Redis, piece by piece, under the loader's lock.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{RedisResult, ScriptInvocation};

use super::kept::Kept;
use super::{Store, StoreError, Wanted, script};
use crate::model::{Id, Partition};

/// How long the lock holds; every piece prolongs it.
const LOCK: Duration = Duration::from_secs(10);

/// What a caller who wants to load finds.
#[derive(Debug)]
pub enum Loading {
    /// All that is wanted is known already.
    Loaded,
    /// Somebody else is at it: ask again soon.
    Wait(Busy),
    /// The caller is the loader.
    Yours(Box<Loader>),
}

/// Why nobody may load just now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Busy {
    /// Somebody else is loading the target.
    Lock,
    /// A run has it in hand.
    Run,
    /// Its partition is being restored.
    Restore,
}

/// The right to load one target.
pub struct Loader {
    pub(super) store: Store,
    pub(super) partition: Partition,
    pub(super) target: Id,
    token: String,
    checkpoint: String,
    clean: String,
    /// How each interaction with states is loaded.
    pub(super) how: BTreeMap<u16, How>,
    /// What the hashes say that are not full and whose counts are known.
    counted: BTreeMap<u16, Kept>,
}

/// How an interaction is loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum How {
    /// Its hash is full already.
    Kept,
    /// Not at all.
    Left,
    /// By all its rows; so many are merged.
    Whole(usize),
    /// By the rows of single users.
    Users,
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
    /// The codes of interactions with states, in configured order.
    pub(super) fn stateful(&self) -> impl Iterator<Item = u16> {
        self.vocabulary.interactions.iter().filter(|i| i.has_states()).map(|i| i.code)
    }

    /// The codes of counters, in configured order.
    pub(super) fn counters(&self) -> impl Iterator<Item = u16> {
        self.vocabulary.interactions.iter().filter(|i| !i.has_states()).map(|i| i.code)
    }

    /// Asks for the loader's lock of a target, unless all that is wanted of it is known.
    pub async fn begin_load(&self, target_type: u16, target: Id, wanted: &Wanted) -> Result<Loading, StoreError> {
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
            .arg(self.stateful().count());
        for code in self.stateful() {
            invocation.key(keys.state(self.name(code), target_type, target)).arg(self.name(code));
        }
        self.want(wanted, &mut invocation);
        let mut connection = self.connection.clone();
        let answer: RedisResult<Vec<String>> = script::invoke(&invocation, &mut connection).await;
        let mut words = answer.map_err(self.failed("the beginning of a load"))?.into_iter();
        Ok(match (words.next().as_deref(), words.next(), words.next()) {
            (Some("loaded"), ..) => Loading::Loaded,
            (Some("locked"), Some(checkpoint), Some(clean)) => {
                let (mut how, mut counted) = (BTreeMap::new(), BTreeMap::new());
                for code in self.stateful() {
                    let (kept, known) = (words.next().unwrap_or_default(), words.next());
                    match Kept::of(Some(kept.as_bytes())) {
                        Kept::Full => drop(how.insert(code, How::Kept)),
                        kept if known.as_deref() == Some("1") => drop(counted.insert(code, kept)),
                        _ => {}
                    }
                }
                let store = self.clone();
                Loading::Yours(Box::new(Loader { store, partition, target, token, checkpoint, clean, how, counted }))
            }
            (_, Some(why), _) if why == "run" => Loading::Wait(Busy::Run),
            (_, Some(why), _) if why == "restore" => Loading::Wait(Busy::Restore),
            _ => Loading::Wait(Busy::Lock),
        })
    }

    fn want(&self, wanted: &Wanted, invocation: &mut ScriptInvocation<'_>) {
        let all = self.vocabulary.interactions.iter().map(|i| i.code).filter(|_| wanted.whole);
        for code in wanted.counts.iter().copied().chain(all) {
            invocation.arg("count").arg(self.name(code)).arg("");
        }
        for (number, code) in (1..).zip(self.stateful()) {
            if wanted.whole {
                invocation.arg("hash").arg(number).arg("");
            }
            for (word, pairs) in [("state", &wanted.states), ("write", &wanted.writes)] {
                for (_, user) in pairs.iter().filter(|(interaction, _)| *interaction == code) {
                    invocation.arg(word).arg(number).arg(user.get());
                }
            }
        }
    }
}

impl Loader {
    pub(super) fn guarded<'s>(&self, script: &'s redis::Script) -> ScriptInvocation<'s> {
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

    pub(super) async fn invoke(&self, invocation: &ScriptInvocation<'_>) -> Result<Vec<String>, StoreError> {
        let mut connection = self.store.connection.clone();
        let answer: RedisResult<Vec<String>> = script::invoke(invocation, &mut connection).await;
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

    /// Whether the hash of an interaction holds everybody, so that its rows are not needed.
    #[must_use]
    pub fn is_full(&self, interaction: u16) -> bool {
        self.how.get(&interaction) == Some(&How::Kept)
    }

    /// Whether the count of a partial hash is known, so that its row is not needed.
    #[must_use]
    pub fn is_counted(&self, interaction: u16) -> bool {
        self.counted.get(&interaction) == Some(&Kept::Partial)
    }

    /// Leaves an interaction as it is, if it has a hash and a count: what nobody asks for may be another program's.
    /// Whether it has.
    pub fn leave(&mut self, interaction: u16) -> bool {
        let known = self.counted.contains_key(&interaction);
        if known {
            self.how.insert(interaction, How::Left);
        }
        known
    }

    /// Says that an interaction is loaded by the rows of single users. Else it is by all of them.
    pub fn by_users(&mut self, interaction: u16) {
        self.how.insert(interaction, How::Users);
    }

    /// Merges rows of one interaction that is loaded by all of them in turn, a thousand or so at a time.
    pub async fn merge(&mut self, interaction: u16, rows: &[(Id, bool)]) -> Result<Merged, StoreError> {
        let (merged, states) = (self.merge_into(&script::LOAD_PAGE, interaction), states(rows));
        let outcome = self.send(merged, states).await?;
        if let (Merged::Yes, How::Whole(before)) =
            (outcome, self.how.get(&interaction).copied().unwrap_or(How::Whole(0)))
        {
            self.how.insert(interaction, How::Whole(before + rows.len()));
        }
        Ok(outcome)
    }

    /// Merges the states of users of an interaction that is loaded by users, whether they have a row or not. `journaled`:
    /// the journal, asked after these rows were read, has writes of the target; they may be in the rows and not in the
    /// count that Redis knows.
    pub async fn merge_users(
        &mut self,
        interaction: u16,
        users: &[(Id, bool)],
        journaled: bool,
    ) -> Result<Merged, StoreError> {
        self.merge_each(interaction, users, false, journaled).await
    }

    /// As [`Loader::merge_users`], for users of whom none has a row while the count row is 0: what is not there is not
    /// made.
    pub async fn merge_nobody(&mut self, interaction: u16, users: &[(Id, bool)]) -> Result<Merged, StoreError> {
        self.merge_each(interaction, users, true, false).await
    }

    async fn merge_each(
        &mut self,
        interaction: u16,
        users: &[(Id, bool)],
        spare: bool,
        journaled: bool,
    ) -> Result<Merged, StoreError> {
        let mut invocation = self.merge_into(&script::LOAD_USERS, interaction);
        invocation
            .key(self.store.keys.count(self.partition.target_type, self.target))
            .arg(self.store.name(interaction))
            .arg(i32::from(spare))
            .arg(i32::from(journaled));
        self.send(invocation, states(users)).await
    }

    fn merge_into<'s>(&self, script: &'s redis::Script, interaction: u16) -> ScriptInvocation<'s> {
        let keys = self.store.keys;
        let name = self.store.name(interaction);
        let mut invocation = self.guarded(script);
        invocation
            .key(keys.state(name, self.partition.target_type, self.target))
            .key(keys.changes(self.partition))
            .key(keys.changes_inflight(self.partition))
            .arg(format!("{name}:{}:", self.target));
        invocation
    }

    async fn send(
        &self,
        mut invocation: ScriptInvocation<'_>,
        states: impl Iterator<Item = (i64, i32)>,
    ) -> Result<Merged, StoreError> {
        for (user, state) in states {
            invocation.arg(user).arg(state);
        }
        Ok(if self.invoke(&invocation).await? == ["ok"] { Merged::Yes } else { Merged::Again })
    }
}

fn states(rows: &[(Id, bool)]) -> impl Iterator<Item = (i64, i32)> {
    rows.iter().map(|(user, active)| (user.get(), i32::from(*active)))
}

pub(super) fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}
