//! `tallyd serve`: wiring, and nothing else.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Exit;
use crate::admin::{self, Admin};
use crate::api;
use crate::http::Listener;
use crate::live::Live;
use crate::logging::Level;
use crate::metrics::{CacheMetrics, Metrics, WriteRate};
use crate::pulse::Pulses;
use crate::reconcile::Reconciler;
use crate::report;
use crate::service::{Announcer, Probe, keep_probing, keep_reloading, keep_schedules, start_watch, tell};
use crate::sink::SinkError;
use crate::sync::{Alarm, Context, Driver, keep_toll};

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

pub(super) async fn run(args: Args, context: Context, level: Level) -> anyhow::Result<Exit> {
    let stop = CancellationToken::new();
    stop_on_signals(&stop)?;
    // From here on it does not end the process.
    let hangups = signal(SignalKind::hangup())?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        configuration = %context.config.file.display(),
        redis = context.config.redis.url_redacted,
        mysql = context.config.mysql.address(),
        "tallyd starts"
    );
    let admin_listener = Listener::bind("admin", context.config.admin.listen).await?;
    let api_listener = if args.no_api { None } else { Some(Listener::bind("api", context.config.api.listen).await?) };
    if let Some(schema) = stop.run_until_cancelled(Box::pin(require_schema(&context))).await {
        schema?;
    }
    if stop.is_cancelled() {
        return Ok(Exit::Done);
    }

    let context = Arc::new(context);
    let metrics = Metrics::new(&context.vocabulary, &api::CALLS);
    let live = Live::new(context.clone(), metrics.breaker.clone());
    let (pulses, dead, restored) = (Pulses::default(), CancellationToken::new(), Arc::new(Notify::new()));
    let automatic = !args.no_schedule;
    let driver = Driver::start(&context, metrics.sync.clone(), automatic, restored.clone(), &pulses, &stop);
    let reconciler = Reconciler::start(&context, metrics.reconcile.clone(), automatic, &pulses, &stop);

    let background = TaskTracker::new();
    if automatic {
        let alarm = Alarm::start(pulses.clone()).await?;
        let (sync, reconciler) = (driver.waker.clone(), reconciler.waker.clone());
        background.spawn(keep_schedules(context.clone(), alarm, sync, reconciler, stop.clone()));
    }
    keep_cache(&live, restored, metrics.cache.clone(), &background, &stop);
    background.spawn(report::keep_mailing(context.clone(), metrics.reconcile.clone(), stop.clone()));
    let writes = metrics.writes.clone();
    background.spawn(keep_toll(context.clone(), move || writes.total(), stop.clone()));
    let (ready, is_ready) = watch::channel(false);
    let (waker, last) = (driver.waker.clone(), driver.last.clone());
    let announcer = Announcer { context: context.clone(), live: live.clone(), waker, last, ready };
    background.spawn(announcer.announce(stop.clone()));
    tokio::spawn(keep_reloading(context.clone(), level, is_ready, hangups));
    let rate = WriteRate::new(metrics.writes.clone());
    background.spawn(rate.clone().keep(stop.clone()));

    let admin = Admin {
        context: context.clone(),
        live: live.clone(),
        metrics: metrics.clone(),
        rate,
        last: driver.last.clone(),
        waker: driver.waker.clone(),
        started: Instant::now(),
    };
    let mut listeners = vec![serve_admin(admin_listener, admin, &background, &pulses, &stop)];
    listeners.extend(
        api_listener.map(|listener| serve_api(listener, live, &context, &metrics, &background, &pulses, &stop)),
    );

    background.close();
    start_watch(pulses, dead.clone())?;
    tokio::select! {
        () = stop.cancelled() => {}
        () = dead.cancelled() => stop.cancel(),
    }
    let grace = context.config.serve.grace;
    tell(&[NotifyState::Stopping, NotifyState::Status("stopping: requests end, a run under way between two chunks")]);
    tracing::info!(grace_seconds = grace.as_secs(), "tallyd stops: requests end, a run under way between two chunks");
    let ended = async {
        let listeners = async {
            for listener in listeners {
                if let Err(error) = listener.await {
                    tracing::error!(%error, "a listener ended badly");
                }
            }
        };
        let loops = async {
            driver.join().await;
            reconciler.join().await;
            background.wait().await;
        };
        tokio::join!(listeners, loops);
    };
    let exit = within(grace, ended).await;
    Ok(if dead.is_cancelled() { Exit::Failed } else { exit })
}

fn serve_admin(
    listener: Listener,
    admin: Admin,
    background: &TaskTracker,
    pulses: &Pulses,
    stop: &CancellationToken,
) -> JoinHandle<()> {
    let (address, name) = (listener.address(), "the administration listener");
    let probe = Probe { name, address, ask: "GET /healthz", tokens: None };
    background.spawn(keep_probing(probe, pulses.clone(), stop.clone()));
    let at_work = TaskTracker::new();
    let tokens = admin.context.settings.tokens(|config| &config.admin.tokens);
    tokio::spawn(listener.serve(admin::router(admin, tokens, &at_work), stop.clone(), at_work))
}

fn serve_api(
    listener: Listener,
    live: Live,
    context: &Context,
    metrics: &Metrics,
    background: &TaskTracker,
    pulses: &Pulses,
    stop: &CancellationToken,
) -> JoinHandle<()> {
    let tokens = context.settings.tokens(|config| &config.api.tokens);
    let (address, name) = (listener.address(), "the API's listener");
    let probe = Probe { name, address, ask: "HEAD /openapi.json", tokens: Some(tokens.clone()) };
    background.spawn(keep_probing(probe, pulses.clone(), stop.clone()));
    let at_work = TaskTracker::new();
    let router = api::router(live, context.vocabulary.clone(), tokens, metrics, &at_work);
    tokio::spawn(listener.serve(router, stop.clone(), at_work))
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
