//! What Redis says.

use std::time::Duration;

use super::{CLOCKS_MS, Clock, Finding, Level, bad, is_loopback, ok, redis_user};
use crate::config::{Config, RedisAddress, RedisConfig};
use crate::store::{Replica, ServerFacts, Store, StoreError};
use crate::sync::Context;

/// From so many percent of `maxmemory` on, it is time to act.
const NEARLY_FULL: u128 = 90;

/// How long a replica is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// What was found.
pub(super) struct Looked {
    pub(super) clock: Option<Clock>,
    pub(super) findings: Vec<Finding>,
}

pub(super) async fn look(context: &Context) -> Looked {
    let facts = match context.store().await {
        Ok(store) => store.server_facts().await,
        Err(error) => Err(error),
    };
    let facts = match facts {
        Ok(facts) => facts,
        Err(error) => {
            let fix = "start Redis, or correct redis.url, redis.username and redis.password_file";
            let mut findings = vec![bad("redis connection", Level::Fail, error.to_string(), fix)];
            // It may be that the user may not ask.
            if matches!(error, StoreError::Refused { .. }) {
                findings.push(redis_user::finding(context, None).await);
            }
            return Looked { clock: None, findings };
        }
    };
    let clock = Clock::says(facts.now_ms);
    let mut findings = findings(&facts, &context.config);
    findings.push(redis_user::finding(context, version(&facts)).await);
    for replica in &facts.replicas {
        findings.push(of_replica(context, replica, &clock).await);
    }
    Looked { clock: Some(clock), findings }
}

fn version(facts: &ServerFacts) -> Option<(u32, u32)> {
    let mut parts = facts.version.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

/// A replica that is promoted gives the event times from then on.
async fn of_replica(context: &Context, replica: &Replica, master: &Clock) -> Finding {
    const NAME: &str = "redis replica";
    let Replica { host, port } = replica;
    let address = RedisAddress::Tcp { host: host.clone(), port: *port };
    let url_redacted = format!("{host}:{port}");
    let config = RedisConfig { addresses: vec![address], url_redacted, ..context.config.redis.clone() };
    let facts = match Store::connect(&config, context.vocabulary.clone(), PATIENCE).await {
        Ok(store) => store.server_facts().await,
        Err(error) => Err(error),
    };
    let facts = match facts {
        Ok(facts) => facts,
        Err(error) => {
            let detail = format!("{error}: its clock is not known, which gives the event times once it is promoted");
            return bad(NAME, Level::Warn, detail, "let this machine reach it, or compare the clocks there");
        }
    };
    let apart_ms = (facts.now_ms - master.now_ms()).abs();
    if apart_ms <= CLOCKS_MS {
        return ok(NAME, format!("{host}:{port}, its clock and the master's are {apart_ms} ms apart"));
    }
    let detail = format!(
        "{host}:{port}, its clock and the master's are {apart_ms} ms apart: once it is promoted, the older of two writes \
         may win"
    );
    bad(NAME, Level::Warn, detail, "let NTP set the clocks of both")
}

fn persistence(facts: &ServerFacts) -> Finding {
    const NAME: &str = "redis persistence";
    if !facts.append_only {
        return bad(
            NAME,
            Level::Warn,
            "no append-only file: a crash of Redis loses every write since its last snapshot that is not synced yet",
            "redis-cli CONFIG SET appendonly yes, and the same in redis.conf",
        );
    }
    let lost = match facts.append_fsync.as_deref() {
        Some("always") => "appendfsync is always: a crash loses nothing that was acknowledged",
        Some("no") => "appendfsync is no: a crash of the machine loses what the system has not written yet, some 30 s",
        Some("everysec") => "appendfsync is everysec: a crash loses about the last second that is not synced yet",
        _ => "a crash loses what appendfsync allows that is not synced yet, about a second with everysec",
    };
    let failover = if facts.replicas.is_empty() { "" } else { "; a failover loses what the replica lagged" };
    ok(NAME, format!("the append-only file is on, {lost}{failover}"))
}

fn findings(facts: &ServerFacts, config: &Config) -> Vec<Finding> {
    let mut findings = vec![ok("redis connection", config.redis.url_redacted.clone())];
    findings.push(if version(facts).is_some_and(|version| version >= (6, 0)) {
        ok("redis version", facts.version.clone())
    } else {
        let detail = format!("{}: the scripts need Redis 6 or newer", facts.version);
        bad("redis version", Level::Fail, detail, "upgrade Redis")
    });
    findings.push(if facts.role == "master" {
        ok("redis role", "master")
    } else {
        let detail = format!("this server is a replica ({}): it refuses writes, and lags", facts.role);
        bad("redis role", Level::Fail, detail, "point redis.url at the master")
    });
    findings.push(eviction(facts));
    findings.push(memory(facts));
    findings.push(persistence(facts));
    let remote = |address: &RedisAddress| matches!(address, RedisAddress::Tcp { host, .. } if !is_loopback(host));
    if !config.redis.tls && config.redis.password.is_some() && config.redis.addresses.iter().any(remote) {
        let detail = "the password crosses the network unencrypted";
        findings.push(bad("redis encryption", Level::Warn, detail, "use rediss:// in redis.url"));
    }
    findings
}

fn eviction(facts: &ServerFacts) -> Finding {
    let policy = &facts.eviction_policy;
    if policy.starts_with("allkeys-") {
        return bad(
            "redis eviction",
            Level::Fail,
            format!("maxmemory-policy is {policy}: Redis may throw away marks and states that MySQL does not have yet"),
            "redis-cli CONFIG SET maxmemory-policy noeviction, and the same in redis.conf",
        );
    }
    ok("redis eviction", format!("maxmemory-policy is {policy}"))
}

fn memory(facts: &ServerFacts) -> Finding {
    const NAME: &str = "redis memory";
    let ServerFacts { used_memory: used, max_memory: limit, eviction_policy: policy, .. } = facts;
    if *limit == 0 {
        return ok(NAME, format!("{used} bytes used, no limit (maxmemory is 0)"));
    }
    let percent = u128::from(*used) * 100 / u128::from(*limit);
    let detail = format!("{used} of {limit} bytes used, {percent} % of maxmemory");
    if percent < NEARLY_FULL {
        return ok(NAME, detail);
    }
    let fix = "give Redis more memory (redis-cli CONFIG SET maxmemory, and the same in redis.conf), or fewer keys";
    if policy != "noeviction" {
        let detail =
            format!("{detail}: at the limit, Redis throws keys away ({policy}), and writes fail when it cannot");
        return bad(NAME, Level::Warn, detail, fix);
    }
    if percent < 100 {
        return bad(NAME, Level::Warn, format!("{detail}: at the limit, every write fails with OOM"), fix);
    }
    bad(NAME, Level::Fail, format!("{detail}: every write fails with OOM"), fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_warned_of_from_ninety_percent_on() {
        let found = |used_memory, max_memory, policy: &str| {
            let (version, role) = ("7.2.0".into(), "master".into());
            let eviction_policy = policy.into();
            let append_only = true;
            let (append_fsync, replicas, now_ms) = (None, vec![], 0);
            memory(&ServerFacts {
                version,
                role,
                eviction_policy,
                max_memory,
                used_memory,
                append_only,
                append_fsync,
                replicas,
                now_ms,
            })
        };
        for (used, limit, level) in [
            (u64::MAX, 0, Level::Ok),
            (899, 1000, Level::Ok),
            (900, 1000, Level::Warn),
            (999, 1000, Level::Warn),
            (1000, 1000, Level::Fail),
            (u64::MAX, 1, Level::Fail),
        ] {
            assert_eq!(found(used, limit, "noeviction").level, level, "{used} of {limit}");
        }
        assert!(found(5, 0, "noeviction").detail.contains("no limit"));
        assert_eq!(found(1000, 1000, "volatile-lru").level, Level::Warn, "keys go before writes fail");
    }
}
