//! Checks that many settings share.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::error::Problem;
use super::number::{Number, Whole};

/// A whole number within `range`, as the type that the program uses.
pub(super) fn within<T: TryFrom<i64>>(field: &str, value: Whole, range: RangeInclusive<i64>) -> Result<T, Problem> {
    let Whole(value) = value;
    let refused = || {
        let (least, most) = (range.start(), range.end());
        Problem::new(field, format!("{value} is out of range; give a whole number from {least} to {most}"))
    };
    if range.contains(&value) { T::try_from(value).map_err(|_| refused()) } else { Err(refused()) }
}

/// A whole number of milliseconds from 1 to `most`.
pub(super) fn milliseconds(field: &str, value: Whole, most: i64) -> Result<Duration, Problem> {
    within(field, value, 1..=most).map(Duration::from_millis)
}

/// A whole number of seconds from 1 to `most`.
pub(super) fn seconds(field: &str, value: Whole, most: i64) -> Result<Duration, Problem> {
    within(field, value, 1..=most).map(Duration::from_secs)
}

/// A share of more than 0 and at most 100 percent.
pub(super) fn percent(field: &str, value: Number) -> Result<f64, Problem> {
    let Number(value) = value;
    if value > 0.0 && value <= 100.0 {
        return Ok(value);
    }
    Err(Problem::new(field, format!("{value} is out of range; give a number above 0 and not above 100")))
}

/// One of a few words.
pub(super) fn choice<T: Copy>(field: &str, value: &str, choices: &[(&str, T)]) -> Result<T, Problem> {
    choices.iter().find(|(word, _)| *word == value).map(|(_, meaning)| *meaning).ok_or_else(|| {
        let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
        Problem::new(field, format!("{value:?} is none of {}", words.join(", ")))
    })
}

/// A text that is not blank, if there is one.
pub(super) fn text(field: &str, value: Option<&str>) -> Result<Option<String>, Problem> {
    match value {
        Some(text) if text.trim().is_empty() => {
            Err(Problem::new(field, "is empty; give a value, or leave the key out"))
        }
        text => Ok(text.map(str::to_owned)),
    }
}

/// A path that is not blank, if there is one.
pub(super) fn path(field: &str, value: Option<&str>) -> Result<Option<PathBuf>, Problem> {
    Ok(text(field, value)?.map(PathBuf::from))
}

/// Where to listen; off this machine only when tokens are asked for.
pub(super) fn listen(section: &str, value: &str, has_tokens: bool) -> Result<SocketAddr, Problem> {
    let field = format!("{section}.listen");
    let address: SocketAddr = value
        .parse()
        .map_err(|_| Problem::new(&field, format!("{value:?} is not IP:PORT, such as 127.0.0.1:7780 or [::]:7780")))?;
    if has_tokens || address.ip().to_canonical().is_loopback() {
        return Ok(address);
    }
    let what = format!(
        "{address} can be reached from other machines, and without {section}.token_file anyone may use it; set \
         {section}.token_file, or listen on 127.0.0.1"
    );
    Err(Problem::new(field, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_within_its_range() {
        let rows = |value| within::<u32>("sync.batch_rows", Whole(value), 1..=1_000_000);
        assert_eq!((rows(1), rows(1_000_000)), (Ok(1), Ok(1_000_000)));
        for bad in [0, -1, 1_000_001] {
            let text = rows(bad).unwrap_err().to_string();
            assert_eq!(text, format!("sync.batch_rows: {bad} is out of range; give a whole number from 1 to 1000000"));
        }
        assert_eq!(percent("p", Number(100.0)), Ok(100.0));
        for bad in [0.0, -1.0, 100.1] {
            assert!(percent("p", Number(bad)).is_err());
        }
        assert_eq!(milliseconds("t", Whole(300), 60_000), Ok(Duration::from_millis(300)));
        assert!(seconds("t", Whole(0), 60).is_err());
    }

    #[test]
    fn only_loopback_goes_without_tokens() {
        for good in ["127.0.0.1:7780", "127.8.0.1:0", "[::1]:7780", "[::ffff:127.0.0.1]:1"] {
            assert!(listen("api", good, false).is_ok(), "{good}");
        }
        for bad in ["0.0.0.0:7780", "[::]:7780", "192.168.1.4:7780", "[::ffff:10.0.0.1]:1"] {
            let text = listen("api", bad, false).unwrap_err().to_string();
            assert!(text.starts_with("api.listen: ") && text.contains("api.token_file"), "{text}");
            assert!(listen("api", bad, true).is_ok(), "{bad}");
        }
        assert!(listen("api", "localhost", true).is_err());
    }
}
