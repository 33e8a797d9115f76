//! What Redis says.

use std::time::Duration;

use super::{CLOCKS_MS, Clock, Finding, Level, bad, is_loopback, ok, redis_data, redis_user};
use crate::config::{Config, RedisAddress, RedisConfig};
use crate::store::{Replica, ServerFacts, Store, StoreError};
use crate::sync::Context;

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

fn findings(facts: &ServerFacts, config: &Config) -> Vec<Finding> {
    let mut findings = vec![ok("redis connection", config.redis.url_redacted.clone())];
    findings.push(if version(facts).is_some_and(|version| version >= (6, 0)) {
        ok("redis version", format!("{} (tested: 7)", facts.version))
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
    findings.push(redis_data::memory(facts));
    findings.push(redis_data::persistence(facts));
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
        let detail =
            format!("maxmemory-policy is {policy}: Redis may throw away marks and states that MySQL does not have yet");
        return bad("redis eviction", Level::Fail, detail, redis_data::AND_IN_FILE)
            .by("redis-cli CONFIG SET maxmemory-policy noeviction");
    }
    ok("redis eviction", format!("maxmemory-policy is {policy}"))
}
