//! Claimed changes as a drain holds them: many, packed, in key order.

use tokio_util::sync::CancellationToken;

use super::error::RunError;
use super::work::go_on;
use crate::model::{Change, Id};
use crate::sink::SinkError;
use crate::store::{BadMark, ChangePage, Holder, Marks};

/// Changes held at once, at 24 bytes each. Rows that come together in key order cost MySQL far less than rows that come
/// in the order of a hash, and a count is written once for all the changes of its target that are held.
const CHANGES: usize = 1_000_000;

/// What the last page brings beyond that.
const BEYOND: usize = CHANGES / 64;

/// Marks that cannot be read are kept as they are, in some hundreds of bytes each.
const BAD: usize = 50_000;

/// Where the code of the interaction begins, above the event time: 48 bits hold every time that MySQL can.
const CODE: u32 = 48;
const TIME: u64 = (1 << CODE) - 1;

/// Some pages of the change hash.
#[derive(Debug, Default)]
pub(super) struct Slab {
    /// Where to go on; `0` at the end.
    pub(super) cursor: u64,
    /// In key order, each once.
    changes: Vec<Packed>,
    /// What cannot be read as a change.
    pub(super) bad: Vec<BadMark>,
}

impl Slab {
    /// Reads from `cursor` on until there is no more, or as much as is held at once.
    pub(super) async fn read(
        holder: &Holder,
        marks: Marks,
        cursor: u64,
        stop: &CancellationToken,
    ) -> Result<Self, RunError> {
        let mut slab = Self::default();
        let mut page = holder.scan_changes(marks, cursor).await?;
        if page.cursor != 0 {
            // At once: a vector that grows is there twice while it moves. What is not used costs no memory.
            slab.changes.reserve_exact(CHANGES + BEYOND);
        }
        loop {
            go_on(stop)?;
            slab.cursor = page.cursor;
            if slab.cursor == 0 || slab.changes.len() >= CHANGES || slab.bad.len() >= BAD {
                slab.put(holder, page);
                slab.changes = sorted(slab.changes).await?;
                return Ok(slab);
            }
            // Redis reads on while this one is put away.
            let (next, ()) = tokio::join!(holder.scan_changes(marks, page.cursor), async { slab.put(holder, page) });
            page = next?;
        }
    }

    fn put(&mut self, holder: &Holder, page: ChangePage) {
        for change in holder.changes_of(page) {
            match change {
                Ok(change) => self.changes.push(Packed::of(&change)),
                Err(bad) => self.bad.push(bad),
            }
        }
    }

    /// Pieces of at most `size` changes, each with the target of the change that comes after it. A target that fits into
    /// a piece is in one alone.
    pub(super) fn pieces(&self, size: usize) -> impl Iterator<Item = (Vec<Change>, Option<Id>)> {
        let mut rest = &self.changes[..];
        std::iter::from_fn(move || {
            let after = rest.get(size).map(|change| change.target);
            let fits = match after {
                Some(target) => rest[..size].partition_point(|change| change.target < target),
                None => rest.len(),
            };
            let (piece, others) = rest.split_at_checked(if fits == 0 { size } else { fits })?;
            rest = others;
            let after = rest.first().and_then(Packed::change).map(|change| change.target);
            (!piece.is_empty()).then(|| (piece.iter().filter_map(Packed::change).collect(), after))
        })
    }
}

/// In key order, each once. It takes a tenth of a second that no request should wait for.
async fn sorted(mut changes: Vec<Packed>) -> Result<Vec<Packed>, RunError> {
    let sorting = tokio::task::spawn_blocking(move || {
        changes.sort_unstable_by_key(Packed::key);
        changes.dedup();
        changes
    });
    Ok(sorting.await.map_err(|error| SinkError::Internal(format!("changes could not be sorted: {error}")))?)
}

/// A change in 24 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Packed {
    target: i64,
    /// `0` for a counter.
    user: i64,
    code_and_time: u64,
}

impl Packed {
    fn of(&Change { target, interaction, user, at_ms }: &Change) -> Self {
        let code_and_time = u64::from(interaction) << CODE | at_ms.cast_unsigned() & TIME;
        Self { target: target.get(), user: user.map_or(0, Id::get), code_and_time }
    }

    fn key(&self) -> (i64, u64, i64, u64) {
        (self.target, self.code_and_time >> CODE, self.user, self.code_and_time)
    }

    /// As it was packed; always there.
    fn change(&self) -> Option<Change> {
        Some(Change {
            target: Id::try_from(self.target).ok()?,
            interaction: u16::try_from(self.code_and_time >> CODE).ok()?,
            user: Id::try_from(self.user).ok(),
            at_ms: (self.code_and_time & TIME).cast_signed(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(target: i64, interaction: u16, user: i64, at_ms: i64) -> Change {
        let id = |n: i64| Id::try_from(n);
        Change { target: id(target).unwrap(), interaction, user: id(user).ok(), at_ms }
    }

    #[test]
    fn what_is_packed_comes_back_in_key_order() {
        let mut changes = vec![
            change(i64::MAX, u16::MAX, i64::MAX, 253_402_300_799_999),
            change(i64::MAX, 1, i64::MAX, 0),
            change(7, 4, 0, 1_700_000_000_123),
            change(7, 1, 9, 1_700_000_000_124),
            change(7, 1, 8, 1_700_000_000_125),
        ];
        let mut packed: Vec<Packed> = changes.iter().map(Packed::of).collect();
        packed.sort_unstable_by_key(Packed::key);
        changes.sort_unstable();
        assert_eq!(packed.iter().filter_map(Packed::change).collect::<Vec<_>>(), changes);
        assert_eq!(size_of::<Packed>(), 24);
    }

    #[test]
    fn pieces_know_what_comes_after_them() {
        let changes = [change(1, 1, 1, 5), change(1, 1, 2, 5), change(2, 1, 1, 5)];
        let slab = Slab { changes: changes.iter().map(Packed::of).collect(), ..Slab::default() };
        let pieces: Vec<_> = slab.pieces(2).collect();
        assert_eq!(pieces, [(changes[..2].to_vec(), Some(changes[2].target)), (changes[2..].to_vec(), None)]);
        assert_eq!(Slab::default().pieces(2).count(), 0);
    }

    #[test]
    fn only_a_target_larger_than_a_piece_is_in_several() {
        let sizes = [(1, 2), (2, 2), (3, 7), (4, 3), (5, 1)];
        let changes = sizes.iter().flat_map(|&(target, size)| (1..=size).map(move |user| change(target, 1, user, 5)));
        let slab = Slab { changes: changes.map(|change| Packed::of(&change)).collect(), ..Slab::default() };
        let pieces: Vec<Vec<i64>> =
            slab.pieces(3).map(|(piece, _)| piece.iter().map(|change| change.target.get()).collect()).collect();
        let expected: [&[i64]; 7] = [&[1, 1], &[2, 2], &[3, 3, 3], &[3, 3, 3], &[3], &[4, 4, 4], &[5]];
        assert_eq!(pieces, expected);
    }
}
