//! tallyd keeps who-did-what and how-many for social interactions: Redis is the live store, MySQL the durable mirror.
//!
//! Writers (the HTTP API, or other programs) record an interaction in Redis: the state of one user with one target in a
//! hash, the count in another, and a mark that says "changed". A scheduled run claims the marks, reads the states behind
//! them, upserts them into MySQL in batches, and forgets the marks once MySQL has committed. There is no message queue;
//! the marks are the queue, and what they point to is the newest state, never a delta, so that everything may safely be
//! done twice.
//!
//! # Invariants
//!
//! 1. An acknowledged write is in Redis, or in MySQL with its journal row, before the answer is sent ([`live`]).
//! 2. A change is acked in Redis only after the transaction that holds it has committed ([`sync`], [`sink::Writer`]).
//! 3. Doing any chunk, run, replay or restore twice leaves the same data as doing it once.
//! 4. A write that lands at any moment of a run is in this run or in the next; of two acknowledged writes to one state
//!    the later one stands ([`store::EventClock`]; in MySQL the newer event time wins).
//! 5. Absence is never written: a lost, evicted or unloaded key does not change a MySQL row.
//! 6. A process that lost its lease commits nothing: the last statement of every transaction requires its token.
//! 7. A Redis that lost writes never reaches MySQL: every read steps a checkpoint that both stores keep, and every
//!    script of a lease holder compares it first ([`store::Holder`]).
//! 8. Memory does not grow with the backlog, and no Redis command is O(N) on an unbounded key.
//! 9. The cost of a run grows with what changed, not with what exists.
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
//! # Writing
//!
//! One script a call, for one operation or many. Single writes that come while calls are under way share the next one, so
//! that a crowd costs Redis less than one by one; nobody waits for company. A write whose caller gave up before it was sent is
//! not sent: it goes another way, and the deadline in the script is that of the most impatient.
//!
//! # While Redis is away
//!
//! A write whose call to Redis failed goes to MySQL at once ([`sink::Session::degrade`]): in one transaction the record
//! row, its count when the state flips, and a row of the journal, always. The event time is newer than the row's. Writes
//! of many requests share a transaction. Nobody waits for Redis once the breaker ([`live::BreakerState`]) is open.
//!
//! - Away is also a Redis that answers and does nothing (out of memory, a replica, loading …).
//! - The script of a write carries a deadline in Redis' time that is not after the moment at which its caller gives up, so
//!   that a write which went another way does not happen later. One that happened while its answer was lost is harmless:
//!   both ways set the same state.
//! - A probe that succeeds lets *writes* go to Redis again, or the journal would never end; *reads* stay with MySQL until it
//!   is empty. While the breaker is closed, a target of which a single write was degraded is read from MySQL until that is
//!   replayed. What MySQL answers in the place of Redis may lag by what is not synced, and says so (`Tallyd-Source`).
//!
//! # Loading
//!
//! A target that Redis does not hold is loaded on first use ([`live`]), as far as it is wanted, by one loader at a time.
//! A field that is present in Redis wins; an absent one comes from its row and loses its mark.
//!
//! - An interaction whose count row is at most `cache.full_load_limit` is loaded whole, by pages; the count is made from
//!   the states, and field `0` of the hash says `full`. The last page requires that every row merged is still there: an
//!   eviction between two pages would otherwise leave a hash that calls itself full.
//! - A larger one, and every one in the older layout, is loaded by the users who are asked for; field `0` says `partial`.
//!   The count is the count row, if the target was clean when the lock was taken, and is at the end, no step was taken in
//!   between, and the degraded journal, asked after the row was read, has nothing of it. Else it stays unknown, and writes
//!   are recorded without it; MySQL answers for it. A known count is dropped when a field is filled from a row
//!   while the journal, asked after that row was read, has writes of the target. A count beside a hash that says nothing
//!   of itself is not believed then.
//! - A hash that is full needs no rows: a lost count is made from it. What nobody asks for and has hash and count is left
//!   alone: it may be another program's.
//!
//! Every script requires the loader's lock, the lease token of the beginning, no restore, and that the target was clean
//! when the lock was taken, or that no run has taken a step since; a target that a run has in hand is waited for, but
//! briefly. `dirty:…:inflight:done` counts as in hand: other changes of such a target may still be in flight. Requests of
//! one process for one target take turns, and one loads for all.
//!
//! A write needs neither MySQL nor room for loads: where the target cannot be loaded soon, it is accepted
//! ([`store::Unloaded`]): state and marks are recorded, the count and field `0` go, and so does the loader's lock, for a
//! loader that counts page by page relies on nobody writing. This is sound at any time, during restores and runs too.
//!
//! A target of which there is nothing is remembered as empty for a while, and costs two statements. The most active targets
//! are loaded at start and after a restore; those that nobody used for `cache.idle_seconds` are unloaded, if they are
//! clean, nothing of them was set aside, and no counter is ahead of its row; a `ckpt` noted before MySQL was asked vouches
//! for that.
//!
//! # Reconciling
//!
//! A pass ([`mod@reconcile`]) goes through the targets that MySQL knows by ranges of its key, and through those that only
//! Redis knows, under the lease of their partition and after its check. The lease is held in slices, so that runs come in
//! between; while MySQL has much to do, the pass waits. A loss is left to a run.
//!
//! - A look reads Redis with a step, then MySQL as of one moment, then the degraded journal: whoever wrote to the journal
//!   before moved the rows that were read, and his target is skipped. What differs is looked at again, and is drift only if it
//!   still does. Of a target that is dirty or in flight only a count and the states of its own complete hash are held
//!   against each other, for these are of one moment; a state that has a mark is in flight, dirty target or not.
//! - Rows are not read where both sides are alike: MySQL folds the users with an active row into a digest of 64 bits
//!   ([`model::Digest`]), with constants drawn for each look, and so does the look with the active states of a complete
//!   hash. While MySQL answers, Redis is asked for what comes next.
//! - A pass over everything keeps its place in `tallyd_meta`, before the first target that differs and is not repaired yet. One
//!   that ends with its process, or runs out of time, is gone on with from there.
//! - When more than `reconcile.stop_percent` of what was compared differs, nothing is written, unless one target was asked
//!   for by name.
//! - A repair in MySQL is a chunk of scanned rows: it changes only rows that still differ and are not in the journal, counts
//!   under the lock of the count row, and stores the checkpoint of its look. A row is stamped with the Redis time of its
//!   reading, or its own where that is later. A repair in Redis compares the checkpoint, that the target is clean, and the
//!   value that was found. Everything is read back.
//! - **Lost mark or damaged row?** Both show as a state that differs from its row. Where the count row agrees with the
//!   record rows, MySQL is whole and never heard of the change: the mark was lost. Else the row was changed.
//! - **A recount under load.** Writers keep count − active states constant. While a recount is under way, a field beside the
//!   count names a hash into which a writer saves the state that a user had, before he flips it for the first time; without
//!   a recount this costs a write nothing but a second field in a read that it makes anyway. Pages are counted with the saved
//!   state before the present one, each user once. The difference between the count of the beginning and the states of the
//!   beginning is taken off the count at the end, whatever it is by then; whoever drops or makes the count meanwhile takes
//!   the field away, and nothing is changed. Saved states have a time to live.
//! - A dry run takes no lease and makes no step. Large hashes it counts only while nothing of them is marked.
//!
//! # Where this goes beyond the protocol's description
//!
//! - **Two flaws in the loading of single users**, found with the protocol's own checker (`big=1 nu=2 napi=2 cold=1 w=3
//!   runs=2` with `link=1`, or with `my=1`), and mended as above. (1) A degraded write moves the row and the count row; a count
//!   taken before it does not hold it; loading that user's row then puts the state into Redis without the count, and the
//!   replay finds the state as it should be and moves nothing: the count stays wrong by one, on both sides. (2) A target
//!   that was clean when the lock was taken may be written, synced and clean again while the loader holds a count row of
//!   before, under the same lease: the count row requires the very step that was noted. With both rules the checker finds
//!   no violation.
//! - A write is accepted without its target also where a restore, a run or another loader has it in hand for longer than
//!   briefly, not only while MySQL is down.
//! - A counter is only ever raised in MySQL (`GREATEST`). A counter has no states to count it from, so that a Redis
//!   which lost it and began again would otherwise lower it.
//! - A scanned state has no event time. Whether its row waits in the degraded journal is asked *after* the upsert, in
//!   the same transaction: the row is locked by then, so that whoever wrote it to the journal has committed and is
//!   seen, or waits and finds a row that his later event time overrides. Asked before, a journal row that commits
//!   between question and upsert would be missed.
//! - Counts are verified once a target, not with every chunk: with the ack of the last change of it that is held, while
//!   the connections are at work. A drain that goes on from a crashed run, or scans, verifies at its end over
//!   `dirty:…:inflight:done`. A count that was set right is handed over at once and copied before a run that is asked to
//!   stop ends; it has no mark, so that what a crash keeps from its row is left to reconciliation.
//! - A drain holds up to a million changes and copies them in key order. A target is in several chunks only if it is
//!   larger than one; its last chunk waits until those before it are committed. On another connection it could overtake
//!   them, and say that the count is settled while changes in it could still be lost with Redis.
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
//! `cli` → [`api`], [`admin`] (both on [`http`]), [`mod@reconcile`] → [`sync`], [`report`] (the only user of lettre),
//! [`status`], [`check`] → [`live`] → [`store`] (the only user of redis), [`sink`] (the only user of sqlx) → [`model`].
//! `store` and `sink` do not know each other, and the API knows neither; a test keeps it so. [`metrics`] is told by those
//! who do the work, and so is [`pulse`]. [`service`] stands beside `cli`: what systemd is told, and reloading.
//!
//! **TLS.** rustls with ring, for Redis, MySQL and mail alike, installed before anything else in the process: two
//! providers compiled in, or none installed, would panic at the first connection.

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
pub mod pulse;
pub mod reconcile;
pub mod report;
pub mod schedule;
pub mod service;
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
        let forbidden: [(&str, &[&str]); 10] = [
            ("/src/store/", &["sqlx::", "crate::sink", "crate::sync", "crate::cli"]),
            ("/src/sink/", &["redis::", "crate::store", "crate::sync", "crate::cli"]),
            ("/src/model/", &["crate::store", "crate::sink", "crate::sync", "crate::config", "redis::", "sqlx::"]),
            ("/src/report/", &["sqlx::", "redis::", "crate::cli", "crate::store"]),
            ("/src/sync/", &["sqlx::", "redis::", "crate::cli", "crate::reconcile", "crate::report"]),
            ("/src/pulse.rs", &["crate::"]),
            ("/src/config/", &["crate::sync", "crate::live", "crate::service", "crate::cli"]),
            ("/src/reconcile/", &["sqlx::", "redis::", "crate::cli", "crate::api", "crate::live"]),
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
