//! Recording states and viewers.

use std::collections::BTreeMap;

use futures::StreamExt;

use super::load::NotLoaded;
use super::{Answer, Live, LiveError, ROOM, StateOp};
use crate::model::{Id, Kind, Partition};
use crate::store::{Unloaded, Viewed, Wanted, WriteOp, Written};

/// How often a write is tried: once, again when its target was loaded, and again when that was in vain.
const TRIES: usize = 4;
/// Targets of one request that are loaded at once.
const LOADS: usize = 8;

impl Live {
    /// Sets a state. When this answers, the write is in Redis.
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
            if round == TRIES {
                unloaded = Unloaded::Accept;
            }
            let again = self.try_all(ops, &open, unloaded, &mut answers).await;
            if again.is_empty() {
                break;
            }
            if !self.load_all(ops, &again, &mut answers).await {
                // Neither MySQL nor room for loads is needed for a write.
                unloaded = Unloaded::Accept;
            }
            open = again.into_iter().filter(|&at| answers[at].is_none()).collect();
        }
        let tired = || Err(LiveError::unavailable("the target could not be kept loaded".to_owned()));
        answers.into_iter().map(|answer| answer.unwrap_or_else(tired)).collect()
    }

    /// Tries the operations at `open`; answers those that must be tried again after a load.
    async fn try_all(
        &self,
        ops: &[StateOp],
        open: &[usize],
        unloaded: Unloaded,
        answers: &mut [Option<Result<Answer, LiveError>>],
    ) -> Vec<usize> {
        // Single writes are few at once, and do not queue up behind batches. Nothing is held while targets are loaded.
        let wanted = if open.len() > 1 { u32::try_from(open.len().min(ROOM)).unwrap_or_default() } else { 0 };
        let Ok(Ok(_room)) = tokio::time::timeout(self.patience(), self.room.acquire_many(wanted)).await else {
            let full = LiveError::unavailable("too many operations are under way".to_owned());
            for &at in open {
                answers[at] = Some(Err(full.clone()));
            }
            return vec![];
        };
        let (number, store) = match self.store().await {
            Ok(found) => found,
            Err(error) => {
                for &at in open {
                    answers[at] = Some(Err(error.clone()));
                }
                return vec![];
            }
        };
        let mut partitions: BTreeMap<Partition, Vec<usize>> = BTreeMap::new();
        for &at in open {
            let partition = store.keys().partition(ops[at].target_type, ops[at].target);
            partitions.entry(partition).or_default().push(at);
        }
        let mut again = Vec::new();
        for (partition, places) in partitions {
            let batch: Vec<WriteOp> = places.iter().map(|&at| write_op(&ops[at])).collect();
            match store.write(partition, &batch, unloaded, &self.clock, self.patience()).await {
                Ok((_, written)) => {
                    for (&at, written) in places.iter().zip(written) {
                        match written {
                            Written::Recorded { changed, count } => {
                                answers[at] = Some(Ok(Answer { changed, active: ops[at].active, count }));
                            }
                            Written::NotLoaded | Written::Expired => again.push(at),
                            Written::Failed(detail) => answers[at] = Some(Err(LiveError::Content(detail))),
                        }
                    }
                }
                Err(error) => {
                    let error = self.failed(number, &error);
                    for at in places {
                        answers[at] = Some(Err(error.clone()));
                    }
                }
            }
        }
        again.sort_unstable();
        again
    }

    /// Loads what the operations at `open` need, or answers them where Redis failed. Whether all was loaded.
    async fn load_all(
        &self,
        ops: &[StateOp],
        open: &[usize],
        answers: &mut [Option<Result<Answer, LiveError>>],
    ) -> bool {
        let mut targets = BTreeMap::<(u16, Id), Wanted>::new();
        for op in open.iter().map(|&at| &ops[at]) {
            let wanted = targets.entry((op.target_type, op.target)).or_default();
            wanted.writes.insert((op.interaction, op.user));
        }
        let loads = futures::stream::iter(targets).map(|((target_type, target), wanted)| async move {
            ((target_type, target), self.load(target_type, target, wanted).await)
        });
        let outcomes: BTreeMap<(u16, Id), Result<(), NotLoaded>> = loads.buffer_unordered(LOADS).collect().await;
        for &at in open {
            if let Some(Err(NotLoaded::Redis(error))) = outcomes.get(&(ops[at].target_type, ops[at].target)) {
                answers[at] = Some(Err(error.clone()));
            }
        }
        outcomes.values().all(Result::is_ok)
    }

    /// Counts a viewer, at most once in the window of the counter. Answers whether it was counted, and the count.
    pub async fn view(
        &self,
        interaction: u16,
        target_type: u16,
        target: Id,
        viewer: &str,
    ) -> Result<(bool, i64), LiveError> {
        let kind = self.context.vocabulary.interaction_code(interaction).map(|i| i.kind);
        let Some(Kind::Counter { window }) = kind else {
            return Err(LiveError::Content(format!("interaction {interaction} is no counter")));
        };
        for _ in 0..TRIES {
            let (number, store) = self.store().await?;
            let key = (interaction, target_type, target);
            let answer = store.view(key, viewer, window, &self.clock, self.patience()).await;
            match answer.map_err(|error| self.failed(number, &error))? {
                Viewed::Seen(counted, count) => return Ok((counted, count)),
                Viewed::Expired => {}
                Viewed::NotLoaded => {
                    let counts = [interaction].into();
                    self.load(target_type, target, Wanted { counts, ..Wanted::default() }).await?;
                }
            }
        }
        Err(LiveError::unavailable("the target could not be kept loaded".to_owned()))
    }
}

fn write_op(op: &StateOp) -> WriteOp {
    let StateOp { interaction, target_type: _, target, user, active } = *op;
    WriteOp { interaction, target, user, active }
}
