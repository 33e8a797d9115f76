//! Full scans: the claimed targets, and their state hashes page by page.

use redis::{RedisResult, Value};

use super::kept::{Kept, count_value};
use super::read::HashPage;
use super::{BadMark, Holder, Marks, Store, StoreError, keys::TargetKey, mark, script};
use crate::model::{Chunk, CountRow, CountValue, Id, Partition, Reason, RecordRow, Rejected, Source};

/// States asked for in one MULTI, over all its hashes.
const PAGE: usize = 2000;

/// One state hash (or counter) to be scanned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanItem {
    /// The target.
    pub target: Id,
    /// Code of the interaction.
    pub interaction: u16,
    /// Where to go on; `0` at first.
    pub cursor: u64,
}

/// What one page of one hash held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scanned {
    /// The hash, with the cursor to go on from; `0` at its end.
    pub item: ScanItem,
    /// Every user on this page and whether the state is active; each once.
    pub states: Vec<(Id, bool)>,
    /// The Redis count.
    pub count: Option<i64>,
    /// Whether the hash is known to hold every user.
    pub complete: bool,
    /// Whether single users were loaded into it.
    pub partial: bool,
    /// Whether there has been a write since the claim: then count and earlier pages are of different times.
    pub written_meanwhile: bool,
}

impl Holder {
    /// One page of the dirty targets, each with whether this run has acked its changes already.
    pub async fn scan_targets(
        &mut self,
        marks: Marks,
        cursor: u64,
    ) -> Result<(u64, Vec<(Id, bool)>, Vec<BadMark>), StoreError> {
        let key = match marks {
            Marks::Fresh => self.store.keys.dirty(self.partition),
            Marks::Claimed => self.store.keys.dirty_inflight(self.partition),
        };
        let failed = self.store.failed("SSCAN of the dirty targets");
        let mut connection = self.store.connection.clone();
        let (cursor, members): (u64, Vec<Vec<u8>>) = redis::cmd("SSCAN")
            .arg(key)
            .arg(cursor)
            .arg("COUNT")
            .arg(PAGE)
            .query_async(&mut connection)
            .await
            .map_err(&failed)?;
        let (mut targets, mut bad) = (Vec::new(), Vec::new());
        for member in members {
            mark::parse_target(&member).map_or_else(|mark| bad.push(mark), |target| targets.push(target));
        }
        targets.sort_unstable();
        targets.dedup();
        let mut pipe = redis::pipe();
        for target in &targets {
            pipe.cmd("SISMEMBER").arg(self.store.keys.done(self.partition)).arg(target.get());
        }
        let acked: Vec<bool> =
            if targets.is_empty() { vec![] } else { pipe.query_async(&mut connection).await.map_err(&failed)? };
        Ok((cursor, targets.into_iter().zip(acked).collect(), bad))
    }

    /// One page of the targets that this drain has acked.
    pub async fn scan_done(&mut self, cursor: u64) -> Result<(u64, Vec<Id>), StoreError> {
        let mut connection = self.store.connection.clone();
        let (cursor, members): (u64, Vec<Vec<u8>>) = redis::cmd("SSCAN")
            .arg(self.store.keys.done(self.partition))
            .arg(cursor)
            .arg("COUNT")
            .arg(PAGE)
            .query_async(&mut connection)
            .await
            .map_err(self.store.failed("SSCAN of the acked targets"))?;
        Ok((cursor, members.iter().filter_map(|member| mark::parse_target(member).ok()).collect()))
    }

    /// One page of the targets that Redis knows, for a full pass. What a SCAN repeats may come again.
    pub async fn scan_known(&mut self, cursor: u64) -> Result<(u64, Vec<Id>), StoreError> {
        let (cursor, found) = self.store.scan_keys(self.partition, cursor).await?;
        let target = |key: &Vec<u8>| match self.store.keys.parse(self.partition, std::str::from_utf8(key).ok()?)? {
            TargetKey::Count(target) => Some(target),
            TargetKey::State(word, target) => self.store.vocabulary.interaction(&word).map(|_| target),
        };
        Ok((cursor, found.iter().filter_map(target).collect()))
    }

    /// Reads a page of each hash, its count, and steps the checkpoint, in one MULTI.
    ///
    /// The chunk holds the states as rows of the Redis time at which they were read, and counts for the hashes
    /// that this page ends, unless there is neither a state nor a count.
    pub async fn read_scan(&mut self, items: &[ScanItem]) -> Result<(Chunk, Vec<Scanned>), StoreError> {
        let keys = self.store.keys;
        let target_type = self.partition.target_type;
        let mut pipe = self.stepping_pipe();
        pipe.cmd("TIME");
        for item in items {
            let name = self.store.name(item.interaction);
            let state = keys.state(name, target_type, item.target);
            pipe.cmd("HSCAN").arg(&state).arg(item.cursor).arg("COUNT").arg((PAGE / items.len().max(1)).max(10));
            pipe.cmd("HGET").arg(&state).arg(0);
            pipe.cmd("HGET").arg(keys.count(target_type, item.target)).arg(name);
            pipe.cmd("SISMEMBER").arg(keys.dirty(self.partition)).arg(item.target.get());
        }
        let mut answers = self.step_and_read(&pipe).await?.into_iter();
        let mut chunk = self.new_chunk(Source::Scan);
        let time = take::<(i64, i64)>(answers.next()).map_err(self.store.failed("TIME"))?;
        let at_ms = time.0 * 1000 + time.1 / 1000;
        let mut pages = Vec::with_capacity(items.len());
        for item in items {
            let page = take::<HashPage>(answers.next());
            let kept = take::<Option<Vec<u8>>>(answers.next()).unwrap_or_default();
            // What Redis says of a key that is not a hash stands for a count that cannot be read.
            let count = take::<Option<Vec<u8>>>(answers.next()).unwrap_or_else(|e| Some(e.to_string().into_bytes()));
            let written_meanwhile = take::<bool>(answers.next()).unwrap_or(true);
            let (cursor, states) = self.states_on(item, page, &mut chunk.rejected);
            let kept = Kept::of(kept.as_deref());
            let page = Scanned {
                item: ScanItem { cursor, ..*item },
                states,
                count: count.as_deref().and_then(mark::count),
                complete: kept == Kept::Full,
                partial: kept == Kept::Partial,
                written_meanwhile,
            };
            let ScanItem { target, interaction, .. } = *item;
            let row = |&(user, active)| RecordRow { target, interaction, user, active, at_ms };
            chunk.records.extend(page.states.iter().map(row));
            let known = page.count.is_some() || !page.states.is_empty() || item.cursor != 0;
            let counter = self.store.vocabulary.interaction_code(interaction).is_some_and(|i| !i.has_states());
            let vocabulary = &self.store.vocabulary;
            let bad = count.as_deref().and_then(|raw| mark::bad_count(vocabulary, target, interaction, raw));
            chunk.rejected.extend(bad);
            let value = count_value((!counter).then_some(kept), page.count).filter(|_| cursor == 0 && known);
            let settled = !written_meanwhile;
            chunk.counts.extend(value.map(|value| CountRow { target, interaction, value, at_ms, settled }));
            pages.push(page);
        }
        chunk.records.sort_unstable();
        chunk.counts.sort_unstable_by_key(|row| (row.target, row.interaction));
        Ok((chunk, pages))
    }

    /// Where to go on, and the states on a page, each user once; what is no state is set aside.
    fn states_on(
        &self,
        item: &ScanItem,
        page: RedisResult<HashPage>,
        rejected: &mut Vec<Rejected>,
    ) -> (u64, Vec<(Id, bool)>) {
        let name = self.store.name(item.interaction);
        let mut set_aside = |user: &[u8], reason, detail| {
            let mark = format!("{name}:{}:{}", item.target, String::from_utf8_lossy(user));
            rejected.push(Rejected { mark, reason, detail });
        };
        let (cursor, fields) = match page {
            Ok(page) => page,
            Err(error) => {
                set_aside(b"0", Reason::BadState, error.to_string());
                return (0, vec![]);
            }
        };
        let mut states = Vec::with_capacity(fields.len());
        for (user, state) in fields {
            let id = std::str::from_utf8(&user).ok().and_then(|text| text.parse::<Id>().ok());
            match (id, state.as_slice()) {
                _ if user == b"0" => {}
                (Some(id), b"1") => states.push((id, true)),
                (Some(id), b"0") => states.push((id, false)),
                (Some(_), other) => {
                    let detail = format!("the state is {:?}", String::from_utf8_lossy(other));
                    set_aside(&user, Reason::BadState, detail);
                }
                (None, _) => set_aside(&user, Reason::Malformed, "the user id is not an id".to_owned()),
            }
        }
        states.sort_unstable();
        states.dedup_by_key(|(user, _)| *user);
        (cursor, states)
    }

    /// Sets the Redis count of a complete hash to the number of active states that a whole scan saw. Answers
    /// whether it was set: not if anything was written meanwhile.
    pub async fn correct(&mut self, item: &ScanItem, before: i64, active: i64) -> Result<bool, StoreError> {
        let name = self.store.name(item.interaction);
        let mut invocation = self.fenced(&script::CORRECT);
        invocation
            .key(self.store.keys.dirty(self.partition))
            .key(self.store.keys.state(name, self.partition.target_type, item.target))
            .key(self.store.keys.count(self.partition.target_type, item.target))
            .arg(item.target.get())
            .arg(name)
            .arg(before)
            .arg(active);
        self.invoke("the correction of a count", &invocation).await
    }
}

impl Store {
    /// One page of the keys of a partition's targets, besides others: see [`Keys::parse`].
    pub(super) async fn scan_keys(&self, partition: Partition, cursor: u64) -> Result<(u64, Vec<Vec<u8>>), StoreError> {
        let mut connection = self.connection.clone();
        redis::cmd("SCAN")
            .arg(cursor)
            .arg("MATCH")
            .arg(self.keys.target_pattern(partition))
            .arg("COUNT")
            .arg(PAGE)
            .query_async(&mut connection)
            .await
            .map_err(self.failed("SCAN of the known targets"))
    }
}

impl Scanned {
    /// Whether the states say how large the count should be: not in a hash of single users, nor where there are none
    /// and nothing says that there never were.
    #[must_use]
    pub fn vouches(&self) -> bool {
        self.complete || (!self.partial && !self.states.is_empty())
    }

    /// Whether the count is another than `active`, the active states on all pages.
    #[must_use]
    pub fn disagrees(&self, active: i64) -> bool {
        self.count.is_some_and(|count| count != active)
    }
}

/// Gives a count of the chunk another value.
pub fn revalue(chunk: &mut Chunk, item: &ScanItem, value: CountValue) {
    for row in &mut chunk.counts {
        if (row.target, row.interaction) == (item.target, item.interaction) {
            row.value = value;
        }
    }
}

fn take<T: redis::FromRedisValue>(answer: Option<RedisResult<Value>>) -> RedisResult<T> {
    Ok(redis::from_redis_value(answer.unwrap_or(Ok(Value::Nil))?)?)
}
