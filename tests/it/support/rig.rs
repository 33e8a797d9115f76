//! The binary with a database, a Redis and a configuration file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use url::Url;

use super::daemon::{Daemon, Output};
use super::home::new_home;
use super::http::Served;
use super::mysql::{DatabaseAt, Db, create_database};
use super::process::bound;
use super::redis::{Redis, RedisAt};

/// No command of a test takes this long unless it hangs.
const LIMIT: Duration = Duration::from_mins(2);

pub struct Rig {
    pub redis: RedisAt,
    pub db: DatabaseAt,
    home: TempDir,
    _owned: Option<(Redis, Db)>,
}

impl Rig {
    /// A Redis and a database of its own, not yet migrated. For `extra` see [`Rig::configure`].
    pub async fn start(extra: &str) -> Self {
        let (redis, db) = (Redis::start().await, create_database().await);
        let rig = Self::on(&redis, &db, extra);
        Self { _owned: Some((redis, db)), ..rig }
    }

    /// On servers that the test holds, for instance to stop them.
    pub fn on(redis: &RedisAt, db: &DatabaseAt, extra: &str) -> Self {
        let rig = Self { redis: redis.clone(), db: db.clone(), home: new_home("rig"), _owned: None };
        rig.configure(extra);
        rig
    }

    /// Writes the configuration anew: the two URLs, free ports to listen on, no passes by schedule, then `extra`. Dotted keys
    /// (`redis.timeout_ms = 50`, `api.listen = …`) and arrays of tables go there; TOML lets no one open `[redis]`,
    /// `[mysql]`, `[api]`, `[admin]` or `[reconcile]` a second time.
    pub fn configure(&self, extra: &str) {
        let redis = self.section("redis", self.redis.url());
        let mysql = self.section("mysql", &self.db.url);
        let free = |section: &str| {
            let key = format!("{section}.listen");
            if extra.contains(&key) { String::new() } else { format!("{key} = \"127.0.0.1:0\"\n") }
        };
        let (api, admin) = (free("api"), free("admin"));
        // No test is disturbed by a pass that it did not ask for, whatever the time of day.
        let never = |key: &str| {
            if extra.contains(key) { String::new() } else { format!("{key} = \"0 0 0 1 1 *\"\n") }
        };
        let (sample, full) = (never("reconcile.sample_cron"), never("reconcile.full_cron"));
        fs::write(self.config(), format!("{redis}{mysql}{api}{admin}{sample}{full}{extra}\n")).unwrap();
    }

    /// A password in the URL goes into a file, as in production.
    fn section(&self, name: &str, url: &str) -> String {
        let mut url = Url::parse(url).expect("a URL");
        let Some(password) = url.password().map(str::to_owned) else {
            return format!("{name}.url = {:?}\n", url.as_str());
        };
        let file = self.dir().join(format!("{name}-password"));
        fs::write(&file, percent_decoded(&password)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        url.set_password(None).unwrap();
        format!("{name}.url = {:?}\n{name}.password_file = {:?}\n", url.as_str(), file.display().to_string())
    }

    pub fn config(&self) -> PathBuf {
        self.dir().join("config.toml")
    }

    /// The folder of the configuration, and the working directory of what is started.
    pub fn dir(&self) -> &Path {
        self.home.path()
    }

    /// Runs `tallyd --config … args` to its end.
    pub async fn tallyd(&self, args: &[&str]) -> Output {
        self.tallyd_with(args, &[]).await
    }

    /// The same with further environment variables, such as `("TALLYD_FAILPOINT", "after_claim:kill")`.
    pub async fn tallyd_with(&self, args: &[&str], env: &[(&str, &str)]) -> Output {
        self.spawn(args, env).output(LIMIT).await
    }

    /// Starts `tallyd --config … args` in the background.
    pub fn spawn(&self, args: &[&str], env: &[(&str, &str)]) -> Daemon {
        let mut command = self.command(args);
        command.envs(env.iter().copied());
        Daemon::start(&format!("tallyd {}", args.join(" ")), command)
    }

    /// `tallyd --config … args`, not yet started.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = bound(env!("CARGO_BIN_EXE_tallyd"));
        command.arg("--config").arg(self.config()).args(args).current_dir(self.dir());
        forget_own_settings(&mut command);
        command
    }

    /// Migrates, starts `tallyd serve args`, and waits until it listens.
    pub async fn serve(&self, args: &[&str]) -> Served {
        self.migrate().await;
        let daemon = self.spawn(&[&["serve"], args].concat(), &[]);
        Served::by(daemon, !args.contains(&"--no-api")).await
    }

    /// Brings the schema up to date.
    pub async fn migrate(&self) {
        self.tallyd(&["migrate"]).await.expect_code(0);
    }

    /// See [`DatabaseAt::sql`].
    pub async fn sql(&self, query: &str) -> Vec<Vec<Option<String>>> {
        self.db.sql(query).await
    }

    /// See [`DatabaseAt::sql_exec`].
    pub async fn sql_exec(&self, statements: &str) -> u64 {
        self.db.sql_exec(statements).await
    }
}

/// What the developer has set for tallyd does not reach the tallyd under test.
pub fn forget_own_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("TALLYD_") || text == "RUST_LOG" || text == "CREDENTIALS_DIRECTORY" {
            command.env_remove(&name);
        }
    }
}

fn percent_decoded(text: &str) -> String {
    // A form has no plus signs of its own here: URL passwords keep theirs, so they are protected first.
    let pair = format!("p={}", text.replace('+', "%2B"));
    url::form_urlencoded::parse(pair.as_bytes()).next().map(|(_, value)| value.into_owned()).unwrap_or_default()
}
