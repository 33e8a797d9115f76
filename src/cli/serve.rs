//! `tallyd serve`: wiring, and nothing else.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Exit;
use crate::admin::{self, Admin};
use crate::api;
use crate::http::Listener;
use crate::live::Live;
use crate::metrics::{CacheMetrics, Metrics, WriteRate};
use crate::reconcile::{self, Reconciler};
use crate::report;
use crate::sink::SinkError;
use crate::sync::{Alarm, Context, Driver, Trigger, keep_toll};

/// How long the start waits for MySQL to say how old its schema is.
const SCHEMA: Duration = Duration::from_secs(5);

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
    let stop = CancellationToken::new();
    stop_on_signals(&stop)?;
    outlive_hangups()?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        configuration = %context.config.file.display(),
        redis = context.config.redis.url_redacted,
        mysql = context.config.mysql.address(),
        "tallyd starts"
    );
    let (api_config, admin_config) = (context.config.api.clone(), context.config.admin.clone());
    let admin_listener = Listener::bind("admin", admin_config.listen).await?;
    let api_listener = if args.no_api { None } else { Some(Listener::bind("api", api_config.listen).await?) };
    if let Some(schema) = stop.run_until_cancelled(Box::pin(require_schema(&context))).await {
        schema?;
    }
    if stop.is_cancelled() {
        return Ok(Exit::Done);
    }

    let context = Arc::new(context);
    let grace = context.config.serve.grace;
    let metrics = Metrics::new(&context.vocabulary, &api::CALLS);
    let live = Live::new(context.clone(), metrics.breaker.clone());
    let restored = Arc::new(Notify::new());
    let driver = Driver::start(&context, metrics.sync.clone(), !args.no_schedule, restored.clone(), &stop);
    let waker = driver.waker.clone();
    let reconciler = Reconciler::start(&context, metrics.reconcile.clone(), !args.no_schedule, &stop);
    let mut alarm = Alarm::start().await?;
    if !args.no_schedule {
        let waker = waker.clone();
        alarm.every("sync", context.config.sync.cron.clone(), move || waker.wake(Trigger::Schedule));
        for (name, schedule, trigger) in [
            ("reconcile sample", &context.config.reconcile.sample_cron, reconcile::Trigger::Sample),
            ("reconcile full", &context.config.reconcile.full_cron, reconcile::Trigger::Full),
        ] {
            let waker = reconciler.waker.clone();
            alarm.every(name, schedule.clone(), move || waker.wake(trigger));
        }
    }

    let background = TaskTracker::new();
    keep_cache(&live, restored, metrics.cache.clone(), &background, &stop);
    background.spawn(report::keep_mailing(context.clone(), metrics.reconcile.clone(), stop.clone()));
    let writes = metrics.writes.clone();
    background.spawn(keep_toll(context.clone(), move || writes.total(), stop.clone()));
    let rate = WriteRate::new(metrics.writes.clone());
    background.spawn(rate.clone().keep(stop.clone()));
    background.close();

    let admin = Admin {
        context: context.clone(),
        live: live.clone(),
        metrics: metrics.clone(),
        rate,
        waker,
        started: Instant::now(),
    };
    let at_work = TaskTracker::new();
    let router = admin::router(admin, admin_config.tokens, &at_work);
    let admin = tokio::spawn(admin_listener.serve(router, stop.clone(), at_work));
    let api = api_listener.map(|listener| {
        let at_work = TaskTracker::new();
        let router = api::router(live, context.vocabulary.clone(), api_config.tokens, &metrics, &at_work);
        tokio::spawn(listener.serve(router, stop.clone(), at_work))
    });

    tell_systemd(NotifyState::Ready);
    stop.cancelled().await;
    tell_systemd(NotifyState::Stopping);
    tracing::info!(grace_seconds = grace.as_secs(), "tallyd stops: requests end, a run under way between two chunks");
    let ended = async {
        let listeners = async {
            for listener in [Some(admin), api].into_iter().flatten() {
                if let Err(error) = listener.await {
                    tracing::error!(%error, "a listener ended badly");
                }
            }
        };
        let schedules = async {
            alarm.stop().await;
            driver.join().await;
            reconciler.join().await;
            background.wait().await;
        };
        tokio::join!(listeners, schedules);
    };
    Ok(within(grace, ended).await)
}

/// Starts what brings targets into Redis and takes them out, until `stop` is cancelled. The most active are loaded again
/// when a restore has notified `restored`.
fn keep_cache(
    live: &Live,
    restored: Arc<Notify>,
    metrics: CacheMetrics,
    background: &TaskTracker,
    stop: &CancellationToken,
) {
    let (warming, unloading) = (live.clone(), live.clone());
    let (until, stop) = (stop.clone(), stop.clone());
    background.spawn(async move { warming.keep_warm(&restored, &until).await });
    background.spawn(async move { unloading.keep_unloading(&metrics, &stop).await });
}

/// Nothing happens where nobody listens.
fn tell_systemd(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "systemd could not be told");
    }
}

async fn within(grace: Duration, ended: impl Future<Output = ()>) -> Exit {
    if tokio::time::timeout(grace, ended).await.is_err() {
        tracing::error!("tallyd stops with work under way: it did not end within serve.grace_seconds");
        return Exit::Failed;
    }
    tracing::info!("tallyd has stopped");
    Exit::Done
}

/// An old schema ends the start; a server that is away does not: runs fail, say why, and are tried again.
async fn require_schema(context: &Context) -> anyhow::Result<()> {
    let look = async {
        let mut session = context.sink.session();
        let found = session.require_schema().await;
        session.close().await;
        found
    };
    match tokio::time::timeout(SCHEMA, look).await {
        Ok(Err(error @ SinkError::Schema { .. })) => return Err(error.into()),
        Ok(Err(error)) => tracing::warn!("{error}"),
        Ok(Ok(_)) => {}
        Err(_) => tracing::warn!("MySQL did not answer within {} s; the schema is not known yet", SCHEMA.as_secs()),
    }
    Ok(())
}

/// Hears SIGHUP, which would end the process otherwise: the configuration and tokens are read at the start alone.
fn outlive_hangups() -> anyhow::Result<()> {
    let mut hangups = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            tracing::warn!("SIGHUP changes nothing: restart tallyd to have it read its configuration and tokens again");
        }
    });
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
