//! `tallyd report`

use anyhow::Context as _;

use super::{Exit, output};
use crate::config::MailConfig;
use crate::report::{self, Kept, Letter, MailError, Mailer, Refusal};
use crate::sync::Context;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The last pass; implied
    #[arg(long)]
    last: bool,

    /// Mail it
    #[arg(long)]
    send: bool,

    /// Mail a sample, to prove the mail settings
    #[arg(long, conflicts_with_all = ["last", "format"])]
    test: bool,

    /// How to show it [default: text, or not at all with --send]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Format {
    Text,
    Html,
    Json,
}

pub(super) async fn run(args: Args, context: Context) -> anyhow::Result<Exit> {
    let Args { last: _, send, test, format } = args;
    if test {
        let sample = report::sample(&context.vocabulary).context("the sample cannot be read")?;
        let Some(mail) = mail(&context) else { return Ok(Exit::Configuration) };
        let sent = mailed(mail, &Letter::new(&sample, None)).await?;
        return Ok(if sent.is_empty() { Exit::Done } else { Exit::Failed });
    }
    if send && mail(&context).is_none() {
        return Ok(Exit::Configuration);
    }
    let mut session = context.sink.session();
    session.require_schema().await?;
    let kept = Kept::last(&mut session).await?;
    let kept = kept.context("no reconciliation is kept; the schedule makes one, or `tallyd reconcile`")?;
    if !send || format.is_some() {
        show(&kept, format.unwrap_or(Format::Text), &context)?;
    }
    let mut exit = Exit::Done;
    if let Some(mail) = context.config.report.mail.as_ref().filter(|_| send) {
        if !mailed(mail, &kept.letter(&context.vocabulary)).await?.is_empty() {
            exit = Exit::Failed;
        }
        session.pass_mailed(&kept.pass.run_id).await.context("mailed, but MySQL could not be told")?;
    }
    session.close().await;
    Ok(exit)
}

fn show(kept: &Kept, format: Format, context: &Context) -> anyhow::Result<output::Reader> {
    match format {
        Format::Text => output::bytes(report::text(&kept.view(&context.vocabulary)).as_bytes()),
        Format::Html => output::result(report::html(&kept.view(&context.vocabulary))),
        Format::Json => output::result(&kept.pass.report),
    }
}

/// The mail settings; says so when there are none.
fn mail(context: &Context) -> Option<&MailConfig> {
    let mail = context.config.report.mail.as_ref();
    if mail.is_none() {
        output::note("tallyd: mail is not configured; it needs report.from, report.to and report.smtp.host");
    }
    mail
}

/// Mails, says to whom, and answers who was refused.
async fn mailed(mail: &MailConfig, letter: &Letter) -> Result<Vec<Refusal>, MailError> {
    let mailer = Mailer::new(mail)?;
    let refused = mailer.send(letter).await?;
    let is_refused = |to: &String| refused.iter().any(|refusal| refusal.to == *to);
    let taken: Vec<_> = mailer.recipients().into_iter().filter(|to| !is_refused(to)).collect();
    output::note(format_args!("mailed to {} by {}: {}", taken.join(", "), mailer.server(), letter.subject()));
    for Refusal { to, cause } in &refused {
        output::note(format_args!("tallyd: mail server {} refused {to}: {cause}", mailer.server()));
    }
    Ok(refused)
}
