//! Answering questions, from Redis when it knows and after a load when it does not.

use std::collections::BTreeMap;

use chrono::DateTime;
use futures::StreamExt;

use super::load::NotLoaded;
use super::{Live, LiveError, Question, UserPage, UserTarget};
use crate::model::Id;
use crate::store::Wanted;

/// How often a question is asked: once, and again after loads.
const TRIES: usize = 4;
/// Targets of one request that are loaded at once.
const LOADS: usize = 8;

type Answers = Vec<Option<Result<(i64, Option<bool>), LiveError>>>;

impl Live {
    /// Whether a state is active. An unknown target is not an error.
    pub async fn is_active(&self, interaction: u16, target_type: u16, target: Id, user: Id) -> Result<bool, LiveError> {
        let question = Question { interaction, target_type, target, user: Some(user) };
        let answer = self.ask(&[question]).await.pop();
        answer.unwrap_or(Ok((0, None))).map(|(_, active)| active.unwrap_or_default())
    }

    /// The count of every configured interaction with a target, in configured order, as (code, count).
    pub async fn counts(&self, target_type: u16, target: Id) -> Result<Vec<(u16, i64)>, LiveError> {
        for _ in 0..TRIES {
            let (number, store) = self.store().await?;
            let counts = store.ask_counts(target_type, target).await.map_err(|error| self.failed(number, &error))?;
            let codes = self.context.vocabulary.interactions.iter().map(|i| i.code);
            let known: Option<Vec<(u16, i64)>> = codes.zip(counts).map(|(code, count)| Some((code, count?))).collect();
            if let Some(known) = known {
                return Ok(known);
            }
            let counts = self.context.vocabulary.interactions.iter().map(|i| i.code).collect();
            self.load(target_type, target, Wanted { counts, ..Wanted::default() }).await?;
        }
        Err(LiveError::unavailable("the target could not be kept loaded".to_owned()))
    }

    /// Counts and states, answered in order.
    pub async fn ask(&self, questions: &[Question]) -> Vec<Result<(i64, Option<bool>), LiveError>> {
        let mut answers: Answers = vec![None; questions.len()];
        for _ in 0..TRIES {
            let open: Vec<usize> = (0..questions.len()).filter(|&at| answers[at].is_none()).collect();
            if open.is_empty() {
                break;
            }
            self.ask_open(questions, &open, &mut answers).await;
            self.load_open(questions, &open, &mut answers).await;
        }
        let tired = || Err(LiveError::unavailable("the target could not be kept loaded".to_owned()));
        answers.into_iter().map(|answer| answer.unwrap_or_else(tired)).collect()
    }

    async fn ask_open(&self, questions: &[Question], open: &[usize], answers: &mut Answers) {
        let asked: Vec<_> = open
            .iter()
            .map(|&at| {
                let Question { interaction, target_type, target, user } = questions[at];
                (interaction, target_type, target, user)
            })
            .collect();
        let found = match self.store().await {
            Ok((number, store)) => store.ask(&asked).await.map_err(|error| self.failed(number, &error)),
            Err(error) => Err(error),
        };
        match found {
            Ok(found) => {
                for (&at, known) in open.iter().zip(found) {
                    answers[at] = match known {
                        Ok(known) => known
                            .count
                            .filter(|_| questions[at].user.is_none() || known.active.is_some())
                            .map(|count| Ok((count, known.active))),
                        Err(detail) => Some(Err(LiveError::Content(detail))),
                    };
                }
            }
            Err(error) => {
                for &at in open {
                    answers[at] = Some(Err(error.clone()));
                }
            }
        }
    }

    /// Loads what is not answered.
    async fn load_open(&self, questions: &[Question], open: &[usize], answers: &mut Answers) {
        let mut targets = BTreeMap::<(u16, Id), Wanted>::new();
        for question in open.iter().filter(|&&at| answers[at].is_none()).map(|&at| &questions[at]) {
            let wanted = targets.entry((question.target_type, question.target)).or_default();
            wanted.counts.insert(question.interaction);
            wanted.states.extend(question.user.map(|user| (question.interaction, user)));
        }
        let loads = futures::stream::iter(targets).map(|((target_type, target), wanted)| async move {
            (target_type, target, self.load(target_type, target, wanted).await)
        });
        let outcomes: Vec<(u16, Id, Result<(), NotLoaded>)> = loads.buffer_unordered(LOADS).collect().await;
        for (target_type, target, outcome) in outcomes {
            let Err(error) = outcome.map_err(LiveError::from) else { continue };
            for &at in open {
                let same = (questions[at].target_type, questions[at].target) == (target_type, target);
                if same && answers[at].is_none() {
                    answers[at] = Some(Err(error.clone()));
                }
            }
        }
    }

    /// What a user acted on (active states only), newest first, after the given one; read from MySQL.
    pub async fn user_targets(
        &self,
        user: Id,
        interaction: u16,
        limit: u32,
        after: Option<UserTarget>,
    ) -> Result<UserPage, LiveError> {
        let away = |error: crate::sink::SinkError| LiveError::unavailable(error.to_string());
        let after = after.map(|place| (place.at.timestamp_millis(), place.target_type, place.target));
        let mut borrowed = self.sessions.borrow().await.map_err(away)?;
        let as_of = borrowed.session.copied_until().await;
        let places = borrowed.session.user_targets(user, interaction, after, limit.saturating_add(1)).await;
        borrowed.give_back();
        let (as_of, mut places) = (as_of.map_err(away)?, places.map_err(away)?);
        let more = places.len() > limit as usize;
        places.truncate(limit as usize);
        let target = |(at_ms, target_type, target)| {
            Some(UserTarget { target_type, target, at: DateTime::from_timestamp_millis(at_ms)? })
        };
        Ok(UserPage { targets: places.into_iter().filter_map(target).collect(), more, as_of })
    }
}
