//! Recording states and viewers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt;

use super::load::NotLoaded;
use super::{Answer, BreakerState, Live, LiveError, Question, ROOM, Silent, Source, StateOp, Told};
use crate::model::{Id, Kind, Partition};
use crate::store::{Unloaded, Viewed, Wanted, WriteOp, Written};

/// How often a write is tried: once, again when its target was loaded, and again when that was in vain.
const TRIES: usize = 4;
/// Targets of one request that are loaded at once.
const LOADS: usize = 8;

/// Operations that did not end at the first try.
#[derive(Default)]
struct Rest {
    /// Their targets are not loaded.
    unloaded: Vec<usize>,
    /// Redis is away.
    away: Vec<usize>,
    /// Why.
    why: String,
}

impl Live {
    /// Sets a state. When this answers, the write is in Redis, or in MySQL and its journal.
    pub async fn set(&self, op: StateOp) -> Result<Answer, LiveError> {
        let mut answers = self.set_many(&[op]).await;
        answers.pop().unwrap_or_else(|| Err(LiveError::unavailable("no answer".to_owned())))
    }

    /// Sets many states, answered in order; operations on the same state apply in order.
    pub async fn set_many(&self, ops: &[StateOp]) -> Vec<Result<Answer, LiveError>> {
        let mut answers: Vec<Option<Result<Answer, LiveError>>> = vec![None; ops.len()];
        let mut open: Vec<usize> = (0..ops.len()).collect();
        let mut unloaded = Unloaded::Refuse;
        for round in 1..=TRIES {
            if self.redis.breaker.state() == BreakerState::Open {
                self.degrade(ops, &open, "Redis is away", &mut answers).await;
                break;
            }
            if round == TRIES {
                unloaded = Unloaded::Accept;
            }
            let mut rest = self.try_all(ops, &open, unloaded, &mut answers).await;
            if !rest.unloaded.is_empty() {
                // Neither MySQL nor room for loads is needed for a write, and it does not wait long for them.
                let loaded = tokio::time::timeout(self.redis.patience() * 2, self.load_all(ops, &mut rest)).await;
                if !loaded.unwrap_or(false) {
                    unloaded = Unloaded::Accept;
                }
            }
            self.degrade(ops, &rest.away, &rest.why, &mut answers).await;
            if rest.unloaded.is_empty() {
                break;
            }
            open = rest.unloaded;
        }
        let tired = || Err(LiveError::unavailable("the target could not be kept loaded".to_owned()));
        answers.into_iter().map(|answer| answer.unwrap_or_else(tired)).collect()
    }

    /// Tries the operations at `open` with Redis.
    async fn try_all(
        &self,
        ops: &[StateOp],
        open: &[usize],
        unloaded: Unloaded,
        answers: &mut [Option<Result<Answer, LiveError>>],
    ) -> Rest {
        // Single writes are few at once, and do not queue up behind batches. Nothing is held while targets are loaded.
        let wanted = if open.len() > 1 { u32::try_from(open.len().min(ROOM)).unwrap_or_default() } else { 0 };
        let Ok(Ok(_room)) = tokio::time::timeout(self.redis.patience(), self.room.acquire_many(wanted)).await else {
            let full = LiveError::unavailable("too many operations are under way".to_owned());
            for &at in open {
                answers[at] = Some(Err(full.clone()));
            }
            return Rest::default();
        };
        let (number, store) = match self.redis.store().await {
            Ok(found) => found,
            Err(silent) => {
                let why = LiveError::from(silent).to_string();
                return Rest { away: open.to_vec(), why, ..Rest::default() };
            }
        };
        let mut partitions: BTreeMap<Partition, Vec<usize>> = BTreeMap::new();
        for &at in open {
            let partition = store.keys().partition(ops[at].target_type, ops[at].target);
            partitions.entry(partition).or_default().push(at);
        }
        let mut rest = Rest::default();
        for (partition, places) in partitions {
            if !rest.away.is_empty() {
                // Who did not answer a moment ago is not waited for again.
                rest.away.extend(places);
                continue;
            }
            let batch: Vec<WriteOp> = places.iter().map(|&at| write_op(&ops[at])).collect();
            let patience = self.redis.patience();
            let written = if let ([op], Unloaded::Refuse) = (&batch[..], unloaded) {
                self.share.write(partition, *op, patience).await.map(|written| vec![written])
            } else {
                let write = store.write(partition, &batch, unloaded, &self.redis.clock, patience);
                self.redis.answered(number, write).await.map(|(_, written)| written)
            };
            match written {
                Ok(written) => {
                    for (&at, written) in places.iter().zip(written) {
                        match written {
                            Written::Recorded { changed, count } => {
                                let (active, source) = (ops[at].active, Source::Redis);
                                answers[at] = Some(Ok(Answer { changed, active, count, source }));
                            }
                            Written::NotLoaded | Written::Expired => rest.unloaded.push(at),
                            Written::Failed(detail) => answers[at] = Some(Err(LiveError::Content(detail))),
                        }
                    }
                }
                Err(Silent::Away(why)) => {
                    rest.away.extend(places);
                    rest.why = why;
                }
                Err(Silent::Refused(error)) => {
                    for at in places {
                        answers[at] = Some(Err(error.clone()));
                    }
                }
            }
        }
        rest.unloaded.sort_unstable();
        rest.away.sort_unstable();
        rest
    }

    /// Loads what the operations need whose targets are not loaded. Those for whom Redis was away turn to MySQL, too.
    /// Whether all the others may be tried again as they were.
    async fn load_all(&self, ops: &[StateOp], rest: &mut Rest) -> bool {
        let mut targets = BTreeMap::<(u16, Id), Wanted>::new();
        for op in rest.unloaded.iter().map(|&at| &ops[at]) {
            let wanted = targets.entry((op.target_type, op.target)).or_default();
            wanted.writes.insert((op.interaction, op.user));
        }
        // They go on when nobody waits for them any more: a query that is dropped costs its connection.
        let loads = futures::stream::iter(targets).map(|((target_type, target), wanted)| {
            let live = self.clone();
            let load = tokio::spawn(async move { live.load(target_type, target, wanted).await });
            async move {
                let died = |error| Err(NotLoaded::Busy(LiveError::unavailable(format!("a load ended badly: {error}"))));
                ((target_type, target), load.await.unwrap_or_else(died))
            }
        });
        let mut outcomes: BTreeMap<(u16, Id), Result<(), NotLoaded>> = loads.buffer_unordered(LOADS).collect().await;
        let mut away = BTreeSet::new();
        outcomes.retain(|target, outcome| match outcome {
            Err(NotLoaded::Redis(error)) => {
                rest.why = error.to_string();
                away.insert(*target);
                false
            }
            _ => true,
        });
        let gone = |at: &usize| away.contains(&(ops[*at].target_type, ops[*at].target));
        let (degraded, unloaded): (Vec<usize>, Vec<usize>) = rest.unloaded.iter().copied().partition(gone);
        rest.away.extend(degraded);
        rest.away.sort_unstable();
        rest.unloaded = unloaded;
        outcomes.values().all(Result::is_ok)
    }

    /// Counts a viewer, at most once in the window of the counter. Answers whether it was counted, and the count. While
    /// Redis is away nobody is counted.
    pub async fn view(
        &self,
        interaction: u16,
        target_type: u16,
        target: Id,
        viewer: &str,
    ) -> Result<(bool, Told), LiveError> {
        let kind = self.context.vocabulary.interaction_code(interaction).map(|i| i.kind);
        let Some(Kind::Counter { window }) = kind else {
            return Err(LiveError::Content(format!("interaction {interaction} is no counter")));
        };
        let question = Question { interaction, target_type, target, user: None };
        for _ in 0..TRIES {
            if self.redis.breaker.state() == BreakerState::Open {
                return self.told_by_mysql(question, "Redis is away").await.map(|told| (false, told));
            }
            let why = match self.try_view((interaction, target_type, target), viewer, window).await {
                Ok(Some(seen)) => return Ok(seen),
                Ok(None) => continue,
                Err(Silent::Away(why)) => why,
                Err(Silent::Refused(error)) => return Err(error),
            };
            return self.told_by_mysql(question, &why).await.map(|told| (false, told));
        }
        Err(LiveError::unavailable("the target could not be kept loaded".to_owned()))
    }

    /// Tries to count a viewer; `None` when that has to be tried again.
    async fn try_view(
        &self,
        key: (u16, u16, Id),
        viewer: &str,
        window: Duration,
    ) -> Result<Option<(bool, Told)>, Silent> {
        let (number, store) = self.redis.store().await?;
        match self
            .redis
            .answered(number, store.view(key, viewer, window, &self.redis.clock, self.redis.patience()))
            .await?
        {
            Viewed::Seen(counted, count) => Ok(Some((counted, Told { count, active: None, source: Source::Redis }))),
            Viewed::Expired => Ok(None),
            Viewed::NotLoaded => {
                let (interaction, target_type, target) = key;
                let wanted = Wanted { counts: [interaction].into(), ..Wanted::default() };
                match self.load(target_type, target, wanted).await {
                    Ok(()) => Ok(None),
                    Err(NotLoaded::Redis(error)) => Err(Silent::Away(error.to_string())),
                    Err(NotLoaded::Mysql(error) | NotLoaded::Busy(error)) => Err(Silent::Refused(error)),
                }
            }
        }
    }
}

fn write_op(op: &StateOp) -> WriteOp {
    let StateOp { interaction, target_type: _, target, user, active } = *op;
    WriteOp { interaction, target, user, active }
}
