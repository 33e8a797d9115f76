//! What a reload changes, as plain data, and what it cannot.
//!
//! While the daemon runs, these may change: the level of the log, schedules and their time zone, limits, tokens, and to
//! whom and how reports are mailed. Everything else is as it was at the start: what is bound (addresses to listen on,
//! whether tokens are asked for at all, the form of the log), what connections and keys were made with (Redis, MySQL,
//! target types, interactions), and the grace time, which the service manager's own limit must exceed.

use std::collections::BTreeMap;
use std::fmt;

use super::raw::Raw;
use super::{AdminConfig, ApiConfig, Config, LogConfig, Secret};

/// Sections and keys that may change.
const LIVE: [&str; 9] =
    ["api.token_file", "admin.token_file", "sync", "cache", "degraded", "reconcile", "schedule", "report", "log.level"];

/// The value of a key that has none.
const UNSET: &str = "unset";

/// Every key with its value as it was written, or its default. No value is ever printed but of a key that may change.
#[derive(Clone, Default)]
pub struct Written(BTreeMap<String, String>);

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Written")
    }
}

impl Written {
    pub(super) fn of(raw: &Raw) -> Self {
        let mut written = Self::default();
        written.add("", &serde_json::to_value(raw).unwrap_or_default());
        written
    }

    fn add(&mut self, key: &str, value: &serde_json::Value) {
        let Some(table) = value.as_object() else {
            let text = if value.is_null() { UNSET.to_owned() } else { value.to_string() };
            self.0.insert(key.to_owned(), text);
            return;
        };
        for (name, value) in table {
            let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
            self.add(&key, value);
        }
    }
}

/// What a reload changes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// What is different from now on: key, before, after.
    pub applied: Vec<(String, String, String)>,
    /// Keys that differ, too, and stay as they were until a restart.
    pub kept: Vec<String>,
}

/// The settings after a reload that has `read` a valid configuration: those that may change are as they were read, the
/// others as they were `before`.
pub(super) fn reloaded(before: &Config, read: Config) -> (Config, Changes) {
    let mut changes = Changes::default();
    for (key, after) in &read.written.0 {
        let was = before.written.0.get(key).filter(|was| *was != after);
        match was {
            Some(was) if is_live(key) => changes.applied.push((key.clone(), was.clone(), after.clone())),
            Some(_) => changes.kept.push(key.clone()),
            None => {}
        }
    }
    for (key, was, now, live) in [
        ("redis.password_file", before.redis.password.as_ref(), read.redis.password.as_ref(), false),
        ("mysql.password_file", before.mysql.password.as_ref(), read.mysql.password.as_ref(), false),
        ("report.smtp.password_file", smtp_password(before), smtp_password(&read), true),
    ] {
        let file = before.written.0.get(key).filter(|file| *file != UNSET && read.written.0.get(key) == Some(*file));
        let Some(file) = file.filter(|_| was.map(Secret::expose) != now.map(Secret::expose)) else { continue };
        if live {
            changes.applied.push((key.to_owned(), file.clone(), "the same with another content".to_owned()));
        } else {
            changes.kept.push(key.to_owned());
        }
    }
    let mut config = merged(before, read);
    for (section, was, now) in
        [("api", &before.api.tokens, &mut config.api.tokens), ("admin", &before.admin.tokens, &mut config.admin.tokens)]
    {
        let key = format!("{section}.token_file");
        // Without tokens a listener may be on loopback only: where it listens does not change, and so does not this.
        if was.is_empty() != now.is_empty() {
            now.clone_from(was);
            changes.applied.retain(|(applied, ..)| *applied != key);
            changes.kept.push(key);
        } else if !same(was, now) {
            let tokens =
                |tokens: &[Secret]| format!("{} token{}", tokens.len(), if tokens.len() == 1 { "" } else { "s" });
            changes.applied.retain(|(applied, ..)| *applied != key);
            changes.applied.push((key, tokens(was), format!("{}, not the same", tokens(now))));
        }
    }
    for key in &changes.kept {
        if let Some(was) = before.written.0.get(key) {
            config.written.0.insert(key.clone(), was.clone());
        }
    }
    (config, changes)
}

fn is_live(key: &str) -> bool {
    LIVE.iter().any(|live| key.strip_prefix(live).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

fn merged(before: &Config, read: Config) -> Config {
    let Config { file, redis, mysql, serve, vocabulary, .. } = before.clone();
    let Config {
        file: _,
        redis: _,
        mysql: _,
        api,
        admin,
        serve: _,
        sync,
        cache,
        degraded,
        reconcile,
        schedule,
        report,
        log,
        vocabulary: _,
        written,
    } = read;
    Config {
        file,
        redis,
        mysql,
        api: ApiConfig { listen: before.api.listen, tokens: api.tokens },
        admin: AdminConfig { listen: before.admin.listen, tokens: admin.tokens },
        serve,
        sync,
        cache,
        degraded,
        reconcile,
        schedule,
        report,
        log: LogConfig { format: before.log.format, level: log.level },
        vocabulary,
        written,
    }
}

fn smtp_password(config: &Config) -> Option<&Secret> {
    let (_, password) = config.report.mail.as_ref()?.login.as_ref()?;
    Some(password)
}

fn same(one: &[Secret], other: &[Secret]) -> bool {
    one.iter().map(Secret::expose).eq(other.iter().map(Secret::expose))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse(text: &str) -> Config {
        Config::parse(text, [], Path::new("f")).unwrap()
    }

    fn keys(changes: &Changes) -> Vec<&str> {
        changes.applied.iter().map(|(key, ..)| key.as_str()).collect()
    }

    #[test]
    fn what_may_change_does_and_the_rest_is_named_every_time() {
        let before = parse("");
        let text = "redis.url = \"redis://:Hunter2@other\"\nserve.grace_seconds = 5\nsync.batch_rows = 7\nlog.level = \"debug\"\n\
                    log.format = \"json\"\nschedule.timezone = \"Europe/Berlin\"\napi.listen = \"127.0.0.1:1\"\n\
                    report.smtp.port = 25\n[[target]]\nname = \"post\"\ncode = 9";
        let (after, changes) = reloaded(&before, parse(text));
        assert_eq!(keys(&changes), ["log.level", "report.smtp.port", "schedule.timezone", "sync.batch_rows"]);
        let of = |key: &str| changes.applied.iter().find(|change| change.0 == key).unwrap().clone();
        assert_eq!(of("sync.batch_rows"), ("sync.batch_rows".into(), "1000".into(), "7".into()));
        let kept = ["api.listen", "log.format", "redis.url", "serve.grace_seconds", "target"];
        assert_eq!(changes.kept, kept);
        assert!(!format!("{changes:?} {after:?}").contains("Hunter2"));
        assert_eq!((after.sync.batch_rows, after.log.level.as_str()), (7, "debug"));
        assert_eq!(after.redis.url_redacted, before.redis.url_redacted);
        assert_eq!((after.serve.grace, after.api.listen), (before.serve.grace, before.api.listen));
        assert_eq!(after.vocabulary.targets.len(), before.vocabulary.targets.len());
        // The schedules are meant in the new zone, and the same file again changes nothing more.
        assert_ne!(after.sync.cron, before.sync.cron);
        let (_, again) = reloaded(&after, parse(text));
        assert_eq!((again.applied, again.kept), (vec![], kept.map(str::to_owned).to_vec()));
    }

    #[test]
    fn a_password_that_changed_in_its_file_is_told_without_it() {
        let dir = tempfile::tempdir().unwrap();
        let with = |password: &str| {
            let file = dir.path().join("password");
            std::fs::write(&file, password).unwrap();
            let file = format!("{:?}", file.display().to_string());
            parse(&format!(
                "redis.password_file = {file}\nmysql.password_file = {file}\nreport.from = \"a@b\"\nreport.to = [\"a@b\"]\n\
                 report.smtp.host = \"h\"\nreport.smtp.username = \"u\"\nreport.smtp.password_file = {file}"
            ))
        };
        let (before, read) = (with("Hunter1"), with("Hunter2"));
        let (after, changes) = reloaded(&before, read.clone());
        assert_eq!(keys(&changes), ["report.smtp.password_file"]);
        assert_eq!(changes.kept, ["redis.password_file", "mysql.password_file"]);
        assert!(!format!("{changes:?}").contains("Hunter"));
        assert_eq!(smtp_password(&after).unwrap().expose(), "Hunter2");
        assert_eq!(after.redis.password.as_ref().unwrap().expose(), "Hunter1");
        assert_eq!(reloaded(&after, read).1.kept, changes.kept, "named until the restart");
    }

    #[test]
    fn tokens_change_but_not_whether_they_are_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let with = |tokens: &str| {
            let file = dir.path().join("tokens");
            std::fs::write(&file, tokens).unwrap();
            parse(&format!("api.token_file = {:?}", file.display().to_string()))
        };
        let (one, two) = (with("first-secret\n"), with("first-secret\nsecond-secret\n"));
        let (after, changes) = reloaded(&one, two.clone());
        assert_eq!(after.api.tokens.len(), 2);
        let told = ("api.token_file".to_owned(), "1 token".to_owned(), "2 tokens, not the same".to_owned());
        assert_eq!(changes, Changes { applied: vec![told], kept: vec![] });
        assert_eq!(reloaded(&two, two.clone()).1, Changes::default());
        for (before, read, tokens) in [(two, parse(""), 2), (parse(""), one, 0)] {
            let (after, changes) = reloaded(&before, read.clone());
            assert_eq!((after.api.tokens.len(), keys(&changes).len()), (tokens, 0));
            assert_eq!(changes.kept, ["api.token_file"]);
            assert_eq!(reloaded(&after, read).1, changes);
        }
    }
}
