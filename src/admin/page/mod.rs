//! The page at `/`: what `/status` says, for people, and a button that starts a run. Rendered here, without scripts.

mod chart;
mod render;
mod tables;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use chrono::Utc;
use serde::Deserialize;
use url::form_urlencoded;
use uuid::Uuid;

use super::Admin;
use super::sync::stopping;
use crate::config::Tokens;
use crate::http::{Problem, body, token};
use render::{Form, Notice};

/// A run that ends within this time is shown at once, instead of at the next look.
const PATIENCE: Duration = Duration::from_millis(1500);

/// What the page shows and starts, and who may start it.
pub(super) struct Page {
    pub(super) admin: Admin,
    pub(super) tokens: Tokens,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Asked {
    /// The run that the button has started.
    run: Option<String>,
}

impl Page {
    fn form(&self) -> Form {
        if self.tokens.now(<[_]>::is_empty) { Form::Button } else { Form::WithToken }
    }

    async fn answer(&self, code: StatusCode, notice: Notice) -> Response {
        let status = self.admin.status().await;
        let nonce = Uuid::new_v4().simple().to_string();
        let page = render::page(&status, Utc::now(), &self.admin.context.vocabulary, self.form(), &notice, &nonce);
        let mut response = (code, page.into_string()).into_response();
        let policy = format!(
            "default-src 'none'; style-src 'nonce-{nonce}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        );
        let headers = response.headers_mut();
        if let Ok(policy) = HeaderValue::try_from(policy) {
            headers.insert(CONTENT_SECURITY_POLICY, policy);
        }
        for (name, value) in [
            (CONTENT_TYPE, "text/html; charset=utf-8"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            // With `no-referrer` a browser would not say in Origin that the form is of this page.
            (REFERRER_POLICY, "same-origin"),
            (CACHE_CONTROL, "no-store"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

pub(super) async fn show(State(page): State<Arc<Page>>, asked: Result<Query<Asked>, QueryRejection>) -> Response {
    let run = asked.ok().and_then(|Query(asked)| Uuid::try_parse(&asked.run?).ok());
    let notice = run.map_or(Notice::None, |run| Notice::Run(run.to_string()));
    page.answer(StatusCode::OK, notice).await
}

/// The button: asks for a run and leads back to the page. With tokens, the form's field `token` must hold one of them.
pub(super) async fn sync(State(page): State<Arc<Page>>, body: Body) -> Result<Response, Problem> {
    let body = body::read(body).await?;
    let token = form_urlencoded::parse(&body).find(|(name, _)| name == "token").map(|(_, token)| token);
    let token = token.unwrap_or_default();
    let may = |tokens: &[_]| tokens.is_empty() || token::is_known(tokens, token.trim().as_bytes());
    if !page.tokens.now(may) {
        return Ok(page.answer(StatusCode::FORBIDDEN, Notice::WrongToken).await);
    }
    let ticket = page.admin.waker.request().ok_or_else(stopping)?;
    let back = format!("{}?run={}", crate::http::guard::PAGE, ticket.run_id);
    let _it_goes_on = tokio::time::timeout(PATIENCE, ticket.report()).await;
    Ok((StatusCode::SEE_OTHER, [(LOCATION, back)]).into_response())
}
