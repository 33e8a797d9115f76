//! tallyd keeps who-did-what and how-many for social interactions: Redis is the live store, MySQL the durable mirror.
//!
//! Writers (the HTTP API, or other programs) record an interaction in Redis: the state of one user with one target in a hash, the count in another, and
//! a mark that says "changed". A scheduled run claims the marks, reads the states behind them, upserts them into
//! MySQL in batches, and forgets the marks once MySQL has committed. There is no message queue; the marks are the
//! queue, and what they point to is the newest state, never a delta, so that everything may safely be done twice.
//!
//! # Invariants
//!
//! 1. A change is acked in Redis only after the transaction that holds it has committed ([`sync`], [`sink::Writer`]).
//! 2. Doing any chunk or run twice leaves the same data as doing it once.
//! 3. A write that lands at any moment of a run is in this run or in the next; of two acknowledged writes to one state
//!    the later one stands ([`store::EventClock`]; in MySQL the newer event time wins).
//! 4. Absence is never written: a lost, evicted or unloaded key does not change a MySQL row.
//! 5. A process that lost its lease commits nothing: the last statement of every transaction requires its token.
//! 6. A Redis that lost writes never reaches MySQL: every read steps a checkpoint that both stores keep, and every
//!    script of a lease holder compares it first ([`store::Holder`]).
//! 7. Memory does not grow with the backlog, and no Redis command is O(N) on an unbounded key.
//! 8. The cost of a run grows with what changed, not with what exists.
//!
//! # A run over one partition
//!
//! 1. **Lease.** `sync_partition` in MySQL: a token one greater than the last owner's, by MySQL's clock.
//! 2. **Check.** One script compares `ckpt` with MySQL's checkpoint. Below it, or missing: Redis lost something that
//!    MySQL holds, and the partition is restored first. Then `ckpt` becomes `<own token>.0`.
//! 3. **Claim.** One script renames the marks out of the writers' way; what a crashed run left comes first.
//! 4. **Read.** Changes in slabs, put in the key order of the table, cut into chunks; the states and counts of a chunk
//!    and a step of `ckpt` are one MULTI. A dirty target without a change is scanned whole, page by page.
//! 5. **Commit.** One transaction a chunk, over two connections: records, counts, what is set aside, and last the
//!    checkpoint, which requires the lease.
//! 6. **Ack.** One script takes away the marks of a committed chunk, in the order in which chunks were read.
//! 7. **Verify.** Each acked target once: a count that disagrees with its complete states is set right and reported.
//!
//! **Replay.** After the check, between slabs and at the end, the holder puts the states of degraded writes back into
//! Redis until their journal is empty: the record row as it is now, unless a pending change is newer. The last script of
//! a batch steps `ckpt`; then one transaction takes the rows out of the journal and stores the checkpoint.
//!
//! # Restoring
//!
//! A pending or in-flight change that is newer than its record row stays, with its state; a counter with a change takes
//! the larger value; every other field is dropped, with its mark, and so are counts, completeness and loaders' locks.
//! Loading takes them from MySQL when they are asked for. Writers go on meanwhile: every script decides by what Redis
//! holds at that moment. Changes are decided about first, with their rows at hand; from then on a state without a change
//! is of the past, and a target that is not dirty has none, so that its hash is dropped in one command. Every script
//! compares `restoring` with what this holder set last, and advances it: a second loss, a second holder or a crash leads
//! to a restore from the beginning. What other programs marked by `dirty` alone, and had not been synced, goes, too: it
//! has no event time by which it could be told from the past.
//!
//! A loss in the middle of a run fences it. If its lease is still its own, it begins again under a new one, twice at most.
//!
//! # Loading
//!
//! A target that Redis does not hold is loaded on first use ([`live`]): whole, by pages, by one loader at a time. A
//! field that is present in Redis wins; an absent one comes from its row and loses its mark; the count is recomputed;
//! then field `0` of the hash says `full`. Every page requires the loader's lock, the lease token of the beginning, no
//! restore, and that the target was clean when the lock was taken, or that no run has taken a step since; a target that
//! a run has in hand is waited for. The last page requires that every row merged is still there: an eviction between
//! two pages would otherwise leave a hash that calls itself full. (The model merges in one step.) `dirty:…:inflight:done` counts as in hand: other changes of such a target may still
//! be in flight.
//!
//! # Where this goes beyond the protocol's description
//!
//! - A counter is only ever raised in MySQL (`GREATEST`). A counter has no states to count it from, so that a Redis
//!   which lost it and began again would otherwise lower it.
//! - A scanned state has no event time. Whether its row waits in the degraded journal is asked *after* the upsert, in
//!   the same transaction: the row is locked by then, so that whoever wrote it to the journal has committed and is
//!   seen, or waits and finds a row that his later event time overrides. Asked before, a journal row that commits
//!   between question and upsert would be missed.
//! - Counts are verified at the end of a drain over `dirty:…:inflight:done`, once a target, not with every chunk: a
//!   target whose changes fill many chunks costs no more than one.
//! - A token in Redis that is newer than a lease which is still ours cannot be another owner's: then MySQL is older
//!   than it was (a restored backup), and the partition is refused with these words. The token is taken back then: it
//!   was never used, and by counting its refusals MySQL would overtake Redis.
//! - A restore takes `ckpt` away at its beginning, and requires its absence, where the protocol leaves it as it was found:
//!   a holder of old, who has lost his lease and does not know it, may find in a Redis of the past the very value that he
//!   set last, and claim the marks out of the restore's sight (an exhaustive search of the protocol's states found this
//!   as soon as the restore took more than one step). Absence proves the loss as well.
//! - The marks of a restored partition are folded: what was in flight joins the other changes, under the newer time, and
//!   only targets with a change that stays are dirty afterwards.
//! - Where a column of times lacks fractions of a second, a row stands for its whole second: no change of that second is
//!   newer than it.
//! - A scanned state that differs from a later row leaves the row, as the protocol says, and is reported as drift: a
//!   writer's clock was ahead, or the table's times are not UTC.
//! - Transactions read what is committed (`READ COMMITTED`) and lock a count row before they count its records:
//!   whoever flips a state moves the count in the same transaction, so that a flip is either counted or still to come.
//!
//! # What is deliberately absent
//!
//! A message queue; deltas; a pool of MySQL connections whose time limits would hide why a server cannot be reached;
//! reconnection inside a run (a run that lost Redis ends, the next one opens a connection of its own).
//!
//! # Dependencies
//!
//! `cli` → [`api`], [`admin`] (both on [`http`]), [`sync`], [`status`], [`check`] → [`live`] → [`store`] (the only user
//! of redis), [`sink`] (the only user of sqlx) → [`model`]. `store` and `sink` do not know each other, and the API
//! knows neither; a test keeps it so. [`metrics`] is told by those who do the work.
//!
//! **TLS.** rustls with ring, for Redis and MySQL alike, installed before anything else in the process: two providers
//! compiled in, or none installed, would panic at the first connection.

pub mod admin;
pub mod api;
pub mod check;
pub mod cli;
pub mod config;
pub mod failpoint;
pub mod http;
mod last_run;
pub mod live;
pub mod logging;
pub mod metrics;
pub mod model;
pub mod schedule;
pub mod sink;
pub mod status;
pub mod store;
pub mod sync;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push((path.display().to_string(), fs::read_to_string(&path).unwrap()));
            }
        }
    }

    #[test]
    fn dependencies_point_inwards() {
        let mut found = Vec::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
        assert!(found.len() > 40, "{}", found.len());
        let forbidden: [(&str, &[&str]); 6] = [
            ("/src/store/", &["sqlx::", "crate::sink", "crate::sync", "crate::cli"]),
            ("/src/sink/", &["redis::", "crate::store", "crate::sync", "crate::cli"]),
            ("/src/model/", &["crate::store", "crate::sink", "crate::sync", "crate::config", "redis::", "sqlx::"]),
            ("/src/sync/", &["sqlx::", "redis::", "crate::cli"]),
            ("/src/api/", &["sqlx::", "redis::", "crate::cli", "crate::store", "crate::sink", "crate::sync"]),
            (
                "/src/http/",
                &["crate::api", "crate::admin", "crate::live", "crate::store", "crate::sink", "crate::sync"],
            ),
        ];
        for (file, text) in &found {
            for (folder, words) in forbidden {
                for word in words.iter().filter(|_| file.contains(folder)) {
                    assert!(!text.contains(word), "{file} uses {word}");
                }
            }
        }
    }
}
