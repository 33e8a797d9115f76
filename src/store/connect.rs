//! Connecting to a standalone Redis.

use std::sync::Arc;
use std::time::Duration;

use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, RedisConnectionInfo, TlsCertificates};

use super::{Keys, Store, StoreError};
use crate::config::{RedisAddress, RedisConfig};
use crate::model::Vocabulary;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(2);

impl Store {
    /// Connects; every answer must come within `patience`. A call that took longer may still be carried out.
    pub async fn connect(
        config: &RedisConfig,
        vocabulary: Arc<Vocabulary>,
        patience: Duration,
    ) -> Result<Self, StoreError> {
        let address: Arc<str> = config.url_redacted.as_str().into();
        let failed = |error: redis::RedisError| StoreError::of(&address, "the connection", &error);
        let settings =
            AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT)).set_response_timeout(Some(patience));
        let client = client(config, &address)?;
        let connection = client.get_multiplexed_async_connection_with_config(&settings).await.map_err(failed)?;
        let keys = if config.shards > 1 { Keys::tagged(config.shards) } else { Keys::plain() };
        Ok(Self { connection, address, keys, vocabulary })
    }

    /// The same connection with other names of keys.
    #[must_use]
    pub fn with_keys(self, keys: Keys) -> Self {
        Self { keys, ..self }
    }
}

fn client(config: &RedisConfig, address: &str) -> Result<Client, StoreError> {
    let unreachable = |cause: String| StoreError::Unreachable { address: address.to_owned(), cause };
    let addr = match config.addresses.first() {
        Some(RedisAddress::Tcp { host, port }) if config.tls => {
            ConnectionAddr::TcpTls { host: host.clone(), port: *port, insecure: false, tls_params: None }
        }
        Some(RedisAddress::Tcp { host, port }) => ConnectionAddr::Tcp(host.clone(), *port),
        Some(RedisAddress::Unix(path)) => ConnectionAddr::Unix(path.clone()),
        None => return Err(unreachable("redis.url names no server".to_owned())),
    };
    // The library sends its name (CLIENT SETINFO), and waits for any answer: so a server that says nothing is found out
    // when it is connected to, within CONNECT, and not by the first command.
    let mut login = RedisConnectionInfo::default().set_db(config.db);
    if let Some(username) = &config.username {
        login = login.set_username(username);
    }
    if let Some(password) = &config.password {
        login = login.set_password(password.expose());
    }
    let failed = |error: redis::RedisError| StoreError::of(address, "the connection", &error);
    let info = redis::IntoConnectionInfo::into_connection_info(addr).map_err(failed)?;
    let info: ConnectionInfo = info.set_redis_settings(login);
    if !config.tls {
        return Client::open(info).map_err(failed);
    }
    let root_cert = match &config.ca_file {
        Some(path) => Some(std::fs::read(path).map_err(|e| unreachable(format!("{}: {e}", path.display())))?),
        None => None,
    };
    Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert }).map_err(failed)
}
