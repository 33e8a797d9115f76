//! Figures as people read them.

use chrono::{DateTime, Utc};

/// What stands where a figure is not known.
pub(crate) const UNKNOWN: &str = "–";

/// `12,345`
pub(crate) fn number(figure: u64) -> String {
    let digits = figure.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(crate) fn known(figure: Option<u64>) -> String {
    figure.map_or_else(|| UNKNOWN.to_owned(), number)
}

/// `1 target`, `12,345 targets`
pub(crate) fn counted(figure: u64, one: &str, many: &str) -> String {
    format!("{} {}", number(figure), if figure == 1 { one } else { many })
}

/// Two units at most: `840 ms`, `12.3 s`, `4 min 5 s`, `3 h 20 min`, `2 d 4 h`.
pub(crate) fn duration(ms: u64) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    let seconds = ms / 1000;
    let two = |large: u64, name: &str, small: u64, other: &str| match (seconds / large, seconds % large / small) {
        (whole, 0) => format!("{whole} {name}"),
        (whole, rest) => format!("{whole} {name} {rest} {other}"),
    };
    match seconds {
        0 => format!("{ms} ms"),
        1..MINUTE => format!("{seconds}.{} s", ms % 1000 / 100),
        MINUTE..HOUR => two(MINUTE, "min", 1, "s"),
        HOUR..DAY => two(HOUR, "h", MINUTE, "min"),
        _ => two(DAY, "d", HOUR, "h"),
    }
}

/// `2026-11-30 03:30:00 UTC`
pub(crate) fn time(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// `99.8 %`, which no line break parts; 100 and 0 only when it is all or nothing.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 || part >= whole {
        return "100\u{a0}%".to_owned();
    }
    let tenths = u128::from(part) * 1000 / u128::from(whole);
    match tenths {
        0 if part > 0 => "under 0.1\u{a0}%".to_owned(),
        0 => "0\u{a0}%".to_owned(),
        _ => format!("{}.{}\u{a0}%", tenths / 10, tenths % 10),
    }
}

/// `redis_count_off` → `redis count off`
pub(crate) fn plain(word: &str) -> String {
    word.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_grouped_and_durations_have_two_units() {
        let told: Vec<_> = [0, 999, 1000, 12_345, 1_234_567].map(number).into();
        assert_eq!(told, ["0", "999", "1,000", "12,345", "1,234,567"]);
        assert_eq!(number(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!((counted(1, "target", "targets"), known(None)), ("1 target".into(), "–".into()));
        let told: Vec<_> =
            [0, 999, 1000, 59_999, 60_000, 61_000, 3_600_000, 12_000_000, 187_200_000].map(duration).into();
        assert_eq!(told, ["0 ms", "999 ms", "1.0 s", "59.9 s", "1 min", "1 min 1 s", "1 h", "3 h 20 min", "2 d 4 h"]);
    }

    #[test]
    fn a_share_is_all_or_nothing_only_when_it_is() {
        let told: Vec<_> =
            [(0, 10), (1, 10_000), (9_999, 10_000), (10, 10), (0, 0), (1, 3)].map(|(a, b)| percent(a, b)).into();
        assert_eq!(told, ["0\u{a0}%", "under 0.1\u{a0}%", "99.9\u{a0}%", "100\u{a0}%", "100\u{a0}%", "33.3\u{a0}%"]);
    }
}
