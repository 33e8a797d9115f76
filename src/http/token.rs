//! Bearer tokens.

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue};
use subtle::{Choice, ConstantTimeEq};

use super::problem::{Kind, Problem};
use crate::config::Secret;

/// Lets a request in that bears any of the tokens. How long it takes does not depend on how much of a token is right.
pub fn check(tokens: &[Secret], headers: &HeaderMap) -> Result<(), Problem> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let (Some(header), None) = (given.next(), given.next()) else {
        return Err(Problem::new(
            Kind::Unauthorized,
            "the header Authorization is missing; send Authorization: Bearer TOKEN",
        ));
    };
    let Some(token) = bearer(header) else {
        return Err(Problem::new(Kind::Unauthorized, "the header Authorization is not of the form Bearer TOKEN"));
    };
    if is_known(tokens, token) {
        return Ok(());
    }
    Err(Problem::new(Kind::Unauthorized, "the token in the header Authorization is none of those that are configured"))
}

/// Whether it is any of the tokens, by a comparison whose time does not depend on how much of it is right.
#[must_use]
pub fn is_known(tokens: &[Secret], token: &[u8]) -> bool {
    tokens.iter().fold(Choice::from(0), |known, good| known | good.expose().as_bytes().ct_eq(token)).into()
}

fn bearer(header: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = header.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_configured_token_is_good_and_nothing_else() {
        let tokens = ["new-token", "old-token"].map(|token| Secret::new(token.to_owned()));
        let refused = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            }
            check(&tokens, &headers).err()
        };
        for good in ["Bearer new-token", "bearer old-token", "BEARER   old-token"] {
            assert_eq!(refused(&[good]), None, "{good}");
        }
        let bad: [&[&str]; 8] = [
            &[],
            &["Bearer new-token", "Bearer new-token"],
            &["Bearer"],
            &["Bearer "],
            &["Basic new-token"],
            &["new-token"],
            &["Bearer new-toke"],
            &["Bearer new-tokenx"],
        ];
        for values in bad {
            let problem = refused(values).unwrap();
            assert_eq!(problem.kind, Kind::Unauthorized);
            assert!(!problem.detail.contains("new-tok"), "{}", problem.detail);
        }
    }
}
