//! What Redis holds: whether there is room for more, and what a crash leaves of it.

use super::{Finding, Level, bad, ok};
use crate::store::ServerFacts;

/// From so many percent of `maxmemory` on, it is time to act.
const NEARLY_FULL: u128 = 90;

/// From so many percent of the machine on, a copy of what changes while it is saved may find no room.
const NO_ROOM_TO_SAVE: u128 = 50;

/// What a change that waits takes, bytes, measured.
const MARK: u64 = 107;

pub(super) const AND_IN_FILE: &str = "and the same in redis.conf";

pub(super) fn memory(facts: &ServerFacts) -> Finding {
    const NAME: &str = "redis memory";
    let ServerFacts { used_memory: used, max_memory: limit, eviction_policy: policy, machine_memory: machine, .. } =
        facts;
    let percent = |of: u64| u128::from(*used) * 100 / u128::from(of.max(1));
    let room = |of: u64| {
        let marks = of.saturating_sub(*used) / MARK;
        if marks < 2_000_000 { format!("{marks} changes") } else { format!("{} million changes", marks / 1_000_000) }
    };
    if *limit == 0 {
        let detail = format!("{used} bytes used, no limit (maxmemory is 0)");
        if *machine == 0 {
            return ok(NAME, detail);
        }
        let share = percent(*machine);
        let detail = format!("{detail}, {share} % of the machine's {machine}");
        let saves = facts.append_only || facts.save.as_deref().is_some_and(|save| !save.is_empty());
        if share >= NEARLY_FULL || (saves && share >= NO_ROOM_TO_SAVE) {
            let detail =
                format!("{detail}: when Redis saves, it may need as much again, and is killed where there is none");
            let fix = "give the machine more memory, or let less stay in Redis (cache.idle_seconds)";
            return bad(NAME, Level::Warn, detail, fix);
        }
        return ok(NAME, format!("{detail}, room for a backlog of about {}", room(*machine)));
    }
    let percent = percent(*limit);
    let detail = format!("{used} of {limit} bytes used, {percent} % of maxmemory");
    if percent < NEARLY_FULL {
        return ok(NAME, format!("{detail}, room for a backlog of about {}", room(*limit)));
    }
    let (level, detail) = if policy != "noeviction" {
        (
            Level::Warn,
            format!("{detail}: at the limit, Redis throws keys away ({policy}), and writes fail when it cannot"),
        )
    } else if percent < 100 {
        (Level::Warn, format!("{detail}: at the limit, every write fails with OOM"))
    } else {
        (Level::Fail, format!("{detail}: every write fails with OOM"))
    };
    let more = (used.saturating_mul(2) >> 20).saturating_add(1) << 20;
    if *machine > 0 && more / 3 * 4 > *machine {
        let fix = "give the machine more memory and raise maxmemory, or let less stay in Redis (cache.idle_seconds)";
        return bad(NAME, level, detail, fix);
    }
    bad(NAME, level, detail, AND_IN_FILE).by(format!("redis-cli CONFIG SET maxmemory {more}"))
}

pub(super) fn persistence(facts: &ServerFacts) -> Finding {
    const NAME: &str = "redis persistence";
    let broken = |what: &str, fix: &str, command: &str| {
        bad(NAME, Level::Warn, what, format!("once its disk has room and its log says why, {fix}")).by(command)
    };
    let [append_written, append_rewritten] = facts.append_works;
    if facts.append_only && !append_written {
        let detail = "Redis could not write its append-only file, and refuses writes until it can";
        return bad(NAME, Level::Fail, detail, "give its disk room, or mend what its log says; it goes on by itself");
    }
    if !facts.saved && facts.save.as_deref() != Some("") {
        let detail = "the last snapshot failed: Redis refuses writes until one succeeds, unless stop-writes-on-bgsave-error \
             is no";
        return broken(detail, "and check again", "redis-cli BGSAVE");
    }
    if facts.append_only && !append_rewritten {
        let detail = "the append-only file could not be written anew: it grows until the disk is full";
        return broken(detail, "and check again", "redis-cli BGREWRITEAOF");
    }
    if facts.append_only {
        ok(NAME, appended(facts))
    } else {
        snapshots(facts).by("redis-cli CONFIG SET appendonly yes")
    }
}

fn appended(facts: &ServerFacts) -> String {
    let lost = match facts.append_fsync.as_deref() {
        Some("always") => "appendfsync is always: a crash loses nothing that was acknowledged",
        Some("no") => "appendfsync is no: a crash of the machine loses what the system has not written yet, some 30 s",
        Some("everysec") => "appendfsync is everysec: a crash loses about the last second that is not synced yet",
        _ => "a crash loses what appendfsync allows that is not synced yet, about a second with everysec",
    };
    let failover = if facts.replicas.is_empty() { "" } else { "; a failover loses what the replica lagged" };
    format!("the append-only file is on, {lost}{failover}")
}

fn snapshots(facts: &ServerFacts) -> Finding {
    let age = (facts.now_ms / 1000).saturating_sub(facts.saved_at).max(0);
    let unsaved = facts.unsaved;
    let lost = match facts.save.as_deref() {
        Some("") => {
            "no append-only file, and no snapshots: when Redis ends, every write is lost that is not synced yet"
                .to_owned()
        }
        _ => format!(
            "no append-only file: a crash of Redis loses every write since its last snapshot that is not synced yet; the \
             last was {age} s ago, and {unsaved} keys or fields changed since"
        ),
    };
    bad("redis persistence", Level::Warn, lost, AND_IN_FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(used_memory: u64, max_memory: u64, policy: &str) -> ServerFacts {
        let append_works = [true, true];
        let eviction_policy = policy.into();
        ServerFacts { used_memory, max_memory, eviction_policy, append_works, saved: true, ..ServerFacts::default() }
    }

    #[test]
    fn memory_is_warned_of_from_ninety_percent_on() {
        for (used, limit, level) in [
            (u64::MAX, 0, Level::Ok),
            (899, 1000, Level::Ok),
            (900, 1000, Level::Warn),
            (999, 1000, Level::Warn),
            (1000, 1000, Level::Fail),
            (u64::MAX, 1, Level::Fail),
        ] {
            assert_eq!(memory(&facts(used, limit, "noeviction")).level, level, "{used} of {limit}");
        }
        assert!(memory(&facts(5, 0, "noeviction")).detail.contains("no limit"));
        assert_eq!(memory(&facts(1000, 1000, "volatile-lru")).level, Level::Warn, "keys go before writes fail");
    }

    #[test]
    fn without_a_limit_the_machine_is_the_limit() {
        let found = |used, save: &str, append_only| {
            let facts = facts(used, 0, "noeviction");
            memory(&ServerFacts { machine_memory: 1000, append_only, save: Some(save.to_owned()), ..facts }).level
        };
        assert_eq!([found(499, "3600 1", true), found(500, "", false), found(899, "", false)], [Level::Ok; 3]);
        assert_eq!([found(500, "3600 1", false), found(500, "", true), found(900, "", false)], [Level::Warn; 3]);
        let more = memory(&ServerFacts { machine_memory: 8 << 30, ..facts(1000, 1000, "noeviction") });
        assert_eq!(more.command.as_deref(), Some("redis-cli CONFIG SET maxmemory 1048576"));
        let none = memory(&ServerFacts { machine_memory: 1 << 30, ..facts(1 << 30, 1 << 30, "noeviction") });
        assert_eq!((none.level, none.command), (Level::Fail, None), "the machine has no more");
    }

    #[test]
    fn what_can_be_lost_is_told() {
        let on = ServerFacts { append_only: true, now_ms: 100_000, saved_at: 70, unsaved: 12, ..facts(0, 0, "") };
        assert_eq!(persistence(&on).level, Level::Ok);
        let off = ServerFacts { append_only: false, save: Some("3600 1".to_owned()), ..on.clone() };
        let found = persistence(&off);
        assert_eq!((found.level, found.command.as_deref()), (Level::Warn, Some("redis-cli CONFIG SET appendonly yes")));
        assert!(found.detail.contains("30 s ago, and 12 "), "{}", found.detail);
        let nothing = persistence(&ServerFacts { save: Some(String::new()), ..off.clone() });
        assert!(nothing.detail.contains("no snapshots"), "{}", nothing.detail);
        let level = |facts: ServerFacts| persistence(&facts).level;
        assert_eq!(level(ServerFacts { append_works: [false, true], ..on.clone() }), Level::Fail);
        assert_eq!(level(ServerFacts { append_works: [true, false], ..on.clone() }), Level::Warn);
        let failed = ServerFacts { saved: false, ..on };
        assert_eq!(persistence(&failed).command.as_deref(), Some("redis-cli BGSAVE"));
        assert_eq!(level(ServerFacts { save: Some(String::new()), ..failed }), Level::Ok, "nobody asks for snapshots");
    }
}
