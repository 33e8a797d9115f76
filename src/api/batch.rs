//! Many state changes in one request.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use serde::de::IntoDeserializer;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::answer::{Refused, Told, Written, source_of};
use super::input::Spelled;
use super::schema::Loose;
use super::{Api, BATCH, lookup, refused};
use crate::http::body::Object;
use crate::http::{Kind, Problem, body};
use crate::live::{LiveError, StateOp};
use crate::model::Vocabulary;

pub(super) const ROUTE: &str = "/v1/batch";

/// What is to be done, in this order.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Batch<'b> {
    /// At most 1,000; with more, the request is answered 413.
    #[serde(borrow)]
    #[schema(value_type = Vec<Op>)]
    ops: Vec<Object<Op<'b>>>,
}

/// One change of a state.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Operation)]
pub(super) struct Op<'b> {
    #[serde(rename = "op", deserialize_with = "by_name")]
    verb: Verb,
    /// Name of an interaction that keeps states.
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
    /// The user.
    #[serde(borrow)]
    #[schema(value_type = Loose)]
    user_id: Spelled<'b>,
}

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verb {
    Set,
    Cancel,
}

/// One for each operation, in order.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BatchResults)]
pub(super) struct Results {
    results: Vec<OpResult>,
}

/// What became of one operation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = OperationResult)]
pub(super) enum OpResult {
    Written(Written),
    Refused(Refused),
}

/// A derived enum would take `{"set":null}` as well.
fn by_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Verb, D::Error> {
    let name = Cow::<str>::deserialize(deserializer)?;
    Verb::deserialize(name.into_deserializer())
}

impl Op<'_> {
    fn resolve(&self, vocabulary: &Vocabulary) -> Result<StateOp, Problem> {
        let interaction = lookup::interaction(vocabulary, &self.interaction)?;
        lookup::has_states(interaction)?;
        Ok(StateOp {
            interaction: interaction.code,
            target_type: lookup::target_type(vocabulary, &self.target_type.0)?,
            target: lookup::id("target_id", &self.target_id.0)?,
            user: lookup::id("user_id", &self.user_id.0)?,
            active: self.verb == Verb::Set,
        })
    }
}

/// Change many states
///
/// Operations on the same state apply in order. An operation that is refused (an unknown name, a bad id) does not
/// stop the others; a body that is not of this form is refused as a whole.
#[utoipa::path(post, path = ROUTE, tag = "states", operation_id = "changeStates",
    request_body(content = Batch, content_type = "application/json"),
    responses((status = 200, description = "One result for each operation, in order", body = Results)))]
pub(super) async fn apply(State(api): State<Arc<Api>>, body: Body) -> Result<Told<Results>, Problem> {
    let bytes = body::read(body).await?;
    let Batch { ops } = body::parse(&bytes)?;
    if ops.len() > BATCH {
        let detail = format!("ops: {} operations; send at most {BATCH} at once", ops.len());
        return Err(Problem::new(Kind::TooLarge, detail));
    }
    let resolved: Vec<Result<StateOp, Problem>> = ops.iter().map(|Object(op)| op.resolve(&api.vocabulary)).collect();
    let good: Vec<StateOp> = resolved.iter().flatten().copied().collect();
    let answers = if good.is_empty() { Vec::new() } else { api.live.set_many(&good).await };
    for (op, answer) in good.iter().zip(&answers) {
        match answer {
            Ok(answer) => api.writes.acknowledged(op.interaction, answer.changed),
            Err(_) => api.writes.failed(op.interaction),
        }
    }
    if good.len() == resolved.len()
        && let Some(problem) = all_unavailable(&answers)
    {
        return Err(problem);
    }
    let source = source_of(answers.iter().flatten().map(|answer| answer.source));
    let mut answers = answers.into_iter();
    let results = resolved.into_iter().map(|op| match op.map(|_| answers.next()) {
        Ok(Some(Ok(answer))) => OpResult::Written(answer.into()),
        Ok(Some(Err(error))) => OpResult::Refused(refused(error).into()),
        Ok(None) => OpResult::Refused(Problem::new(Kind::Internal, "the operation was not answered").into()),
        Err(problem) => OpResult::Refused(problem.into()),
    });
    Ok(Told { source, body: Results { results: results.collect() } })
}

/// Where nothing at all could be done, the request as a whole is answered so.
pub(super) fn all_unavailable<T>(answers: &[Result<T, LiveError>]) -> Option<Problem> {
    let unavailable = |answer: &Result<T, LiveError>| {
        matches!(answer, Err(LiveError::Unavailable { .. } | LiveError::Limited { .. }))
    };
    match answers.first() {
        Some(Err(error)) if answers.iter().all(unavailable) => Some(refused(error.clone())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::config::Config;

    fn vocabulary() -> Vocabulary {
        Config::parse("", [], Path::new("f")).unwrap().vocabulary
    }

    fn op(rest: &str) -> Result<StateOp, Problem> {
        let text = format!("{{\"ops\":[{{\"op\":\"set\",{rest}}}]}}");
        let Batch { ops } = body::parse(text.as_bytes())?;
        ops[0].0.resolve(&vocabulary())
    }

    #[test]
    fn ids_are_strings_or_integers_and_types_codes_or_names() {
        for (target_type, target, user) in [
            ("1", "9007199254740993", "9223372036854775807"),
            ("\"1\"", "\"9007199254740993\"", "\"9223372036854775807\""),
            ("\"note\"", "9007199254740993", "\"9223372036854775807\""),
        ] {
            let rest = format!(
                "\"interaction\":\"like\",\"target_type\":{target_type},\"target_id\":{target},\"user_id\":{user}"
            );
            let op = op(&rest).unwrap();
            assert_eq!((op.target_type, op.active), (1, true));
            assert_eq!((op.target.get(), op.user.get()), (9_007_199_254_740_993, i64::MAX));
        }
    }

    #[test]
    fn an_operation_is_refused_for_what_it_says_and_the_whole_for_its_form() {
        let with = |interaction: &str, target_type: &str, target: &str, user: &str| {
            let rest = format!(
                "\"interaction\":{interaction},\"target_type\":{target_type},\"target_id\":{target},\"user_id\":{user}"
            );
            op(&rest).unwrap_err().kind
        };
        for bad in ["9223372036854775808", "0", "-1", "1.5", "1e3", "\"01\"", "\"+1\"", "\"\"", "\"abc\""] {
            assert_eq!(with("\"like\"", "1", bad, "1"), Kind::InvalidId, "{bad}");
            assert_eq!(with("\"like\"", "1", "1", bad), Kind::InvalidId, "{bad}");
        }
        assert_eq!(with("\"love\"", "1", "1", "1"), Kind::UnknownInteraction);
        assert_eq!(with("\"view\"", "1", "1", "1"), Kind::MethodNotAllowed);
        assert_eq!(with("\"like\"", "9", "0", "0"), Kind::UnknownTargetType);
        for form in ["null", "true", "[]", "{}"] {
            assert_eq!(with("\"like\"", "1", form, "1"), Kind::Malformed, "{form}");
        }
        assert_eq!(with("1", "1", "1", "1"), Kind::Malformed);
        let good = "\"interaction\":\"like\",\"target_type\":1,\"target_id\":1,\"user_id\":1";
        for more in [",\"extra\":1", ",\"user_id\":1", ",\"op\":\"flip\""] {
            assert_eq!(op(&format!("{good}{more}")).unwrap_err().kind, Kind::Malformed, "{more}");
        }
        for whole in ["", "[]", "{}", "{\"ops\":[],\"more\":1}", "{\"ops\":[]} x", "{\"ops\":[{\"op\":\"set\"}]}"] {
            assert_eq!(body::parse::<Batch>(whole.as_bytes()).unwrap_err().kind, Kind::Malformed, "{whole}");
        }
    }

    #[test]
    fn only_where_nothing_could_be_done_the_whole_is_unavailable() {
        let away = LiveError::Unavailable { reason: "both are away".into(), retry_after: Duration::from_secs(3) };
        let wrong = LiveError::Content("a list".into());
        assert_eq!(all_unavailable::<()>(&[]), None);
        assert!(all_unavailable::<()>(&[Err(away.clone()), Err(away.clone())]).is_some());
        assert_eq!(all_unavailable(&[Err(away.clone()), Ok(())]), None);
        assert_eq!(all_unavailable::<()>(&[Err(away), Err(wrong)]), None);
    }
}
