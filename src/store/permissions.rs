//! What the user of the connection may do, and the least that he must be allowed.
//!
//! Redis says whether a user may run a command on a key when the command is queued in a MULTI, and DISCARD executes none
//! of them. So it can be asked by any user, of any version that has users, and changes nothing.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, RedisResult, Value};

use super::{Store, StoreError};
use crate::model::{Id, Partition};

/// Every command that is sent, in scripts and outside, with a word for each key.
const COMMANDS: [&str; 32] = [
    "DEL @restoring",
    "EVAL return 1 @ckpt",
    "EVALSHA 0000000000000000000000000000000000000000 1 @ckpt",
    "EXISTS @restoring",
    "GET @ckpt",
    "HDEL @chg 1",
    "HEXISTS @cnt 1",
    "HGET @cnt 1",
    "HINCRBY @cnt 1 1",
    "HKEYS @states",
    "HLEN @chg",
    "HMGET @cnt 1",
    "HSCAN @chg 0",
    "HSET @chg 1 1",
    "HSETNX @states 1 1",
    "HVALS @states",
    "INFO",
    "PERSIST @cnt",
    "PEXPIRE @lock 1",
    "PING",
    "RENAME @dirty @inflight",
    "SADD @dirty 1",
    "SCAN 0",
    "SCARD @dirty",
    "SCRIPT|LOAD 1",
    "SET @ckpt 1",
    "SISMEMBER @dirty 1",
    "SMOVE @inflight @done 1",
    "SREM @inflight 1",
    "SSCAN @dirty 0",
    "TIME",
    "UNLINK @done",
];

/// What makes a MULTI, and ends one.
const TRANSACTION: [&str; 3] = ["MULTI", "EXEC", "DISCARD"];

const LOOK: &str = "the look at its user's rights";

/// What is refused to the user of a connection.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Permissions {
    /// The user, where he may know.
    pub user: Option<String>,
    /// Commands that he may not run, as an ACL names them.
    pub commands: Vec<String>,
    /// Patterns of keys that he may not read and write.
    pub keys: Vec<String>,
    /// Whether nothing but MULTI, EXEC and DISCARD could be tried, for the want of one of them.
    pub untried: bool,
    /// Whether he may look into the rights of users, as administrators may.
    pub administers: bool,
}

/// The least that a user must be allowed, as rules for `ACL SETUSER`. `version` is that of the server, (7, 0) for 7.0.15.
#[must_use]
pub fn least_rules(store: &Store, database: i64, version: (u32, u32)) -> Vec<String> {
    let mut rules = vec!["resetkeys".to_owned()];
    rules.extend(store.keys.patterns(&store.vocabulary).into_iter().map(|pattern| format!("~{pattern}")));
    if version >= (6, 2) {
        rules.push("resetchannels".to_owned());
    }
    rules.push("-@all".to_owned());
    let mut commands: Vec<_> = TRANSACTION.iter().chain(&COMMANDS).map(|line| name(line).to_lowercase()).collect();
    // The library gives its name to each connection, and is content with a refusal; but a refusal is logged. Between these
    // versions no ACL can name it.
    commands.extend((!((7, 0)..(7, 2)).contains(&version)).then(|| "client|setinfo".to_owned()));
    commands.extend((database != 0).then(|| "select".to_owned()));
    commands.sort();
    rules.extend(commands.iter().map(|command| format!("+{command}")));
    rules
}

impl Store {
    /// Finds out what the user may do. It changes nothing, and needs a connection of its own, which is of no use
    /// afterwards.
    pub async fn permissions(self) -> Result<Permissions, StoreError> {
        let mut connection = self.connection.clone();
        let mut found = Permissions::default();
        // Outside of a MULTI they are errors, of another kind than that of a refusal.
        for end in ["EXEC", "DISCARD"] {
            self.note(end, &mut found, query(&redis::cmd(end), &mut connection).await)?;
        }
        found.untried = !found.commands.is_empty();
        if !found.untried {
            self.note("MULTI", &mut found, query(&redis::cmd("MULTI"), &mut connection).await)?;
            found.untried = !found.commands.is_empty();
        }
        if !found.untried {
            self.queue(&mut found, &mut connection).await?;
            query(&redis::cmd("DISCARD"), &mut connection).await.map_err(self.failed("DISCARD"))?;
        }
        let user: RedisResult<String> = redis::cmd("ACL").arg("WHOAMI").query_async(&mut connection).await;
        if let Ok(user) = &user {
            let rights = query(redis::cmd("ACL").arg("GETUSER").arg(user), &mut connection).await;
            found.administers = rights.is_ok();
        }
        found.user = user.ok();
        Ok(found)
    }

    async fn queue(&self, found: &mut Permissions, connection: &mut MultiplexedConnection) -> Result<(), StoreError> {
        let targets = &self.vocabulary.targets;
        let samples: Vec<_> =
            targets.iter().flat_map(|target| self.keys.samples(&self.vocabulary, target.code)).collect();
        let mut pipe = redis::pipe();
        pipe.ignore_errors();
        for line in COMMANDS {
            pipe.add_command(self.command(line, targets.first().map_or(1, |target| target.code)));
        }
        for (_, key) in &samples {
            pipe.cmd("EVAL").arg("return 1").arg(1).arg(key);
        }
        let answers: RedisResult<Vec<RedisResult<Value>>> = pipe.query_async(connection).await;
        let mut answers = answers.map_err(self.failed(LOOK))?.into_iter();
        for (line, answer) in COMMANDS.iter().zip(answers.by_ref()) {
            self.note(line, found, answer)?;
        }
        for ((pattern, _), answer) in samples.into_iter().zip(answers) {
            if answer.is_err_and(|error| is_of_keys(&error)) && !found.keys.contains(&pattern) {
                found.keys.push(pattern);
            }
        }
        Ok(())
    }

    /// Notes a refusal. Any other answer, or error, says that the user may.
    fn note(&self, line: &str, found: &mut Permissions, answer: RedisResult<Value>) -> Result<(), StoreError> {
        match answer {
            Err(error) if is_refusal(&error) && !is_of_keys(&error) => found.commands.push(name(line).to_lowercase()),
            Err(error) if error.is_io_error() || error.is_timeout() || error.is_connection_dropped() => {
                return Err(self.failed(LOOK)(error));
            }
            _ => {}
        }
        Ok(())
    }

    fn command(&self, line: &str, target_type: u16) -> Cmd {
        let keys = self.keys;
        let partition = Partition { target_type, shard: 0 };
        let states = self.vocabulary.interactions.iter().find(|interaction| interaction.has_states());
        let states = states.or(self.vocabulary.interactions.first()).map_or("", |interaction| &interaction.name);
        let mut command = Cmd::new();
        for word in line.split(' ') {
            match word {
                "@chg" => command.arg(keys.changes(partition)),
                "@ckpt" => command.arg(keys.checkpoint(partition)),
                "@cnt" => command.arg(keys.count(target_type, Id::MIN)),
                "@dirty" => command.arg(keys.dirty(partition)),
                "@done" => command.arg(keys.done(partition)),
                "@inflight" => command.arg(keys.dirty_inflight(partition)),
                "@lock" => command.arg(keys.load_lock(target_type, Id::MIN)),
                "@restoring" => command.arg(keys.restoring(partition)),
                "@states" => command.arg(keys.state(states, target_type, Id::MIN)),
                word => word.split('|').fold(&mut command, |command, word| command.arg(word)),
            };
        }
        command
    }
}

async fn query(command: &Cmd, connection: &mut MultiplexedConnection) -> RedisResult<Value> {
    command.query_async(connection).await
}

/// The name of a command in a line of [`COMMANDS`].
fn name(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

/// That of EXEC is wrapped: `EXECABORT Transaction discarded because of: NOPERM …`.
fn is_refusal(error: &RedisError) -> bool {
    error.code() == Some("NOPERM") || error.detail().is_some_and(|detail| detail.contains("NOPERM"))
}

/// Redis names the command that may not be run, and speaks of keys where the command may and the key may not be touched.
fn is_of_keys(error: &RedisError) -> bool {
    is_refusal(error) && !error.detail().unwrap_or_default().contains("to run the")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The words in capitals that follow one of `before`.
    fn commands(text: &str, before: &[&str]) -> BTreeSet<String> {
        let after = before.iter().flat_map(|before| text.split(before).skip(1));
        after.map(|rest| rest.chars().take_while(char::is_ascii_uppercase).collect()).collect()
    }

    #[test]
    fn every_command_that_is_sent_is_in_the_list() {
        let known: BTreeSet<_> = COMMANDS.iter().map(|line| name(line).to_owned()).collect();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store");
        let mut seen = BTreeSet::new();
        let files =
            |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
        for file in files(&folder).into_iter().chain(files(&folder.join("lua"))).filter(|path| path.is_file()) {
            if file.ends_with("permissions.rs") {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            seen.extend(commands(&text, &["redis.call('", "redis.pcall('", "cmd(\""]));
            let calls = text.matches("redis.call(").count() + text.matches("redis.pcall(").count();
            let named = text.matches("redis.call('").count() + text.matches("redis.pcall('").count();
            assert_eq!(calls, named, "{} calls a command that cannot be told", file.display());
        }
        // A look at `appendfsync` that users may be refused.
        assert!(seen.remove("CONFIG"));
        seen.extend(["EVALSHA", "SCRIPT|LOAD"].map(str::to_owned));
        assert_eq!(seen, known);
    }
}
