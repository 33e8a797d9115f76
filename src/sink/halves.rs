//! Finding the row that MySQL refuses: a chunk is halved until it is alone.

use std::collections::BTreeSet;

use crate::model::{Chunk, CountRow, CountValue, Id, RecordRow};

/// A chunk that was refused, taken apart.
pub(super) enum Halves {
    Two(Chunk, Chunk),
    One(Chunk),
    None,
}

/// Halves a chunk in its order: records, then counts that are copied. What is set aside already stays in the first
/// half. Counts that are counted again go with their records, into both halves if need be: where they are moved by
/// flips, each half moves them by its own.
pub(super) fn halves(mut chunk: Chunk) -> Halves {
    let (again, copied): (Vec<CountRow>, Vec<CountRow>) =
        std::mem::take(&mut chunk.counts).into_iter().partition(|row| row.value == CountValue::Recompute);
    let rows = chunk.records.len() + copied.len();
    if rows <= 1 && (rows == 1 || again.len() <= 1) {
        let none = rows == 0 && again.is_empty();
        chunk.counts = copied.into_iter().chain(again).collect();
        return if none { Halves::None } else { Halves::One(chunk) };
    }
    if rows == 0 {
        let (first, second) = again.split_at(again.len() / 2);
        let second = Chunk { counts: second.to_vec(), rejected: vec![], ..chunk.clone() };
        return Halves::Two(Chunk { counts: first.to_vec(), ..chunk }, second);
    }
    let at = (rows / 2).min(chunk.records.len());
    let records = chunk.records.split_off(at);
    let (first, second) = copied.split_at(rows / 2 - at);
    let keys = |rows: &[RecordRow]| rows.iter().map(|row| (row.target, row.interaction)).collect::<BTreeSet<_>>();
    let (in_first, in_second) = (keys(&chunk.records), keys(&records));
    let go_with = |half: &[CountRow], chosen: &dyn Fn(&(Id, u16)) -> bool| {
        let again = again.iter().filter(|row| chosen(&(row.target, row.interaction)));
        half.iter().chain(again).copied().collect()
    };
    let second = Chunk {
        counts: go_with(second, &|key| in_second.contains(key) || !in_first.contains(key)),
        records,
        rejected: vec![],
        ..chunk
    };
    chunk.counts = go_with(first, &|key| in_first.contains(key));
    Halves::Two(chunk, second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Checkpoint, Source};

    fn chunk(records: i64, copied: i64, again: i64) -> Chunk {
        let id = |n: i64| n.try_into().unwrap();
        let record = |n| RecordRow { target: id(n), interaction: 1, user: id(1), active: true, at_ms: 1 };
        let count = |n, value| CountRow { target: id(n), interaction: 1, value, at_ms: 1, settled: true };
        let again = (1..=again).map(|n| count(n, CountValue::Recompute));
        Chunk {
            checkpoint: Checkpoint::first(1),
            source: Source::Changes,
            records: (1..=records).map(record).collect(),
            counts: (100..100 + copied).map(|n| count(n, CountValue::Known(n))).chain(again).collect(),
            rejected: vec![],
        }
    }

    #[test]
    fn halving_keeps_every_row_once_and_recounts_with_their_records() {
        for (records, copied, again) in [(1, 1, 1), (2, 0, 2), (0, 2, 0), (0, 0, 2), (7, 3, 7), (1, 5, 0), (4, 0, 6)] {
            let whole = chunk(records, copied, again);
            let Halves::Two(first, second) = halves(whole.clone()) else { panic!("two rows or more") };
            assert_eq!([first.records.clone(), second.records.clone()].concat(), whole.records);
            let parts = [&first, &second];
            for count in &whole.counts {
                assert!(parts.iter().any(|part| part.counts.contains(count)), "{count:?}");
            }
            for (part, other) in [(&first, &second), (&second, &first)] {
                assert!(part.records.len() + part.counts.len() < whole.records.len() + whole.counts.len());
                for record in &part.records {
                    let again = |row: &&CountRow| row.target == record.target && row.value == CountValue::Recompute;
                    assert_eq!(part.counts.iter().any(|r| again(&r)), whole.counts.iter().any(|r| again(&r)));
                }
                assert!(part.records.is_empty() || other.records.first() != part.records.first());
            }
        }
        assert!(matches!(halves(chunk(1, 0, 1)), Halves::One(_)));
        assert!(matches!(halves(chunk(0, 0, 1)), Halves::One(_)));
        assert!(matches!(halves(chunk(0, 0, 0)), Halves::None));
    }
}
