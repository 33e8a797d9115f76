//! What every listener of the daemon has in common, whatever it offers: connections and their limits, tokens, request
//! ids, errors as `application/problem+json`.

mod bare;
pub mod body;
pub mod guard;
pub mod problem;
pub mod request_id;
pub mod same_site;
pub mod server;
pub mod token;
mod unstoppable;

pub use guard::{Guard, Guarded};
pub use problem::{Kind, Problem};
pub use server::Listener;

use axum::Router;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};

/// Answers for what no route answers: 404, 405, and `OPTIONS`. The router itself says which methods are allowed.
pub fn with_fallbacks<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    router.fallback(not_found).method_not_allowed_fallback(wrong_method)
}

async fn not_found() -> Problem {
    Problem::new(Kind::NotFound, "there is nothing at this path; /openapi.json of the API lists what there is")
}

async fn wrong_method(method: Method) -> Response {
    if method == Method::OPTIONS {
        return StatusCode::NO_CONTENT.into_response();
    }
    let detail = format!("{method} is not possible here; the header Allow lists what is");
    Problem::new(Kind::MethodNotAllowed, detail).into_response()
}
