//! Comparing Redis counts with the states of complete hashes.

use super::{Holder, StoreError, script};
use crate::model::Id;

/// States read in one call of the script: a few milliseconds of Redis at most.
const BUDGET: u64 = 20_000;

/// A Redis count that was set right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Corrected {
    /// The target.
    pub target: Id,
    /// Code of the interaction.
    pub interaction: u16,
    /// What Redis held.
    pub before: String,
    /// How many states are active.
    pub after: i64,
}

impl Holder {
    /// Compares the counts of `items` with their states, where the hash is complete and has at most `limit` members,
    /// and sets right those that differ; in a dry run it only tells them.
    pub async fn verify(&mut self, items: &[(Id, u16)], limit: u64) -> Result<Vec<Corrected>, StoreError> {
        let target_type = self.partition.target_type;
        let mut corrected = Vec::new();
        let mut rest = items;
        while !rest.is_empty() {
            let mut invocation = if self.dry {
                let mut invocation = script::VERIFY_DRY.key(self.store.keys.checkpoint(self.partition));
                invocation.arg("dry");
                invocation
            } else {
                self.fenced(&script::VERIFY)
            };
            invocation.arg(limit).arg(BUDGET);
            for &(target, interaction) in rest {
                let name = self.store.name(interaction);
                invocation
                    .key(self.store.keys.state(name, target_type, target))
                    .key(self.store.keys.count(target_type, target))
                    .arg(name);
            }
            let what = "the verification of counts";
            let answer: Vec<redis::Value> = self.invoke(what, &invocation).await?;
            let failed = |error| self.store.failed(what)(error);
            let mut values = answer.into_iter();
            let mut number = || redis::from_redis_value::<usize>(values.next().unwrap_or(redis::Value::Nil));
            let looked_at = number().map_err(|e| failed(e.into()))?;
            let rows: Vec<redis::Value> = values.collect();
            for row in rows.chunks_exact(3) {
                let (at, before, after) =
                    redis::from_redis_value(redis::Value::Array(row.to_vec())).map_err(|e| failed(e.into()))?;
                let at: usize = at;
                if let Some(&(target, interaction)) = rest.get(at) {
                    corrected.push(Corrected { target, interaction, before, after });
                }
            }
            rest = rest.get(looked_at.max(1)..).unwrap_or_default();
        }
        Ok(corrected)
    }
}
