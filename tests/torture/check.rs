//! Waiting until all is quiet, and then looking at everything: the API, MySQL and Redis must say the same, and it must
//! be what clients were told.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::clients::{INTERACTIONS, TARGET_TYPES, TARGETS, VIEW, name_of};
use crate::http::Client;
use crate::judge::{Found, Said};
use crate::record::Key;
use crate::rows;
use crate::tally::Wrong;
use crate::world::World;

const QUIET_LIMIT: Duration = Duration::from_mins(1);
/// A run by hand takes no longer than this.
const SYNC_LIMIT: Duration = Duration::from_secs(25);
/// How long a daemon may take to notice that its connection is dead.
const RECOVERY_LIMIT: Duration = Duration::from_secs(15);
/// Items of one question.
const ITEMS: usize = 500;

/// Looks at everything while clients wait. All servers must be up.
pub async fn check(world: &World) {
    let _nobody_asks = world.gate.write().await;
    if let Err(left) = quiet(world).await {
        world.tally.wrong(Wrong::Unsettled, &format!("not within {QUIET_LIMIT:?}: {left}"));
        return;
    }
    let keys: Vec<Key> = world.record.lock().unwrap().keys().collect();
    let mut said = Vec::new();
    for daemon in &world.daemons {
        let address = daemon.addresses().expect("it runs").api;
        match ask_until_answered(address, &keys).await {
            Ok(answer) => said.push(answer),
            Err(why) => return world.tally.wrong(Wrong::Unsettled, &why),
        }
    }
    let (redis_states, redis_complete, redis_counts) = redis(world).await;
    let found = Found {
        said,
        rows: rows::records(&world.db).await.unwrap(),
        row_counts: rows::counts(&world.db).await.unwrap(),
        redis_states,
        redis_complete,
        redis_counts,
    };
    world.watcher.hold().await.justify(&world.record.lock().unwrap(), &world.tally);
    found.judge(&mut world.record.lock().unwrap(), &world.tally);
    world.tally.checked();
}

/// Waits until no daemon has anything left to do; the error says what is left.
async fn quiet(world: &World) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        world.sync_now(SYNC_LIMIT).await;
        let mut left = Vec::new();
        for daemon in &world.daemons {
            let status = status(daemon.addresses().expect("it runs").admin).await;
            if !status.as_ref().is_some_and(is_quiet) {
                left.push(status);
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        if begun.elapsed() > QUIET_LIMIT {
            let left: Vec<String> = left.into_iter().map(|status| status.unwrap_or_default().to_string()).collect();
            return Err(left.join(", and "));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Without the runs, which say little about what is left.
async fn status(admin: SocketAddr) -> Option<Value> {
    let mut status = Client::default().send(admin, "GET", "/status", "").await.ok()?.json();
    let last = status["last_runs"][0].take();
    status["last_runs"] = json!([last]);
    Some(status)
}

fn is_quiet(status: &Value) -> bool {
    let nothing = |partition: &Value| {
        ["dirty", "changes", "inflight"].iter().all(|key| partition[key] == 0) && partition["restoring"] == false
    };
    let partitions = status["partitions"].as_array();
    status["breaker"] == "closed"
        && status["degraded"]["pending"] == 0
        && partitions.is_some_and(|partitions| partitions.iter().all(nothing))
}

async fn ask_until_answered(api: SocketAddr, keys: &[Key]) -> Result<Said, String> {
    let begun = Instant::now();
    loop {
        match ask(api, keys).await {
            Ok(said) => return Ok(said),
            Err(why) if begun.elapsed() > RECOVERY_LIMIT => {
                return Err(format!(
                    "nothing disturbs, and after {RECOVERY_LIMIT:?} a question is not answered: {why}"
                ));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn ask(api: SocketAddr, keys: &[Key]) -> Result<Said, String> {
    let (mut client, mut said) = (Client::default(), Said::default());
    for keys in keys.chunks(ITEMS) {
        let item = |&Key { target_type, target, interaction, user }: &Key| {
            json!({"interaction": name_of(interaction), "target_type": target_type, "target_id": target,
                "user_id": user.to_string()})
        };
        let results = query(&mut client, api, keys.iter().map(item).collect()).await?;
        for (&key, result) in keys.iter().zip(&results) {
            let (Some(active), Some(count)) = (result["active"].as_bool(), number(&result["count"])) else {
                return Err(format!("{key}: {result}"));
            };
            said.states.insert(key, active);
            let counts = said.counts.entry((key.target_type, key.target, key.interaction)).or_default();
            counts.insert(count);
        }
    }
    let places: Vec<(u16, i64)> = places().collect();
    let item = |&(target_type, target): &(u16, i64)| json!({"interaction": "view", "target_type": target_type, "target_id": target});
    let results = query(&mut client, api, places.iter().map(item).collect()).await?;
    for (&(target_type, target), result) in places.iter().zip(&results) {
        let count = number(&result["count"]).ok_or_else(|| format!("view of {target_type}:{target}: {result}"))?;
        said.counts.insert((target_type, target, VIEW), BTreeSet::from([count]));
    }
    Ok(said)
}

async fn query(client: &mut Client, api: SocketAddr, items: Vec<Value>) -> Result<Vec<Value>, String> {
    let body = json!({ "items": items }).to_string();
    let reply = client.send(api, "POST", "/v1/query", &body).await.map_err(|why| format!("{why:?}"))?;
    let results = if reply.status == 200 { reply.json()["results"].as_array().cloned() } else { None };
    results.ok_or_else(|| format!("{} {}", reply.status, reply.body))
}

fn number(value: &Value) -> Option<i64> {
    value.as_str()?.parse().ok()
}

fn places() -> impl Iterator<Item = (u16, i64)> {
    TARGET_TYPES.iter().flat_map(|&(target_type, _)| (1..=TARGETS).map(move |target| (target_type, target)))
}

type Complete = BTreeSet<(u16, i64, u16)>;

/// States, which hashes are complete, and counts, as far as Redis holds them.
async fn redis(world: &World) -> (BTreeMap<Key, String>, Complete, BTreeMap<(u16, i64, u16), String>) {
    let mut connection = world.redis.lock().await.connect().await;
    let (mut states, mut complete, mut counts) = (BTreeMap::new(), Complete::new(), BTreeMap::new());
    for (target_type, target) in places() {
        let mut names = INTERACTIONS.to_vec();
        names.push((VIEW, "view"));
        let held: Vec<Option<String>> = redis::cmd("HMGET")
            .arg(format!("cnt:{target_type}:{target}"))
            .arg(names.iter().map(|(_, name)| *name).collect::<Vec<_>>())
            .query_async(&mut connection)
            .await
            .unwrap();
        for ((interaction, _), count) in names.iter().zip(held) {
            counts.extend(count.map(|count| ((target_type, target, *interaction), count)));
        }
        for (interaction, name) in INTERACTIONS {
            let key = format!("{name}:{target_type}:{target}");
            let held: BTreeMap<i64, String> =
                redis::cmd("HGETALL").arg(key).query_async(&mut connection).await.unwrap();
            for (user, state) in held {
                if user != 0 {
                    states.insert(Key { target_type, target, interaction, user }, state);
                } else if state == "full" {
                    complete.insert((target_type, target, interaction));
                }
            }
        }
    }
    (states, complete, counts)
}
