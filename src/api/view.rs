//! Counting viewers.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use super::answer::{Told, Viewed};
use super::count::{Place, ROUTE};
use super::lookup::{self, InPath};
use super::{Api, refused};
use crate::http::{Kind, Problem, body};

/// The longest viewer, bytes.
const LONGEST: usize = 128;

/// Who looks.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct View<'b> {
    /// Anything that tells viewers apart, such as a user id or a session: 1 to 128 bytes of UTF-8.
    #[serde(borrow)]
    #[schema(value_type = String, min_length = 1, max_length = 128, example = "session-7f3a")]
    viewer: Cow<'b, str>,
}

/// Count a viewer
///
/// The same viewer of the same target counts once within the window that the interaction is configured with. While
/// Redis is down nobody is counted.
#[utoipa::path(post, path = ROUTE, tag = "counts", operation_id = "countViewer",
    params(Place),
    request_body(content = View, content_type = "application/json"),
    responses((status = 200, description = "Whether the viewer was counted, and the count", body = Viewed)))]
pub(super) async fn count(
    State(api): State<Arc<Api>>,
    InPath(place): InPath<Place>,
    body: Body,
) -> Result<Told<Viewed>, Problem> {
    let interaction = lookup::interaction(&api.vocabulary, &place.interaction)?;
    if interaction.has_states() {
        let name = &interaction.name;
        let detail = format!("interaction: {name} is not a counter; PUT …/users/USER_ID records what a user does");
        return Err(Problem::not_allowed("GET, HEAD", detail));
    }
    let target_type = lookup::target_type(&api.vocabulary, &place.target_type)?;
    let target = lookup::id("target_id", &place.target_id)?;
    let bytes = body::read(body).await?;
    let View { viewer } = body::parse(&bytes)?;
    if !(1..=LONGEST).contains(&viewer.len()) {
        let detail = format!("viewer: it is {} bytes long; give 1 to {LONGEST} bytes", viewer.len());
        return Err(Problem::new(Kind::Malformed, detail));
    }
    match api.live.view(interaction.code, target_type, target, &viewer).await {
        Ok((counted, told)) => {
            api.writes.acknowledged(interaction.code, counted);
            Ok(Told { source: told.source, body: Viewed { counted, count: told.count.to_string() } })
        }
        Err(error) => {
            api.writes.failed(interaction.code);
            Err(refused(error))
        }
    }
}
