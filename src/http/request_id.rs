//! Request ids: what a client and the log call a request.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// The header that carries it, in requests and in every answer.
pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// The longest that is taken from a request, bytes.
const LONGEST: usize = 128;

/// The id that the request brought, when it is 1 to 128 visible ASCII characters and given once; else a new one.
#[must_use]
pub fn of(headers: &HeaderMap) -> HeaderValue {
    let mut given = headers.get_all(HEADER).iter();
    match (given.next(), given.next()) {
        (Some(value), None) if is_sane(value) => value.clone(),
        _ => new(),
    }
}

/// An id that no other request has.
#[must_use]
pub fn new() -> HeaderValue {
    let id = uuid::Uuid::now_v7().hyphenated().to_string();
    HeaderValue::try_from(id).unwrap_or_else(|_| HeaderValue::from_static("unknown"))
}

fn is_sane(value: &HeaderValue) -> bool {
    let bytes = value.as_bytes();
    (1..=LONGEST).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sane_id_is_kept_and_any_other_replaced() {
        let of_values = |values: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(HEADER, HeaderValue::from_bytes(value).unwrap());
            }
            of(&headers)
        };
        let longest = "x".repeat(LONGEST);
        for good in ["a", "7f:00/Z~", longest.as_str()] {
            assert_eq!(of_values(&[good.as_bytes()]), good);
        }
        let too_long = "x".repeat(LONGEST + 1);
        let bad: [&[&[u8]]; 6] = [&[], &[b""], &[b"a b"], &["é".as_bytes()], &[too_long.as_bytes()], &[b"one", b"two"]];
        for values in bad {
            let id = of_values(values);
            assert_eq!(id.len(), 36, "{values:?}");
            assert_ne!(id, of_values(values));
        }
    }
}
