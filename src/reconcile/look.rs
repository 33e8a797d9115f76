//! A look at some targets: Redis first, then MySQL, then the journal, and what differs.

use std::collections::BTreeMap;

use super::compare::{Facts, compare, compare_counter};
use super::drift::Finding;
use super::hand::Hand;
use super::large::{Place, look_large};
use crate::model::{Digest, Id, Interaction, RecordRow, Salt, Vocabulary};
use crate::sink::{Figures, Held, WantedRows};
use crate::store::{Holder, Inspected, Marks, Seen, StoreError};
use crate::sync::RunError;

/// Targets in one look.
pub(super) const BATCH: usize = 64;
/// Targets looked at between two chances for a run to come in between.
pub(super) const AT_ONCE: usize = 4 * BATCH;
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
    /// It differed, and more did than are remembered.
    TooMany,
    /// The pass that this one goes on with looked at it.
    Earlier,
}

impl Why {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::Journaled => "journaled",
            Self::Unreadable => "unreadable",
            Self::Time => "time",
            Self::TooMany => "too_many",
            Self::Earlier => "earlier",
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
    /// Codes of interactions that are not configured, and how many rows each has.
    pub(super) unconfigured: Vec<(u16, u64)>,
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
    let salt = Salt::random();
    let mut looked = Vec::with_capacity(targets.len());
    let mut batches = targets.chunks(BATCH);
    let mut current = match batches.next() {
        Some(targets) => Some(Batch::read(&mut hand.holder, vocabulary, targets, salt).await?),
        None => None,
    };
    let mut before: Option<(Batch<'_>, Held)> = None;
    while let Some(mut batch) = current.take() {
        hand.go_on()?;
        let next = batches.next();
        let held = hand.session.held(target_type, batch.targets.to_vec(), std::mem::take(&mut batch.wanted), salt);
        // While MySQL answers, Redis is asked for what comes next, and what came before is compared.
        let meanwhile = async {
            let ahead = match next {
                Some(targets) => Some(Batch::read(&mut hand.holder, vocabulary, targets, salt).await),
                None => None,
            };
            (ahead, before.as_ref().map(|(batch, held)| batch.hold_against(vocabulary, held, salt)))
        };
        let (held, (ahead, compared)) = tokio::join!(held, meanwhile);
        finish(hand, compared.unwrap_or_default(), purpose, &mut looked).await?;
        current = ahead.transpose()?;
        before = Some((batch, held?));
    }
    if let Some((batch, held)) = &before {
        finish(hand, batch.hold_against(vocabulary, held, salt), purpose, &mut looked).await?;
    }
    if purpose != Purpose::Suspect {
        drop_marked(hand, &mut looked).await?;
    }
    Ok(looked)
}

/// What was compared, with the hashes that are gone through page by page yet.
type Compared<'h> = Vec<(Looked, Vec<Place<'h>>)>;

async fn finish(
    hand: &mut Hand,
    compared: Compared<'_>,
    purpose: Purpose,
    looked: &mut Vec<Looked>,
) -> Result<(), RunError> {
    for (mut one, large) in compared {
        for place in large {
            one.findings.extend(look_large(hand, place, purpose == Purpose::Mend).await?);
        }
        looked.push(one);
    }
    Ok(())
}

/// Some targets as Redis holds them, and the rows that are to be read for them.
struct Batch<'t> {
    targets: &'t [Id],
    at_ms: i64,
    inspected: Vec<Inspected>,
    wanted: Vec<WantedRows>,
}

impl<'t> Batch<'t> {
    async fn read(
        holder: &mut Holder,
        vocabulary: &Vocabulary,
        targets: &'t [Id],
        salt: Salt,
    ) -> Result<Self, StoreError> {
        let (at_ms, inspected) = holder.inspect(targets).await?;
        let wanted = inspected.iter().flat_map(|target| wanted(vocabulary, target, &salt)).collect();
        Ok(Self { targets, at_ms, inspected, wanted })
    }

    fn hold_against<'h>(&'h self, vocabulary: &Vocabulary, held: &'h Held, salt: Salt) -> Compared<'h> {
        let compare = |target| hold_against(vocabulary, self.at_ms, target, held, salt);
        self.inspected.iter().map(compare).collect()
    }
}

fn wanted<'t>(
    vocabulary: &'t Vocabulary,
    target: &'t Inspected,
    salt: &'t Salt,
) -> impl Iterator<Item = WantedRows> + 't {
    let stateful = |seen: &&Seen| vocabulary.interaction_code(seen.interaction).is_some_and(Interaction::has_states);
    target.seen.as_deref().unwrap_or_default().iter().filter(stateful).filter_map(|seen| {
        let states = seen.states.as_ref().filter(|_| seen.present)?;
        let active = states.iter().filter(|(_, active)| *active).map(|(user, _)| *user);
        Some(WantedRows {
            target: target.target,
            interaction: seen.interaction,
            whole_up_to: seen.complete.then_some(WHOLE),
            users: states.iter().map(|(user, _)| *user).collect(),
            unless: seen.complete.then(|| Digest::of(salt, active)),
        })
    })
}

/// What differs, and those hashes that, or whose rows, are too many to be read at once.
fn hold_against<'h>(
    vocabulary: &Vocabulary,
    at_ms: i64,
    inspected: &'h Inspected,
    held: &'h Held,
    salt: Salt,
) -> (Looked, Vec<Place<'h>>) {
    let target = inspected.target;
    let mut looked = Looked {
        target,
        at_ms,
        skipped: None,
        findings: vec![],
        known: vec![],
        unconfigured: vec![],
        by_target: held.by_target,
    };
    let mut large = Vec::new();
    let of_target: BTreeMap<u16, &Figures> = held
        .figures
        .range((target, u16::MIN)..=(target, u16::MAX))
        .map(|(&(_, interaction), figures)| (interaction, figures))
        .collect();
    for (&interaction, figures) in &of_target {
        if vocabulary.interaction_code(interaction).is_none() {
            looked.unconfigured.push((interaction, figures.rows.map_or(1, |(all, _)| all)));
        }
    }
    let seen = match &inspected.seen {
        Ok(seen) => seen,
        Err(interaction) => {
            looked.skipped = Some(Why::Unreadable);
            looked.findings.push(Finding::unreadable(*interaction));
            return (looked, large);
        }
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
        let many = seen.present && seen.complete && held.by_target && !figures.whole && !figures.as_expected;
        if seen.states.is_none() || many {
            large.push(Place { target, seen, figures, facts, salt });
        } else {
            looked.findings.extend(compare(seen, figures, facts));
        }
    }
    (looked, large)
}

static NOTHING: Figures =
    Figures { count: None, rows: None, states: BTreeMap::new(), whole: false, active: None, as_expected: false };

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
                one.findings.clear();
                one.skipped = Some(Why::InFlight);
            }
        }
    }
    Ok(())
}
