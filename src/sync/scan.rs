//! Full scans: of dirty targets without a change, and of every dirty target where other programs write too.

use std::collections::HashMap;

use super::error::RunError;
use super::pipeline::Pending;
use super::work::{Rules, Work};
use crate::model::{Chunk, CountValue, Id, Scan};
use crate::store::{Marks, ScanItem, Scanned, revalue};

/// Targets whose first pages are read together. Redis returns a small hash whole, whatever is asked for: with the
/// default limits of its compact encodings these are a few thousand states, a few milliseconds.
pub(super) const TARGETS: usize = 16;

/// States of one hash that are remembered to count each once (some tens of MiB at most); the count of a larger one
/// is left to reconciliation.
pub(super) const COUNTED: usize = 1_000_000;

/// The hashes to be scanned of a target: all, or, when its changes are acked, those that other programs write too.
pub(super) fn items_of(rules: &Rules<'_>, target: Id, acked: bool) -> impl Iterator<Item = ScanItem> {
    let chosen = rules.vocabulary.interactions.iter().filter(move |i| !acked || i.scan == Scan::Full);
    chosen.map(move |i| ScanItem { target, interaction: i.code, cursor: 0 })
}

impl Work<'_> {
    pub(super) async fn drain_scans(&mut self, whole: bool) -> Result<(), RunError> {
        let mut cursor = 0;
        loop {
            self.go_on()?;
            let (next, targets, bad) = self.holder.scan_targets(Marks::Claimed, cursor).await?;
            for batch in targets.chunks(TARGETS) {
                self.go_on()?;
                self.scan_batch(batch, whole).await?;
            }
            for piece in bad.chunks(self.rules.chunk()) {
                let chunk = self.set_aside(piece).await?;
                self.push(chunk, Pending { bad_targets: piece.to_vec(), ..Pending::none() }).await?;
            }
            self.settle().await?;
            self.replay().await?;
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// Scans some targets; they are acked with the last chunk of theirs.
    async fn scan_batch(&mut self, targets: &[(Id, bool)], whole: bool) -> Result<(), RunError> {
        let items: Vec<ScanItem> =
            targets.iter().flat_map(|&(target, acked)| items_of(&self.rules, target, acked && !whole)).collect();
        let (mut chunk, pages) = self.holder.read_scan(&items).await?;
        let mut large = Vec::new();
        for page in pages {
            if page.item.cursor != 0 {
                large.push(page);
            } else if page.vouches() && page.disagrees(active(&page)) {
                // One page is one moment: count and states are of the same time.
                self.correct(&mut chunk, &page, active(&page)).await?;
            }
        }
        let targets: Vec<Id> = targets.iter().map(|&(target, _)| target).collect();
        let acked = Pending { ended: targets.clone(), targets, ..Pending::none() };
        if large.is_empty() {
            return self.push(chunk, acked).await;
        }
        self.push(chunk, Pending::none()).await?;
        for page in large {
            self.scan_large(page).await?;
        }
        let chunk = self.set_aside(&[]).await?;
        self.push(chunk, acked).await
    }

    /// Goes on with a hash of many pages, to its end.
    async fn scan_large(&mut self, first: Scanned) -> Result<(), RunError> {
        let mut seen: HashMap<Id, bool> = first.states.iter().copied().collect();
        let mut item = first.item;
        while item.cursor != 0 {
            self.go_on()?;
            let (mut chunk, mut pages) = self.holder.read_scan(&[item]).await?;
            let Some(page) = pages.pop() else { return Ok(()) };
            item = page.item;
            if seen.len() <= COUNTED {
                seen.extend(page.states.iter().copied());
            }
            if item.cursor == 0 {
                // Rows are counted below only when all of them are committed.
                self.settle().await?;
                let active = seen.values().filter(|&&active| active).count().try_into().unwrap_or(i64::MAX);
                let counted = seen.len() <= COUNTED && !page.written_meanwhile && page.vouches();
                if counted && page.disagrees(active) {
                    self.correct(&mut chunk, &page, active).await?;
                }
            }
            self.push(chunk, Pending::none()).await?;
        }
        Ok(())
    }

    /// Reports a count that disagrees. Where the hash is complete it is set right, and the right one is copied; else
    /// MySQL counts its own rows.
    async fn correct(&mut self, chunk: &mut Chunk, page: &Scanned, active: i64) -> Result<(), RunError> {
        let before = page.count.unwrap_or_default();
        self.drifted(page.item.target, page.item.interaction, &before.to_string(), active);
        let corrected = page.complete && self.holder.correct(&page.item, before, active).await?;
        revalue(chunk, &page.item, if corrected { CountValue::Known(active) } else { CountValue::Recompute });
        Ok(())
    }
}

/// The active states on a page.
pub(super) fn active(page: &Scanned) -> i64 {
    page.states.iter().filter(|(_, active)| *active).count().try_into().unwrap_or(i64::MAX)
}
