//! The shapes of answers.

use axum::Json;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, SecondsFormat, Utc};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::schema::{CountText, IdText};
use crate::http::Problem;
use crate::live::{Answer, Source};

/// Says that MySQL answered in the place of Redis.
const SOURCE: HeaderName = HeaderName::from_static("tallyd-source");

/// A body, and who gave it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Told<T> {
    pub(super) source: Source,
    pub(super) body: T,
}

impl<T: Serialize> IntoResponse for Told<T> {
    fn into_response(self) -> Response {
        let body = Json(self.body);
        match self.source {
            Source::Redis => body.into_response(),
            Source::Mysql => ([(SOURCE, HeaderValue::from_static("mysql"))], body).into_response(),
        }
    }
}

/// MySQL, if it gave any of several answers.
pub(super) fn source_of(mut sources: impl Iterator<Item = Source>) -> Source {
    if sources.any(|source| source == Source::Mysql) { Source::Mysql } else { Source::Redis }
}

/// What became of a state.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(super) struct Written {
    /// Whether the state was another before.
    changed: bool,
    /// Whether it is active now.
    active: bool,
    /// The count now; `null` while it is not known.
    #[schema(value_type = Option<CountText>)]
    count: Option<String>,
}

impl From<Answer> for Written {
    fn from(Answer { changed, active, count, source: _ }: Answer) -> Self {
        Self { changed, active, count: count.map(|count| count.to_string()) }
    }
}

/// A state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(super) struct Active {
    /// Whether it is active; `false` when the user never acted.
    pub(super) active: bool,
}

/// A count.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(super) struct Count {
    /// How many users' states are active, or how often viewers were counted; `"0"` of an unknown target.
    #[schema(value_type = CountText)]
    pub(super) count: String,
}

/// The counts of every configured interaction with a target.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(super) struct Counts {
    /// Interaction names and counts, in configured order.
    #[serde(serialize_with = "in_order")]
    #[schema(value_type = std::collections::BTreeMap<String, CountText>)]
    pub(super) counts: Vec<(String, String)>,
}

fn in_order<S: Serializer>(counts: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(counts.len()))?;
    for (name, count) in counts {
        map.serialize_entry(name, count)?;
    }
    map.end()
}

/// What became of a view.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(super) struct Viewed {
    /// Whether the viewer was counted; `false` when that happened already within the counter's window.
    pub(super) counted: bool,
    /// The count now.
    #[schema(value_type = CountText)]
    pub(super) count: String,
}

/// Why one operation or item of a request was refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(super) struct Refused {
    error: RefusedBecause,
}

/// As the body of an error, without its title.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(super) struct RefusedBecause {
    /// What programs branch on.
    #[schema(pattern = "^urn:tallyd:problem:[a-z-]+$", example = "urn:tallyd:problem:invalid-id")]
    r#type: String,
    /// The status code that the operation would have had as a request of its own.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// Which field, and how to mend it.
    detail: String,
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        let (r#type, status) = (problem.kind.urn(), problem.kind.status().as_u16());
        Self { error: RefusedBecause { r#type, status, detail: problem.detail } }
    }
}

/// What a user acted on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(super) struct UserTargets {
    /// Newest first.
    pub(super) targets: Vec<UserTargetItem>,
    /// For `after`, to go on; `null` at the end.
    pub(super) next: Option<String>,
    /// Everything that was written before is in here.
    #[schema(format = DateTime)]
    pub(super) as_of: String,
}

/// One target that a user acted on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = UserTarget)]
pub(super) struct UserTargetItem {
    /// Code of the target type.
    pub(super) target_type: u16,
    /// The target.
    #[schema(value_type = IdText)]
    pub(super) target_id: String,
    /// When the user acted.
    #[schema(format = DateTime)]
    pub(super) time: String,
}

/// RFC 3339, UTC, to the millisecond.
pub(super) fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::http::Kind;

    #[test]
    fn answers_have_their_shapes() {
        let written = |count| Written::from(Answer { changed: true, active: true, count, source: Source::Redis });
        let expected = json!({"changed": true, "active": true, "count": "9007199254740993"});
        assert_eq!(serde_json::to_value(written(Some(9_007_199_254_740_993))).unwrap(), expected);
        let expected = json!({"changed": true, "active": true, "count": null});
        assert_eq!(serde_json::to_value(written(None)).unwrap(), expected);

        let counts = [("view", "3"), ("like", "128")].map(|(name, count)| (name.to_owned(), count.to_owned()));
        let text = serde_json::to_string(&Counts { counts: counts.into() }).unwrap();
        assert_eq!(text, r#"{"counts":{"view":"3","like":"128"}}"#, "in the given order");

        let refused = Refused::from(Problem::new(Kind::InvalidId, "user_id: no"));
        let expected =
            json!({"error": {"type": "urn:tallyd:problem:invalid-id", "status": 422, "detail": "user_id: no"}});
        assert_eq!(serde_json::to_value(refused).unwrap(), expected);
        assert_eq!(time("2026-03-01T12:00:00.0625Z".parse().unwrap()), "2026-03-01T12:00:00.062Z");
    }
}
