//! Clients write while everything breaks, and then nothing acknowledged is missing and nothing is counted twice.
//!
//! Two daemons on a private Redis and a private MySQL, a network between them that can fail, and clients that write,
//! read and view through the API. Faults are drawn from a seed ([`plan`]) and come under load, some at the same time.
//! After every ten to twenty of them clients wait until the program is done with its work, and everything is looked at
//! ([`check`], [`judge`]). Which states may be found is the subject of [`record`].
//!
//! A part of `cargo test`, shortly. `make torture` runs long. These variables say what is done:
//! `TALLYD_TEST_FAULTS`, how many faults; `TALLYD_TEST_SEED`, whose plan is drawn again; `TALLYD_TEST_KINDS`, only
//! faults of these kinds, such as `KillRedis,Flush`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "clippy's allowance for tests covers only functions marked #[test], not the helpers they call"
)]
#![allow(missing_docs, unreachable_pub, reason = "nothing outside this crate can use what is here")]

mod check;
mod clients;
mod faults;
mod http;
mod judge;
mod losses;
mod plan;
mod proxy;
mod record;
mod rows;
#[path = "../it/support/mod.rs"]
mod support;
mod tally;
mod tallyd;
mod world;

use std::sync::Arc;
use std::time::Duration;
use std::{env, fs};

use futures::future::join_all;
use tokio_util::sync::CancellationToken;

use clients::Clients;
use plan::{Fault, Pace, Round};
use world::{World, now_ms};

/// Of the quick run: nearly every kind has its turn.
const FAULTS: usize = 24;
const SEED: u64 = 1;
const SAMPLE: Duration = Duration::from_millis(200);
/// Load before the first fault, and after the last one.
const UNDISTURBED: Duration = Duration::from_secs(1);

/// A variable that is set and not empty.
fn setting(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}

/// The seed, and its plan; the quick run has always the same one.
fn planned() -> (u64, Vec<Round>) {
    let faults = setting("TALLYD_TEST_FAULTS").map(|text| text.parse().expect("a number"));
    let any = || if faults.is_some() { rand::random_range(0..1_000_000_000) } else { SEED };
    let seed = setting("TALLYD_TEST_SEED").map_or_else(any, |text| text.parse().expect("a number"));
    let kinds: Vec<Fault> = match setting("TALLYD_TEST_KINDS") {
        None => Fault::all().collect(),
        Some(names) => names
            .split(',')
            .map(|name| {
                Fault::all().find(|fault| fault.to_string() == name).unwrap_or_else(|| panic!("no fault {name}"))
            })
            .collect(),
    };
    match faults {
        Some(faults) => (seed, plan::draw(seed, faults, &kinds, Pace::Thorough)),
        None => (seed, plan::draw(seed, FAULTS, &kinds, Pace::Quick)),
    }
}

/// Samples rows until it is cancelled.
async fn watch(world: Arc<World>, stop: CancellationToken) {
    while tokio::time::timeout(SAMPLE, stop.cancelled()).await.is_err() {
        world.watcher.sample(&world.db, &world.tally).await;
    }
}

async fn run(world: &Arc<World>, rounds: &[Round]) {
    tokio::time::sleep(UNDISTURBED).await;
    for round in rounds {
        for step in round {
            tokio::time::sleep(step.after).await;
            let names: Vec<String> = step.faults.iter().map(|planned| planned.fault.to_string()).collect();
            println!("{} {}", now_ms(), names.join(" + "));
            join_all(step.faults.iter().map(|&planned| faults::inflict(world, planned))).await;
        }
        println!("{} check", now_ms());
        tokio::time::sleep(UNDISTURBED).await;
        check::check(world).await;
        if !world.tally.clean() {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_breaks_nothing_acknowledged_is_lost_and_nothing_counts_twice() {
    let (seed, rounds) = planned();
    let Some(world) = World::start(seed).await else { return };
    println!("seed {seed}; logs are in {}", world.folder.display());
    let world = Arc::new(world);
    let stop = CancellationToken::new();
    let watcher = tokio::spawn(watch(world.clone(), stop.clone()));
    let clients = Clients::start(&world, seed);
    run(&world, &rounds).await;
    stop.cancel();
    clients.finish().await;
    watcher.await.unwrap();
    world.read_logs();
    println!("{}", world.tally);
    world.keep_logs().await;
    assert!(world.tally.clean(), "see above; seed {seed}, logs in {}", world.folder.display());
    let _ = fs::remove_dir_all(&world.folder);
}
