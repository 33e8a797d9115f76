//! Many questions in one request.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::answer::{Refused, Told, source_of};
use super::batch::all_unavailable;
use super::input::{Spelled, present};
use super::schema::{CountText, Loose};
use super::{Api, BATCH, lookup, refused};
use crate::http::body::Object;
use crate::http::{Kind, Problem, body};
use crate::live::Question;
use crate::model::Vocabulary;

pub(super) const ROUTE: &str = "/v1/query";

/// What is asked for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Query<'b> {
    /// At most 1,000; with more, the request is answered 413.
    #[serde(borrow)]
    #[schema(value_type = Vec<Item>)]
    items: Vec<Object<Item<'b>>>,
}

/// One question: a count, and the state of a user when one is named.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = QueryItem)]
pub(super) struct Item<'b> {
    /// Name of an interaction.
    #[serde(borrow)]
    #[schema(value_type = String, example = "like")]
    interaction: Cow<'b, str>,
    /// Code or name of a target type.
    #[serde(borrow)]
    #[schema(value_type = Loose)]
    target_type: Spelled<'b>,
    /// The target.
    #[serde(borrow)]
    #[schema(value_type = Loose)]
    target_id: Spelled<'b>,
    /// The user whose state is asked for, too; not with a counter.
    #[serde(borrow, default, deserialize_with = "present")]
    #[schema(value_type = Loose, required = false)]
    user_id: Option<Spelled<'b>>,
}

/// One for each item, in order.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = QueryResults)]
pub(super) struct Results {
    results: Vec<ItemResult>,
}

/// The answer to one item.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = QueryItemResult)]
pub(super) enum ItemResult {
    Known(Known),
    Refused(Refused),
}

/// A count, and a state when a user was named.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CountAndState)]
pub(super) struct Known {
    /// The count; of an unknown target it is `"0"`.
    #[schema(value_type = CountText)]
    count: String,
    /// Whether the user's state is active.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = bool, required = false)]
    active: Option<bool>,
}

impl Item<'_> {
    fn resolve(&self, vocabulary: &Vocabulary) -> Result<Question, Problem> {
        let interaction = lookup::interaction(vocabulary, &self.interaction)?;
        if self.user_id.is_some() {
            lookup::has_states(interaction)?;
        }
        let user = self.user_id.as_ref().map(|user| lookup::id("user_id", &user.0));
        Ok(Question {
            interaction: interaction.code,
            target_type: lookup::target_type(vocabulary, &self.target_type.0)?,
            target: lookup::id("target_id", &self.target_id.0)?,
            user: user.transpose()?,
        })
    }
}

/// Ask for many counts and states
///
/// An item that is refused (an unknown name, a bad id) does not stop the others; a body that is not of this form is
/// refused as a whole.
#[utoipa::path(post, path = ROUTE, tag = "counts", operation_id = "askMany",
    request_body(content = Query, content_type = "application/json"),
    responses((status = 200, description = "One result for each item, in order", body = Results)))]
pub(super) async fn ask(State(api): State<Arc<Api>>, body: Body) -> Result<Told<Results>, Problem> {
    let bytes = body::read(body).await?;
    let Query { items } = body::parse(&bytes)?;
    if items.len() > BATCH {
        return Err(Problem::new(Kind::TooLarge, format!("items: {}; send at most {BATCH} at once", items.len())));
    }
    let resolved: Vec<Result<Question, Problem>> =
        items.iter().map(|Object(item)| item.resolve(&api.vocabulary)).collect();
    let good: Vec<Question> = resolved.iter().flatten().copied().collect();
    let answers = if good.is_empty() { Vec::new() } else { api.live.ask(&good).await };
    if good.len() == resolved.len()
        && let Some(problem) = all_unavailable(&answers)
    {
        return Err(problem);
    }
    let source = source_of(answers.iter().flatten().map(|told| told.source));
    let mut answers = answers.into_iter();
    let results = resolved.into_iter().map(|question| match question.map(|_| answers.next()) {
        Ok(Some(Ok(told))) => ItemResult::Known(Known { count: told.count.to_string(), active: told.active }),
        Ok(Some(Err(error))) => ItemResult::Refused(refused(error).into()),
        Ok(None) => ItemResult::Refused(Problem::new(Kind::Internal, "the item was not answered").into()),
        Err(problem) => ItemResult::Refused(problem.into()),
    });
    Ok(Told { source, body: Results { results: results.collect() } })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;
    use crate::model::Id;

    fn item(text: &str) -> Result<Question, Problem> {
        let vocabulary = Config::parse("", [], Path::new("f")).unwrap().vocabulary;
        let text = format!("{{\"items\":[{{{text}}}]}}");
        let Query { items } = body::parse(text.as_bytes())?;
        items[0].0.resolve(&vocabulary)
    }

    #[test]
    fn a_user_may_be_named_where_there_are_states() {
        let of = |interaction: &str, user: &str| {
            item(&format!("\"interaction\":\"{interaction}\",\"target_type\":\"video\",\"target_id\":7{user}"))
        };
        let user = |question: Result<Question, Problem>| question.map(|question| question.user.map(Id::get));
        assert_eq!(user(of("like", "")), Ok(None));
        assert_eq!(user(of("view", "")), Ok(None));
        assert_eq!(user(of("like", ",\"user_id\":\"42\"")), Ok(Some(42)));
        assert_eq!(of("view", ",\"user_id\":42").unwrap_err().kind, Kind::MethodNotAllowed);
        assert_eq!(of("like", ",\"user_id\":0").unwrap_err().kind, Kind::InvalidId);
        assert_eq!(of("like", ",\"user_id\":null").unwrap_err().kind, Kind::Malformed);
        assert_eq!(of("like", ",\"op\":\"set\"").unwrap_err().kind, Kind::Malformed);
    }

    #[test]
    fn a_state_is_only_there_when_it_was_asked_for() {
        let known = |active| serde_json::to_string(&Known { count: "3".into(), active }).unwrap();
        assert_eq!(
            (known(None).as_str(), known(Some(false)).as_str()),
            (r#"{"count":"3"}"#, r#"{"count":"3","active":false}"#)
        );
    }
}
