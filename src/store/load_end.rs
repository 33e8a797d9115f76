//! The end of a load: counts, and what the hashes say of themselves.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use super::load::{How, millis};
use super::read::HashPage;
use super::{Loader, StoreError, Wanted, script};

/// The largest hash that is counted in the last script itself.
const COUNT_HERE: usize = 10_000;
/// Fields asked for in one HSCAN.
const PAGE: usize = 1000;

/// How a load ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ended {
    /// It is loaded, but for the counts of some interactions.
    Done(Uncounted),
    /// Something came between: start over.
    Again,
}

/// Counts that stay unknown.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Uncounted {
    /// By code of the interaction.
    pub interactions: BTreeSet<u16>,
    /// Why; without meaning when there is none.
    pub why: Why,
}

/// Why a count row was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Why {
    /// The target has changes that MySQL does not have yet.
    #[default]
    Pending,
    /// MySQL has writes of the target that Redis does not have yet.
    Journal,
    /// A run came between: another load may take it.
    Moved,
}

impl Uncounted {
    /// Whether one of them is wanted.
    #[must_use]
    pub fn concerns(&self, wanted: &Wanted) -> bool {
        !self.interactions.is_disjoint(&wanted.counts) || (wanted.whole && !self.interactions.is_empty())
    }
}

impl Loader {
    /// Ends the load after every row is merged. A count is made from the states of a full hash; where single users were
    /// loaded, it is the count row (`rows`, by code; none is 0), if the target is clean and the journal has nothing of it, which
    /// `untouched` says.
    /// Counters are raised to their rows. With `remember`, a target of which there is nothing is remembered as empty for
    /// so long instead of becoming full.
    pub async fn end(
        &self,
        rows: &BTreeMap<u16, i64>,
        untouched: bool,
        remember: Option<Duration>,
    ) -> Result<Ended, StoreError> {
        let mut answer = self.try_end(rows, untouched, remember, None).await?;
        if let [word, checkpoint] = answer.as_slice()
            && word == "count"
        {
            answer = self.try_end(rows, untouched, remember, Some(checkpoint)).await?;
        }
        let mut words = answer.into_iter();
        if words.next().as_deref() != Some("ok") {
            return Ok(Ended::Again);
        }
        let why = match words.next().as_deref() {
            Some("journal") => Why::Journal,
            Some("moved") => Why::Moved,
            _ => Why::Pending,
        };
        let code = |name: String| self.store.vocabulary.interaction(&name).map(|i| i.code);
        Ok(Ended::Done(Uncounted { interactions: words.filter_map(code).collect(), why }))
    }

    /// With `counting`, the checkpoint as it was when counting began, hashes too large for the script are counted first.
    async fn try_end(
        &self,
        rows: &BTreeMap<u16, i64>,
        untouched: bool,
        remember: Option<Duration>,
        counting: Option<&str>,
    ) -> Result<Vec<String>, StoreError> {
        let (store, partition, target) = (&self.store, self.partition, self.target);
        let row = |code: u16| rows.get(&code).copied().unwrap_or_default();
        let mut invocation = self.guarded(&script::LOAD_END);
        invocation
            .key(store.keys.count(partition.target_type, target))
            .key(store.keys.dirty(partition))
            .key(store.keys.dirty_inflight(partition))
            .key(store.keys.done(partition))
            .arg(target.get())
            .arg(millis(remember.unwrap_or_default()))
            .arg(COUNT_HERE)
            .arg(counting.unwrap_or_default())
            .arg(store.stateful().count());
        for code in store.stateful() {
            let states = store.keys.state(store.name(code), partition.target_type, target);
            let how = self.how.get(&code).copied().unwrap_or(How::Whole(0));
            let (word, figure) = match how {
                How::Kept => ("kept", String::new()),
                How::Left => ("left", String::new()),
                How::Whole(merged) => ("whole", merged.to_string()),
                How::Users if untouched => ("users", row(code).to_string()),
                How::Users => ("users", String::new()),
            };
            let counted = matches!(how, How::Kept | How::Whole(_));
            let active = if counting.is_some() && counted { self.count_active(&states).await? } else { -1 };
            invocation.key(states).arg(store.name(code)).arg(word).arg(figure).arg(active);
        }
        for code in store.counters() {
            invocation.arg(store.name(code)).arg(row(code));
        }
        self.invoke(&invocation).await
    }

    /// How many states of a large hash are active. Nobody writes to it while it has no count.
    async fn count_active(&self, states: &str) -> Result<i64, StoreError> {
        let mut connection = self.store.connection.clone();
        let mut active = HashSet::new();
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
