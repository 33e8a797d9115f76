//! The report of a pass that has ended.

use super::look::Why;
use super::pass::Pass;
use super::report::{Report, Verdict};
use super::request::Scope;

impl Pass<'_> {
    pub(super) fn report(self, started_at: String, duration_ms: u64) -> Report {
        let mut tally = self.tally;
        tally.keep_worst();
        if tally.earlier > 0 {
            tally.skip(Why::Earlier, tally.earlier);
        }
        let outcome = match &self.stopped {
            _ if !self.trouble.is_empty() => Verdict::Failed,
            Some(_) => Verdict::Stopped,
            None if tally.residual > 0 || tally.skipped.contains_key(Why::TooMany.as_str()) => Verdict::Drift,
            None if tally.repaired > 0 => Verdict::Repaired,
            None => Verdict::Clean,
        };
        let busy = self.trouble.iter().all(|(_, busy, _)| *busy);
        let exit_code = match outcome {
            Verdict::Clean | Verdict::Repaired => 0,
            Verdict::Drift | Verdict::Stopped => 3,
            Verdict::Failed if busy => 75,
            Verdict::Failed => 1,
        };
        let scope = match self.request.scope {
            Scope::All => "all".to_owned(),
            Scope::Sample(percent) => format!("sample {percent:?} %"),
            Scope::Target(code, target) => {
                let named = self.context.vocabulary.targets.iter().find(|t| t.code == code);
                format!("target {}:{target}", named.map_or_else(|| code.to_string(), |t| t.name.clone()))
            }
        };
        let trouble = self.trouble.iter().map(|(partition, _, words)| match partition {
            Some(partition) => format!("{partition}: {words}"),
            None => words.clone(),
        });
        let words: Vec<String> = trouble.chain(self.stopped).collect();
        let known = |code: &u16| self.context.vocabulary.interactions.iter().position(|i| i.code == *code);
        let mut interactions: Vec<_> = tally.interactions.into_iter().collect();
        interactions.sort_by_key(|(code, _)| known(code));
        Report {
            run_id: self.run_id,
            trigger: self.request.trigger.as_str(),
            started_at,
            duration_ms,
            dry_run: self.request.dry_run,
            continues: self.continues,
            scope,
            outcome,
            exit_code,
            error: (!words.is_empty()).then(|| words.join("; ")),
            looked_at: tally.looked_at,
            of: tally.of,
            skipped: tally.skipped.values().sum(),
            skipped_why: tally.skipped,
            differing: tally.differing,
            repaired: tally.repaired,
            failed: tally.failed,
            refused: tally.refused,
            residual: tally.residual,
            by_kind: tally.by_kind,
            interactions: interactions.into_iter().map(|(_, figures)| figures).collect(),
            worst: tally.worst,
            sync_health: None,
            degraded: None,
            losses: None,
        }
    }
}
