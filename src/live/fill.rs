//! What one load reads from MySQL and merges into Redis.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Live;
use super::load::NotLoaded;
use crate::model::Id;
use crate::sink::{FirstLook, Session, SinkError};
use crate::store::{Ended, Loader, Merged, StoreError, Wanted};

/// Rows read and merged at once.
const PAGE: usize = 1000;
/// How long an empty target is remembered; spread, so that a scan of made-up ids does not come back all at once.
const REMEMBER: std::ops::Range<u64> = 60_000..90_000;

/// One load under way.
struct Fill<'l> {
    live: &'l Live,
    /// The number of the connection to Redis.
    number: u64,
    loader: &'l mut Loader,
    session: &'l mut Session,
    target: (u16, Id),
    wanted: &'l Wanted,
    look: FirstLook,
    /// Whether the journal has writes of the target.
    journaled: bool,
}

impl Live {
    /// Does what the lock in `loader` is for.
    pub(super) async fn fill(
        &self,
        number: u64,
        loader: &mut Loader,
        target: (u16, Id),
        wanted: &Wanted,
    ) -> Result<Ended, NotLoaded> {
        let mut borrowed = self.sessions.borrow().await.map_err(|error| self.loading.failed(&error))?;
        let (session, look) = (&mut borrowed.session, FirstLook::default());
        let filled = Fill { live: self, number, loader, session, target, wanted, look, journaled: false }.run().await;
        borrowed.give_back();
        filled
    }
}

impl Fill<'_> {
    async fn run(&mut self) -> Result<Ended, NotLoaded> {
        let stateful = self.live.context.vocabulary.interactions.iter().filter(|i| i.has_states());
        let mut open: Vec<u16> = stateful.map(|i| i.code).filter(|&code| !self.loader.is_full(code)).collect();
        let asked: BTreeSet<u16> = self.wanted.states.union(&self.wanted.writes).map(|(code, _)| *code).collect();
        open.retain(|code| asked.contains(code) || !self.loader.leave(*code));
        let look = self.session.first_look(self.target.0, self.target.1, open.clone()).await;
        self.look = look.map_err(|error| self.away(&error))?;
        for &interaction in &open {
            let whole = self.is_small(interaction);
            let merged = if whole { self.all_rows(interaction).await? } else { self.users(interaction).await? };
            if merged == Merged::Again {
                return Ok(Ended::Again);
            }
        }
        let ended = self.loader.end(&self.look.counts, !self.journaled, self.remember()).await;
        ended.map_err(|error| self.redis(&error))
    }

    /// Whether all rows of an interaction are loaded.
    fn is_small(&self, interaction: u16) -> bool {
        let limit = i64::try_from(self.live.context.settings.now().cache.full_load_limit).unwrap_or(i64::MAX);
        self.look.with_rows.is_some() && self.count(interaction) <= limit
    }

    fn count(&self, interaction: u16) -> i64 {
        self.look.counts.get(&interaction).copied().unwrap_or_default()
    }

    /// How long the target is remembered if there is nothing of it. A write is about to change that.
    fn remember(&self) -> Option<Duration> {
        let reading = self.wanted.writes.is_empty() && !self.wanted.whole;
        reading.then(|| Duration::from_millis(rand::random_range(REMEMBER)))
    }

    async fn all_rows(&mut self, interaction: u16) -> Result<Merged, NotLoaded> {
        if !self.look.with_rows.as_ref().is_some_and(|with_rows| with_rows.contains(&interaction)) {
            return Ok(Merged::Yes);
        }
        let (target_type, target) = self.target;
        let mut after = 0;
        loop {
            let limit = u32::try_from(PAGE).unwrap_or_default();
            let rows = self.session.record_page((target_type, target, interaction), after, limit).await;
            let rows = rows.map_err(|error| self.away(&error))?;
            let Some(&(last, _)) = rows.last() else { return Ok(Merged::Yes) };
            let merged = self.loader.merge(interaction, &rows).await.map_err(|error| self.redis(&error))?;
            if merged == Merged::Again || rows.len() < PAGE {
                return Ok(merged);
            }
            after = last.get();
        }
    }

    /// The rows of those users whose states are wanted; who has none was never active.
    async fn users(&mut self, interaction: u16) -> Result<Merged, NotLoaded> {
        self.loader.by_users(interaction);
        let wanted = self.wanted.states.union(&self.wanted.writes);
        let users: BTreeSet<Id> = wanted.filter(|(code, _)| *code == interaction).map(|(_, user)| *user).collect();
        let (target_type, target) = self.target;
        let users: Vec<Id> = users.into_iter().collect();
        for users in users.chunks(PAGE) {
            let rows = self.session.records_of((target_type, target, interaction), users).await;
            let rows: BTreeMap<Id, bool> = rows.map_err(|error| self.away(&error))?.into_iter().collect();
            self.ask_journal().await?;
            let states: Vec<(Id, bool)> =
                users.iter().map(|user| (*user, rows.get(user).copied().unwrap_or_default())).collect();
            let nobody = rows.is_empty() && self.count(interaction) == 0 && self.remember().is_some();
            let merged = if nobody {
                self.loader.merge_nobody(interaction, &states).await
            } else {
                self.loader.merge_users(interaction, &states, self.journaled).await
            };
            if merged.map_err(|error| self.redis(&error))? == Merged::Again {
                return Ok(Merged::Again);
            }
        }
        if users.is_empty() && !self.loader.is_counted(interaction) {
            self.ask_journal().await?;
        }
        Ok(Merged::Yes)
    }

    /// Asked after rows were read: what is replayed by now is in them, and in Redis, or has moved the checkpoint.
    async fn ask_journal(&mut self) -> Result<(), NotLoaded> {
        if !self.journaled {
            let journaled = self.session.is_journaled(self.target.0, self.target.1).await;
            self.journaled = journaled.map_err(|error| self.away(&error))?;
        }
        Ok(())
    }

    fn away(&self, error: &SinkError) -> NotLoaded {
        self.live.loading.failed(error)
    }

    fn redis(&self, error: &StoreError) -> NotLoaded {
        self.live.not_loaded(self.number, error)
    }
}
