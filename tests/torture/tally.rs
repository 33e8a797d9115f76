//! The figures of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::plan::Fault;
use crate::world::now_ms;

/// An answer that takes longer is counted.
const LONG: Duration = Duration::from_secs(1);
/// How many findings are printed; all are counted.
const SHOWN: usize = 40;

/// What must not be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Wrong {
    /// A state is none of those that it may be.
    Lost,
    /// A count above the number of active states, or a view too many.
    Doubled,
    /// A count below the number of active states, or a view too few.
    Short,
    /// A row of MySQL went back.
    Backwards,
    /// Redis, MySQL and the API do not say the same.
    Disagree,
    /// An answer that contradicts its request, or none at all.
    Answer,
    /// Work is left although nothing disturbs.
    Unsettled,
    /// A daemon panicked.
    Panic,
}

/// Counts what happens.
pub struct Tally {
    seed: u64,
    started: Instant,
    figures: Mutex<Figures>,
}

#[derive(Default)]
struct Figures {
    faults: BTreeMap<Fault, u64>,
    acknowledged: u64,
    unknown: u64,
    from_mysql: u64,
    reads: u64,
    views: u64,
    long: u64,
    longest: Duration,
    longest_was: String,
    allowed_losses: u64,
    corrected: u64,
    checks: u64,
    samples: u64,
    wrong: BTreeMap<Wrong, u64>,
    findings: Vec<String>,
}

impl Tally {
    pub fn new(seed: u64) -> Self {
        Self { seed, started: Instant::now(), figures: Mutex::default() }
    }

    fn add(&self, change: impl FnOnce(&mut Figures)) {
        change(&mut self.figures.lock().unwrap());
    }

    pub fn fault(&self, fault: Fault) {
        self.add(|figures| *figures.faults.entry(fault).or_default() += 1);
    }

    pub fn wrote(&self, acknowledged: bool) {
        self.add(|figures| *if acknowledged { &mut figures.acknowledged } else { &mut figures.unknown } += 1);
    }

    /// An answer that was not from Redis.
    pub fn answered_from_mysql(&self) {
        self.add(|figures| figures.from_mysql += 1);
    }

    pub fn read(&self) {
        self.add(|figures| figures.reads += 1);
    }

    pub fn viewed(&self) {
        self.add(|figures| figures.views += 1);
    }

    /// How long the answer to this request took of a daemon that ran.
    pub fn took(&self, latency: Duration, request: &str) {
        self.add(|figures| {
            figures.long += u64::from(latency > LONG);
            if latency > figures.longest {
                figures.longest = latency;
                figures.longest_was = format!("{request}, answered at {}", now_ms());
            }
        });
    }

    pub fn allowed_losses(&self, states: u64) {
        self.add(|figures| figures.allowed_losses += states);
    }

    /// Counts that runs found wrong in Redis, and set right.
    pub fn corrected(&self, counts: u64) {
        self.add(|figures| figures.corrected += counts);
    }

    pub fn checked(&self) {
        self.add(|figures| figures.checks += 1);
    }

    pub fn sampled(&self) {
        self.add(|figures| figures.samples += 1);
    }

    pub fn wrong(&self, wrong: Wrong, what: &str) {
        self.add(|figures| {
            *figures.wrong.entry(wrong).or_default() += 1;
            if figures.findings.len() < SHOWN {
                figures.findings.push(format!("{wrong:?}: {what}"));
            }
        });
    }

    /// The kinds of what is wrong.
    pub fn kinds(&self) -> Vec<Wrong> {
        self.figures.lock().unwrap().wrong.keys().copied().collect()
    }

    /// Whether nothing is wrong.
    pub fn clean(&self) -> bool {
        self.kinds().is_empty()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = self.figures.lock().unwrap();
        for finding in &figures.findings {
            writeln!(f, "{finding}")?;
        }
        let found: u64 = figures.wrong.values().sum();
        if found > SHOWN as u64 {
            writeln!(f, "and {} more", found - SHOWN as u64)?;
        }
        let faults: u64 = figures.faults.values().sum();
        writeln!(f, "seed {}, {:.0} s, {faults} faults:", self.seed, self.started.elapsed().as_secs_f64())?;
        for (fault, times) in &figures.faults {
            let data = if fault.loses_data() { "takes data out of Redis" } else { "" };
            writeln!(f, "{}", format!("  {fault:<20}{times:>4}  {data}").trim_end())?;
        }
        let wrong = |wrong| figures.wrong.get(&wrong).copied().unwrap_or_default();
        for (name, figure) in [
            ("writes acknowledged", figures.acknowledged),
            ("  of those in MySQL, Redis being away", figures.from_mysql),
            ("writes of unknown outcome", figures.unknown),
            ("reads", figures.reads),
            ("views", figures.views),
            ("answers over 1 s", figures.long),
            ("checks of everything", figures.checks),
            ("samples of rows", figures.samples),
            ("states lost with Redis, as allowed", figures.allowed_losses),
            ("counts in Redis set right by runs", figures.corrected),
            ("states lost", wrong(Wrong::Lost)),
            ("counts doubled", wrong(Wrong::Doubled)),
            ("counts short", wrong(Wrong::Short)),
            ("rows gone backwards", wrong(Wrong::Backwards)),
            ("disagreements", wrong(Wrong::Disagree)),
            ("wrong answers", wrong(Wrong::Answer)),
            ("times not settled", wrong(Wrong::Unsettled)),
            ("panics", wrong(Wrong::Panic)),
        ] {
            writeln!(f, "{name:<40}{figure:>10}")?;
        }
        writeln!(f, "{:<40}{:>10}  {}", "longest answer, ms", figures.longest.as_millis(), figures.longest_was)
    }
}
