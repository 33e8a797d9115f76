//! MySQL for tests: a database a test, on one MariaDB that all tests of the process share, or on the server of
//! `TALLYD_TEST_MYSQL_URL`.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use sqlx::mysql::MySqlRow;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, Row};
use tokio::sync::OnceCell;
use url::Url;

use super::home::{base, lock};
use super::process::find;
use super::server::Server;
use super::skip::{external_mysql, skipped, this_test};

/// Where a database is.
#[derive(Clone, Debug)]
pub struct DatabaseAt {
    pub url: String,
    pub name: String,
}

impl DatabaseAt {
    fn on(server_url: &str, name: &str) -> Self {
        let mut url = Url::parse(server_url).expect("a MySQL URL");
        url.set_path(name);
        Self { url: url.into(), name: name.to_owned() }
    }

    /// A new connection.
    pub async fn connect(&self) -> MySqlConnection {
        MySqlConnection::connect(&self.url).await.unwrap()
    }

    /// The rows of a query, every value as MySQL's text for it.
    pub async fn sql(&self, query: &str) -> Vec<Vec<Option<String>>> {
        let rows = sqlx::raw_sql(AssertSqlSafe(query)).fetch_all(&mut self.connect().await).await;
        rows.unwrap_or_else(|e| panic!("{query}: {e}")).iter().map(texts).collect()
    }

    /// Executes statements, separated by semicolons; how many rows they affected (an update that changes nothing
    /// counts the rows it found).
    pub async fn sql_exec(&self, statements: &str) -> u64 {
        let result = sqlx::raw_sql(AssertSqlSafe(statements)).execute(&mut self.connect().await).await;
        result.unwrap_or_else(|e| panic!("{statements}: {e}")).rows_affected()
    }
}

/// Unchecked: `raw_sql` speaks the text protocol, in which every type arrives as text.
fn texts(row: &MySqlRow) -> Vec<Option<String>> {
    let text = |i| row.try_get_unchecked::<Option<Vec<u8>>, _>(i).unwrap().map(|b| String::from_utf8_lossy(&b).into());
    (0..row.len()).map(text).collect()
}

/// A database of one test's own, dropped with this value.
pub struct Db {
    at: DatabaseAt,
    server_url: String,
}

impl Deref for Db {
    type Target = DatabaseAt;

    fn deref(&self) -> &DatabaseAt {
        &self.at
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        // Drop cannot await, and blocking in a runtime's thread is refused: so a thread with a runtime of its own.
        let (url, name) = (self.server_url.clone(), self.at.name.clone());
        let dropping = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            // A transaction that a failed test left open must not hold up the end of the test for ever.
            let statements = format!("SET lock_wait_timeout = 5; DROP DATABASE {name}");
            runtime.block_on(execute(&url, &statements))
        });
        match dropping.join() {
            Ok(Ok(())) => {}
            other => eprintln!("database {} stays: {other:?}", self.at.name),
        }
    }
}

async fn execute(url: &str, statements: &str) -> sqlx::Result<()> {
    let mut connection = MySqlConnection::connect(url).await?;
    sqlx::raw_sql(AssertSqlSafe(statements)).execute(&mut connection).await?;
    connection.close().await
}

/// A derived table with a column `seq`, from 1 to `last`; `seq_1_to_1000` is known to `MariaDB` alone.
pub fn sequence(last: i64) -> String {
    let digits = (last - 1).max(0).to_string().len();
    let digit = "(SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 \
                 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)";
    let sum: Vec<String> =
        (0..digits).map(|at| format!("{} * d{at}.n", 10_u64.pow(u32::try_from(at).unwrap()))).collect();
    let tables: Vec<String> = (0..digits).map(|at| format!("{digit} d{at}")).collect();
    let (sum, tables) = (sum.join(" + "), tables.join(", "));
    format!("(SELECT 1 + {sum} AS seq FROM {tables} WHERE {sum} < {last})")
}

/// A fresh, empty database on the server that all tests share.
pub async fn create_database() -> Db {
    static SHARED: OnceCell<PrivateMysql> = OnceCell::const_new();

    let server_url = match external_mysql() {
        Some(url) => url,
        None => SHARED.get_or_init(|| PrivateMysql::launch(&[])).await.url(""),
    };
    let name = format!("tallyd_test_{}", uuid::Uuid::now_v7().simple());
    execute(&server_url, &format!("CREATE DATABASE {name}")).await.unwrap();
    Db { at: DatabaseAt::on(&server_url, &name), server_url }
}

/// A MariaDB that one test may configure, stop and kill. User `root` without a password.
pub struct PrivateMysql {
    server: Server,
}

impl PrivateMysql {
    /// A server with further options (`--max_allowed_packet=1M`); `None`, and the test counts as skipped, when the
    /// suite runs against an external MySQL.
    #[track_caller]
    pub fn start(options: &[&str]) -> impl Future<Output = Option<Self>> {
        let test = this_test();
        async move {
            if external_mysql().is_some() {
                skipped(&test, "needs a MySQL of its own, and TALLYD_TEST_MYSQL_URL is set");
                return None;
            }
            Some(Self::launch(options).await)
        }
    }

    async fn launch(options: &[&str]) -> Self {
        let template = tokio::task::spawn_blocking(template).await.unwrap();
        let prepare = |home: &Path, port: u16| {
            copy(&template, &home.join("data"));
            fs::create_dir(home.join("tmp")).unwrap();
            let mut args = arguments(home, port);
            args.extend(options.iter().map(ToString::to_string));
            args
        };
        Self { server: Server::start("mariadbd", prepare, ready).await }
    }

    /// A database on this server. It ends with the server.
    pub async fn create_database(&self, name: &str) -> DatabaseAt {
        execute(&self.url(""), &format!("CREATE DATABASE {name}")).await.unwrap();
        DatabaseAt::on(&self.url(""), name)
    }

    /// The URL of a database on this server; of none with an empty name.
    pub fn url(&self, database: &str) -> String {
        format!("mysql://root@127.0.0.1:{}/{database}", self.server.port())
    }

    pub async fn stop(&mut self) {
        self.server.stop().await;
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// On the same port with the same data.
    pub async fn start_again(&mut self) {
        self.server.start_again(ready).await;
    }

    pub fn server(&self) -> &Server {
        &self.server
    }
}

async fn ready(port: u16) -> bool {
    MySqlConnection::connect(&format!("mysql://root@127.0.0.1:{port}")).await.is_ok()
}

/// Small where size costs start-up time; everything that concerns durability is the server's default.
fn arguments(home: &Path, port: u16) -> Vec<String> {
    let mut args: Vec<String> = [
        "--no-defaults",
        "--bind-address=127.0.0.1",
        "--skip-networking=0",
        "--skip-name-resolve",
        // Relative to the data directory: the full path may be too long for a socket.
        "--socket=socket",
        "--pid-file=pid",
        "--innodb-buffer-pool-size=256M",
        INNODB_LOG,
        "--max-connections=500",
    ]
    .map(String::from)
    .into();
    args.push(format!("--port={port}"));
    args.push(format!("--datadir={}", home.join("data").display()));
    // A server that starts removes all temporary tables there, those of its neighbours included.
    args.push(format!("--tmpdir={}", home.join("tmp").display()));
    args.extend(as_root());
    args
}

const INNODB_LOG: &str = "--innodb-log-file-size=32M";

/// MariaDB refuses to run as root unless told.
fn as_root() -> Option<String> {
    rustix::process::geteuid().is_root().then(|| "--user=root".to_owned())
}

/// A data directory as a new server has it, made once for each version and then copied.
fn template() -> PathBuf {
    let made = Command::new(find("mariadbd")).args(["--no-defaults", "--version"]).output().unwrap();
    // "/usr/sbin/mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)"
    let printed = String::from_utf8_lossy(&made.stdout);
    let version = printed.split_whitespace().skip_while(|&word| word != "Ver").nth(1).expect("a version");
    let finished = base().join(format!("mariadb-{version}"));

    let _one_at_a_time = lock("mariadb.lock");
    if !finished.exists() {
        // A process that was killed here left half of it.
        let partial = base().join("mariadb.partial");
        let _ = fs::remove_dir_all(&partial);
        let mut command = Command::new(find("mariadb-install-db"));
        command.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
        // It refuses where no host name can be looked up, and none is needed here.
        command.args(["--force", INNODB_LOG]);
        command.arg(format!("--datadir={}", partial.display())).args(as_root());
        let made = command.stdin(Stdio::null()).output().unwrap();
        assert!(made.status.success(), "mariadb-install-db: {}", String::from_utf8_lossy(&made.stdout));
        fs::rename(&partial, &finished).unwrap();
    }
    finished
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success(), "cp -a {}: {copied}", from.display());
}
