//! Answering questions, from Redis when it knows and after a load when it does not.

use std::collections::BTreeMap;

use chrono::DateTime;
use futures::StreamExt;

use super::load::NotLoaded;
use super::{Live, LiveError, Question, Silent, Source, Told, UserPage, UserTarget};
use crate::model::Id;
use crate::store::{Known, Wanted};

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
        let told = match self.known_state(question).await {
            Ok(Some(active)) => return Ok((active, Source::Redis)),
            Err(Silent::Away(why)) => self.told_by_mysql(question, &why).await?,
            Ok(None) | Err(Silent::Refused(_)) => {
                let told = self.ask(&[question]).await.pop();
                told.unwrap_or_else(|| Err(LiveError::unavailable("no answer".to_owned())))?
            }
        };
        Ok((told.active.unwrap_or_default(), told.source))
    }

    /// A state that Redis knows, whether or not it knows the count beside it.
    async fn known_state(&self, question: Question) -> Result<Option<bool>, Silent> {
        let Question { interaction, target_type, target, user } = question;
        if self.redis.breaker.reads_mysql(target_type, target) {
            return Ok(None);
        }
        let (number, store) = self.redis.store().await?;
        let mut found = self.redis.answered(number, store.ask(&[(interaction, target_type, target, user)])).await?;
        Ok(found.pop().and_then(|known| known.ok()?.active))
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
            let known = self.ask_open(questions, &open, &mut answers).await;
            self.load_open(questions, &known, &mut answers).await;
        }
        let tired = || Err(LiveError::unavailable("the target could not be kept loaded".to_owned()));
        answers.into_iter().map(|answer| answer.unwrap_or_else(tired)).collect()
    }

    /// Asks Redis. What it knows of those questions that it cannot answer, by place.
    async fn ask_open(&self, questions: &[Question], open: &[usize], answers: &mut Answers) -> BTreeMap<usize, Known> {
        let stale = |at: &usize| self.redis.breaker.reads_mysql(questions[*at].target_type, questions[*at].target);
        let (stale, open): (Vec<usize>, Vec<usize>) = open.iter().copied().partition(stale);
        self.ask_mysql(questions, &stale, "Redis is away", answers).await;
        let mut unanswered = BTreeMap::new();
        if open.is_empty() {
            return unanswered;
        }
        let asked: Vec<_> = open
            .iter()
            .map(|&at| {
                let Question { interaction, target_type, target, user } = questions[at];
                (interaction, target_type, target, user)
            })
            .collect();
        let found = match self.redis.store().await {
            Ok((number, store)) => self.redis.answered(number, store.ask(&asked)).await,
            Err(silent) => Err(silent),
        };
        match found {
            Ok(found) => {
                for (&at, known) in open.iter().zip(found) {
                    match known {
                        Ok(Known { count: Some(count), active })
                            if questions[at].user.is_none() || active.is_some() =>
                        {
                            answers[at] = Some(Ok(Told { count, active, source: Source::Redis }));
                        }
                        Ok(known) => drop(unanswered.insert(at, known)),
                        Err(detail) => answers[at] = Some(Err(LiveError::Content(detail))),
                    }
                }
            }
            Err(Silent::Away(why)) => self.ask_mysql(questions, &open, &why, answers).await,
            Err(Silent::Refused(error)) => {
                for at in open {
                    answers[at] = Some(Err(error.clone()));
                }
            }
        }
        unanswered
    }

    /// Has MySQL answer the questions at `places`.
    async fn ask_mysql(&self, questions: &[Question], places: &[usize], why: &str, answers: &mut Answers) {
        let asked: Vec<Question> = places.iter().map(|&at| questions[at]).collect();
        for (&at, told) in places.iter().zip(self.told_all_by_mysql(&asked, why).await) {
            answers[at] = Some(told);
        }
    }

    /// Loads what is not answered. What cannot be loaded soon is answered from MySQL, but for what Redis knows of it.
    async fn load_open(&self, questions: &[Question], known: &BTreeMap<usize, Known>, answers: &mut Answers) {
        let mut targets = BTreeMap::<(u16, Id), (Wanted, Vec<usize>)>::new();
        for &at in known.keys() {
            let Question { interaction, target_type, target, user } = questions[at];
            let (wanted, places) = targets.entry((target_type, target)).or_default();
            wanted.counts.insert(interaction);
            wanted.states.extend(user.map(|user| (interaction, user)));
            places.push(at);
        }
        let loads = futures::stream::iter(targets).map(|((target_type, target), (wanted, places))| async move {
            (places, self.load(target_type, target, wanted).await)
        });
        let outcomes: Vec<(Vec<usize>, Result<(), NotLoaded>)> = loads.buffer_unordered(LOADS).collect().await;
        let (mut late, mut why) = (Vec::new(), String::new());
        for (places, outcome) in outcomes {
            match outcome {
                Ok(()) => {}
                Err(NotLoaded::Redis(error) | NotLoaded::Busy(error)) => {
                    late.extend(places);
                    why = error.to_string();
                }
                Err(NotLoaded::Mysql(error)) => {
                    for at in places {
                        answers[at] = Some(Err(error.clone()));
                    }
                }
            }
        }
        self.ask_mysql(questions, &late, &why, answers).await;
        for at in late {
            if let (Some(Ok(told)), Some(known)) = (&mut answers[at], known.get(&at)) {
                told.count = known.count.unwrap_or(told.count);
                told.active = known.active.or(told.active);
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
