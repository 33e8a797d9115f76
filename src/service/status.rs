//! Readiness, and one line on how the daemon is.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::manager::{listens, tell};
use crate::admin;
use crate::live::{BreakerState, Live, Ready};
use crate::metrics::Waiting;
use crate::sync::{Context, Ended, Waker};

/// How often it is looked whether writes are accepted, until they are.
const SOON: Duration = Duration::from_secs(1);
/// How often the line is told anew.
const OFTEN: Duration = Duration::from_secs(5);
/// How long Redis may take to say what waits.
const PATIENCE: Duration = Duration::from_secs(1);

/// Tells the service manager when the daemon is ready, and how it is.
pub struct Announcer {
    /// Both servers.
    pub context: Arc<Context>,
    /// What readiness is asked of.
    pub live: Live,
    /// Whether a run is under way.
    pub waker: Waker,
    /// How the last run ended.
    pub last: watch::Receiver<Ended>,
    /// Set when it is ready.
    pub ready: watch::Sender<bool>,
}

impl Announcer {
    /// Goes on until `stop` is cancelled. Ready is when writes are accepted for the first time.
    pub async fn announce(self, stop: CancellationToken) {
        stop.run_until_cancelled(Box::pin(self.go_on())).await;
    }

    async fn go_on(&self) {
        self.until_ready().await;
        while listens() {
            tokio::time::sleep(OFTEN).await;
            tell(&[NotifyState::Status(&one_line(&self.facts().await.to_string()))]);
        }
    }

    async fn until_ready(&self) {
        let mut told = false;
        let who = loop {
            match self.live.readiness().await {
                Ok(who) => break who,
                Err(reason) => {
                    if !told {
                        tracing::warn!("not ready, for writes cannot be accepted yet: {reason}");
                    }
                    told = true;
                    let line = format!("waiting until writes can be accepted: {reason}");
                    tell(&[NotifyState::Status(&one_line(&line))]);
                    tokio::time::sleep(SOON).await;
                }
            }
        };
        let line = format!("ready: {} takes writes", name(who));
        tracing::info!("{line}");
        self.ready.send_replace(true);
        tell(&[NotifyState::Ready, NotifyState::Status(&line)]);
    }

    async fn facts(&self) -> Facts {
        let waiting = tokio::time::timeout(PATIENCE, admin::waiting(&self.context));
        let (readiness, waiting) = tokio::join!(self.live.readiness(), waiting);
        Facts {
            readiness,
            breaker: self.live.breaker(),
            waiting: waiting.ok().and_then(Result::ok),
            running: self.waker.is_running(),
            last: self.last.borrow().clone(),
            now: Instant::now(),
        }
    }
}

fn name(who: Ready) -> &'static str {
    match who {
        Ready::Redis => "Redis",
        Ready::Mysql => "MySQL, in the place of Redis,",
    }
}

/// In the protocol of the service manager another line would be another message.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

struct Facts {
    readiness: Result<Ready, String>,
    breaker: BreakerState,
    waiting: Option<Vec<Waiting>>,
    running: bool,
    last: Ended,
    now: Instant,
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.readiness {
            Ok(who) => write!(f, "{} takes writes; breaker {}; ", name(*who), self.breaker.as_str())?,
            Err(reason) => write!(f, "nobody takes writes: {reason}; ")?,
        }
        match self.waiting.as_deref() {
            None => f.write_str("backlog unknown")?,
            Some(waiting) => {
                let (dirty, changes) = waiting.iter().fold((0, 0), |(d, c), w| (d + w.dirty, c + w.changes));
                write!(f, "backlog {changes} changes, {dirty} targets")?;
                if let Some(oldest_ms) = waiting.iter().filter_map(|waiting| waiting.oldest_ms).max() {
                    write!(f, ", the oldest change {} s", oldest_ms / 1000)?;
                }
            }
        }
        if self.running {
            f.write_str("; a run is under way")?;
        }
        let Ended { report: Some(report), at: Some(at) } = &self.last else {
            return f.write_str("; no run has ended yet");
        };
        let ago = self.now.saturating_duration_since(*at).as_secs();
        let (outcome, tally) = (report.outcome.as_str(), &report.tally);
        write!(f, "; last run {outcome} {ago} s ago: {} changes, {} rows", tally.changes, tally.rows_written)?;
        match report.partitions.iter().find_map(|partition| partition.error.as_deref()) {
            Some(error) => write!(f, "; {error}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::Utc;

    use super::*;
    use crate::sync::{Outcome, PartitionReport, RunReport, Tally, Trigger};

    fn facts() -> Facts {
        let (breaker, now) = (BreakerState::Closed, Instant::now());
        Facts {
            readiness: Ok(Ready::Redis),
            breaker,
            waiting: Some(Vec::new()),
            running: false,
            last: Ended::default(),
            now,
        }
    }

    fn ended(outcome: Outcome, error: Option<&str>, tally: Tally) -> Ended {
        let (target_type, shard, error) = (1, 0, error.map(str::to_owned));
        let partition = PartitionReport {
            target_type,
            shard,
            outcome,
            error,
            restored: None,
            tally,
            lag: crate::sync::Lag::default(),
        };
        let report = RunReport::new("id".into(), Trigger::Schedule, Utc::now(), vec![partition], false);
        Ended { report: Some(Arc::new(report)), at: Some(Instant::now()) }
    }

    #[test]
    fn the_line_says_how_it_is() {
        let quiet = facts();
        assert_eq!(
            quiet.to_string(),
            "Redis takes writes; breaker closed; backlog 0 changes, 0 targets; no run has ended yet"
        );
        let waiting = |target_type, dirty, changes, oldest_ms| Waiting { target_type, dirty, changes, oldest_ms };
        let last = ended(Outcome::Done, None, Tally { changes: 130, rows_written: 131, ..Tally::default() });
        let now = last.at.unwrap() + Duration::from_secs(12);
        let waiting = Some(vec![waiting(1, 2, 5, Some(3_200)), waiting(2, 1, 1, None)]);
        assert_eq!(
            Facts { waiting, last, now, ..facts() }.to_string(),
            "Redis takes writes; breaker closed; backlog 6 changes, 3 targets, the oldest change 3 s; last run done 12 s \
             ago: 130 changes, 131 rows"
        );
        let last = ended(Outcome::Failed, Some("MySQL is away"), Tally { left: 3, ..Tally::default() });
        let (readiness, now) = (Err("Redis is away; MySQL is away".into()), last.at.unwrap());
        assert_eq!(
            Facts { readiness, waiting: None, last, now, ..facts() }.to_string(),
            "nobody takes writes: Redis is away; MySQL is away; backlog unknown; last run failed 0 s ago: 0 changes, 0 \
             rows; MySQL is away"
        );
        let running = Facts { running: true, ..facts() }.to_string();
        assert!(running.ends_with("; a run is under way; no run has ended yet"), "{running}");
        let degraded = Facts { readiness: Ok(Ready::Mysql), breaker: BreakerState::Open, ..facts() }.to_string();
        assert!(degraded.starts_with("MySQL, in the place of Redis, takes writes; breaker open; "), "{degraded}");
    }

    #[test]
    fn no_text_of_a_server_is_a_message_of_its_own() {
        assert_eq!(one_line("an error\nREADY=1\r\n"), "an error READY=1  ");
    }
}
