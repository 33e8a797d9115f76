//! Comparing what was found with itself and with the record.

use std::collections::{BTreeMap, BTreeSet};

use crate::clients::VIEW;
use crate::record::{Key, Record, Row, Verdict};
use crate::rows::{Counts, Rows};
use crate::tally::{Tally, Wrong};
use crate::world::now_ms;

/// Target type, target, interaction.
type Place = (u16, i64, u16);

/// What one daemon answered.
#[derive(Default)]
pub struct Said {
    pub states: BTreeMap<Key, bool>,
    /// As often as it was asked for; one number when all is well.
    pub counts: BTreeMap<Place, BTreeSet<i64>>,
}

/// Everything, found while nothing changed.
pub struct Found {
    /// By daemon.
    pub said: Vec<Said>,
    pub rows: Rows,
    pub row_counts: Counts,
    /// As far as Redis holds them.
    pub redis_states: BTreeMap<Key, String>,
    /// Hashes that say they hold everybody.
    pub redis_complete: BTreeSet<Place>,
    pub redis_counts: BTreeMap<Place, String>,
}

impl Found {
    /// Says what is wrong, and takes what was found for the new beginning.
    pub fn judge(&self, record: &mut Record, tally: &Tally) {
        let keys: BTreeSet<Key> = record.keys().collect();
        for (key, row) in self.rows.iter().filter(|(key, _)| !keys.contains(key)) {
            tally.wrong(Wrong::Disagree, &format!("nobody ever wrote {key}, and MySQL has {row:?}"));
        }
        // A user who was asked for and never acted is remembered as 0.
        let active = self.redis_states.iter().filter(|(_, state)| *state != "0");
        for (key, state) in active.filter(|(key, _)| !keys.contains(key)) {
            tally.wrong(Wrong::Disagree, &format!("nobody ever wrote {key}, and Redis has {state}"));
        }
        let mut places: BTreeMap<Place, (i64, u64)> = BTreeMap::new();
        for key in keys {
            let (active, verdict) = self.state(key, record, tally);
            let of_place = places.entry((key.target_type, key.target, key.interaction)).or_default();
            of_place.0 += i64::from(active);
            of_place.1 += u64::from(verdict == Verdict::AllowedLoss);
        }
        for (place, (active, lost)) in places {
            tally.allowed_losses(lost);
            let why = format!("{active} active states, {lost} others lost as allowed");
            self.count(place, (active, active), &why, tally);
        }
        for ((target_type, target), (least, most)) in record.counters().collect::<Vec<_>>() {
            let bound = |figure: u64| i64::try_from(figure).unwrap_or(i64::MAX);
            let why = format!("{least} to {most} views");
            let found = self.count((target_type, target, VIEW), (bound(least), bound(most)), &why, tally);
            record.settle_counter((target_type, target), u64::try_from(found).unwrap_or_default());
        }
    }

    /// One state, everywhere.
    fn state(&self, key: Key, record: &mut Record, tally: &Tally) -> (bool, Verdict) {
        let row = self.rows.get(&key).is_some_and(|row| row.active);
        let complete = self.redis_complete.contains(&(key.target_type, key.target, key.interaction));
        let in_redis = self.redis_states.get(&key).map(String::as_str).or(complete.then_some("0"));
        let said: Vec<Option<bool>> = self.said.iter().map(|said| said.states.get(&key).copied()).collect();
        let found = said.first().copied().flatten().unwrap_or(row);
        let places = || {
            let row: Option<&Row> = self.rows.get(&key);
            format!("{key}: the API says {said:?}, MySQL {row:?}, Redis {in_redis:?}{}", record.history(key))
        };
        let same_in_redis = in_redis.is_none_or(|state| state == if found { "1" } else { "0" });
        if row != found || !same_in_redis || said.iter().any(|said| *said != Some(found)) {
            tally.wrong(Wrong::Disagree, &places());
        }
        if !record.allowed(key).has(found) {
            tally.wrong(Wrong::Lost, &format!("allowed is {:?}; {}", record.allowed(key), places()));
        }
        (found, record.settle(now_ms(), key, found))
    }

    /// One count, everywhere; returns the one in MySQL.
    fn count(&self, place: Place, (least, most): (i64, i64), why: &str, tally: &Tally) -> i64 {
        let row = self.row_counts.get(&place).copied().unwrap_or_default();
        let in_redis = self.redis_counts.get(&place).map(|count| count.parse().unwrap_or(i64::MIN));
        let said = self.said.iter().filter_map(|said| said.counts.get(&place)).flatten().copied();
        let found: BTreeSet<i64> = said.chain(in_redis).chain([row]).collect();
        let (target_type, target, interaction) = place;
        let places = || {
            let said: Vec<_> = self.said.iter().map(|said| said.counts.get(&place)).collect();
            format!(
                "the count of interaction {interaction} with target {target_type}:{target} ({why}): the API says {said:?}, MySQL {row}, Redis {in_redis:?}"
            )
        };
        if found.iter().any(|&count| count > most) {
            tally.wrong(Wrong::Doubled, &places());
        } else if found.iter().any(|&count| count < least) {
            tally.wrong(Wrong::Short, &places());
        } else if found.len() > 1 {
            tally.wrong(Wrong::Disagree, &places());
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Attempt;

    const KEY: Key = Key { target_type: 1, target: 2, interaction: 1, user: 3 };
    const PLACE: Place = (1, 2, 1);

    fn told(value: bool) -> Record {
        let mut record = Record::default();
        record.wrote(KEY, Attempt { value, sent_ms: 1, ended_ms: 2, acknowledged: true });
        record
    }

    /// All is well: the state is active.
    fn found() -> Found {
        let said = || Said { states: [(KEY, true)].into(), counts: [(PLACE, [1].into())].into() };
        Found {
            said: vec![said(), said()],
            rows: [(KEY, Row { active: true, update_ms: 1 })].into(),
            row_counts: [(PLACE, 1)].into(),
            redis_states: [(KEY, "1".to_owned())].into(),
            redis_complete: [PLACE].into(),
            redis_counts: [(PLACE, "1".to_owned())].into(),
        }
    }

    fn judged(change: impl FnOnce(&mut Found)) -> Vec<Wrong> {
        let (tally, mut found) = (Tally::new(1), found());
        change(&mut found);
        found.judge(&mut told(true), &tally);
        tally.kinds()
    }

    #[test]
    fn all_is_well_also_where_redis_holds_nothing() {
        assert_eq!(judged(|_| {}), []);
        let unloaded = |found: &mut Found| {
            found.redis_states.clear();
            found.redis_complete.clear();
            found.redis_counts.clear();
        };
        assert_eq!(judged(unloaded), []);
    }

    #[test]
    fn each_place_is_looked_at() {
        assert_eq!(judged(|found| found.rows.clear()), [Wrong::Disagree]);
        assert_eq!(judged(|found| found.redis_states.clear()), [Wrong::Disagree]);
        assert_eq!(judged(|found| _ = found.redis_states.insert(KEY, "0".to_owned())), [Wrong::Disagree]);
        assert_eq!(judged(|found| _ = found.said[1].states.insert(KEY, false)), [Wrong::Disagree]);
        assert_eq!(judged(|found| found.said[1].states.clear()), [Wrong::Disagree]);
        let stranger = Key { user: 4, ..KEY };
        assert_eq!(judged(|found| _ = found.redis_states.insert(stranger, "0".to_owned())), []);
        assert_eq!(judged(|found| _ = found.redis_states.insert(stranger, "1".to_owned())), [Wrong::Disagree]);
        let row = Row { active: false, update_ms: 1 };
        assert_eq!(judged(|found| _ = found.rows.insert(stranger, row)), [Wrong::Disagree]);
        assert_eq!(judged(|found| _ = found.row_counts.insert(PLACE, 2)), [Wrong::Doubled]);
        assert_eq!(judged(|found| found.row_counts.clear()), [Wrong::Short]);
        assert_eq!(judged(|found| _ = found.redis_counts.insert(PLACE, "0".to_owned())), [Wrong::Short]);
        assert_eq!(judged(|found| _ = found.said[1].counts.insert(PLACE, [1, 2].into())), [Wrong::Doubled]);
    }

    #[test]
    fn what_was_told_and_is_nowhere_is_lost() {
        let (tally, mut record) = (Tally::new(1), told(false));
        found().judge(&mut record, &tally);
        assert_eq!(tally.kinds(), [Wrong::Lost]);
    }

    #[test]
    fn views_lie_between_what_was_counted_and_what_may_have_been() {
        for (count, wrong) in [(0, vec![Wrong::Short]), (1, vec![]), (2, vec![]), (3, vec![Wrong::Doubled])] {
            let (tally, mut record, mut found) = (Tally::new(1), told(true), found());
            record.viewed(1, 2, true);
            record.viewed(1, 2, false);
            found.row_counts.insert((1, 2, VIEW), count);
            found.judge(&mut record, &tally);
            assert_eq!(tally.kinds(), wrong, "{count}");
        }
    }
}
