//! Which faults come when: drawn from a seed, so that a seed replays its plan.

use std::fmt;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fault {
    /// `kill -9` of one daemon.
    KillDaemon,
    /// `kill -9` of all daemons at once.
    KillDaemons,
    /// SIGSTOP of one daemon, SIGCONT later.
    StopDaemon,
    /// `kill -9` of a `tallyd sync --now` that runs beside the daemons.
    KillSync,
    /// `kill -9` of Redis, which syncs its file at every write.
    KillRedis,
    /// SIGSTOP of Redis, SIGCONT later.
    StopRedis,
    /// Nothing arrives at Redis or comes from it; connections stay dead afterwards.
    HoleRedis,
    /// The same for connections that exist; new ones work.
    HoleOldRedis,
    /// Connections to Redis are closed, and new ones refused.
    RefuseRedis,
    /// `CLIENT PAUSE`.
    PauseRedis,
    /// `SCRIPT FLUSH`.
    ForgetScripts,
    /// Redis answers OOM.
    FillRedis,
    /// Redis answers READONLY.
    ReadonlyRedis,
    /// Redis answers MISCONF.
    MisconfiguredRedis,
    /// `kill -9` of MySQL.
    KillMysql,
    /// SIGSTOP of MySQL, SIGCONT later.
    StopMysql,
    /// Nothing arrives at MySQL or comes from it; connections stay dead afterwards.
    HoleMysql,
    /// The same for connections that exist; new ones work.
    HoleOldMysql,
    /// Connections to MySQL are closed, and new ones refused.
    RefuseMysql,
    /// `kill -9` of both servers.
    KillBoth,
    /// FLUSHALL.
    Flush,
    /// A replica that no longer gets what is written becomes the server.
    PromoteReplica,
    /// `kill -9` of Redis, and the end of its append-only file is missing.
    CutFile,
    /// `kill -9` of Redis, and it starts again with files as they were some time before.
    OldFiles,
    /// Some keys of targets are gone, as if evicted.
    Evict,
}

impl Fault {
    const HARMLESS: [Self; 20] = [
        Self::KillDaemon,
        Self::KillDaemons,
        Self::StopDaemon,
        Self::KillSync,
        Self::KillRedis,
        Self::StopRedis,
        Self::HoleRedis,
        Self::HoleOldRedis,
        Self::RefuseRedis,
        Self::PauseRedis,
        Self::ForgetScripts,
        Self::FillRedis,
        Self::ReadonlyRedis,
        Self::MisconfiguredRedis,
        Self::KillMysql,
        Self::StopMysql,
        Self::HoleMysql,
        Self::HoleOldMysql,
        Self::RefuseMysql,
        Self::KillBoth,
    ];
    const LOSSES: [Self; 5] = [Self::Flush, Self::PromoteReplica, Self::CutFile, Self::OldFiles, Self::Evict];
    /// What may go on while data is taken out of Redis, and while it is restored: MySQL is read at that moment.
    const BESIDE_LOSS: [Self; 4] = [Self::KillDaemon, Self::KillDaemons, Self::StopDaemon, Self::KillSync];

    pub fn all() -> impl Iterator<Item = Self> {
        Self::HARMLESS.into_iter().chain(Self::LOSSES)
    }

    /// Whether it takes data out of Redis, so that what MySQL does not hold yet may be lost.
    pub fn loses_data(self) -> bool {
        Self::LOSSES.contains(&self)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Padding, too.
        f.pad(&format!("{self:?}"))
    }
}

/// One fault of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Planned {
    pub fault: Fault,
    /// After the beginning of the step.
    pub after: Duration,
    pub lasting: Duration,
    /// For what else there is to choose: which daemon, how many bytes.
    pub choice: u32,
}

/// Faults that overlap; the next step begins when all have ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Since the end of the step before.
    pub after: Duration,
    pub faults: Vec<Planned>,
}

/// Steps, after which all is checked.
pub type Round = Vec<Step>;

/// How far apart faults are and how long they last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// For the test suite.
    Quick,
    /// With faults that outlast a lease.
    Thorough,
}

/// Rounds with `number` faults in all, of these kinds, each of which has its turn before any comes again.
pub fn draw(seed: u64, number: usize, kinds: &[Fault], pace: Pace) -> Vec<Round> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut deck = Vec::new();
    let (mut rounds, mut left) = (Vec::new(), number);
    while left > 0 {
        let in_round = if pace == Pace::Quick { left } else { random.random_range(10..=20).min(left) };
        let (mut round, mut taken) = (Round::new(), 0);
        while taken < in_round {
            let step = draw_step(&mut random, &mut deck, kinds, pace, in_round - taken);
            taken += step.faults.len();
            round.push(step);
        }
        left -= taken;
        rounds.push(round);
    }
    rounds
}

fn draw_step(random: &mut StdRng, deck: &mut Vec<Fault>, kinds: &[Fault], pace: Pace, at_most: usize) -> Step {
    if deck.is_empty() {
        deck.extend_from_slice(kinds);
        deck.shuffle(random);
    }
    let Some(first) = deck.pop() else { return Step { after: Duration::ZERO, faults: Vec::new() } };
    let mut faults = vec![planned(random, first, pace)];
    if at_most > 1 && random.random_ratio(1, 3) {
        let beside: Vec<Fault> = kinds.iter().copied().filter(|&kind| may_overlap(first, kind)).collect();
        if let Some(&second) = beside.choose(random) {
            // The one that is drawn beside does not have its turn with that.
            let second = planned(random, second, pace);
            let within = millis(faults[0].lasting.as_millis());
            faults.push(Planned { after: Duration::from_millis(random.random_range(0..=within)), ..second });
        }
    }
    let (least, most) = if pace == Pace::Quick { (100, 600) } else { (300, 3000) };
    Step { after: Duration::from_millis(random.random_range(least..=most)), faults }
}

fn may_overlap(first: Fault, second: Fault) -> bool {
    !second.loses_data() && (!first.loses_data() || Fault::BESIDE_LOSS.contains(&second))
}

fn planned(random: &mut StdRng, fault: Fault, pace: Pace) -> Planned {
    let lasting = match pace {
        Pace::Quick => random.random_range(200..=900),
        // Longer than a lease.
        Pace::Thorough if fault == Fault::StopDaemon && random.random_ratio(1, 4) => {
            random.random_range(15_500..=17_000)
        }
        Pace::Thorough => random.random_range(300..=4000),
    };
    Planned { fault, after: Duration::ZERO, lasting: Duration::from_millis(lasting), choice: random.random() }
}

fn millis(duration: u128) -> u64 {
    u64::try_from(duration).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn faults(rounds: &[Round]) -> Vec<Planned> {
        rounds.iter().flatten().flat_map(|step| step.faults.clone()).collect()
    }

    #[test]
    fn a_seed_replays_its_plan_and_another_draws_another() {
        let kinds: Vec<Fault> = Fault::all().collect();
        let plan = |seed| draw(seed, 100, &kinds, Pace::Thorough);
        assert_eq!(plan(7), plan(7));
        assert_ne!(plan(7), plan(8));
    }

    #[test]
    fn as_many_faults_as_asked_for_and_every_kind_about_as_often() {
        let kinds: Vec<Fault> = Fault::all().collect();
        for seed in 0..50 {
            for pace in [Pace::Quick, Pace::Thorough] {
                let rounds = draw(seed, 100, &kinds, pace);
                let faults = faults(&rounds);
                assert_eq!(faults.len(), 100);
                let mut often: BTreeMap<Fault, usize> = BTreeMap::new();
                for planned in &faults {
                    *often.entry(planned.fault).or_default() += 1;
                }
                assert!(kinds.iter().all(|kind| often.get(kind).is_some_and(|&times| times >= 2)), "{often:?}");
                assert!(pace == Pace::Quick || rounds.iter().all(|round| round.len() <= 20));
            }
        }
        assert_eq!(faults(&draw(1, 6, &[Fault::Flush], Pace::Quick)).len(), 6);
        assert!(draw(1, 0, &kinds, Pace::Quick).is_empty());
    }

    #[test]
    fn beside_a_loss_mysql_is_left_alone_and_no_second_loss_comes() {
        let kinds: Vec<Fault> = Fault::all().collect();
        let rounds: Vec<Round> = (0..200).flat_map(|seed| draw(seed, 100, &kinds, Pace::Thorough)).collect();
        let with_loss = rounds.iter().flatten().filter(|step| step.faults.iter().any(|f| f.fault.loses_data()));
        let mut overlapping = 0;
        for step in with_loss.filter(|step| step.faults.len() > 1) {
            overlapping += 1;
            assert!(Fault::BESIDE_LOSS.contains(&step.faults[1].fault), "{step:?}");
        }
        assert!(overlapping > 100, "{overlapping}");
    }
}
