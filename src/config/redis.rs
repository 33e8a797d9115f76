//! The `[redis]` section.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::error::Problem;
use super::secret::{Secret, SecretFiles, readable};
use super::server_url::ServerUrl;
use super::{fields, raw};

/// Redis' own port.
const PORT: u16 = 6379;

/// The most shards: what Redis Cluster has slots.
const MOST_SHARDS: i64 = 16_384;

/// How to reach Redis.
#[derive(Clone, Debug)]
pub struct RedisConfig {
    /// The URL without user and password, to print.
    pub url_redacted: String,
    /// The servers to start from; exactly one in standalone mode.
    pub addresses: Vec<RedisAddress>,
    /// Whether to speak TLS.
    pub tls: bool,
    /// The number of the database.
    pub db: i64,
    /// The ACL user; only ever together with a password.
    pub username: Option<String>,
    /// The password of the user, or of the server.
    pub password: Option<Secret>,
    /// Certificates in PEM form to trust instead of the system's; readable at load, and only with TLS.
    pub ca_file: Option<PathBuf>,
    /// What kind of deployment it is.
    pub mode: RedisMode,
    /// How many shards a target type has; 1 unless in cluster mode.
    pub shards: u16,
    /// The longest that one call may take.
    pub timeout: Duration,
}

/// Where a Redis server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RedisAddress {
    /// Over TCP.
    Tcp {
        /// Name or address, IPv6 without brackets.
        host: String,
        /// Port.
        port: u16,
    },
    /// On a socket of this machine.
    Unix(PathBuf),
}

/// Kinds of deployment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RedisMode {
    /// One server.
    Standalone,
    /// A master that Sentinels watch; the addresses are theirs.
    Sentinel {
        /// The name under which they know it.
        master: String,
    },
    /// Redis Cluster.
    Cluster,
}

impl fmt::Display for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

impl fmt::Display for RedisMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Standalone => "standalone",
            Self::Sentinel { .. } => "sentinel",
            Self::Cluster => "cluster",
        })
    }
}

impl RedisConfig {
    pub(super) fn resolve(raw: &raw::Redis, files: &SecretFiles) -> Result<Self, Problem> {
        let mode = mode(raw)?;
        let most = if mode == RedisMode::Cluster { MOST_SHARDS } else { 1 };
        let shards = match raw.shards {
            Some(shards) if most == 1 && shards.0 != 1 => {
                let what = format!("{} needs mode = \"cluster\"; leave the key out, or set it to 1", shards.0);
                return Err(Problem::new("redis.shards", what));
            }
            Some(shards) => fields::within("redis.shards", shards, 1..=most)?,
            None if mode == RedisMode::Cluster => 16,
            None => 1,
        };
        let Nodes { addresses, tls, db, user, password } = Nodes::parse(&raw.url)?;
        if mode == RedisMode::Standalone && addresses.len() > 1 {
            let what = format!("names {} servers, and mode = \"standalone\" takes one", addresses.len());
            return Err(Problem::new("redis.url", what));
        }

        let username = match (fields::text("redis.username", raw.username.as_deref())?, user) {
            (Some(key), Some(user)) if key != user => {
                return Err(Problem::new("redis.username", "redis.url names another user; leave one of them out"));
            }
            (key, user) => key.or(user),
        };
        let password = match (files.password("redis.password_file", raw.password_file.as_deref())?, password) {
            (Some(_), Some(_)) => {
                let what = "redis.url holds a password too; leave one of them out";
                return Err(Problem::new("redis.password_file", what));
            }
            (file, url) => file.or(url),
        };
        if username.is_some() && password.is_none() {
            return Err(Problem::new("redis.username", "a user needs a password; set redis.password_file"));
        }
        let ca_file = readable("redis.ca_file", raw.ca_file.as_deref())?;
        if ca_file.is_some() && !tls {
            let what = "has no effect without TLS; write rediss:// in redis.url, or leave the key out";
            return Err(Problem::new("redis.ca_file", what));
        }
        let timeout = fields::milliseconds("redis.timeout_ms", raw.timeout_ms, 60_000)?;
        if mode != RedisMode::Standalone {
            let what = format!("this version connects to standalone servers only, not to {:?}", mode.to_string());
            return Err(Problem::new("redis.mode", what));
        }
        let url_redacted = redacted(&addresses, tls, db);
        Ok(Self { url_redacted, addresses, tls, db, username, password, ca_file, mode, shards, timeout })
    }
}

fn mode(raw: &raw::Redis) -> Result<RedisMode, Problem> {
    let field = "redis.sentinel_master";
    let master = fields::text(field, raw.sentinel_master.as_deref())?;
    match (fields::choice("redis.mode", &raw.mode, &[("standalone", 0), ("sentinel", 1), ("cluster", 2)])?, master) {
        (1, Some(master)) => Ok(RedisMode::Sentinel { master }),
        (1, None) => Err(Problem::new(field, "mode = \"sentinel\" needs the name of the master")),
        (_, Some(_)) => Err(Problem::new(field, "is only for mode = \"sentinel\"; leave the key out")),
        (0, None) => Ok(RedisMode::Standalone),
        (_, None) => Ok(RedisMode::Cluster),
    }
}

/// What `redis.url` says.
struct Nodes {
    addresses: Vec<RedisAddress>,
    tls: bool,
    db: i64,
    user: Option<String>,
    password: Option<Secret>,
}

impl Nodes {
    /// Several nodes are separated by commas; each is a URL, or `host:port` like the first.
    fn parse(text: &str) -> Result<Self, Problem> {
        let first = text.split(',').next().unwrap_or_default();
        let scheme = first.split_once("://").map_or("redis", |(scheme, _)| scheme).trim();
        let mut nodes = Self { addresses: Vec::new(), tls: false, db: 0, user: None, password: None };
        let mut db = None;
        for part in text.split(',') {
            let part = part.trim();
            let is_first = nodes.addresses.is_empty();
            let whole = if is_first || part.contains("://") { part.to_owned() } else { format!("{scheme}://{part}") };
            let (node, node_db) = Node::parse(ServerUrl::parse("redis.url", &whole)?)?;
            if !is_first && node.tls != nodes.tls {
                return Err(Problem::new("redis.url", "mixes redis:// and rediss://; use one of them for all nodes"));
            }
            let same = |a: &Option<Secret>, b: &Option<Secret>| {
                a.as_ref().map(Secret::expose) == b.as_ref().map(Secret::expose)
            };
            let other_user = node.user.is_some() && !is_first && node.user != nodes.user;
            let other_password = node.password.is_some() && !is_first && !same(&node.password, &nodes.password);
            if other_user || other_password || (db.is_some() && node_db.is_some() && db != node_db) {
                let what = "its nodes differ in user, password or database; write them at one of them, or all alike";
                return Err(Problem::new("redis.url", what));
            }
            nodes.addresses.push(node.address);
            nodes.tls = node.tls;
            nodes.user = nodes.user.or(node.user);
            nodes.password = nodes.password.or(node.password);
            db = db.or(node_db);
        }
        nodes.db = db.unwrap_or(0);
        Ok(nodes)
    }
}

/// One part of `redis.url`.
struct Node {
    address: RedisAddress,
    tls: bool,
    user: Option<String>,
    password: Option<Secret>,
}

impl Node {
    fn parse(url: ServerUrl) -> Result<(Self, Option<i64>), Problem> {
        let tls = url.scheme == "rediss";
        match url.scheme.as_str() {
            "redis" | "rediss" => {
                if let Some((name, _)) = url.parameters.first() {
                    let what = format!("knows no parameters, but has {}", ServerUrl::shown(name));
                    return Err(url.problem(what));
                }
                let db = url.path_name()?.map(|name| number_of_db(&url, &name)).transpose()?;
                let Some(host) = url.host.clone() else {
                    return Err(url.problem("has no host; write redis://HOST:PORT/DATABASE"));
                };
                let address = RedisAddress::Tcp { host, port: url.port.unwrap_or(PORT) };
                Ok((Self { address, tls, user: url.user, password: url.password }, db))
            }
            "unix" | "redis+unix" => Self::on_a_socket(&url),
            _ => Err(url.problem("begins with none of redis://, rediss://, redis+unix:// and unix://")),
        }
    }

    /// `unix:///run/redis.sock?db=0&user=…&pass=…`, as other Redis clients write it.
    fn on_a_socket(url: &ServerUrl) -> Result<(Self, Option<i64>), Problem> {
        if url.host.is_some() {
            return Err(
                url.problem("has a host, and a socket has none; write three slashes, as in unix:///run/redis.sock")
            );
        }
        let path = url.path_of_file()?;
        let (mut db, mut user, mut password) = (None, None, None);
        for (name, value) in &url.parameters {
            match name.as_str() {
                "db" => db = Some(number_of_db(url, value)?),
                "user" => user = Some(value.clone()),
                "pass" => password = Some(Secret::new(value.clone())),
                other => {
                    let what = format!("knows the parameters db, user and pass, but not {}", ServerUrl::shown(other));
                    return Err(url.problem(what));
                }
            }
        }
        Ok((Self { address: RedisAddress::Unix(path), tls: false, user, password }, db))
    }
}

fn number_of_db(url: &ServerUrl, text: &str) -> Result<i64, Problem> {
    let number = text.parse().ok().filter(|number| (0..=i64::from(i32::MAX)).contains(number));
    number.ok_or_else(|| url.problem("its database is not a number; write redis://HOST:PORT/0"))
}

fn redacted(addresses: &[RedisAddress], tls: bool, db: i64) -> String {
    let nodes: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    let nodes = nodes.join(",");
    match addresses.first() {
        Some(RedisAddress::Unix(_)) => format!("unix://{nodes}?db={db}"),
        _ => format!("{}://{nodes}/{db}", if tls { "rediss" } else { "redis" }),
    }
}
