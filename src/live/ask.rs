//! Answering questions, from Redis when it knows and after a load when it does not.

use std::collections::BTreeMap;

use chrono::DateTime;
use futures::StreamExt;

use super::load::NotLoaded;
use super::{Live, LiveError, Question, Silent, Source, Told, UserPage, UserTarget};
use crate::model::Id;
use crate::store::Wanted;

/// How often a question is asked: once, and again after loads.
const TRIES: usize = 4;
/// Targets of one request that are loaded at once.
const LOADS: usize = 8;

type Answers = Vec<Option<Result<Told, LiveError>>>;

impl Live {
    /// Whether a state is active. An unknown target is not an error.
    pub async fn is_active(
        &self,
        interaction: u16,
        target_type: u16,
        target: Id,
        user: Id,
    ) -> Result<(bool, Source), LiveError> {
        let question = Question { interaction, target_type, target, user: Some(user) };
        let told = self.ask(&[question]).await.pop();
        let told = told.unwrap_or_else(|| Err(LiveError::unavailable("no answer".to_owned())))?;
        Ok((told.active.unwrap_or_default(), told.source))
    }

    /// The count of every configured interaction with a target, in configured order, as (code, count).
    pub async fn counts(&self, target_type: u16, target: Id) -> Result<(Vec<(u16, i64)>, Source), LiveError> {
        let question = |code| Question { interaction: code, target_type, target, user: None };
        let codes: Vec<u16> = self.context.vocabulary.interactions.iter().map(|i| i.code).collect();
        let questions: Vec<Question> = codes.iter().copied().map(question).collect();
        let mut source = Source::Redis;
        let mut counts = Vec::with_capacity(codes.len());
        for (code, told) in codes.into_iter().zip(self.ask(&questions).await) {
            let told = told?;
            if told.source == Source::Mysql {
                source = Source::Mysql;
            }
            counts.push((code, told.count));
        }
        Ok((counts, source))
    }

    /// Counts and states, answered in order.
    pub async fn ask(&self, questions: &[Question]) -> Vec<Result<Told, LiveError>> {
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
        let stale = |at: &usize| self.breaker.reads_mysql(questions[*at].target_type, questions[*at].target);
        let (stale, open): (Vec<usize>, Vec<usize>) = open.iter().copied().partition(stale);
        self.ask_mysql(questions, &stale, "Redis is away", answers).await;
        if open.is_empty() {
            return;
        }
        let asked: Vec<_> = open
            .iter()
            .map(|&at| {
                let Question { interaction, target_type, target, user } = questions[at];
                (interaction, target_type, target, user)
            })
            .collect();
        let found = match self.store().await {
            Ok((number, store)) => self.answered(number, store.ask(&asked)).await,
            Err(silent) => Err(silent),
        };
        match found {
            Ok(found) => {
                for (&at, known) in open.iter().zip(found) {
                    answers[at] = match known {
                        Ok(known) => known
                            .count
                            .filter(|_| questions[at].user.is_none() || known.active.is_some())
                            .map(|count| Ok(Told { count, active: known.active, source: Source::Redis })),
                        Err(detail) => Some(Err(LiveError::Content(detail))),
                    };
                }
            }
            Err(Silent::Away(why)) => self.ask_mysql(questions, &open, &why, answers).await,
            Err(Silent::Refused(error)) => {
                for at in open {
                    answers[at] = Some(Err(error.clone()));
                }
            }
        }
    }

    /// Has MySQL answer the questions at `places`.
    async fn ask_mysql(&self, questions: &[Question], places: &[usize], why: &str, answers: &mut Answers) {
        let asked: Vec<Question> = places.iter().map(|&at| questions[at]).collect();
        for (&at, told) in places.iter().zip(self.from_mysql(&asked, why).await) {
            answers[at] = Some(told);
        }
    }

    /// Loads what is not answered. Where that is not to be had soon, MySQL answers.
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
            let Err(reason) = outcome else { continue };
            let same = |at: &usize| (questions[*at].target_type, questions[*at].target) == (target_type, target);
            let places: Vec<usize> = open.iter().copied().filter(same).filter(|&at| answers[at].is_none()).collect();
            match reason {
                NotLoaded::Busy(why) => self.ask_mysql(questions, &places, &why.to_string(), answers).await,
                NotLoaded::Redis(Silent::Away(why)) => self.ask_mysql(questions, &places, &why, answers).await,
                NotLoaded::Redis(Silent::Refused(error)) | NotLoaded::Mysql(error) => {
                    for at in places {
                        answers[at] = Some(Err(error.clone()));
                    }
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
