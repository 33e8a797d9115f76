//! Redis for tests: a private server a test, or one of the logical databases of the server of
//! `TALLYD_TEST_REDIS_URL`.

use std::ops::Deref;
use std::path::Path;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use tokio::sync::Semaphore;
use url::Url;

use super::monitor::{self, Command};
use super::server::Server;
use super::skip::{external_redis, skipped, this_test};

/// The library's half second is too short for a busy test machine.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where a Redis is.
#[derive(Clone, Debug)]
pub struct RedisAt {
    url: String,
}

impl RedisAt {
    pub fn at(url: String) -> Self {
        Self { url }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// A new connection.
    pub async fn connect(&self) -> MultiplexedConnection {
        connect(&self.url).await.unwrap()
    }

    /// The commands that Redis executed in this database during `work`, in order, those inside scripts included.
    pub async fn commands_of(&self, work: impl AsyncFnOnce()) -> Vec<Command> {
        monitor::commands_of(self, work).await
    }
}

async fn connect(url: &str) -> redis::RedisResult<MultiplexedConnection> {
    let limits = AsyncConnectionConfig::new().set_connection_timeout(Some(TIMEOUT)).set_response_timeout(Some(TIMEOUT));
    redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&limits).await
}

/// An empty Redis for a test that only uses it.
pub enum Redis {
    Private(PrivateRedis),
    External(Logical),
}

impl Redis {
    pub async fn start() -> Self {
        match external_redis() {
            Some(url) => Self::External(Logical::claim(&url).await),
            None => Self::Private(PrivateRedis::launch(&[]).await),
        }
    }
}

impl Deref for Redis {
    type Target = RedisAt;

    fn deref(&self) -> &RedisAt {
        match self {
            Self::Private(server) => &server.at,
            Self::External(database) => &database.at,
        }
    }
}

/// A Redis that one test may configure, stop and kill.
pub struct PrivateRedis {
    at: RedisAt,
    server: Server,
}

impl PrivateRedis {
    /// A server without persistence unless `options` (`["--appendonly", "yes"]`) say otherwise; `None`, and the test
    /// counts as skipped, when the suite runs against an external Redis.
    #[track_caller]
    pub fn start(options: &[&str]) -> impl Future<Output = Option<Self>> {
        let test = this_test();
        async move {
            if external_redis().is_some() {
                skipped(&test, "needs a Redis of its own, and TALLYD_TEST_REDIS_URL is set");
                return None;
            }
            Some(Self::launch(options).await)
        }
    }

    async fn launch(options: &[&str]) -> Self {
        let prepare = |home: &Path, port: u16| {
            let (port, home) = (port.to_string(), home.to_str().unwrap());
            let fixed = ["--bind", "127.0.0.1", "--port", &port, "--dir", home, "--save", ""];
            fixed.iter().chain(options).map(ToString::to_string).collect()
        };
        let server = Server::start("redis-server", prepare, ready).await;
        Self { at: RedisAt { url: format!("redis://127.0.0.1:{}/0", server.port()) }, server }
    }

    /// SIGTERM: with persistence, what it holds is on disk afterwards.
    pub async fn stop(&mut self) {
        self.server.stop().await;
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// On the same port, with what it had saved.
    pub async fn start_again(&mut self) {
        self.server.start_again(ready).await;
    }

    /// Its home holds `dump.rdb` and `appendonlydir`.
    pub fn server(&self) -> &Server {
        &self.server
    }
}

impl Deref for PrivateRedis {
    type Target = RedisAt;

    fn deref(&self) -> &RedisAt {
        &self.at
    }
}

/// PONG comes once the data is loaded; before that the answer is LOADING.
async fn ready(port: u16) -> bool {
    match connect(&format!("redis://127.0.0.1:{port}")).await {
        Ok(mut connection) => redis::cmd("PING").query_async::<()>(&mut connection).await.is_ok(),
        Err(_) => false,
    }
}

/// Databases 1 to 15: the server's default number is 16, and 0 may be in use. Two test processes on one external
/// Redis would disturb each other.
static UNUSED: LazyLock<Mutex<Vec<u8>>> = LazyLock::new(|| Mutex::new((1..=15).collect()));
static HOW_MANY: Semaphore = Semaphore::const_new(15);

/// A logical database of an external Redis; handed to the next test when dropped.
pub struct Logical {
    at: RedisAt,
    number: u8,
}

impl Logical {
    /// Waits for a free one, and empties it.
    async fn claim(server_url: &str) -> Self {
        HOW_MANY.acquire().await.expect("never closed").forget();
        let number = UNUSED.lock().unwrap().pop().expect("as many as permits");
        let mut url = Url::parse(server_url).expect("a Redis URL");
        url.set_path(&number.to_string());
        let claimed = Self { at: RedisAt { url: url.into() }, number };
        redis::cmd("FLUSHDB").query_async::<()>(&mut claimed.at.connect().await).await.unwrap();
        claimed
    }
}

impl Drop for Logical {
    fn drop(&mut self) {
        UNUSED.lock().unwrap().push(self.number);
        HOW_MANY.add_permits(1);
    }
}
