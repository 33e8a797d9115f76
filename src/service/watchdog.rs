//! The watchdog: fed while everything that must move does.
//!
//! It has a thread of its own. A loop that never gives its thread back may hold up the whole runtime with it, and who looks
//! must still be able to say so.

use std::collections::BTreeSet;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use tokio_util::sync::CancellationToken;

use super::manager::tell;
use crate::pulse::{Pulses, Trouble};

/// The longest time between two looks.
const SELDOM: Duration = Duration::from_secs(5);
/// The shortest, however soon the service manager wants to hear of it.
const OFTEN: Duration = Duration::from_millis(50);

/// Starts to look at the pulses, at least four times in the time that the service manager allows (`$WATCHDOG_USEC`), and
/// tells it that all is well only when it is: what is stuck is logged, and the service manager ends the process when it
/// has heard nothing for too long. A loop that died cancels `dead`: nothing but a new start brings it back.
pub fn start_watch(pulses: Pulses, dead: CancellationToken) -> io::Result<()> {
    thread::Builder::new().name("watchdog".to_owned()).spawn(move || watch(&pulses, &dead)).map(drop)
}

fn watch(pulses: &Pulses, dead: &CancellationToken) {
    let every = sd_notify::watchdog_enabled().map_or(SELDOM, |limit| (limit / 4).clamp(OFTEN, SELDOM));
    let mut known = BTreeSet::new();
    let mut looked = Instant::now();
    loop {
        // A process that was stopped, or a machine that was suspended, stood still with all its loops.
        let passed = looked.elapsed().min(every * 2);
        looked = Instant::now();
        let troubles = pulses.look(passed);
        if troubles.is_empty() {
            tell(&[NotifyState::Watchdog]);
        }
        let mut now = BTreeSet::new();
        for trouble in troubles {
            let name = match trouble {
                Trouble::Stuck(name, silent) => {
                    if !known.contains(&name) {
                        let silent_s = silent.as_secs();
                        tracing::error!("{name} is stuck: no progress for {silent_s} s; the watchdog is not fed");
                    }
                    name
                }
                Trouble::Dead(name) => {
                    if !known.contains(&name) {
                        tracing::error!("{name} has panicked: tallyd ends, to be started again");
                    }
                    dead.cancel();
                    name
                }
            };
            now.insert(name);
        }
        for name in known.difference(&now) {
            tracing::warn!("{name} moves again");
        }
        known = now;
        thread::sleep(every);
    }
}
