//! A hash that is too large to be read at once: page by page, with its rows looked up for each.

use super::compare::{Differences, Facts, conclude};
use super::drift::Finding;
use super::hand::Hand;
use crate::model::{Digest, Id, Salt};
use crate::sink::Figures;
use crate::store::{Seen, StatePage};
use crate::sync::RunError;

/// Differences of one hash that are remembered. What is beyond is left to the next pass.
const DIFFERENCES: usize = 10_000;
/// Users who are counted once each: 8 bytes of memory for each.
const COUNTED: usize = 16_000_000;
/// Rows in one page.
const ROWS: u32 = 1000;

/// What is gone through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'f> {
    pub(super) target: Id,
    pub(super) seen: &'f Seen,
    pub(super) figures: &'f Figures,
    pub(super) facts: Facts,
    /// Of the digest in `figures`.
    pub(super) salt: Salt,
}

/// What going through a hash has met so far.
#[derive(Debug, Default)]
struct Met {
    /// Users active when the recount began, and users with an active row; repeated ones included.
    then_active: Vec<Id>,
    with_row: Vec<Id>,
    found: Differences,
    too_many: bool,
    settled: bool,
}

/// Compares a large hash with its rows, if nothing of the target is marked, and its count with its states, in any case. With
/// `mend` a count that is off is set right.
pub(super) async fn look_large(hand: &mut Hand, place: Place<'_>, mend: bool) -> Result<Vec<Finding>, RunError> {
    let Place { target, seen, figures, facts, salt } = place;
    let interaction = seen.interaction;
    let begun =
        if seen.complete && !hand.is_dry() { hand.holder.begin_recount(target, interaction).await? } else { None };
    let recount = begun.is_some();
    let mut met = Met { settled: facts.settled, ..Met::default() };
    let mut cursor = 0;
    loop {
        hand.go_on()?;
        let Some(page) = hand.holder.state_page(target, interaction, cursor, recount).await? else {
            return Ok(vec![Finding::unreadable(interaction)]);
        };
        cursor = page.cursor;
        met.settled &= page.settled;
        let active_now = page.states.iter().filter(|(_, active)| *active).map(|(user, _)| *user);
        met.then_active.extend(if recount { page.then_active.clone() } else { active_now.collect() });
        if cursor == 0 || met.then_active.len() > COUNTED {
            break;
        }
    }
    met.too_many |= cursor != 0;
    let then_active = distinct(std::mem::take(&mut met.then_active));
    // While nothing is marked, who was active then is active now.
    let known = Digest::of(&salt, then_active.iter().copied());
    let agrees = facts.by_target && seen.complete && !met.too_many && figures.active.unwrap_or_default() == known;
    let active = i64::try_from(then_active.len()).unwrap_or(i64::MAX);
    drop(then_active);
    if met.settled && !agrees {
        find_rows(hand, place, recount, &mut met).await?;
        if met.settled && seen.complete && facts.by_target && !met.too_many {
            find_lost(hand, place, &mut met).await?;
        }
    }
    let mut seen = seen.clone();
    let lost = if met.settled { i64::try_from(met.found.lost.len()).unwrap_or(i64::MAX) } else { 0 };
    if let Some(begun) = begun {
        let lacking = if met.too_many { 0 } else { active + lost - begun };
        let repair = if mend && lost == 0 { lacking } else { 0 };
        match hand.holder.end_recount(target, interaction, repair).await? {
            Some(count) if !met.too_many => {
                met.found.active = count.saturating_add(lacking);
                seen.count = Some(count.to_string());
            }
            _ => seen.count = None,
        }
    } else if seen.complete {
        // Nobody saves states in a dry run: what was counted stands while nothing is marked.
        met.found.active = active + lost;
        seen.count = seen.count.filter(|_| met.settled && !met.too_many);
    }
    if met.too_many {
        // Counts follow from all of the differences.
        seen.count = None;
        let rows = |finding: &Finding| finding.user.is_some();
        return Ok(conclude(&seen, figures, Facts { settled: met.settled, ..facts }, &met.found)
            .into_iter()
            .filter(rows)
            .collect());
    }
    Ok(conclude(&seen, figures, Facts { settled: met.settled, ..facts }, &met.found))
}

/// Goes through the hash once more, with the rows of each page.
async fn find_rows(hand: &mut Hand, place: Place<'_>, recount: bool, met: &mut Met) -> Result<(), RunError> {
    let mut cursor = 0;
    loop {
        hand.go_on()?;
        let page = hand.holder.state_page(place.target, place.seen.interaction, cursor, recount).await?;
        let Some(page) = page.filter(|page| page.settled) else {
            met.settled = false;
            return Ok(());
        };
        cursor = page.cursor;
        meet(hand, place, page, met).await?;
        if cursor == 0 || met.too_many || met.with_row.len() > COUNTED {
            met.too_many |= cursor != 0;
            return Ok(());
        }
    }
}

async fn meet(hand: &mut Hand, place: Place<'_>, page: StatePage, met: &mut Met) -> Result<(), RunError> {
    let target_type = hand.holder.partition().target_type;
    let users: Vec<Id> = page.states.iter().map(|(user, _)| *user).collect();
    let rows = hand.session.rows_of((target_type, place.target, place.seen.interaction), users).await?;
    for (user, active) in page.states {
        let row = rows.get(&user).copied();
        if row.is_some_and(|(active, _)| active) {
            met.with_row.push(user);
        }
        let differs = row.map_or(active, |(held, _)| held != active);
        let known = || met.found.rows.iter().any(|(other, ..)| *other == user);
        if differs && met.found.rows.len() < DIFFERENCES && !known() {
            met.found.rows.push((user, active, row));
        }
        met.too_many |= met.found.rows.len() >= DIFFERENCES;
    }
    Ok(())
}

/// Users with an active row whom the hash lacks. When as many rows were met as there are, there is none.
async fn find_lost(hand: &mut Hand, place: Place<'_>, met: &mut Met) -> Result<(), RunError> {
    let rows = place.figures.rows.map_or(0, |(_, active)| i64::try_from(active).unwrap_or(i64::MAX));
    if i64::try_from(distinct(std::mem::take(&mut met.with_row)).len()) == Ok(rows) {
        return Ok(());
    }
    let (target, interaction) = (place.target, place.seen.interaction);
    let of = (hand.holder.partition().target_type, target, interaction);
    let mut after = 0;
    loop {
        hand.go_on()?;
        let page = hand.session.record_page(of, after, ROWS).await?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = last.get();
        let active: Vec<Id> = page.iter().filter(|(_, active)| *active).map(|(user, _)| *user).collect();
        met.found.lost.extend(hand.holder.without_state(target, interaction, &active).await?);
        if met.found.lost.len() > DIFFERENCES {
            met.found.lost.truncate(DIFFERENCES);
            met.too_many = true;
            return Ok(());
        }
    }
}

fn distinct(mut users: Vec<Id>) -> Vec<Id> {
    users.sort_unstable();
    users.dedup();
    users
}
