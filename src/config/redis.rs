//! The `[redis]` section.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::error::Problem;
use super::redis_url::{Nodes, redacted};
use super::secret::{Secret, SecretFiles, readable};
use super::{fields, raw};

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

#[cfg(test)]
mod tests {
    use super::super::number::Whole;
    use super::*;

    fn resolve(change: impl FnOnce(&mut raw::Redis)) -> Result<RedisConfig, Problem> {
        let mut raw = raw::Redis::default();
        change(&mut raw);
        RedisConfig::resolve(&raw, &SecretFiles { credentials: None })
    }

    fn refusal(change: impl FnOnce(&mut raw::Redis)) -> String {
        resolve(change).unwrap_err().to_string()
    }

    #[test]
    fn modes_other_than_standalone_are_checked_and_then_refused() {
        let mode = |mode: &str, master: Option<&str>, shards: Option<i64>| {
            refusal(|raw| {
                raw.mode = mode.into();
                raw.sentinel_master = master.map(str::to_owned);
                raw.shards = shards.map(Whole);
            })
        };
        assert!(mode("cluster", None, None).contains("this version connects to standalone servers only"));
        assert!(mode("cluster", None, Some(16_384)).starts_with("redis.mode: "));
        assert!(mode("cluster", None, Some(16_385)).starts_with("redis.shards: "));
        assert!(mode("cluster", Some("m"), None).starts_with("redis.sentinel_master: "));
        assert!(mode("sentinel", Some("m"), None).contains("this version connects to standalone servers only"));
        assert!(mode("sentinel", None, None).starts_with("redis.sentinel_master: "));
        assert!(mode("sentinel", Some("m"), Some(2)).starts_with("redis.shards: "));
        assert!(mode("standalone", None, Some(16)).starts_with("redis.shards: "));
        assert!(mode("replica", None, None).contains("standalone, sentinel, cluster"));
        assert_eq!(resolve(|raw| raw.shards = Some(Whole(1))).unwrap().shards, 1);
    }

    #[test]
    fn one_server_one_user_one_password() {
        assert!(refusal(|raw| raw.url = "redis://a,b".into()).contains("names 2 servers"));
        assert!(refusal(|raw| raw.username = Some("me".into())).contains("needs a password"));
        assert!(refusal(|raw| raw.url = "redis://me@h".into()).contains("needs a password"));
        let both = refusal(|raw| {
            raw.url = "redis://me:pw@h".into();
            raw.username = Some("you".into());
        });
        assert!(both.starts_with("redis.username: "), "{both}");
        let same = resolve(|raw| {
            raw.url = "redis://:pw@h".into();
            raw.username = Some("me".into());
        });
        assert_eq!(same.unwrap().username.as_deref(), Some("me"));
    }

    #[test]
    fn certificates_need_tls() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().display().to_string();
        assert!(refusal(|raw| raw.ca_file = Some(path.clone())).starts_with("redis.ca_file: "));
        let tls = resolve(|raw| {
            raw.ca_file = Some(path.clone());
            raw.url = "rediss://h".into();
        });
        assert_eq!(tls.unwrap().ca_file.as_deref(), Some(file.path()));
    }
}
