//! Cutting rows into statements: by placeholders, by bytes, and into few different texts.

/// The most placeholders that one prepared statement may have.
const PLACEHOLDERS: usize = 65_535;

/// The most rows one statement may have.
///
/// `row_bytes` is what a row needs at most, in the text when prepared or on the wire when executed, whichever is
/// more; a kibibyte of `max_packet` is left for the rest.
pub(super) fn rows_per_statement(wanted: usize, placeholders: usize, row_bytes: usize, max_packet: usize) -> usize {
    let by_bytes = max_packet.saturating_sub(1024) / row_bytes.max(1);
    wanted.min(PLACEHOLDERS / placeholders.max(1)).min(by_bytes).max(1)
}

/// Cuts `rows` into statements of at most `full` rows: full ones first, then powers of two.
///
/// The server keeps a prepared statement for each text, and the connection caches a hundred of them: with at most
/// `log2(full) + 1` sizes they stay prepared.
pub(super) fn pieces<T>(rows: &[T], full: usize) -> impl Iterator<Item = &[T]> {
    let full = full.max(1);
    let mut rest = rows;
    std::iter::from_fn(move || {
        let size = if rest.len() >= full { full } else { 1 << rest.len().checked_ilog2()? };
        let (piece, after) = rest.split_at(size);
        rest = after;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_keep_to_placeholders_and_packets() {
        assert_eq!(rows_per_statement(1000, 7, 100, 16 << 20), 1000);
        assert_eq!(rows_per_statement(50_000, 7, 100, 64 << 20), 9362, "65,535 placeholders");
        assert_eq!(rows_per_statement(50_000, 7, 200, 1 << 20), 5237, "1 MiB packets");
        assert_eq!(rows_per_statement(1000, 7, 100, 16 << 10), 153, "16 KiB packets");
        assert_eq!(rows_per_statement(1000, 7, 100, 0), 1);
    }

    #[test]
    fn pieces_cover_every_row_once_with_few_sizes() {
        let mut sizes = std::collections::BTreeSet::new();
        for count in 0..3000 {
            let rows: Vec<usize> = (0..count).collect();
            let cut: Vec<&[usize]> = pieces(&rows, 1000).collect();
            assert_eq!(cut.concat(), rows);
            sizes.extend(cut.iter().map(|piece| piece.len()));
        }
        assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000]);
    }
}
