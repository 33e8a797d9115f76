//! What every request passes, in this order: an id, a look at whose page sent it, a token, room for it, a time limit.
//!
//! A client who goes away does not stop a write in the middle: what is left of the work goes on in a task of its own. A
//! panic is answered as `internal`, and a request that takes too long as `unavailable`; in both cases, and when it is
//! let in at all, the answer carries the request's id.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::HttpBody;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::ALLOW;
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Router, http::StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;
use tower::util::MapResponse;
use tracing::Instrument;

use super::problem::{Kind, Problem};
use super::unstoppable::{Unstoppable, words};
use super::{request_id, same_site, token};
use crate::config::Tokens;
use crate::metrics::HttpMetrics;

/// Who needs a token, when there are any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protects {
    /// Every request.
    Everything,
    /// A `POST`, unless it goes to [`PAGE`].
    Posts,
}

/// The path of the page of a listener: a `POST` to it is a form, which bears its token in its body. Its handler checks it.
pub const PAGE: &str = "/";

/// All that a listener offers, behind its guard.
pub type Guarded = MapResponse<Router, fn(Response) -> Response>;

/// What requests to one listener pass.
#[derive(Debug)]
pub struct Guard {
    tokens: Tokens,
    protects: Protects,
    room: Arc<Semaphore>,
    limit: Duration,
    at_work: TaskTracker,
    metrics: Option<HttpMetrics>,
}

impl Guard {
    /// Lets in `room` requests at once, and answers each within `limit`. `at_work` knows those that are under way.
    #[must_use]
    pub fn new(tokens: Tokens, protects: Protects, room: usize, limit: Duration, at_work: TaskTracker) -> Self {
        Self { tokens, protects, room: Arc::new(Semaphore::new(room)), limit, at_work, metrics: None }
    }

    /// Counts and times the answers.
    #[must_use]
    pub fn measured(self, metrics: HttpMetrics) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    /// Puts itself before every route and fallback of a router.
    pub fn before(self, router: Router) -> Guarded {
        let guarded = router.layer(from_fn_with_state(Arc::new(self), pass));
        // Outside of the router, which knows the allowed methods only after all its layers.
        MapResponse::new(guarded, allow_options)
    }

    fn admit(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<OwnedSemaphorePermit, Problem> {
        let (protected, has_page) = match self.protects {
            Protects::Everything => (true, false),
            Protects::Posts => (method == Method::POST && path != PAGE, true),
        };
        self.tokens.now(|tokens| {
            // A browser adds no token of its own accord: where one is needed in the header, no page can make use of it.
            if !method.is_safe() && (has_page || tokens.is_empty()) {
                same_site::check(headers, tokens.is_empty())?;
            }
            if protected && !tokens.is_empty() { token::check(tokens, headers) } else { Ok(()) }
        })?;
        let full =
            |_| Problem::unavailable("too many requests are under way; send this one again", Duration::from_secs(1));
        self.room.clone().try_acquire_owned().map_err(full)
    }

    async fn answer(&self, request: Request, next: Next, place: OwnedSemaphorePermit) -> Response {
        let token = self.at_work.token();
        let work = async move {
            let response = next.run(request).await;
            drop((place, token));
            response
        };
        match tokio::time::timeout(self.limit, Unstoppable::new(work)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                tracing::error!(error = words(&*error), "a request failed by a fault of this program");
                Problem::new(Kind::Internal, "this is a fault of tallyd; its log has more under this request's id")
                    .into_response()
            }
            Err(_) => {
                let limit = self.limit.as_secs();
                let detail =
                    format!("no answer within {limit} s; it may still be carried out, and may safely be sent again");
                Problem::unavailable(detail, Duration::from_secs(1)).into_response()
            }
        }
    }
}

async fn pass(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let id = request_id::of(request.headers());
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let (uri, has_body) = (request.uri().clone(), !request.body().is_end_stream());
    // Made for every request: what is in it is formatted, whether something is logged or not.
    let span = tracing::info_span!("request", id = id.to_str().unwrap_or_default());
    let mut response = match guard.admit(&method, uri.path(), request.headers()) {
        Ok(place) => guard.answer(request, next, place).instrument(span.clone()).await,
        Err(problem) => problem.into_response(),
    };
    let took = begun.elapsed();
    let status = response.status();
    span.in_scope(|| log(&method, uri.path(), status, took));
    if let Some(metrics) = &guard.metrics {
        metrics.answered(method.as_str(), route.as_ref().map(MatchedPath::as_str), status.as_u16(), took);
    }
    response.headers_mut().insert(request_id::HEADER, id);
    if has_body {
        // The connection looks first at what nobody read of the body: when it must close for it, the answer says so.
        tokio::task::yield_now().await;
    }
    response
}

fn log(method: &Method, path: &str, status: StatusCode, took: Duration) {
    let (status, took_ms) = (status.as_u16(), took.as_millis());
    // That a server is away is said once, where it is noticed.
    if status >= 500 && status != 503 {
        tracing::warn!(%method, path, status, took_ms, "answered");
    } else {
        tracing::debug!(%method, path, status, took_ms, "answered");
    }
}

/// Puts right what the router says of methods: `OPTIONS` is answered everywhere, which no route knows; and only who
/// asks for methods, or asks with a wrong one, is told.
fn allow_options(mut response: Response) -> Response {
    let told = matches!(response.status(), StatusCode::METHOD_NOT_ALLOWED | StatusCode::NO_CONTENT);
    let Some(allow) = response.headers_mut().remove(ALLOW).filter(|_| told) else { return response };
    let methods = allow.to_str().unwrap_or_default().split(',').map(str::trim).filter(|method| !method.is_empty());
    let listed: Vec<&str> = methods.chain(["OPTIONS"]).collect();
    if let Ok(listed) = HeaderValue::try_from(listed.join(", ")) {
        response.headers_mut().insert(ALLOW, listed);
    }
    response
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use axum::body::Body;
    use axum::routing::get;
    use tower::ServiceExt;

    use super::*;
    use crate::config::{Config, Settings};

    fn router(room: usize, tracker: &TaskTracker) -> Guarded {
        let config = Config::parse("", [], Path::new("f")).unwrap();
        let tokens = Settings::new(config).tokens(|config| &config.api.tokens);
        let guard = Guard::new(tokens, Protects::Everything, room, Duration::from_millis(500), tracker.clone());
        let router = Router::new()
            .route("/fast", get(async || "done"))
            .route("/slow", get(async || tokio::time::sleep(Duration::from_millis(300)).await))
            .route("/hung", get(async || std::future::pending::<()>().await))
            .route("/fault", get(fault));
        guard.before(super::super::with_fallbacks(router))
    }

    async fn fault() -> &'static str {
        panic!("on purpose")
    }

    async fn send(router: &Guarded, method: Method, path: &str) -> Response {
        let request = Request::builder().method(method).uri(path).header("x-request-id", "abc").body(Body::empty());
        router.clone().oneshot(request.unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn every_answer_carries_the_id_panics_and_time_limits_included() {
        let router = router(8, &TaskTracker::new());
        for (path, status) in [("/fast", 200), ("/nowhere", 404), ("/fault", 500), ("/hung", 503)] {
            let response = send(&router, Method::GET, path).await;
            assert_eq!(
                (response.status().as_u16(), &response.headers()["x-request-id"]),
                (status, &"abc".parse().unwrap())
            );
            assert_eq!(response.headers().contains_key("retry-after"), status == 503, "{path}");
        }
    }

    #[tokio::test]
    async fn over_the_limit_the_answer_is_503_at_once_and_a_client_who_left_still_counts() {
        let tracker = TaskTracker::new();
        let router = router(1, &tracker);
        let left = tokio::time::timeout(Duration::from_millis(50), send(&router, Method::GET, "/slow")).await;
        assert!(left.is_err());
        assert_eq!(send(&router, Method::GET, "/fast").await.status(), 503);
        tracker.close();
        tracker.wait().await;
        assert_eq!(send(&router, Method::GET, "/fast").await.status(), 200);
    }

    #[tokio::test]
    async fn other_methods_are_told_which_ones_there_are() {
        let router = router(1, &TaskTracker::new());
        let wrong = send(&router, Method::TRACE, "/fast").await;
        assert_eq!((wrong.status().as_u16(), wrong.headers()[ALLOW].to_str().unwrap()), (405, "GET, HEAD, OPTIONS"));
        let options = send(&router, Method::OPTIONS, "/fast").await;
        assert_eq!(
            (options.status().as_u16(), options.headers()[ALLOW].to_str().unwrap()),
            (204, "GET, HEAD, OPTIONS")
        );
        assert_eq!(send(&router, Method::HEAD, "/fast").await.status(), 200);
    }
}
