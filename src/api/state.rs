//! One user's state with one target.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::answer::{Active, Told, Written};
use super::lookup::{self, InPath};
use super::{Api, refused};
use crate::http::Problem;
use crate::live::StateOp;
use crate::model::Vocabulary;

pub(super) const ROUTE: &str = "/v1/{interaction}/{target_type}/{target_id}/users/{user_id}";

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct Place {
    /// Name of an interaction that keeps states
    interaction: String,
    /// Code or name of a target type
    target_type: String,
    /// The target
    target_id: String,
    /// The user
    user_id: String,
}

impl Place {
    /// The operation that makes the state `active`.
    fn op(&self, vocabulary: &Vocabulary, active: bool) -> Result<StateOp, Problem> {
        let interaction = lookup::interaction(vocabulary, &self.interaction)?;
        lookup::has_states(interaction)?;
        let target_type = lookup::target_type(vocabulary, &self.target_type)?;
        let target = lookup::id("target_id", &self.target_id)?;
        let user = lookup::id("user_id", &self.user_id)?;
        Ok(StateOp { interaction: interaction.code, target_type, target, user, active })
    }
}

/// Make a user's state active
///
/// Doing it again changes nothing.
#[utoipa::path(put, path = ROUTE, tag = "states", operation_id = "setState",
    params(Place),
    responses((status = 200, description = "It is active", body = Written)))]
pub(super) async fn set(State(api): State<Arc<Api>>, InPath(place): InPath<Place>) -> Result<Told<Written>, Problem> {
    write(&api, &place, true).await
}

/// Cancel a user's state
///
/// Doing it again changes nothing; nor does it matter whether the user ever acted.
#[utoipa::path(delete, path = ROUTE, tag = "states", operation_id = "cancelState",
    params(Place),
    responses((status = 200, description = "It is not active", body = Written)))]
pub(super) async fn cancel(
    State(api): State<Arc<Api>>,
    InPath(place): InPath<Place>,
) -> Result<Told<Written>, Problem> {
    write(&api, &place, false).await
}

/// Ask for a user's state
#[utoipa::path(get, path = ROUTE, tag = "states", operation_id = "getState",
    params(Place),
    responses((status = 200, description = "The state; an unknown target or user has one that is not active", body = Active)))]
pub(super) async fn get(State(api): State<Arc<Api>>, InPath(place): InPath<Place>) -> Result<Told<Active>, Problem> {
    let StateOp { interaction, target_type, target, user, active: _ } = place.op(&api.vocabulary, true)?;
    let answer = api.live.is_active(interaction, target_type, target, user).await;
    let (active, source) = answer.map_err(refused)?;
    Ok(Told { source, body: Active { active } })
}

async fn write(api: &Api, place: &Place, active: bool) -> Result<Told<Written>, Problem> {
    let op = place.op(&api.vocabulary, active)?;
    match api.live.set(op).await {
        Ok(answer) => {
            api.writes.acknowledged(op.interaction, answer.changed);
            Ok(Told { source: answer.source, body: answer.into() })
        }
        Err(error) => {
            api.writes.failed(op.interaction);
            Err(refused(error))
        }
    }
}
