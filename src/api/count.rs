//! Counts.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::answer::{Count, Counts, Told};
use super::lookup::{self, InPath};
use super::{Api, refused};
use crate::http::{Kind, Problem};
use crate::live::Question;

pub(super) const ROUTE: &str = "/v1/{interaction}/{target_type}/{target_id}";
pub(super) const TARGET_ROUTE: &str = "/v1/targets/{target_type}/{target_id}";

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct Place {
    /// Name of an interaction
    pub(super) interaction: String,
    /// Code or name of a target type
    pub(super) target_type: String,
    /// The target
    pub(super) target_id: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct TargetPlace {
    /// Code or name of a target type
    target_type: String,
    /// The target
    target_id: String,
}

/// Ask for a count
#[utoipa::path(get, path = ROUTE, tag = "counts", operation_id = "getCount",
    params(Place),
    responses((status = 200, description = "The count; of an unknown target it is 0", body = Count)))]
pub(super) async fn of_interaction(
    State(api): State<Arc<Api>>,
    InPath(place): InPath<Place>,
) -> Result<Told<Count>, Problem> {
    let interaction = lookup::interaction(&api.vocabulary, &place.interaction)?.code;
    let target_type = lookup::target_type(&api.vocabulary, &place.target_type)?;
    let target = lookup::id("target_id", &place.target_id)?;
    let answers = api.live.ask(&[Question { interaction, target_type, target, user: None }]).await;
    match answers.into_iter().next() {
        Some(Ok(told)) => Ok(Told { source: told.source, body: Count { count: told.count.to_string() } }),
        Some(Err(error)) => Err(refused(error)),
        None => Err(Problem::new(Kind::Internal, "a question was not answered")),
    }
}

/// Ask for the counts of every interaction with a target
#[utoipa::path(get, path = TARGET_ROUTE, tag = "counts", operation_id = "getCounts",
    params(TargetPlace),
    responses((status = 200, description = "The counts; of an unknown target they are 0", body = Counts)))]
pub(super) async fn of_target(
    State(api): State<Arc<Api>>,
    InPath(place): InPath<TargetPlace>,
) -> Result<Told<Counts>, Problem> {
    let target_type = lookup::target_type(&api.vocabulary, &place.target_type)?;
    let target = lookup::id("target_id", &place.target_id)?;
    let (counts, source) = api.live.counts(target_type, target).await.map_err(refused)?;
    let named = counts.into_iter().filter_map(|(code, count)| {
        let interaction = api.vocabulary.interaction_code(code)?;
        Some((interaction.name.clone(), count.to_string()))
    });
    Ok(Told { source, body: Counts { counts: named.collect() } })
}
