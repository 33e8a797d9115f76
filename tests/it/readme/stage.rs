//! Where the README's commands are run: private servers under the names and addresses that it gives them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use super::{Step, alike};
use crate::support::{Daemon, PrivateMysql, PrivateRedis, Rig, Served, Signal, bound, forget_own_settings};

/// No command of the README takes this long unless it hangs.
const LIMIT: Duration = Duration::from_mins(2);

/// A Redis, a MySQL with the database `tallyd`, a configuration, and the daemon once it is started.
pub struct Stage {
    pub redis: PrivateRedis,
    pub mysql: PrivateMysql,
    pub rig: Rig,
    pub daemon: Option<Served>,
    /// What the README says, and what it is here.
    names: Vec<(String, String)>,
}

impl Stage {
    /// `None`, and the test counts as skipped, where the suite is to use servers that are not its own, or a client is missing.
    #[track_caller]
    pub fn set(extra: &str) -> impl Future<Output = Option<Self>> {
        let (redis, mysql) = (PrivateRedis::start(&["--appendonly", "yes"]), PrivateMysql::start(&[]));
        let extra = extra.to_owned();
        async move {
            let (redis, mysql) = (redis.await?, mysql.await?);
            let db = mysql.create_database("tallyd").await;
            let rig = Rig::on(&redis, &db, &extra);
            let mut stage = Self { redis, mysql, rig, daemon: None, names: Vec::new() };
            stage.write_programs();
            let configuration = stage.rig.config().display().to_string();
            stage.call("/etc/tallyd/config.toml", &configuration);
            Some(stage)
        }
    }

    /// From now on `said` in a command means `is`.
    pub fn call(&mut self, said: &str, is: &str) {
        self.names.retain(|(known, _)| known != said);
        self.names.push((said.to_owned(), is.to_owned()));
    }

    /// The programs that the README calls, pointed at the servers of this stage.
    fn write_programs(&self) {
        let mysql = self.mysql.server().port();
        let client = format!("--no-defaults --protocol=tcp --host=127.0.0.1 --port={mysql} --user=root");
        let tallyd = env!("CARGO_BIN_EXE_tallyd");
        let path = std::env::var("PATH").unwrap_or_default();
        for (name, line) in [
            ("tallyd", format!("{tallyd} --config '{}'", self.rig.config().display())),
            ("redis-cli", format!("redis-cli -p {}", self.redis.server().port())),
            ("mariadb", format!("mariadb {client}")),
            ("mariadb-dump", format!("mariadb-dump {client}")),
            ("curl", "curl --silent --show-error".to_owned()),
        ] {
            let file = self.rig.dir().join("bin").join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, format!("#!/bin/sh\nPATH='{path}'\nexec {line} \"$@\"\n")).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    /// Runs every step, and compares. `aside` does what a comment (`# Redis is killed`) tells of.
    pub async fn play(&mut self, steps: &[Step], mut aside: impl AsyncFnMut(&mut Self, &str)) {
        for step in steps {
            match step.command.as_str() {
                "tallyd serve" | "systemctl start tallyd" | "systemctl enable --now tallyd" => self.start().await,
                "systemctl stop tallyd" => self.stop().await,
                "systemctl restart tallyd" => {
                    self.stop().await;
                    self.start().await;
                }
                comment if comment.starts_with('#') => aside(self, comment).await,
                command => self.run(command, &step.output).await,
            }
        }
    }

    pub async fn run(&self, command: &str, said: &[String]) {
        let output = Daemon::start(command, self.shell(command)).output(LIMIT).await;
        let came: Vec<String> = output.stdout.lines().map(|line| line.trim_end_matches('\r').to_owned()).collect();
        let log = self.daemon.as_ref().map(|served| served.log()).unwrap_or_default();
        assert!(
            alike(said, &came) && output.code == Some(0),
            "$ {command}\nexit code {:?}\nREADME.md says:\n{}\nbut it is:\n{}\nstandard error:\n{}\nthe daemon:\n{log}",
            output.code,
            said.join("\n"),
            came.join("\n"),
            output.stderr
        );
    }

    fn shell(&self, command: &str) -> Command {
        let command = self.names.iter().fold(command.to_owned(), |text, (said, is)| text.replace(said, is));
        let mut shell = bound("bash");
        let path = std::env::var("PATH").unwrap_or_default();
        shell.arg("-c").arg(command).current_dir(self.rig.dir());
        forget_own_settings(&mut shell);
        shell.env("PATH", format!("{}:{path}", self.rig.dir().join("bin").display()));
        shell
    }

    /// Migrates and starts the daemon. Without a schedule: where the README has somebody run `tallyd sync`, no other run is to come before it.
    pub async fn start(&mut self) {
        let served = self.rig.serve(&["--no-schedule"]).await;
        self.call("127.0.0.1:7780", &served.api().address.to_string());
        self.call("127.0.0.1:7781", &served.admin.address.to_string());
        self.daemon = Some(served);
    }

    async fn stop(&mut self) {
        let served = self.daemon.take().expect("it was started");
        served.signal(Signal::TERM);
        let ended = served.daemon.wait(LIMIT).await;
        assert!(ended.success(), "{ended}\n{}", served.log());
    }
}
