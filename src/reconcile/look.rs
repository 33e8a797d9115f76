//! A look at some targets: Redis first, then MySQL, then the journal, and what differs.

use std::collections::BTreeMap;

use super::compare::{Facts, compare, compare_counter};
use super::drift::{Finding, Kind};
use super::hand::Hand;
use super::large::{Place, look_large};
use crate::model::{Id, Interaction, RecordRow, Vocabulary};
use crate::sink::{Figures, Held, WantedRows};
use crate::store::{Inspected, Marks, Seen};
use crate::sync::RunError;

/// Targets in one look.
pub(super) const BATCH: usize = 64;
/// Rows of one interaction with a target that are read whole.
const WHOLE: u64 = 2000;
/// Marks asked for in one command.
const MARKS: usize = 1000;

/// Why a target was not compared, or not in full.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Why {
    /// It is dirty or in flight: the next run copies it.
    InFlight,
    /// It has degraded writes that are not replayed yet.
    Journaled,
    /// A key of it is not what the protocol makes it.
    Unreadable,
    /// The time of the pass was over.
    Time,
}

impl Why {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::Journaled => "journaled",
            Self::Unreadable => "unreadable",
            Self::Time => "time",
        }
    }
}

/// What a look found of a target.
#[derive(Clone, Debug)]
pub(super) struct Looked {
    pub(super) target: Id,
    /// Redis time of the reading, Unix ms.
    pub(super) at_ms: i64,
    pub(super) skipped: Option<Why>,
    pub(super) findings: Vec<Finding>,
    /// The interactions of which either side knows something.
    pub(super) known: Vec<u16>,
    /// Whether the layout finds the rows of a target.
    pub(super) by_target: bool,
}

/// Why a look is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// To see what differs.
    Suspect,
    /// To see whether it does: what is marked after all is work in flight.
    Confirm,
    /// The same; and counts of large hashes are set right as they are counted.
    Mend,
}

/// Looks at some targets.
pub(super) async fn look(
    hand: &mut Hand,
    vocabulary: &Vocabulary,
    targets: &[Id],
    purpose: Purpose,
) -> Result<Vec<Looked>, RunError> {
    let target_type = hand.holder.partition().target_type;
    let (at_ms, inspected) = hand.holder.inspect(targets).await?;
    let wanted = inspected.iter().flat_map(|target| wanted(vocabulary, target)).collect();
    let held = hand.session.held(target_type, targets.to_vec(), wanted).await?;
    let mut looked = Vec::with_capacity(inspected.len());
    for inspected in &inspected {
        let (mut one, large) = hold_against(vocabulary, at_ms, inspected, &held);
        for place in large {
            one.findings.extend(look_large(hand, place, purpose == Purpose::Mend).await?);
        }
        looked.push(one);
    }
    if purpose != Purpose::Suspect {
        drop_marked(hand, &mut looked).await?;
    }
    Ok(looked)
}

fn wanted<'t>(vocabulary: &'t Vocabulary, target: &'t Inspected) -> impl Iterator<Item = WantedRows> + 't {
    let stateful = |seen: &&Seen| vocabulary.interaction_code(seen.interaction).is_some_and(Interaction::has_states);
    target.seen.iter().flatten().filter(stateful).filter_map(|seen| {
        let states = seen.states.as_ref().filter(|_| seen.present)?;
        Some(WantedRows {
            target: target.target,
            interaction: seen.interaction,
            whole_up_to: seen.complete.then_some(WHOLE),
            users: states.iter().map(|(user, _)| *user).collect(),
        })
    })
}

/// What differs, and those hashes that, or whose rows, are too many to be read at once.
fn hold_against<'h>(
    vocabulary: &Vocabulary,
    at_ms: i64,
    inspected: &'h Inspected,
    held: &'h Held,
) -> (Looked, Vec<Place<'h>>) {
    let target = inspected.target;
    let mut looked =
        Looked { target, at_ms, skipped: None, findings: vec![], known: vec![], by_target: held.by_target };
    let mut large = Vec::new();
    let of_target: BTreeMap<u16, &Figures> = held
        .figures
        .range((target, u16::MIN)..=(target, u16::MAX))
        .map(|(&(_, interaction), figures)| (interaction, figures))
        .collect();
    for (&interaction, figures) in &of_target {
        if vocabulary.interaction_code(interaction).is_none() {
            looked.findings.push(unconfigured(interaction, figures));
        }
    }
    let Some(seen) = &inspected.seen else {
        looked.skipped = Some(Why::Unreadable);
        return (looked, large);
    };
    if held.journaled.contains(&target) {
        looked.skipped = Some(Why::Journaled);
        return (looked, large);
    }
    looked.skipped = (!inspected.settled).then_some(Why::InFlight);
    let has_count = of_target.values().any(|figures| figures.count.is_some());
    for seen in seen {
        let figures = of_target.get(&seen.interaction).copied().unwrap_or(&NOTHING);
        if seen.present || seen.count.is_some() || figures.count.is_some() || figures.rows.is_some() {
            looked.known.push(seen.interaction);
        }
        if vocabulary.interaction_code(seen.interaction).is_some_and(|i| !i.has_states()) {
            looked.findings.extend(compare_counter(seen, figures, inspected.settled));
            continue;
        }
        let facts = Facts { settled: inspected.settled, counted: has_count, by_target: held.by_target };
        let many = seen.present && seen.complete && held.by_target && !figures.whole;
        if seen.states.is_none() || many {
            large.push(Place { target, seen, figures, facts });
        } else {
            looked.findings.extend(compare(seen, figures, facts));
        }
    }
    (looked, large)
}

static NOTHING: Figures = Figures { count: None, rows: None, states: BTreeMap::new(), whole: false };

pub(super) fn unconfigured(interaction: u16, figures: &Figures) -> Finding {
    let rows = figures.rows.map(|(all, _)| all.to_string());
    let before = rows.or(figures.count.map(|count| count.to_string()));
    Finding { interaction, user: None, kind: Kind::Unconfigured, before, after: None, row_ms: 0 }
}

/// A state that differs and has a mark is in flight, and so is all of its target: a mark alone, without its target among the
/// dirty ones, is taken by the next run as well.
async fn drop_marked(hand: &mut Hand, looked: &mut [Looked]) -> Result<(), RunError> {
    let mut rows = Vec::new();
    for one in looked.iter() {
        rows.extend(one.findings.iter().filter_map(|finding| {
            let (target, interaction) = (one.target, finding.interaction);
            Some(RecordRow { target, interaction, user: finding.user?, active: false, at_ms: 0 })
        }));
    }
    for piece in rows.chunks(MARKS) {
        let marked = hand.holder.marked(&[Marks::Fresh, Marks::Claimed], piece).await?;
        for (row, _) in piece.iter().zip(marked).filter(|(_, marked)| *marked) {
            if let Some(one) = looked.iter_mut().find(|one| one.target == row.target) {
                one.findings.retain(|finding| finding.kind == Kind::Unconfigured);
                one.skipped = Some(Why::InFlight);
            }
        }
    }
    Ok(())
}
