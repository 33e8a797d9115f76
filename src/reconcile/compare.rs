//! The comparison itself: what both sides hold of one interaction with a target, as plain data, and what differs.
//!
//! A state that is present wins over its record row; an absent field of a complete hash is restored from its row; a count
//! follows the states of a complete hash, else the rows.

use std::collections::BTreeMap;

use super::drift::{Finding, Kind};
use crate::model::Id;
use crate::sink::Figures;
use crate::store::Seen;

/// What is known besides the two sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Whether nothing of the target is marked. While something is, only a count and the states of its own hash, which were
    /// read in one moment, can be held against each other.
    pub settled: bool,
    /// Whether the target has a count row of any interaction.
    pub counted: bool,
    /// Whether the layout finds the rows of a target.
    pub by_target: bool,
}

/// What was found by going through states and rows one by one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Differences {
    /// How many states are active, those of `lost` included.
    pub active: i64,
    /// Users with an active row whom a complete hash lacks.
    pub lost: Vec<Id>,
    /// Users whose state differs from their row: whether it is active, and the row, if there is one.
    pub rows: Vec<(Id, bool, Option<RowState>)>,
}

/// What a record row says: whether the state is active, and the latest event time that the row may stand for.
pub type RowState = (bool, i64);

/// What differs. Of a hash that is too large to be read at once nothing is said.
#[must_use]
pub fn compare(seen: &Seen, figures: &Figures, facts: Facts) -> Vec<Finding> {
    let Some(states) = &seen.states else { return vec![] };
    let states: BTreeMap<Id, bool> = states.iter().copied().collect();
    let mut found = Differences { active: sum(states.values().copied()), ..Differences::default() };
    if figures.as_expected {
        return conclude(seen, figures, facts, &found);
    }
    if seen.complete {
        let active = figures.states.iter().filter(|(_, (active, _))| *active).map(|(user, _)| *user);
        found.lost = active.filter(|user| !states.contains_key(user)).collect();
        found.active += number(found.lost.len());
    }
    for (&user, &active) in &states {
        let row = figures.states.get(&user).copied();
        if row.map_or(active, |(held, _)| held != active) {
            found.rows.push((user, active, row));
        }
    }
    conclude(seen, figures, facts, &found)
}

/// What follows from the differences of states and rows, and from the counts.
#[must_use]
pub fn conclude(seen: &Seen, figures: &Figures, facts: Facts, found: &Differences) -> Vec<Finding> {
    let finding = |kind, user, before: Option<String>, after: Option<String>, row_ms| Finding {
        interaction: seen.interaction,
        user,
        kind,
        before,
        after,
        row_ms,
        kept_count: None,
    };
    if !facts.settled {
        let comparable = seen.complete && found.lost.is_empty();
        let off = seen.count.as_ref().filter(|count| comparable && **count != found.active.to_string());
        return off.map(|count| redis_count(seen, count, found.active)).into_iter().collect();
    }
    let lost = found.lost.iter();
    let mut findings: Vec<Finding> =
        lost.map(|&user| finding(Kind::StateMissing, Some(user), None, Some("1".to_owned()), 0)).collect();

    // What the record rows will say when the states that differ are written over them.
    let moved: i64 = found.rows.iter().map(|(_, active, row)| i64::from(*active) - was_active(*row)).sum();
    let recorded = figures.rows.map(|(_, active)| number(usize::try_from(active).unwrap_or(usize::MAX)));
    let recorded = recorded.or(facts.by_target.then_some(0));
    let after = recorded.map(|active| active + moved).or(seen.complete.then_some(found.active));
    let before = recorded.or(after.map(|after| after - moved));
    // MySQL agrees with itself: it never heard of these changes.
    let counted = figures.count.unwrap_or_default();
    let held = seen.count.as_ref().and_then(|count| count.parse::<i64>().ok());
    // A hash of single users has nothing to be counted; its count was moved by the change.
    let before = before.or(held.map(|held| held - moved));
    let unheard = !found.rows.is_empty() && Some(counted) == before;
    for &(user, active, row) in &found.rows {
        let kind = match row {
            _ if unheard => Kind::MarkLost,
            Some(_) => Kind::RecordRowOff,
            None => Kind::RecordRowMissing,
        };
        let bit = |active: bool| u8::from(active).to_string();
        let row_ms = row.map_or(0, |(_, at_ms)| at_ms);
        let kept_count = figures.count.filter(|_| !facts.by_target && !unheard);
        let of_row = finding(kind, Some(user), row.map(|(held, _)| bit(held)), Some(bit(active)), row_ms);
        findings.push(Finding { kept_count, ..of_row });
    }

    // Every active row is of a user whom the hash holds or lacks; or of none.
    let strangers = if seen.complete && facts.by_target { after.map_or(0, |after| after - found.active) } else { 0 };
    if strangers != 0 {
        findings.push(finding(Kind::RowWithoutUser, None, Some(strangers.to_string()), None, 0));
    }
    let wrong = after.filter(|&after| strangers == 0 && !unheard && figures.count.unwrap_or_default() != after);
    findings.extend(wrong.map(|after| {
        let loaded = seen.present || seen.count.is_some();
        let kind = match figures.count {
            Some(_) => Kind::CountRowOff,
            None if loaded || facts.counted => Kind::CountRowMissing,
            None => Kind::OrphanRow,
        };
        finding(kind, None, figures.count.map(|count| count.to_string()), Some(after.to_string()), 0)
    }));

    let Some(count) = &seen.count else { return findings };
    if !seen.present {
        if count != "0" || after.is_some_and(|after| after != 0) {
            findings.push(finding(Kind::HashMissing, None, Some(count.clone()), None, 0));
        }
        return findings;
    }
    let right = if seen.complete { Some(found.active) } else { after };
    findings.extend(right.filter(|right| *count != right.to_string()).map(|right| redis_count(seen, count, right)));
    findings
}

fn was_active(row: Option<RowState>) -> i64 {
    i64::from(row.is_some_and(|(active, _)| active))
}

fn redis_count(seen: &Seen, count: &str, right: i64) -> Finding {
    let negative = count.parse::<i64>().is_ok_and(|count| count < 0);
    let kind = if negative { Kind::RedisCountNegative } else { Kind::RedisCountOff };
    let (before, after) = (Some(count.to_owned()), Some(right.to_string()));
    Finding { interaction: seen.interaction, user: None, kind, before, after, row_ms: 0, kept_count: None }
}

/// A counter has no states to count it from: the larger value stands.
#[must_use]
pub fn compare_counter(seen: &Seen, figures: &Figures, settled: bool) -> Option<Finding> {
    let count = seen.count.as_ref().filter(|_| settled)?;
    let row = figures.count.unwrap_or_default();
    match count.parse::<i64>() {
        Ok(held) if held > row => {
            let kind = if figures.count.is_some() { Kind::CountRowOff } else { Kind::CountRowMissing };
            let (before, after) = (figures.count.map(|count| count.to_string()), Some(held.to_string()));
            Some(Finding {
                interaction: seen.interaction,
                user: None,
                kind,
                before,
                after,
                row_ms: 0,
                kept_count: None,
            })
        }
        Ok(held) if held == row => None,
        Ok(_) | Err(_) => Some(redis_count(seen, count, row)),
    }
}

fn sum(active: impl Iterator<Item = bool>) -> i64 {
    number(active.filter(|&active| active).count())
}

fn number(n: usize) -> i64 {
    n.try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTLED: Facts = Facts { settled: true, counted: true, by_target: true };

    fn id(n: i64) -> Id {
        n.try_into().unwrap()
    }

    fn seen(states: &[(i64, bool)], count: &str) -> Seen {
        let states = states.iter().map(|&(user, active)| (id(user), active)).collect();
        Seen { interaction: 1, present: true, complete: true, count: Some(count.to_owned()), states: Some(states) }
    }

    fn figures(rows: &[(i64, bool)], count: Option<i64>) -> Figures {
        let active = rows.iter().filter(|(_, active)| *active).count() as u64;
        let states = rows.iter().map(|&(user, active)| (id(user), (active, 7))).collect();
        Figures { count, rows: Some((rows.len() as u64, active)), states, whole: true, ..Figures::default() }
    }

    /// Kind, user, before, after.
    fn found(seen: &Seen, figures: &Figures, facts: Facts) -> Vec<(&'static str, i64, String, String)> {
        let text = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let told = |f: Finding| (f.kind.as_str(), f.user.map_or(0, Id::get), text(f.before), text(f.after));
        compare(seen, figures, facts).into_iter().map(told).collect()
    }

    fn counted(count: &str, row: Option<i64>, settled: bool) -> Option<(&'static str, Option<String>, Option<String>)> {
        let figures = Figures { count: row, ..Figures::default() };
        compare_counter(&seen(&[], count), &figures, settled).map(|f| (f.kind.as_str(), f.before, f.after))
    }

    fn one(kind: &'static str, user: i64, before: &str, after: &str) -> Vec<(&'static str, i64, String, String)> {
        vec![(kind, user, before.to_owned(), after.to_owned())]
    }

    const THREE: [(i64, bool); 3] = [(1, true), (2, true), (3, false)];

    #[test]
    fn what_agrees_is_no_drift() {
        assert_eq!(found(&seen(&THREE, "2"), &figures(&THREE, Some(2)), SETTLED), []);
        // A cancelled state needs no row, nor a row that is cancelled a state; no count row says 0.
        assert_eq!(found(&seen(&THREE, "2"), &figures(&THREE[..2], Some(2)), SETTLED), []);
        assert_eq!(found(&seen(&THREE[..2], "2"), &figures(&THREE, Some(2)), SETTLED), []);
        assert_eq!(found(&seen(&[], "0"), &figures(&[], None), SETTLED), []);
        let absent = Seen { present: false, complete: false, count: None, ..seen(&[], "") };
        assert_eq!(found(&absent, &figures(&THREE, Some(2)), SETTLED), []);
        let empty = Seen { count: Some("0".to_owned()), ..absent };
        assert_eq!(found(&empty, &figures(&[], None), SETTLED), [], "a target that is remembered as empty");
    }

    #[test]
    fn each_kind_is_named_alone() {
        let whole = figures(&THREE, Some(2));
        assert_eq!(found(&seen(&THREE, "5"), &whole, SETTLED), one("redis_count_off", 0, "5", "2"));
        assert_eq!(found(&seen(&THREE, "-1"), &whole, SETTLED), one("redis_count_negative", 0, "-1", "2"));
        let good = seen(&THREE, "2");
        assert_eq!(found(&good, &figures(&THREE, Some(9)), SETTLED), one("count_row_off", 0, "9", "2"));
        assert_eq!(found(&good, &figures(&THREE, None), SETTLED), one("count_row_missing", 0, "-", "2"));
        let off = figures(&[(1, true), (2, false), (3, false)], Some(2));
        assert_eq!(found(&good, &off, SETTLED), one("record_row_off", 2, "0", "1"));
        assert_eq!(found(&good, &figures(&THREE[1..], Some(2)), SETTLED), one("record_row_missing", 1, "-", "1"));
        assert_eq!(found(&seen(&THREE[1..], "2"), &whole, SETTLED), one("state_missing", 1, "-", "1"));
        let evicted = Seen { present: false, complete: false, states: Some(vec![]), ..good.clone() };
        assert_eq!(found(&evicted, &whole, SETTLED), one("hash_missing", 0, "2", "-"));
        // Like, then the marks were deleted: each side agrees with itself.
        assert_eq!(found(&good, &figures(&THREE[..1], Some(1)), SETTLED), one("mark_lost", 2, "-", "1"));
        let absent = Seen { count: None, ..evicted };
        let alone = Facts { counted: false, ..SETTLED };
        assert_eq!(found(&absent, &figures(&THREE, None), alone), one("orphan_row", 0, "-", "2"));
        assert_eq!(found(&absent, &figures(&THREE, Some(1)), SETTLED), one("count_row_off", 0, "1", "2"));
    }

    #[test]
    fn of_what_is_marked_only_a_count_and_its_own_states_are_held_against_each_other() {
        let marked = Facts { settled: false, ..SETTLED };
        assert_eq!(found(&seen(&THREE, "2"), &figures(&[], Some(7)), marked), []);
        assert_eq!(found(&seen(&THREE, "3"), &figures(&[], Some(7)), marked), one("redis_count_off", 0, "3", "2"));
        let partial = Seen { complete: false, ..seen(&THREE, "30") };
        assert_eq!(found(&partial, &figures(&THREE, Some(2)), marked), []);
    }

    #[test]
    fn a_hash_of_single_users_vouches_for_nothing_but_them() {
        let partial = Seen { complete: false, ..seen(&THREE[..1], "2") };
        assert_eq!(found(&partial, &figures(&THREE, Some(2)), SETTLED), []);
        let off = Seen { count: Some("3".to_owned()), ..partial };
        assert_eq!(found(&off, &figures(&THREE, Some(2)), SETTLED), one("redis_count_off", 0, "3", "2"));
    }

    #[test]
    fn the_older_layout_is_compared_by_the_users_whom_redis_holds() {
        let old = Facts { by_target: false, ..SETTLED };
        let rows = |rows, count| Figures { rows: None, whole: false, ..figures(rows, count) };
        assert_eq!(found(&seen(&THREE, "2"), &rows(&THREE, Some(2)), old), []);
        assert_eq!(found(&seen(&THREE, "2"), &rows(&THREE, Some(4)), old), one("count_row_off", 0, "4", "2"));
        assert_eq!(found(&seen(&THREE, "2"), &rows(&THREE[1..], Some(1)), old), one("mark_lost", 1, "-", "1"));
        let partial = Seen { complete: false, ..seen(&THREE[..1], "9") };
        assert_eq!(found(&partial, &rows(&THREE, Some(4)), old), [], "nobody knows");
    }

    #[test]
    fn the_larger_value_of_a_counter_stands() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(counted("7", Some(7), true), None);
        assert_eq!(counted("7", Some(5), true), Some(("count_row_off", text("5"), text("7"))));
        assert_eq!(counted("7", None, true), Some(("count_row_missing", None, text("7"))));
        assert_eq!(counted("5", Some(7), true), Some(("redis_count_off", text("5"), text("7"))));
        assert_eq!(counted("-5", None, true), Some(("redis_count_negative", text("-5"), text("0"))));
        assert_eq!(counted("5", Some(7), false), None, "it is in flight");
    }
}
