//! Everything that takes part: two servers with a network before them, two daemons, clients, and what is known.

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use tokio::sync::{Mutex as Turn, RwLock};

use crate::proxy::Proxy;
use crate::record::Record;
use crate::rows::Watcher;
use crate::support::{DatabaseAt, PrivateMysql, PrivateRedis, RedisAt, Rig};
use crate::tally::{Tally, Wrong};
use crate::tallyd::{Tallyd, spawn};

/// A Redis that keeps what it acknowledged.
pub const DURABLE: [&str; 6] = ["--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0"];

/// Runs every second, on chunks that cut through targets; targets that are held in part, and leave Redis soon.
const CONFIG: &str = r#"
sync.cron = "* * * * * *"
sync.batch_rows = 50
redis.timeout_ms = 250
mysql.timeout_ms = 2000
degraded.probe_seconds = 1
cache.full_load_limit = 12
cache.idle_seconds = 2
cache.warm_top = 5
"#;

pub struct World {
    /// Of this run; what the daemons print is there.
    pub folder: PathBuf,
    pub rig: Rig,
    /// Past the proxy.
    pub db: DatabaseAt,
    pub redis: Turn<PrivateRedis>,
    pub mysql: Turn<PrivateMysql>,
    pub redis_net: Proxy,
    pub mysql_net: Proxy,
    pub daemons: Vec<Tallyd>,
    /// Read by each request; who writes it has nobody asking.
    pub gate: RwLock<()>,
    pub record: Mutex<Record>,
    pub tally: Tally,
    pub watcher: Watcher,
}

impl World {
    /// `None`, and the test counts as skipped, where servers may not be killed.
    pub async fn start(seed: u64) -> Option<Self> {
        let mysql = PrivateMysql::start(&[]).await?;
        let redis = PrivateRedis::start(&DURABLE).await?;
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("torture-{seed}"));
        // What an earlier run left.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();

        let db = mysql.create_database("tally").await;
        let redis_net = Proxy::start(redis.server().port()).await;
        let mysql_net = Proxy::start(mysql.server().port()).await;
        let redis_at = RedisAt::at(format!("redis://127.0.0.1:{}/0", redis_net.port()));
        let url = format!("mysql://root@127.0.0.1:{}/{}", mysql_net.port(), db.name);
        let rig = Rig::on(&redis_at, &DatabaseAt { url, name: db.name.clone() }, CONFIG);
        rig.migrate().await;
        let mut daemons = Vec::new();
        for name in ["a", "b"] {
            daemons.push(Tallyd::start(&rig, folder.join(format!("tallyd-{name}.log"))).await);
        }
        Some(Self {
            folder,
            rig,
            db,
            redis: Turn::new(redis),
            mysql: Turn::new(mysql),
            redis_net,
            mysql_net,
            daemons,
            gate: RwLock::default(),
            record: Mutex::default(),
            tally: Tally::new(seed),
            watcher: Watcher::default(),
        })
    }

    /// `tallyd sync --now` beside the daemons, ended after `at_most` if it is not done by then.
    pub async fn sync_now(&self, at_most: Duration) {
        let process = spawn(&self.rig, &["sync", "--now", "--wait-seconds", "20"], &self.folder.join("sync.log"));
        let ended = async {
            while process.ended().is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        // Dropping it kills it.
        let _ = tokio::time::timeout(at_most, ended).await;
    }

    /// What the daemons said of themselves.
    pub fn read_logs(&self) {
        for file in fs::read_dir(&self.folder).unwrap() {
            let log = fs::read_to_string(file.unwrap().path()).unwrap();
            for line in log.lines().filter(|line| line.contains("panicked at")) {
                self.tally.wrong(Wrong::Panic, line);
            }
            let corrected = log.lines().filter(|line| line.contains("the Redis count disagreed with its states"));
            self.tally.corrected(corrected.count() as u64);
        }
    }

    /// Keeps what the servers printed beside what the daemons printed.
    pub async fn keep_logs(&self) {
        fs::write(self.folder.join("redis.log"), self.redis.lock().await.server().log()).unwrap();
        fs::write(self.folder.join("mysql.log"), self.mysql.lock().await.server().log()).unwrap();
    }
}

/// Unix milliseconds.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}
