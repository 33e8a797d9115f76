//! The load: clients that write, read and view, and keep the record of what they were told.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::http::{Client as Http, NoAnswer};
use crate::record::{Attempt, Key};
use crate::support::Reply;
use crate::tally::Wrong;
use crate::world::{World, now_ms};

const CLIENTS: u64 = 14;
/// Each client has users of its own: nobody else writes their states.
const USERS_EACH: i64 = 3;
/// The first user: JavaScript would lose its last digit.
const FIRST_USER: i64 = 9_007_199_254_740_993;
/// Of each type.
pub const TARGETS: i64 = 12;
pub const TARGET_TYPES: [(u16, &str); 2] = [(1, "note"), (2, "video")];
pub const INTERACTIONS: [(u16, &str); 2] = [(1, "like"), (2, "collect")];
/// A counter.
pub const VIEW: u16 = 4;
/// How many targets of a type are in use at one time; the others lie idle.
const IN_USE: i64 = 4;
const USED_FOR: Duration = Duration::from_secs(3);
/// After a lost connection nothing is sent that could be overtaken: longer than the time limits of a daemon that was
/// killed while Redis had its write before it.
const LINGER: Duration = Duration::from_secs(1);

/// Clients at work.
pub struct Clients {
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Clients {
    pub fn start(world: &Arc<World>, seed: u64) -> Self {
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        for number in 0..CLIENTS {
            let client = Client {
                world: world.clone(),
                number: i64::try_from(number).unwrap(),
                random: StdRng::seed_from_u64(seed.wrapping_mul(1000).wrapping_add(number)),
                connections: world.daemons.iter().map(|_| Http::default()).collect(),
                started: Instant::now(),
                viewers: 0,
            };
            tasks.spawn(client.work(stop.clone()));
        }
        Self { stop, tasks }
    }

    pub async fn finish(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
    }
}

struct Client {
    world: Arc<World>,
    number: i64,
    random: StdRng,
    connections: Vec<Http>,
    started: Instant,
    viewers: u64,
}

impl Client {
    async fn work(mut self, stop: CancellationToken) {
        let world = self.world.clone();
        while !stop.is_cancelled() {
            tokio::time::sleep(Duration::from_millis(self.random.random_range(10..40))).await;
            let _nobody_waits = world.gate.read().await;
            match self.random.random_range(0..100) {
                0..62 => self.single().await,
                62..82 => self.batch().await,
                82..92 => self.read().await,
                _ => self.view().await,
            }
        }
    }

    fn below(&mut self, bound: i64) -> i64 {
        self.random.random_range(0..bound)
    }

    fn place(&mut self) -> (u16, &'static str, i64) {
        let (target_type, name) = TARGET_TYPES[self.random.random_range(0..TARGET_TYPES.len())];
        let turn = i64::try_from(self.started.elapsed().as_secs() / USED_FOR.as_secs()).unwrap();
        let target = (turn * 3 + self.below(IN_USE)) % TARGETS + 1;
        (target_type, name, target)
    }

    fn state(&mut self) -> (Key, bool) {
        let (target_type, _, target) = self.place();
        let (interaction, _) = INTERACTIONS[self.random.random_range(0..INTERACTIONS.len())];
        let user = FIRST_USER + self.number * USERS_EACH + self.below(USERS_EACH);
        (Key { target_type, target, interaction, user }, self.random.random_bool(0.5))
    }

    /// One request to one of the daemons that run. The error says that nothing was sent, or that it is not known what
    /// became of it; by then it is over.
    async fn send(&mut self, method: &str, path: &str, body: &str) -> Result<Reply, NoAnswer> {
        let at = self.random.random_range(0..self.world.daemons.len());
        let (daemon, tally) = (&self.world.daemons[at], &self.world.tally);
        let Some(addresses) = daemon.addresses() else { return Err(NoAnswer::NotSent) };
        self.connections[at].connect(addresses.api).await?;
        let (stops, begun) = (daemon.stops(), Instant::now());
        let answer = self.connections[at].send(addresses.api, method, path, body).await;
        match &answer {
            Ok(reply) => {
                if stops.is_multiple_of(2) && stops == daemon.stops() {
                    tally.took(begun.elapsed(), &format!("{method} {path} to {at}"));
                }
                if ![200, 429, 500, 503].contains(&reply.status) {
                    tally.wrong(Wrong::Answer, &format!("{method} {path} {body}: {} {}", reply.status, reply.body));
                }
            }
            Err(NoAnswer::Lost) => tokio::time::sleep(LINGER).await,
            Err(NoAnswer::Hangs) => tally.wrong(Wrong::Answer, &format!("{method} {path} {body} is not answered")),
            Err(NoAnswer::NotSent) => {}
        }
        answer
    }

    async fn single(&mut self) {
        let (key, value) = self.state();
        let path = format!("/v1/{}", path_of(key));
        let sent_ms = now_ms();
        let answer = self.send(if value { "PUT" } else { "DELETE" }, &path, "").await;
        if matches!(answer, Err(NoAnswer::NotSent)) {
            return;
        }
        let result = answer.as_ref().ok().filter(|reply| reply.status == 200).map(Reply::json);
        self.told(key, value, sent_ms, result.as_ref(), from_mysql(answer.as_ref().ok()));
    }

    async fn batch(&mut self) {
        let states: Vec<(Key, bool)> = (0..self.random.random_range(2..20)).map(|_| self.state()).collect();
        let op = |&(Key { target_type, target, interaction, user }, value): &(Key, bool)| {
            let (op, interaction) = (if value { "set" } else { "cancel" }, name_of(interaction));
            json!({"op": op, "interaction": interaction, "target_type": target_type, "target_id": target,
                "user_id": user.to_string()})
        };
        let body = json!({"ops": states.iter().map(op).collect::<Vec<_>>()}).to_string();
        let sent_ms = now_ms();
        let answer = self.send("POST", "/v1/batch", &body).await;
        if matches!(answer, Err(NoAnswer::NotSent)) {
            return;
        }
        let results =
            answer.as_ref().ok().filter(|reply| reply.status == 200).map(|reply| reply.json()["results"].clone());
        for (at, &(key, value)) in states.iter().enumerate() {
            let result = results.as_ref().map(|results| &results[at]).filter(|result| result.get("error").is_none());
            self.told(key, value, sent_ms, result, from_mysql(answer.as_ref().ok()));
        }
    }

    fn told(&self, key: Key, value: bool, sent_ms: i64, result: Option<&Value>, from_mysql: bool) {
        let tally = &self.world.tally;
        if let Some(result) = result.filter(|result| result["active"] != json!(value)) {
            tally.wrong(Wrong::Answer, &format!("{key} to become {value}: {result}"));
        }
        let attempt = Attempt { value, sent_ms, ended_ms: now_ms(), acknowledged: result.is_some() };
        tally.wrote(attempt.acknowledged);
        if from_mysql && attempt.acknowledged {
            tally.answered_from_mysql();
        }
        self.world.record.lock().unwrap().wrote(key, attempt);
    }

    async fn read(&mut self) {
        let (target_type, name, target) = self.place();
        let answer = match self.random.random_range(0..3) {
            0 => self.send("GET", &format!("/v1/targets/{name}/{target}"), "").await,
            1 => {
                let (key, _) = self.state();
                self.send("GET", &format!("/v1/{}", path_of(key)), "").await
            }
            _ => {
                let item = json!({"interaction": "like", "target_type": target_type, "target_id": target});
                self.send("POST", "/v1/query", &json!({"items": [item]}).to_string()).await
            }
        };
        if answer.is_ok_and(|reply| reply.status == 200) {
            self.world.tally.read();
        }
    }

    async fn view(&mut self) {
        let (target_type, name, target) = self.place();
        self.viewers += 1;
        let body = json!({"viewer": format!("{}-{}", self.number, self.viewers)}).to_string();
        let answer = self.send("POST", &format!("/v1/view/{name}/{target}"), &body).await;
        if matches!(answer, Err(NoAnswer::NotSent)) {
            return;
        }
        let reply = answer.ok().filter(|reply| reply.status == 200);
        let counted = reply.is_some_and(|reply| reply.json()["counted"] == true);
        self.world.tally.viewed();
        self.world.record.lock().unwrap().viewed(target_type, target, counted);
    }
}

fn from_mysql(reply: Option<&Reply>) -> bool {
    reply.is_some_and(|reply| reply.header("tallyd-source") == Some("mysql"))
}

/// The name of an interaction that has states.
pub fn name_of(interaction: u16) -> &'static str {
    INTERACTIONS.iter().find(|(code, _)| *code == interaction).map_or("?", |(_, name)| name)
}

fn path_of(Key { target_type, target, interaction, user }: Key) -> String {
    format!("{}/{target_type}/{target}/users/{user}", name_of(interaction))
}
