//! Errors, as RFC 9457 describes them.

use std::time::Duration;

use axum::Json;
use axum::http::header::{ALLOW, CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// The longest detail, bytes: it may quote what was sent.
const LONGEST: usize = 400;

/// Kinds of errors; each has a name and a status of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The request cannot be understood.
    Malformed,
    /// No token, or a wrong one.
    Unauthorized,
    /// A browser sent it for a page of another site.
    CrossSite,
    /// No interaction of this name is configured.
    UnknownInteraction,
    /// No target type of this code or name is configured.
    UnknownTargetType,
    /// There is nothing at this path.
    NotFound,
    /// Not with this method.
    MethodNotAllowed,
    /// The body did not come in time.
    RequestTimeout,
    /// More than is taken at once.
    TooLarge,
    /// Not an id.
    InvalidId,
    /// Too many requests.
    RateLimited,
    /// A fault of this program.
    Internal,
    /// Not now.
    Unavailable,
}

impl Kind {
    /// All, by status.
    pub const ALL: [Self; 13] = [
        Self::Malformed,
        Self::Unauthorized,
        Self::CrossSite,
        Self::UnknownInteraction,
        Self::UnknownTargetType,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::RequestTimeout,
        Self::TooLarge,
        Self::InvalidId,
        Self::RateLimited,
        Self::Internal,
        Self::Unavailable,
    ];

    /// The last word of `type`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.parts().0
    }

    /// The status code.
    #[must_use]
    pub fn status(self) -> StatusCode {
        self.parts().1
    }

    /// One line for people, the same for every error of the kind.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.parts().2
    }

    /// The identifier that programs branch on.
    #[must_use]
    pub fn urn(self) -> String {
        format!("urn:tallyd:problem:{}", self.name())
    }

    fn parts(self) -> (&'static str, StatusCode, &'static str) {
        match self {
            Self::Malformed => ("malformed", StatusCode::BAD_REQUEST, "The request cannot be understood"),
            Self::Unauthorized => ("unauthorized", StatusCode::UNAUTHORIZED, "A valid token is needed"),
            Self::CrossSite => ("cross-site", StatusCode::FORBIDDEN, "Not for a page of another site"),
            Self::UnknownInteraction => ("unknown-interaction", StatusCode::NOT_FOUND, "No such interaction"),
            Self::UnknownTargetType => ("unknown-target-type", StatusCode::NOT_FOUND, "No such target type"),
            Self::NotFound => ("not-found", StatusCode::NOT_FOUND, "Nothing is here"),
            Self::MethodNotAllowed => {
                ("method-not-allowed", StatusCode::METHOD_NOT_ALLOWED, "Not possible with this method")
            }
            Self::RequestTimeout => ("request-timeout", StatusCode::REQUEST_TIMEOUT, "The request took too long"),
            Self::TooLarge => ("too-large", StatusCode::PAYLOAD_TOO_LARGE, "More than is taken at once"),
            Self::InvalidId => ("invalid-id", StatusCode::UNPROCESSABLE_ENTITY, "Not an id"),
            Self::RateLimited => ("rate-limited", StatusCode::TOO_MANY_REQUESTS, "Too many requests"),
            Self::Internal => ("internal", StatusCode::INTERNAL_SERVER_ERROR, "A fault of this program"),
            Self::Unavailable => ("unavailable", StatusCode::SERVICE_UNAVAILABLE, "Not possible at this time"),
        }
    }

    fn is_temporary(self) -> bool {
        matches!(self, Self::RateLimited | Self::Unavailable)
    }
}

/// Why a request was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// What kind of error.
    pub kind: Kind,
    /// Which field, and how to mend it.
    pub detail: String,
    retry_after: Duration,
    allow: Option<&'static str>,
}

/// The body of an error.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody {
    /// What programs branch on.
    #[schema(pattern = "^urn:tallyd:problem:[a-z-]+$", example = "urn:tallyd:problem:invalid-id")]
    pub r#type: String,
    /// The same for every error of this type.
    pub title: &'static str,
    /// The status code of the answer.
    #[schema(minimum = 400, maximum = 599)]
    pub status: u16,
    /// Which field, and how to mend it.
    pub detail: String,
}

impl Problem {
    /// An error of this kind. Where asking again helps, it says to do so after a second.
    #[must_use]
    pub fn new(kind: Kind, detail: impl Into<String>) -> Self {
        let mut detail = detail.into();
        if detail.len() > LONGEST {
            detail.truncate(detail.floor_char_boundary(LONGEST));
            detail.push('…');
        }
        Self { kind, detail, retry_after: Duration::from_secs(1), allow: None }
    }

    /// Not now; asking again is worth it after `retry_after`.
    #[must_use]
    pub fn unavailable(detail: impl Into<String>, retry_after: Duration) -> Self {
        Self { retry_after, ..Self::new(Kind::Unavailable, detail) }
    }

    /// More than is taken now; asking again is worth it after `retry_after`.
    #[must_use]
    pub fn rate_limited(detail: impl Into<String>, retry_after: Duration) -> Self {
        Self { retry_after, ..Self::new(Kind::RateLimited, detail) }
    }

    /// 405 where only the methods `allow` (comma-separated) are possible.
    #[must_use]
    pub fn not_allowed(allow: &'static str, detail: impl Into<String>) -> Self {
        Self { allow: Some(allow), ..Self::new(Kind::MethodNotAllowed, detail) }
    }

    pub(super) fn into_body(self) -> ProblemBody {
        let Self { kind, detail, retry_after: _, allow: _ } = self;
        ProblemBody { r#type: kind.urn(), title: kind.title(), status: kind.status().as_u16(), detail }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self { kind, detail: _, retry_after, allow } = self;
        let mut response = (kind.status(), Json(self.into_body())).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if kind.is_temporary() {
            // Whole seconds, rounded up: earlier would be in vain.
            let seconds = retry_after.as_millis().div_ceil(1000).max(1);
            headers.insert(RETRY_AFTER, HeaderValue::from(u64::try_from(seconds).unwrap_or(u64::MAX)));
        }
        match kind {
            Kind::Unauthorized => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            // The rest of the body may still be on its way.
            Kind::RequestTimeout => {
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        if let Some(allow) = allow {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn parts(problem: Problem) -> (StatusCode, axum::http::HeaderMap, serde_json::Value) {
        let (parts, body) = problem.into_response().into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        (parts.status, parts.headers, serde_json::from_slice(&bytes).unwrap())
    }

    #[tokio::test]
    async fn an_error_names_its_type_title_status_and_detail() {
        let (status, headers, body) = parts(Problem::new(Kind::InvalidId, "user_id: no")).await;
        assert_eq!(
            (status.as_u16(), &headers[CONTENT_TYPE]),
            (422, &HeaderValue::from_static("application/problem+json"))
        );
        let expected = serde_json::json!({
            "type": "urn:tallyd:problem:invalid-id", "title": "Not an id", "status": 422, "detail": "user_id: no"
        });
        assert_eq!(body, expected);
        assert!(!headers.contains_key(RETRY_AFTER) && !headers.contains_key(ALLOW));
    }

    #[tokio::test]
    async fn headers_say_what_helps() {
        for (after, said) in [(0, "1"), (1000, "1"), (1001, "2"), (30_000, "30")] {
            let (_, headers, _) = parts(Problem::unavailable("no", Duration::from_millis(after))).await;
            assert_eq!(headers[RETRY_AFTER], said);
        }
        assert_eq!(parts(Problem::new(Kind::RateLimited, "")).await.1[RETRY_AFTER], "1");
        assert_eq!(parts(Problem::new(Kind::Unauthorized, "")).await.1[WWW_AUTHENTICATE], "Bearer");
        assert_eq!(parts(Problem::not_allowed("GET", "")).await.1[ALLOW], "GET");
    }

    #[test]
    fn a_detail_does_not_repeat_megabytes() {
        let detail = Problem::new(Kind::Malformed, "é".repeat(10_000)).detail;
        assert!(detail.len() < LONGEST + 4 && detail.ends_with('…'), "{}", detail.len());
    }

    #[test]
    fn names_and_titles_are_told_apart() {
        for (at, kind) in Kind::ALL.into_iter().enumerate() {
            let rest = &Kind::ALL[at + 1..];
            assert!(rest.iter().all(|other| other.name() != kind.name() && other.title() != kind.title()), "{kind:?}");
            assert!(kind.urn().strip_prefix("urn:tallyd:problem:").is_some_and(|name| name == kind.name()));
        }
    }
}
