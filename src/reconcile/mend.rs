//! Repairs: MySQL first, in one transaction with the checkpoint, then Redis, then all of it is read back.

use std::collections::BTreeMap;

use super::drift::{Finding, Kind};
use super::hand::Hand;
use super::look::{Looked, Purpose, look};
use crate::model::{Chunk, CountRow, CountValue, Id, RecordRow, Source, Vocabulary};
use crate::store::Repair;
use crate::sync::RunError;

/// Entries of one call of the repairing script.
const REPAIRS: usize = 500;
/// States of a hash that is counted in one call: more than a look takes in.
const COUNTED: u64 = 20_000;

/// What became of a drift.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// Read back, and right.
    Repaired,
    /// Read back, and still off.
    Failed,
    /// Not touched, for too much differs.
    Refused,
    /// Told and never touched: nothing says what would be right.
    Left,
    /// A dry run found it.
    Dry,
}

impl Outcome {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Repaired => "repaired",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Left => "left",
            Self::Dry => "dry",
        }
    }
}

/// Looks at targets once more and repairs what it finds. Answers what became of everything found. What is still off then is
/// repaired a second time, for the count of a large hash waits for the fields that it lacks.
pub(super) async fn mend(
    hand: &mut Hand,
    vocabulary: &Vocabulary,
    targets: &[Id],
) -> Result<Vec<(Id, Finding, Outcome)>, RunError> {
    let mut found = repair(hand, vocabulary, targets).await?;
    let mut left = look(hand, vocabulary, targets, Purpose::Confirm).await?;
    if left.iter().any(|looked| !looked.findings.is_empty()) {
        let more = repair(hand, vocabulary, targets).await?;
        for (found, more) in found.iter_mut().zip(more) {
            let new = more.findings.into_iter().filter(|one| !found.findings.iter().any(|other| other.is_at(one)));
            let new: Vec<Finding> = new.collect();
            found.findings.extend(new);
        }
        left = look(hand, vocabulary, targets, Purpose::Confirm).await?;
    }
    let mut mended = Vec::new();
    for (found, left) in found.into_iter().zip(left) {
        for finding in found.findings {
            let still = left.findings.iter().any(|other| other.is_at(&finding));
            let outcome = match still {
                _ if finding.is_left(found.by_target) => Outcome::Left,
                true => Outcome::Failed,
                false => Outcome::Repaired,
            };
            mended.push((found.target, finding, outcome));
        }
    }
    Ok(mended)
}

async fn repair(hand: &mut Hand, vocabulary: &Vocabulary, targets: &[Id]) -> Result<Vec<Looked>, RunError> {
    let looked = look(hand, vocabulary, targets, Purpose::Mend).await?;
    mend_mysql(hand, vocabulary, &looked).await?;
    mend_redis(hand, vocabulary, &looked).await?;
    Ok(looked)
}

async fn mend_mysql(hand: &mut Hand, vocabulary: &Vocabulary, looked: &[Looked]) -> Result<(), RunError> {
    let mut records = Vec::new();
    let mut counts: BTreeMap<(Id, u16), CountRow> = BTreeMap::new();
    for Looked { target, at_ms, findings, by_target, .. } in looked {
        for finding in findings.iter().filter(|f| f.kind.side() == "mysql" && !f.is_left(*by_target)) {
            let (target, interaction) = (*target, finding.interaction);
            let at_ms = finding.row_ms.max(*at_ms);
            let after = finding.after.as_deref().and_then(|after| after.parse().ok()).unwrap_or_default();
            if let Some(user) = finding.user {
                records.push(RecordRow { target, interaction, user, active: after == 1, at_ms });
            }
            let counter = vocabulary.interaction_code(interaction).is_some_and(|i| !i.has_states());
            let value = match finding.user {
                _ if counter => CountValue::AtLeast(after),
                // Where the rows of a target cannot be counted, the states of a complete hash say how many.
                None if !by_target => CountValue::Known(after),
                Some(_) if let Some(count) = finding.kept_count => CountValue::Known(count),
                _ => CountValue::Recompute,
            };
            let row = CountRow { target, interaction, value, at_ms, settled: true };
            if finding.user.is_none() {
                counts.insert((target, interaction), row);
            } else {
                counts.entry((target, interaction)).or_insert(row);
            }
        }
    }
    if counts.is_empty() {
        return Ok(());
    }
    records.sort_unstable();
    let counts = counts.into_values().collect();
    let checkpoint = hand.holder.checkpoint();
    hand.writer.commit(Chunk { checkpoint, source: Source::Scan, records, counts, rejected: vec![] }).await?;
    Ok(())
}

async fn mend_redis(hand: &mut Hand, vocabulary: &Vocabulary, looked: &[Looked]) -> Result<(), RunError> {
    let (mut repairs, mut counts) = (Vec::new(), Vec::new());
    for Looked { target, findings, .. } in looked {
        for Finding { interaction, user, kind, before, after, .. } in findings {
            let before = before.clone().unwrap_or_default();
            let number = after.as_deref().and_then(|after| after.parse().ok());
            let repair = match (kind, user) {
                (Kind::StateMissing, Some(user)) => Repair::Fill(*user, number == Some(1)),
                (Kind::HashMissing, _) => Repair::Drop(before),
                (Kind::RedisCountOff | Kind::RedisCountNegative, _) => {
                    let counter = vocabulary.interaction_code(*interaction).is_some_and(|i| !i.has_states());
                    if !counter {
                        counts.push((*target, *interaction));
                    }
                    Repair::Count(before, number.unwrap_or_default())
                }
                _ => continue,
            };
            repairs.push((*target, *interaction, repair));
        }
    }
    for piece in repairs.chunks(REPAIRS) {
        hand.holder.repair(piece).await?;
    }
    // The count of a complete hash is made from its states at that moment, whoever writes meanwhile.
    hand.holder.verify(&counts, COUNTED).await?;
    Ok(())
}
