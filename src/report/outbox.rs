//! Passes as they are kept, and the daemon's mailing of them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::{Figures, Letter, MailError, Mailer, Refusal, View};
use crate::config::ReportConfig;
use crate::metrics::ReconcileMetrics;
use crate::model::Vocabulary;
use crate::reconcile::{fix_sql, undo_sql};
use crate::sink::{KeptPass, Session, SinkError};
use crate::sync::Context;

/// How often the daemon looks for a pass that is not mailed.
const LOOK: Duration = Duration::from_secs(5);

/// After how long a mail that failed is tried again: first, and at last.
const SOON: Duration = Duration::from_secs(5);
const LATE: Duration = Duration::from_mins(15);

/// How often the turn to mail is taken again while a mail server makes us wait.
const TURN: Duration = Duration::from_secs(5);

/// Drifts in the attached file: some hundreds of KiB.
const DRIFTS: u32 = 5000;

/// Earlier passes that a report compares with.
const BEFORE: u32 = 7;

/// A pass that is kept, with those that it is compared with.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The pass.
    pub pass: KeptPass,
    before: Vec<Figures>,
    /// What mends by hand, and what takes repairs back; `None` when nothing was found.
    sql: Option<String>,
}

impl Kept {
    /// The last pass of all, if there is one.
    pub async fn last(session: &mut Session) -> Result<Option<Self>, SinkError> {
        match session.last_pass(None).await? {
            Some(pass) => Self::of(session, pass).await.map(Some),
            None => Ok(None),
        }
    }

    async fn of(session: &mut Session, pass: KeptPass) -> Result<Self, SinkError> {
        let before = session.passes_before(&pass, BEFORE).await?;
        let drifts = session.drifts_of(&pass.run_id, DRIFTS).await?;
        let sql = (!drifts.is_empty()).then(|| file(&fix_sql(&drifts), &undo_sql(&drifts)));
        Ok(Self { pass, before: before.iter().filter_map(|json| Figures::of(json)).collect(), sql })
    }

    /// What is told of it.
    #[must_use]
    pub fn view(&self, vocabulary: &Vocabulary) -> View {
        View::new(&Figures::of(&self.pass.report).unwrap_or_default(), &self.before, vocabulary)
    }

    /// Its mail.
    #[must_use]
    pub fn letter(&self, vocabulary: &Vocabulary) -> Letter {
        Letter::new(&self.view(vocabulary), self.sql.clone())
    }
}

/// The attached file. Run as it is, it takes nothing back.
fn file(fix: &str, undo: &str) -> String {
    let undo = undo.lines().fold(String::new(), |text, line| text + "-- " + line + "\n");
    format!("-- What was found in MySQL and not repaired:\n{fix}\n-- To take back what was repaired in MySQL:\n{undo}")
}

/// A mail that failed.
struct Retry {
    run_id: String,
    at: Instant,
    pause: Duration,
}

/// Mails the newest full pass unless that was done, until `stop` is cancelled; one that fails is tried again, less and
/// less often, until a newer pass takes its place, and at once when the settings change. Nothing waits for it, and nothing
/// fails with it.
pub async fn keep_mailing(context: Arc<Context>, metrics: ReconcileMetrics, stop: CancellationToken) {
    let mut settings = context.settings.subscribe();
    let mut sent = None;
    while !stop.is_cancelled() {
        let mailer = mailer(&settings.borrow_and_update().report);
        let until = async {
            tokio::select! {
                () = stop.cancelled() => {}
                _ = settings.changed() => {}
            }
        };
        let Some(mailer) = mailer else {
            until.await;
            continue;
        };
        let mut outbox = Outbox { context: &context, mailer, metrics: metrics.clone(), retry: None, sent };
        outbox.mail(until, &stop).await;
        sent = outbox.sent;
    }
}

fn mailer(report: &ReportConfig) -> Option<Mailer> {
    match Mailer::new(report.mail.as_ref()?) {
        Ok(mailer) => Some(mailer),
        Err(error) => {
            tracing::error!(%error, "no report will be mailed");
            None
        }
    }
}

struct Outbox<'c> {
    context: &'c Context,
    mailer: Mailer,
    metrics: ReconcileMetrics,
    retry: Option<Retry>,
    /// The pass that was mailed, in case MySQL could not be told.
    sent: Option<String>,
}

impl Outbox<'_> {
    async fn mail(&mut self, until: impl Future<Output = ()>, stop: &CancellationToken) {
        tokio::pin!(until);
        while timeout(LOOK, until.as_mut()).await.is_err() {
            let mut session = self.context.sink.session();
            // A mail half sent when it is time to stop is sent again by the next start.
            let looked = stop.run_until_cancelled(Box::pin(self.look(&mut session))).await;
            if let Some(Err(error)) = looked {
                tracing::debug!(%error, "the passes could not be looked at");
            }
            session.close().await;
        }
    }

    async fn look(&mut self, session: &mut Session) -> Result<(), SinkError> {
        let Some(pass) = self.due(session).await? else { return Ok(()) };
        if !session.take_mail_turn().await? {
            return Ok(());
        }
        // Another process may have mailed it before it was our turn.
        let Some(pass) = self.due(session).await?.filter(|again| again.run_id == pass.run_id) else { return Ok(()) };
        if self.sent.as_ref() != Some(&pass.run_id) {
            let kept = Kept::of(session, pass.clone()).await?;
            let letter = kept.letter(&self.context.vocabulary).of_pass(&pass.run_id);
            let sent = send(&self.mailer, &letter, session).await;
            if !self.told(&pass.run_id, sent) {
                return Ok(());
            }
        }
        session.pass_mailed(&pass.run_id).await
    }

    /// The newest full pass, when it is to be mailed now.
    async fn due(&self, session: &mut Session) -> Result<Option<KeptPass>, SinkError> {
        let pass = session.last_pass(Some("full")).await?.filter(|pass| !pass.mailed);
        let waits = |pass: &KeptPass| {
            self.retry.as_ref().is_some_and(|retry| retry.run_id == pass.run_id && Instant::now() < retry.at)
        };
        Ok(pass.filter(|pass| !waits(pass)))
    }

    /// Says how it went; whether the mail is gone.
    fn told(&mut self, run_id: &str, sent: Result<Vec<Refusal>, MailError>) -> bool {
        self.metrics.mailed(sent.is_ok());
        match sent {
            Ok(refused) => {
                tracing::info!(run_id, server = self.mailer.server(), "the report of a full pass was mailed");
                for Refusal { to, cause } in refused {
                    tracing::warn!(run_id, to, cause, "the mail server refused a recipient of the report");
                }
                (self.retry, self.sent) = (None, Some(run_id.to_owned()));
                true
            }
            Err(error) => {
                let before = self.retry.take().filter(|retry| retry.run_id == run_id);
                let pause = before.map_or(SOON, |retry| (retry.pause * 2).min(LATE));
                tracing::warn!(run_id, %error, again_in_s = pause.as_secs(), "the report of a full pass was not mailed");
                self.retry = Some(Retry { run_id: run_id.to_owned(), at: Instant::now() + pause, pause });
                false
            }
        }
    }
}

/// Sends, and keeps the turn meanwhile.
async fn send(mailer: &Mailer, letter: &Letter, session: &mut Session) -> Result<Vec<Refusal>, MailError> {
    let sending = mailer.send(letter);
    tokio::pin!(sending);
    let mut turn = interval(TURN);
    turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
    turn.tick().await;
    loop {
        tokio::select! {
            sent = &mut sending => return sent,
            _ = turn.tick() => {
                if let Err(error) = session.take_mail_turn().await {
                    tracing::debug!(%error, "the turn to mail could not be kept");
                }
            }
        }
    }
}
