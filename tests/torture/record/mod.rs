//! What clients were told, and which states may therefore be found: the rule by which loss is judged.
//!
//! Each state belongs to one client, which has at most one write to it under way; its writes are in one order.
//!
//! **Without loss of data.** A state may be what the last acknowledged write made it, or what a later write made it
//! whose outcome is not known (an error, a lost connection). No earlier value is allowed.
//!
//! **When data was taken out of Redis.** What MySQL holds at that moment stands: a row bears the time of the event
//! that made it, so that writes which had ended before that time are behind it. Allowed is what the row says (absent
//! is 0), and the value of any write that had not ended before the row's time: the older Redis may still hold some
//! of those, acknowledged or not. It follows that a state whose last acknowledged write is in MySQL must survive: its
//! row bears a time within that write, and every earlier write had ended by then.
//!
//! Counters have no states: at least what was counted for certain, at most what was sent. After a loss
//! they are at least what MySQL held, whatever was counted since: until a partition is restored, the older Redis goes on
//! counting from its lower figure, and then the larger of the two stands.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// Clocks of client and servers are one, but MySQL keeps milliseconds.
const SLACK_MS: i64 = 50;
/// How many events of a state are kept to be shown.
const SHOWN: usize = 24;

/// One user's interaction with one target.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key {
    pub target_type: u16,
    pub target: i64,
    pub interaction: u16,
    pub user: i64,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target_type, target, interaction, user } = self;
        write!(f, "interaction {interaction} of user {user} with target {target_type}:{target}")
    }
}

/// A set of the values 0 and 1.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Values([bool; 2]);

impl Values {
    pub fn only(value: bool) -> Self {
        let mut values = Self::default();
        values.add(value);
        values
    }

    pub fn add(&mut self, value: bool) {
        self.0[usize::from(value)] = true;
    }

    pub fn has(self, value: bool) -> bool {
        self.0[usize::from(value)]
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries((0..2).filter(|&value| self.0[value])).finish()
    }
}

/// A write and what came of it; times are Unix milliseconds, by the client.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    pub value: bool,
    pub sent_ms: i64,
    pub ended_ms: i64,
    /// `false`: it may have happened or not.
    pub acknowledged: bool,
}

/// A row of MySQL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    pub active: bool,
    pub update_ms: i64,
}

/// What is known of a state.
struct State {
    allowed: Values,
    /// The same if no loss had been allowed for.
    strictly: Values,
    /// Since the state was last known for certain.
    attempts: Vec<Attempt>,
    events: VecDeque<String>,
}

impl Default for State {
    fn default() -> Self {
        let never = Values::only(false);
        Self { allowed: never, strictly: never, attempts: Vec::new(), events: VecDeque::new() }
    }
}

impl State {
    fn note(&mut self, event: String) {
        if self.events.len() == SHOWN {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}

/// What is known of a counter.
#[derive(Clone, Copy, Default)]
struct Views {
    at_least: u64,
    at_most: u64,
    /// Data was lost since it was last known for certain.
    shaken: bool,
}

/// How a state that was found fits what was told.
#[derive(PartialEq, Eq, Debug)]
pub enum Verdict {
    AsTold,
    /// Only because data had been taken out of Redis.
    AllowedLoss,
    Lost,
}

/// All states and counters.
#[derive(Default)]
pub struct Record {
    states: BTreeMap<Key, State>,
    views: BTreeMap<(u16, i64), Views>,
}

impl Record {
    pub fn wrote(&mut self, key: Key, attempt: Attempt) {
        let state = self.states.entry(key).or_default();
        let Attempt { value, sent_ms, ended_ms, acknowledged } = attempt;
        for values in [&mut state.allowed, &mut state.strictly] {
            if acknowledged {
                *values = Values::only(value);
            } else {
                values.add(value);
            }
        }
        let outcome = if acknowledged { "acknowledged" } else { "unknown" };
        state.note(format!("{sent_ms}..{ended_ms} {} {outcome}", u8::from(value)));
        state.attempts.push(attempt);
    }

    /// A viewer who came once. Whoever is told that he was not counted may have been, when the first answer of Redis was
    /// lost on its way to the daemon.
    pub fn viewed(&mut self, target_type: u16, target: i64, counted: bool) {
        let views = self.views.entry((target_type, target)).or_default();
        views.at_least += u64::from(counted && !views.shaken);
        views.at_most += 1;
    }

    /// Data of these targets was taken out of Redis while no write was under way; `rows` and `counters` are what MySQL
    /// held then.
    pub fn lost_data(
        &mut self,
        now_ms: i64,
        of: impl Fn(i64) -> bool,
        rows: &BTreeMap<Key, Row>,
        counters: &BTreeMap<(u16, i64), u64>,
    ) {
        for (key, state) in self.states.iter_mut().filter(|(key, _)| of(key.target)) {
            let row = rows.get(key);
            let since = row.map_or(i64::MIN, |row| row.update_ms - SLACK_MS);
            state.allowed = Values::only(row.is_some_and(|row| row.active));
            for attempt in state.attempts.iter().filter(|attempt| attempt.ended_ms >= since) {
                state.allowed.add(attempt.value);
            }
            // Exactly, where the last acknowledged write is known to be in MySQL.
            if let (Some(row), Some(last)) = (row, state.attempts.iter().rposition(|attempt| attempt.acknowledged))
                && row.active == state.attempts[last].value
                && row.update_ms >= state.attempts[last].sent_ms
            {
                state.allowed = Values::only(row.active);
                state.attempts[last + 1..].iter().for_each(|later| state.allowed.add(later.value));
            }
            let held = row.map(|row| (u8::from(row.active), row.update_ms));
            let allowed = state.allowed;
            state.note(format!("{now_ms} Redis lost data; MySQL held {held:?}; allowed since then {allowed:?}"));
        }
        for (place, views) in self.views.iter_mut().filter(|(place, _)| of(place.1)) {
            views.at_least = views.at_least.min(counters.get(place).copied().unwrap_or_default());
            views.shaken = true;
        }
    }

    /// Whether a write that had not ended when this row was made would turn it around.
    pub fn may_turn(&self, key: Key, row: Row) -> bool {
        let attempts = self.states.get(&key).map(|state| &state.attempts);
        let later = |attempt: &Attempt| attempt.value != row.active && attempt.ended_ms >= row.update_ms;
        attempts.into_iter().flatten().any(later)
    }

    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.states.keys().copied()
    }

    /// The counters, with the least and the most that each may be.
    pub fn counters(&self) -> impl Iterator<Item = ((u16, i64), (u64, u64))> {
        self.views.iter().map(|(&place, views)| (place, (views.at_least, views.at_most)))
    }

    /// Judges what was found when all was quiet, and goes on from there.
    pub fn settle(&mut self, now_ms: i64, key: Key, found: bool) -> Verdict {
        let state = self.states.entry(key).or_default();
        let verdict = if !state.allowed.has(found) {
            Verdict::Lost
        } else if state.strictly.has(found) {
            Verdict::AsTold
        } else {
            Verdict::AllowedLoss
        };
        (state.allowed, state.strictly) = (Values::only(found), Values::only(found));
        state.attempts.clear();
        state.note(format!("{now_ms} found {}", u8::from(found)));
        verdict
    }

    pub fn settle_counter(&mut self, place: (u16, i64), found: u64) {
        self.views.insert(place, Views { at_least: found, at_most: found, shaken: false });
    }

    pub fn allowed(&self, key: Key) -> Values {
        self.states.get(&key).map_or(Values::only(false), |state| state.allowed)
    }

    /// The last events of a state, a line each.
    pub fn history(&self, key: Key) -> String {
        let events = self.states.get(&key).map(|state| &state.events);
        events.into_iter().flatten().fold(String::new(), |text, event| text + "\n    " + event)
    }
}

#[cfg(test)]
mod tests;
