//! From the words of a request to configured codes and ids.

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::http::{Kind, Problem};
use crate::model::{Id, Interaction, Vocabulary};

/// The interaction of this name.
pub(super) fn interaction<'v>(vocabulary: &'v Vocabulary, name: &str) -> Result<&'v Interaction, Problem> {
    vocabulary.interaction(name).ok_or_else(|| {
        let names: Vec<&str> = vocabulary.interactions.iter().map(|interaction| interaction.name.as_str()).collect();
        let detail = format!("interaction: {name:?} is not configured; there are {}", names.join(", "));
        Problem::new(Kind::UnknownInteraction, detail)
    })
}

/// Refuses a counter where a user's state is meant.
pub(super) fn has_states(interaction: &Interaction) -> Result<(), Problem> {
    if interaction.has_states() {
        return Ok(());
    }
    let detail = format!(
        "interaction: {} is a counter and keeps no states of users; POST /v1/{}/TARGET_TYPE/TARGET_ID counts",
        interaction.name, interaction.name
    );
    Err(Problem::not_allowed("", detail))
}

/// The code of the target type of this code or name.
pub(super) fn target_type(vocabulary: &Vocabulary, text: &str) -> Result<u16, Problem> {
    vocabulary.target_type(text).map(|target| target.code).ok_or_else(|| {
        let known: Vec<String> = vocabulary.targets.iter().map(|t| format!("{} ({})", t.code, t.name)).collect();
        let detail = format!("target_type: {text:?} is not configured; there are {}", known.join(", "));
        Problem::new(Kind::UnknownTargetType, detail)
    })
}

/// The id that the field spells.
pub(super) fn id(field: &str, text: &str) -> Result<Id, Problem> {
    text.parse().map_err(|error| Problem::new(Kind::InvalidId, format!("{field}: {text:?} is not an id; {error}")))
}

/// The parameters in the path; `malformed` when they are not UTF-8.
pub(super) struct InPath<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for InPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(values)) => Ok(Self(values)),
            Err(error) => Err(Problem::new(Kind::Malformed, format!("path: {error}; percent-encode UTF-8"))),
        }
    }
}

/// The parameters after the question mark; `malformed` when one is unknown, twice there, or not of its type.
pub(super) struct InQuery<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for InQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(values)) => Ok(Self(values)),
            Err(error) => Err(Problem::new(Kind::Malformed, format!("query: {}", error.body_text()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path as FilePath;

    use super::*;
    use crate::config::Config;

    #[test]
    fn words_become_codes_or_errors_that_name_the_field_and_what_there_is() {
        let vocabulary = Config::parse("", [], FilePath::new("f")).unwrap().vocabulary;
        assert_eq!(interaction(&vocabulary, "like").unwrap().code, 1);
        assert_eq!((target_type(&vocabulary, "2"), target_type(&vocabulary, "video")), (Ok(2), Ok(2)));
        assert_eq!(id("user_id", "9223372036854775807").unwrap().get(), i64::MAX);

        let problem = interaction(&vocabulary, "love").unwrap_err();
        assert_eq!(problem.kind, Kind::UnknownInteraction);
        assert_eq!(problem.detail, "interaction: \"love\" is not configured; there are like, collect, follow, view");
        for bad in ["9", "02", "Video", ""] {
            assert_eq!(target_type(&vocabulary, bad).unwrap_err().kind, Kind::UnknownTargetType, "{bad}");
        }
        let problem = id("user_id", "9223372036854775808").unwrap_err();
        assert!(problem.kind == Kind::InvalidId && problem.detail.starts_with("user_id: "), "{problem:?}");
        assert_eq!(has_states(interaction(&vocabulary, "view").unwrap()).unwrap_err().kind, Kind::MethodNotAllowed);
    }
}
