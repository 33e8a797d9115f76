//! The smaller sections.

use std::net::SocketAddr;
use std::time::Duration;

use chrono_tz::Tz;
use tracing_subscriber::filter::{EnvFilter, LevelFilter};

use super::error::Problem;
use super::secret::{Secret, SecretFiles};
use super::{fields, raw};
use crate::schedule::Schedule;

/// A year, in seconds.
const YEAR: i64 = 366 * 86_400;

/// More of anything than there will be.
const BILLION: i64 = 1_000_000_000;

/// The write and read API.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Any of these lets a request in; when empty, `listen` is on loopback and every request is let in.
    pub tokens: Vec<Secret>,
}

/// The listener for health, metrics and administration.
#[derive(Clone, Debug)]
pub struct AdminConfig {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Any of these lets a `POST` in; when empty, `listen` is on loopback and every request is let in.
    pub tokens: Vec<Secret>,
}

/// The daemon.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// How long what is under way may take to end after SIGTERM.
    pub grace: Duration,
}

/// Syncing.
#[derive(Clone, Debug)]
pub struct SyncConfig {
    /// When runs start.
    pub cron: Schedule,
    /// A run starts early when so many changes wait.
    pub early_flush_changes: u64,
    /// Rows in a statement, 1 to 1,000,000; what the servers do not take at once is cut to what they do.
    pub batch_rows: u32,
    /// A count is verified at every run when its target has at most so many members; 0 for never.
    pub verify_limit: u64,
}

/// What Redis keeps.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// A target with at most so many members is loaded whole.
    pub full_load_limit: u64,
    /// A clean target is unloaded when it was not used for so long.
    pub idle: Duration,
    /// How many of the most active targets are loaded at start; 0 for none.
    pub warm_top: u64,
}

/// Writing while Redis is down.
#[derive(Clone, Debug)]
pub struct DegradedConfig {
    /// Writes a second that MySQL is given.
    pub max_qps: u32,
    /// The time between two probes of Redis.
    pub probe: Duration,
}

/// Reconciliation.
#[derive(Clone, Debug)]
pub struct ReconcileConfig {
    /// When a sample is looked at.
    pub sample_cron: Schedule,
    /// The size of the sample: above 0, at most 100.
    pub sample_percent: f64,
    /// When everything is looked at.
    pub full_cron: Schedule,
    /// Nothing is repaired when more than this share differs: above 0, at most 100.
    pub stop_percent: f64,
    /// How many days passes and drifts are kept.
    pub keep_days: u32,
}

/// What all schedules share.
#[derive(Clone, Debug)]
pub struct ScheduleConfig {
    /// The zone in which cron expressions are meant.
    pub timezone: Tz,
}

/// Logging.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// The form of a line.
    pub format: LogFormat,
    /// A level, or directives as `RUST_LOG` takes them; known to be valid.
    pub level: String,
}

/// Forms of a log line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl ApiConfig {
    pub(super) fn resolve(raw: &raw::Api, files: &SecretFiles) -> Result<Self, Problem> {
        let tokens = files.tokens("api.token_file", raw.token_file.as_deref())?;
        Ok(Self { listen: fields::listen("api", &raw.listen, !tokens.is_empty())?, tokens })
    }
}

impl AdminConfig {
    pub(super) fn resolve(raw: &raw::Admin, files: &SecretFiles) -> Result<Self, Problem> {
        let tokens = files.tokens("admin.token_file", raw.token_file.as_deref())?;
        Ok(Self { listen: fields::listen("admin", &raw.listen, !tokens.is_empty())?, tokens })
    }
}

impl ServeConfig {
    pub(super) fn resolve(raw: &raw::Serve) -> Result<Self, Problem> {
        Ok(Self { grace: fields::seconds("serve.grace_seconds", raw.grace_seconds, 3600)? })
    }
}

impl SyncConfig {
    pub(super) fn resolve(raw: &raw::Sync, zone: Tz) -> Result<Self, Problem> {
        Ok(Self {
            cron: cron("sync.cron", &raw.cron, zone)?,
            early_flush_changes: fields::within("sync.early_flush_changes", raw.early_flush_changes, 1..=BILLION)?,
            batch_rows: fields::within("sync.batch_rows", raw.batch_rows, 1..=1_000_000)?,
            verify_limit: fields::within("sync.verify_limit", raw.verify_limit, 0..=BILLION)?,
        })
    }
}

impl CacheConfig {
    pub(super) fn resolve(raw: &raw::Cache) -> Result<Self, Problem> {
        Ok(Self {
            full_load_limit: fields::within("cache.full_load_limit", raw.full_load_limit, 0..=BILLION)?,
            idle: fields::seconds("cache.idle_seconds", raw.idle_seconds, 10 * YEAR)?,
            warm_top: fields::within("cache.warm_top", raw.warm_top, 0..=BILLION)?,
        })
    }
}

impl DegradedConfig {
    pub(super) fn resolve(raw: &raw::Degraded) -> Result<Self, Problem> {
        Ok(Self {
            max_qps: fields::within("degraded.max_qps", raw.max_qps, 1..=1_000_000)?,
            probe: fields::seconds("degraded.probe_seconds", raw.probe_seconds, 3600)?,
        })
    }
}

impl ReconcileConfig {
    pub(super) fn resolve(raw: &raw::Reconcile, zone: Tz) -> Result<Self, Problem> {
        Ok(Self {
            sample_cron: cron("reconcile.sample_cron", &raw.sample_cron, zone)?,
            sample_percent: fields::percent("reconcile.sample_percent", raw.sample_percent)?,
            full_cron: cron("reconcile.full_cron", &raw.full_cron, zone)?,
            stop_percent: fields::percent("reconcile.stop_percent", raw.stop_percent)?,
            keep_days: fields::within("reconcile.keep_days", raw.keep_days, 1..=36_500)?,
        })
    }
}

impl ScheduleConfig {
    pub(super) fn resolve(raw: &raw::Schedule) -> Result<Self, Problem> {
        let timezone = raw.timezone.parse().map_err(|_| {
            let what = format!("{:?} is no time zone; give a name such as UTC or Europe/Berlin", raw.timezone);
            Problem::new("schedule.timezone", what)
        })?;
        Ok(Self { timezone })
    }
}

impl LogConfig {
    pub(super) fn resolve(raw: &raw::Log) -> Result<Self, Problem> {
        let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
        let format = fields::choice("log.format", &raw.format, &formats)?;
        // To EnvFilter a word alone is a target, so that a misspelt level would silence everything.
        let is_directive =
            |part: &str| part.contains(['=', '[', ']', '{', '}']) || part.trim().parse::<LevelFilter>().is_ok();
        let valid = raw.level.split(',').all(is_directive) && EnvFilter::builder().parse(&raw.level).is_ok();
        if raw.level.trim().is_empty() || !valid {
            let what = format!(
                "{:?} is no level; give one of off, error, warn, info, debug, trace, or directives such as \
                 info,tallyd::sync=debug",
                raw.level
            );
            return Err(Problem::new("log.level", what));
        }
        Ok(Self { format, level: raw.level.clone() })
    }
}

fn cron(field: &str, expression: &str, zone: Tz) -> Result<Schedule, Problem> {
    Schedule::parse(expression, zone).map_err(|error| Problem::new(field, error.to_string()))
}
