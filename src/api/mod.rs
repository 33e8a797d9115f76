//! The HTTP API: recording interactions, and asking for them.
//!
//! It turns requests into calls of [`Live`], and answers into JSON; what it means to like something is decided there.
//! Checks come in this order: token, path and method, interaction, target type, ids, body. Ids and counts are strings
//! in answers, because JSON numbers lose digits above 2^53 in many languages.

mod answer;
mod batch;
mod count;
mod cursor;
mod input;
mod lookup;
mod openapi;
mod query;
mod schema;
mod state;
mod users;
mod view;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use tokio_util::task::TaskTracker;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::config::Tokens;
use crate::http::guard::{Guard, Guarded, Protects};
use crate::http::{Kind, Problem, with_fallbacks};
use crate::live::{Live, LiveError};
use crate::metrics::{Call, Metrics, WriteMetrics};
use crate::model::Vocabulary;

/// Requests under way at once; the next one is answered 503.
const ROOM: usize = 1024;

/// The longest that an answer may take: more than the time limits of both stores together.
const LIMIT: Duration = Duration::from_secs(30);

/// The most operations or items in one request.
const BATCH: usize = 1000;

/// Every call, for [`Metrics::new`].
pub const CALLS: [Call; 10] = [
    Call { method: "PUT", route: state::ROUTE },
    Call { method: "DELETE", route: state::ROUTE },
    Call { method: "GET", route: state::ROUTE },
    Call { method: "GET", route: count::ROUTE },
    Call { method: "POST", route: count::ROUTE },
    Call { method: "GET", route: count::TARGET_ROUTE },
    Call { method: "POST", route: batch::ROUTE },
    Call { method: "POST", route: query::ROUTE },
    Call { method: "GET", route: users::ROUTE },
    Call { method: "GET", route: openapi::ROUTE },
];

/// What every handler needs.
struct Api {
    live: Live,
    vocabulary: Arc<Vocabulary>,
    writes: WriteMetrics,
    document: Bytes,
}

/// The whole API over `live`. With `tokens`, a request needs one of them. `at_work` knows the requests under way.
pub fn router(
    live: Live,
    vocabulary: Arc<Vocabulary>,
    tokens: Tokens,
    metrics: &Metrics,
    at_work: &TaskTracker,
) -> Guarded {
    let (router, document) = routes().split_for_parts();
    let document = openapi::complete(document, &vocabulary, tokens.now(|tokens| !tokens.is_empty()));
    let document = serde_json::to_vec(&document).map(Bytes::from).unwrap_or_default();
    let api = Arc::new(Api { live, vocabulary, writes: metrics.writes.clone(), document });
    let guard = Guard::new(tokens, Protects::Everything, ROOM, LIMIT, at_work.clone()).measured(metrics.http.clone());
    guard.before(with_fallbacks(router.with_state(api)))
}

fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::with_openapi(openapi::base())
        .routes(routes!(state::set, state::cancel, state::get))
        .routes(routes!(count::of_interaction, view::count))
        .routes(routes!(count::of_target))
        .routes(routes!(batch::apply))
        .routes(routes!(query::ask))
        .routes(routes!(users::list))
        .routes(routes!(document))
}

/// This description
#[utoipa::path(get, path = openapi::ROUTE, tag = "about", operation_id = "getDescription",
    responses((status = 200, description = "An OpenAPI 3.1 document", body = Object)))]
async fn document(State(api): State<Arc<Api>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], api.document.clone())
}

/// What a client is told when there is no answer.
fn refused(error: LiveError) -> Problem {
    match error {
        LiveError::Unavailable { reason, retry_after } => Problem::unavailable(reason, retry_after),
        LiveError::Limited { reason, retry_after } => Problem::rate_limited(reason, retry_after),
        LiveError::Content(what) => {
            tracing::warn!("{what}");
            Problem::new(Kind::Unavailable, format!("{what}; somebody has to mend this in Redis"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_a_call_that_metrics_tell_apart() {
        let (_, document) = routes().split_for_parts();
        let document = serde_json::to_value(document).unwrap();
        let mut documented = Vec::new();
        for (route, item) in document["paths"].as_object().unwrap() {
            documented.extend(item.as_object().unwrap().keys().map(|method| (method.to_uppercase(), route.clone())));
        }
        let mut listed: Vec<_> = CALLS.iter().map(|call| (call.method.to_owned(), call.route.to_owned())).collect();
        documented.sort();
        listed.sort();
        assert_eq!(documented, listed);
    }
}
