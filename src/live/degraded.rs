//! The way around Redis: writes into MySQL and its journal, answers from its rows.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, PoisonError};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

use super::group_commit::in_time;
use super::{Answer, Live, LiveError, Question, RETRY_AFTER, Source, StateOp, Told};
use crate::model::{Partition, RecordRow};
use crate::sink::{Asked, Degraded, SinkError};

/// How much may go to MySQL instead of Redis, a second. Writes and reads have a measure each, so that no storm of page
/// views keeps likes out.
pub(super) struct Limits {
    max_qps: u32,
    writes: DefaultDirectRateLimiter,
    reads: DefaultDirectRateLimiter,
}

impl Limits {
    /// Each `max_qps`.
    pub(super) fn new(max_qps: u32) -> Self {
        let quota = Quota::per_second(NonZeroU32::new(max_qps).unwrap_or(NonZeroU32::MIN));
        Self { max_qps, writes: RateLimiter::direct(quota), reads: RateLimiter::direct(quota) }
    }
}

impl Live {
    /// Sets the states at `places` in MySQL, because Redis is away for the reason of `why`. When this answers Ok, the
    /// write is in MySQL with its journal row.
    pub(super) async fn degrade(
        &self,
        ops: &[StateOp],
        places: &[usize],
        why: &str,
        answers: &mut [Option<Result<Answer, LiveError>>],
    ) {
        let shards = self.context.config.redis.shards;
        let mut partitions: BTreeMap<Partition, Vec<usize>> = BTreeMap::new();
        let limits = self.limits();
        for &at in places {
            if limits.writes.check().is_err() {
                answers[at] = Some(Err(self.limited("writes")));
                continue;
            }
            partitions.entry(Partition::of(ops[at].target_type, ops[at].target, shards)).or_default().push(at);
        }
        // At once, for the one who waits; the task that commits takes them in turn.
        let writes = partitions.into_iter().map(|(partition, places)| async move {
            // Before the first of them may be in the journal.
            let under_way =
                self.redis.breaker.degrading(places.iter().map(|&at| (ops[at].target_type, ops[at].target)));
            let rows = places.iter().map(|&at| row(&ops[at])).collect();
            (places, self.group_commit.write(partition, rows, under_way).await)
        });
        for (places, outcome) in futures::future::join_all(writes).await {
            match outcome {
                Ok(degraded) => {
                    self.redis.breaker.accepted(degraded.len() as u64);
                    for (&at, Degraded { changed, count, .. }) in places.iter().zip(degraded) {
                        let (active, count) = (ops[at].active, Some(count));
                        answers[at] = Some(Ok(Answer { changed, active, count, source: Source::Mysql }));
                    }
                }
                Err(error) => {
                    let error = LiveError::unavailable(format!("{why}; {error}"));
                    for at in places {
                        answers[at] = Some(Err(error.clone()));
                    }
                }
            }
        }
    }

    /// Answers from MySQL, in order; they may lag behind by what is not synced yet.
    pub(super) async fn told_all_by_mysql(&self, questions: &[Question], why: &str) -> Vec<Result<Told, LiveError>> {
        let mut answers: Vec<Option<Result<Told, LiveError>>> = vec![None; questions.len()];
        let limits = self.limits();
        let allowed = |at: &usize| limits.reads.check().is_ok() && *at < questions.len();
        let places: Vec<usize> = (0..questions.len()).filter(allowed).collect();
        let asked: Vec<Asked> = places
            .iter()
            .map(|&at| {
                let Question { interaction, target_type, target, user } = questions[at];
                (interaction, target_type, target, user)
            })
            .collect();
        if !asked.is_empty() {
            let sessions = self.sessions.clone();
            // It goes on when nobody waits for it any more: a query that is dropped costs its connection.
            let work = tokio::spawn(async move {
                let mut borrowed = sessions.borrow().await?;
                let outcome = borrowed.session.answer(asked).await;
                borrowed.give_back();
                outcome
            });
            let work = async { work.await.unwrap_or_else(|error| Err(SinkError::Internal(error.to_string()))) };
            match in_time(&self.context, work).await {
                Ok(found) => {
                    for (&at, (count, active)) in places.iter().zip(found) {
                        answers[at] = Some(Ok(Told { count, active, source: Source::Mysql }));
                    }
                }
                Err(error) => {
                    let error = LiveError::unavailable(format!("{why}; {error}"));
                    for &at in &places {
                        answers[at] = Some(Err(error.clone()));
                    }
                }
            }
        }
        answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(self.limited("reads")))).collect()
    }

    /// One answer of [`Live::told_all_by_mysql`].
    pub(super) async fn told_by_mysql(&self, question: Question, why: &str) -> Result<Told, LiveError> {
        let answer = self.told_all_by_mysql(&[question], why).await.pop();
        answer.unwrap_or_else(|| Err(LiveError::unavailable(why.to_owned())))
    }

    /// By `degraded.max_qps` as it is now.
    fn limits(&self) -> Arc<Limits> {
        let max_qps = self.context.settings.now().degraded.max_qps;
        let mut limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        if limits.max_qps != max_qps {
            *limits = Arc::new(Limits::new(max_qps));
        }
        limits.clone()
    }

    fn limited(&self, what: &str) -> LiveError {
        let most = self.limits().max_qps;
        let reason = format!("MySQL takes at most {most} {what} a second in the place of Redis (degraded.max_qps)");
        LiveError::Limited { reason, retry_after: RETRY_AFTER }
    }
}

fn row(op: &StateOp) -> RecordRow {
    let StateOp { interaction, target_type: _, target, user, active } = *op;
    RecordRow { target, interaction, user, active, at_ms: 0 }
}
