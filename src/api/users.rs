//! What a user acted on.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::answer::{UserTargetItem, UserTargets, time};
use super::lookup::{self, InPath, InQuery};
use super::{Api, cursor, refused};
use crate::http::{Kind, Problem};
use crate::live::{UserPage, UserTarget};

pub(super) const ROUTE: &str = "/v1/users/{user_id}/{interaction}";

/// How many targets are in an answer, unless said.
const LIMIT: u32 = 50;
/// How many there are at most.
const MOST: u32 = 200;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct Place {
    /// The user
    user_id: String,
    /// Name of an interaction that keeps states
    interaction: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Page {
    /// How many targets at most
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u32>,
    /// `next` of the page before
    #[param(pattern = "^[A-Za-f][A-Za-z0-9_-]{21}[AEIMQUYcgkosw048]$")]
    after: Option<String>,
}

/// List what a user acted on
///
/// Active states only, newest first, as they are in MySQL: `as_of` says how new that is.
#[utoipa::path(get, path = ROUTE, tag = "states", operation_id = "listTargets",
    params(Place, Page),
    responses((status = 200, description = "A page; go on with `after` while `next` is not null", body = UserTargets)))]
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    InPath(place): InPath<Place>,
    page: Result<InQuery<Page>, Problem>,
) -> Result<Json<UserTargets>, Problem> {
    let interaction = lookup::interaction(&api.vocabulary, &place.interaction)?;
    lookup::has_states(interaction)?;
    let user = lookup::id("user_id", &place.user_id)?;
    let InQuery(page) = page?;
    let (limit, after) = page.resolve()?;
    let page = api.live.user_targets(user, interaction.code, limit, after).await.map_err(refused)?;
    Ok(Json(page.into()))
}

impl Page {
    fn resolve(&self) -> Result<(u32, Option<UserTarget>), Problem> {
        let limit = self.limit.unwrap_or(LIMIT);
        if !(1..=MOST).contains(&limit) {
            return Err(Problem::new(Kind::Malformed, format!("limit: {limit} is not within 1 to {MOST}")));
        }
        let Some(text) = &self.after else { return Ok((limit, None)) };
        let after = cursor::read(text).ok_or_else(|| {
            Problem::new(Kind::Malformed, format!("after: {text:?} is no cursor; give `next` of the page before"))
        })?;
        Ok((limit, Some(after)))
    }
}

impl From<UserPage> for UserTargets {
    fn from(UserPage { targets, more, as_of }: UserPage) -> Self {
        let next = targets.last().filter(|_| more).map(cursor::write);
        let item = |target: UserTarget| UserTargetItem {
            target_type: target.target_type,
            target_id: target.target.to_string(),
            time: time(target.at),
        };
        Self { targets: targets.into_iter().map(item).collect(), next, as_of: time(as_of) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_says_how_to_go_on_as_long_as_there_is_more() {
        let target = UserTarget {
            target_type: 2,
            target: "9007199254740993".parse().unwrap(),
            at: "2026-03-01T12:00:00.5Z".parse().unwrap(),
        };
        let page = |more| UserPage { targets: vec![target], more, as_of: "2026-03-01T13:00:00Z".parse().unwrap() };
        let last = serde_json::to_value(UserTargets::from(page(false))).unwrap();
        let expected = json!({
            "targets": [{"target_type": 2, "target_id": "9007199254740993", "time": "2026-03-01T12:00:00.500Z"}],
            "next": null,
            "as_of": "2026-03-01T13:00:00.000Z"
        });
        assert_eq!(last, expected);
        let next = UserTargets::from(page(true)).next;
        assert_eq!(Page { limit: None, after: next }.resolve(), Ok((50, Some(target))));
    }

    #[test]
    fn limits_and_cursors_are_checked() {
        let page = |limit, after: Option<&str>| Page { limit, after: after.map(str::to_owned) }.resolve();
        assert_eq!((page(Some(1), None), page(Some(200), None)), (Ok((1, None)), Ok((200, None))));
        for (limit, after, field) in
            [(Some(0), None, "limit: "), (Some(201), None, "limit: "), (None, Some("x"), "after: ")]
        {
            let problem = page(limit, after).unwrap_err();
            assert!(problem.kind == Kind::Malformed && problem.detail.starts_with(field), "{problem:?}");
        }
    }
}
