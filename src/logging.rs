//! Logging, on stderr: stdout belongs to results.

use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::{env, fs};

use anyhow::{Context, anyhow};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogConfig, LogFormat};

/// Libraries that report at `info` what only their own authors want to know.
const NOISY: [&str; 3] = ["redis", "sqlx", "tokio_cron_scheduler"];

/// What is to be logged: `$RUST_LOG` decides, when it is set, and else `log.level`, with the noisy libraries at `warn`.
pub fn filter(log: &LogConfig) -> anyhow::Result<EnvFilter> {
    filter_of(&log.level, rust_log().as_deref())
}

/// `$RUST_LOG`, where it is set.
#[must_use]
pub fn rust_log() -> Option<String> {
    env::var("RUST_LOG").ok().filter(|text| !text.trim().is_empty())
}

/// Starts logging for the whole process; once only.
pub fn init(log: &LogConfig, filter: EnvFilter) -> anyhow::Result<Level> {
    let colour = io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let (subscriber, level) = subscriber(log.format, filter, colour, Stderr { journal: goes_to_journal() });
    subscriber.try_init().map_err(|error| anyhow!("cannot start logging: {error}"))?;
    Ok(level)
}

/// Whether stderr is systemd's journal, which reads a priority at the beginning of a line (sd-daemon(3)).
fn goes_to_journal() -> bool {
    let stream = env::var("JOURNAL_STREAM").ok();
    let stderr = fs::metadata("/proc/self/fd/2").ok();
    stream.zip(stderr).is_some_and(|(stream, stderr)| stream == format!("{}:{}", stderr.dev(), stderr.ino()))
}

/// Writes events to stderr, with their priority where it goes to the journal.
struct Stderr {
    journal: bool,
}

/// One event.
struct Event {
    priority: &'static str,
}

impl MakeWriter<'_> for Stderr {
    type Writer = Event;

    fn make_writer(&self) -> Event {
        Event { priority: "" }
    }

    fn make_writer_for(&self, event: &Metadata<'_>) -> Event {
        let priority = match *event.level() {
            _ if !self.journal => "",
            tracing::Level::ERROR => "<3>",
            tracing::Level::WARN => "<4>",
            tracing::Level::INFO => "<6>",
            _ => "<7>",
        };
        Event { priority }
    }
}

impl Write for Event {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        io::stderr().write_all(&[self.priority.as_bytes(), text].concat())?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// What is logged, to be changed while the process runs.
pub struct Level(Box<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>);

impl Level {
    /// Logs from now on what `log` says; while `$RUST_LOG` is set, that decides as before.
    pub fn set(&self, log: &LogConfig) -> anyhow::Result<()> {
        (self.0)(filter(log)?).context("the filter cannot be changed")
    }
}

fn filter_of(level: &str, rust_log: Option<&str>) -> anyhow::Result<EnvFilter> {
    match rust_log {
        Some(text) => EnvFilter::builder().parse(text).context("$RUST_LOG is no list of log directives"),
        None => EnvFilter::builder().parse(quietened(level)).context("log.level is no list of log directives"),
    }
}

/// `level` with the noisy libraries at `warn`, or less if everything is; a later directive goes before an earlier one,
/// so that `level` may still name them.
fn quietened(level: &str) -> String {
    let overall = level.split(',').find_map(|part| part.trim().parse().ok()).unwrap_or(LevelFilter::ERROR);
    let noise = overall.min(LevelFilter::WARN);
    let mut directives: Vec<_> = NOISY.iter().map(|library| format!("{library}={noise}")).collect();
    directives.push(level.to_owned());
    directives.join(",")
}

/// A failure to write a line goes unreported: the report would go to stderr too, and end the process by a panic.
fn subscriber<W>(
    format: LogFormat,
    filter: EnvFilter,
    colour: bool,
    writer: W,
) -> (Box<dyn Subscriber + Send + Sync>, Level)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let builder = fmt::fmt().with_env_filter(filter).with_writer(writer).log_internal_errors(false).with_ansi(colour);
    match format {
        LogFormat::Text => {
            let builder = builder.with_filter_reloading();
            let handle = builder.reload_handle();
            (Box::new(builder.finish()), Level(Box::new(move |filter| handle.reload(filter))))
        }
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true).with_filter_reloading();
            let handle = builder.reload_handle();
            (Box::new(builder.finish()), Level(Box::new(move |filter| handle.reload(filter))))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Collects what is logged.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, level: &str, rust_log: Option<&str>) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let (subscriber, _) = subscriber(format, filter_of(level, rust_log).unwrap(), false, move || writer.clone());
        tracing::subscriber::with_default(subscriber, || {
            tracing::debug!("ours at debug");
            tracing::info!(rows = 7, "ours at info");
            tracing::info!(target: "sqlx::query", "theirs at info");
            tracing::warn!(target: "sqlx::query", "theirs at warn");
        });
        let bytes = lines.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_text_line_has_a_utc_time_and_no_colour() {
        let text = logged(LogFormat::Text, "info", None);
        let line = text.lines().next().unwrap();
        let time = line.split_whitespace().next().unwrap();
        assert!(time.ends_with('Z') && time.parse::<chrono::DateTime<chrono::Utc>>().is_ok(), "{line}");
        assert!(line.contains("INFO") && line.ends_with("ours at info rows=7") && !text.contains('\u{1b}'), "{line}");
    }

    #[test]
    fn a_json_line_is_an_object() {
        let text = logged(LogFormat::Json, "info", None);
        let line: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!((line["message"].as_str(), line["rows"].as_i64()), (Some("ours at info"), Some(7)));
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
    }

    #[test]
    fn libraries_are_heard_from_warn_on_unless_asked_for() {
        let messages = |level, rust_log| {
            let text = logged(LogFormat::Text, level, rust_log);
            ["ours at debug", "ours at info", "theirs at info", "theirs at warn"].map(|message| text.contains(message))
        };
        assert_eq!(messages("info", None), [false, true, false, true]);
        assert_eq!(messages("trace", None), [true, true, false, true]);
        assert_eq!(messages("error", None), [false, false, false, false]);
        assert_eq!(messages("off", None), [false, false, false, false]);
        assert_eq!(messages("info,sqlx=info", None), [false, true, true, true]);
        assert_eq!(messages("error", Some("trace")), [true, true, true, true]);
        assert_eq!(messages("trace", Some("tallyd=info")), [false, true, false, false]);
        assert!(filter_of("info", Some("tallyd=loud")).is_err());
    }
}
