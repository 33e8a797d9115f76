//! `tallyd serve`: wiring, and nothing else.

use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::Exit;
use crate::sink::SinkError;
use crate::sync::{Alarm, Context, Driver, Trigger};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Do not listen for the write API
    #[arg(long)]
    no_api: bool,

    /// Start no runs by schedule or backlog
    #[arg(long)]
    no_schedule: bool,
}

pub(super) async fn run(args: Args, context: Context) -> anyhow::Result<Exit> {
    if !args.no_api {
        eprintln!("tallyd: this version has no write API yet: start it with --no-api");
        return Ok(Exit::Usage);
    }
    let stop = CancellationToken::new();
    stop_on_signals(&stop)?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        configuration = %context.config.file.display(),
        redis = context.config.redis.url_redacted,
        mysql = context.config.mysql.address(),
        "tallyd starts"
    );
    require_schema(&context).await?;
    let context = Arc::new(context);
    let grace = context.config.serve.grace;
    if args.no_schedule {
        stop.cancelled().await;
        return Ok(Exit::Done);
    }
    let mut alarm = Alarm::start().await?;
    let driver = Driver::start(&context, &stop);
    let waker = driver.waker.clone();
    alarm.every("sync", context.config.sync.cron.clone(), move || waker.wake(Trigger::Schedule));

    stop.cancelled().await;
    tracing::info!(grace_seconds = grace.as_secs(), "tallyd stops: a run under way ends between two chunks");
    let ended = async {
        alarm.stop().await;
        driver.join().await;
    };
    if tokio::time::timeout(grace, ended).await.is_err() {
        tracing::error!("tallyd stops with a run under way: it did not end within serve.grace_seconds");
        return Ok(Exit::Failed);
    }
    tracing::info!("tallyd has stopped");
    Ok(Exit::Done)
}

/// An old schema ends the start; a server that is away does not: runs fail, say why, and are tried again.
async fn require_schema(context: &Context) -> anyhow::Result<()> {
    let mut session = context.sink.session();
    match session.require_schema().await {
        Err(error @ SinkError::Schema(_)) => return Err(error.into()),
        Err(error) => tracing::warn!("{error}"),
        Ok(_) => {}
    }
    session.close().await;
    Ok(())
}

/// Cancels `stop` on the first SIGTERM or SIGINT.
pub(super) fn stop_on_signals(stop: &CancellationToken) -> anyhow::Result<()> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stop = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        stop.cancel();
    });
    Ok(())
}
