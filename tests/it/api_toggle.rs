//! Many clients that change the same few states, through the API, while runs go on.

use std::collections::BTreeMap;
use std::env;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::likes::{Table, active, assert_agreement, same, states};
use crate::support::{Connection, Http, Reply, Rig, Served};
use crate::writers::Random;

const CLIENTS: u64 = 100;
const TARGETS: i64 = 20;
/// For each target: 200 states in all.
const USERS: i64 = 10;

/// For how long, unless `TALLYD_TEST_SECONDS` says otherwise.
fn duration() -> Duration {
    let seconds = env::var("TALLYD_TEST_SECONDS").ok().map_or(6, |text| text.parse().expect("a number of seconds"));
    Duration::from_secs(seconds)
}

/// By target, how much the answers say that its count grew.
type Growth = BTreeMap<i64, i64>;

struct Client {
    connection: Connection,
    random: Random,
    growth: Growth,
    answers: u64,
}

impl Client {
    fn new(api: &Http, seed: u64) -> Self {
        Self { connection: Connection::to(api), random: Random::new(seed), growth: Growth::new(), answers: 0 }
    }

    async fn toggle(mut self, until: Instant) -> Self {
        while Instant::now() < until {
            if self.random.below(4) == 0 { self.batch().await } else { self.single().await }
        }
        self
    }

    fn operation(&mut self) -> (i64, i64, bool) {
        let mut below = |bound: i64| i64::try_from(self.random.below(bound.unsigned_abs())).unwrap();
        (1 + below(TARGETS), 1 + below(USERS), below(2) == 0)
    }

    async fn single(&mut self) {
        let (target, user, set) = self.operation();
        let method = if set { "PUT" } else { "DELETE" };
        let path = format!("/v1/like/note/{target}/users/{user}");
        let answer = self.connection.send(method, &path, "").await.expect(200).json();
        self.told(target, set, &answer);
    }

    async fn batch(&mut self) {
        let operations: Vec<_> = (0..=self.random.below(20)).map(|_| self.operation()).collect();
        let op = |&(target, user, set): &(i64, i64, bool)| {
            let op = if set { "set" } else { "cancel" };
            json!({"op": op, "interaction": "like", "target_type": 1, "target_id": target, "user_id": user.to_string()})
        };
        let body = json!({"ops": operations.iter().map(op).collect::<Vec<_>>()}).to_string();
        let answer = self.connection.send("POST", "/v1/batch", &body).await.expect(200).json();
        let results = answer["results"].as_array().unwrap();
        assert_eq!(results.len(), operations.len());
        for (&(target, _, set), result) in operations.iter().zip(results) {
            self.told(target, set, result);
        }
    }

    fn told(&mut self, target: i64, set: bool, answer: &Value) {
        assert_eq!(answer["active"], json!(set), "{answer}");
        let count: i64 = answer["count"].as_str().unwrap_or_else(|| panic!("{answer}")).parse().unwrap();
        assert!((i64::from(set)..=USERS - i64::from(!set)).contains(&count), "{answer}");
        if answer["changed"] == json!(true) {
            *self.growth.entry(target).or_default() += if set { 1 } else { -1 };
        }
        self.answers += 1;
    }
}

/// `tallyd sync --now`, beside the daemon's own runs, until it is time.
async fn sync_now(rig: &Rig, until: Instant) -> u64 {
    let mut runs = 0;
    while Instant::now() < until {
        rig.tallyd(&["sync", "--now"]).await.expect_code(0);
        runs += 1;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    runs
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_clients_toggle_two_hundred_states_and_all_figures_agree() {
    let rig = Rig::start("sync.cron = \"* * * * * *\"").await;
    let served = rig.serve(&[]).await;
    let until = Instant::now() + duration();
    let clients = (0..CLIENTS).map(|seed| tokio::spawn(Client::new(served.api(), seed).toggle(until)));
    let (clients, by_hand) = tokio::join!(futures::future::join_all(clients), sync_now(&rig, until));
    let clients: Vec<Client> = clients.into_iter().map(Result::unwrap).collect();

    let report = rig.tallyd(&["sync", "--now", "--json"]).await.expect_code(0).json();
    assert_eq!((&report["outcome"], &report["drift"]), (&json!("done"), &json!(0)), "{report}");
    assert_agreement(&rig).await;
    let found = active(&states(&rig).await);
    let mut told: Table = (1..=TARGETS).map(|target| ((target, 0), 0)).collect();
    for (target, growth) in clients.iter().flat_map(|client| &client.growth) {
        *told.entry((*target, 0)).or_default() += growth;
    }
    same("what the answers add up to and active states", &told, &found);
    asked(&served, &found).await;

    let runs = served.admin.get("/metrics").await.expect(200).body;
    let of_daemon = runs.lines().find_map(|line| line.strip_prefix("tallyd_sync_runs_total{outcome=\"done\"} "));
    let of_daemon: u64 = of_daemon.unwrap().parse().unwrap();
    assert!(of_daemon >= 1 && by_hand >= 1, "{of_daemon} runs of the daemon, {by_hand} by hand");
    let log = served.log();
    assert!(log.lines().filter(|line| line.contains("drift")).all(|line| line.contains(" drift=0 ")), "{log}");
    let answers: u64 = clients.iter().map(|client| client.answers).sum();
    let connections: usize = clients.iter().map(|client| client.connection.made).sum();
    assert_eq!(connections, clients.len(), "connections stay");
    println!("{answers} answers in {:?}, {of_daemon} runs of the daemon and {by_hand} by hand", duration());
}

/// The API says the same.
async fn asked(served: &Served, found: &Table) {
    let items: Vec<_> = (1..=TARGETS)
        .flat_map(|target| (1..=USERS).map(move |user| (target, user)))
        .map(|(target, user)| json!({"interaction": "like", "target_type": "note", "target_id": target, "user_id": user}))
        .collect();
    let answer = served.api().post("/v1/query", json!({ "items": items }).to_string()).await.expect(200).json();
    let mut active = Table::new();
    for (item, result) in items.iter().zip(answer["results"].as_array().unwrap()) {
        let target = item["target_id"].as_i64().unwrap();
        assert_eq!(result["count"], json!(found[&(target, 0)].to_string()));
        *active.entry((target, 0)).or_default() += i64::from(result["active"].as_bool().unwrap());
    }
    same("active states by query and in Redis", &active, found);
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_at_once_change_a_state_once() {
    let rig = Rig::start("").await;
    let served = rig.serve(&["--no-schedule"]).await;
    let api = served.api();
    let path = "/v1/like/note/10086/users/42";
    let before = api.delete(path).await.expect(200).json();
    assert_eq!(before, json!({"changed": false, "active": false, "count": "0"}));
    for (method, count) in [("PUT", "1"), ("DELETE", "0")] {
        let replies = futures::future::join_all((0..50).map(|_| api.send(method, path, &[], ""))).await;
        let answers: Vec<Value> = replies.into_iter().map(|reply: Reply| reply.expect(200).json()).collect();
        assert_eq!(answers.iter().filter(|answer| answer["changed"] == json!(true)).count(), 1, "{answers:?}");
        assert!(answers.iter().all(|answer| answer["count"] == json!(count)), "{answers:?}");
        assert_eq!(api.get("/v1/like/note/10086").await.expect(200).json(), json!({"count": count}));
    }
}
