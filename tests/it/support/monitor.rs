//! Which commands reach Redis: MONITOR, read while something runs.

use std::time::Duration;

use futures::StreamExt;
use redis::IntoConnectionInfo;

use super::redis::RedisAt;

const LIMIT: Duration = Duration::from_mins(1);

/// A command as Redis executed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Whether a Lua script called it.
    pub from_script: bool,
    /// The command in capitals, then its arguments as they were sent.
    pub words: Vec<String>,
}

impl Command {
    pub fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }
}

pub async fn commands_of(redis: &RedisAt, work: impl AsyncFnOnce()) -> Vec<Command> {
    let database = redis.url().into_connection_info().unwrap().redis_settings().db();
    // Connected before MONITOR begins, so that its greeting is not among the commands.
    let mut end = redis.connect().await;
    let monitor = redis::Client::open(redis.url()).unwrap().get_async_monitor().await.unwrap();
    let mut lines = Box::pin(monitor.into_on_message::<String>());
    let last_word = uuid::Uuid::now_v7().to_string();

    let until = last_word.clone();
    let reading = tokio::spawn(async move {
        let mut commands = Vec::new();
        loop {
            let line = lines.next().await.expect("Redis closed the MONITOR connection");
            let Some((line_database, command)) = parse(&line) else { panic!("not a MONITOR line: {line}") };
            if command.words.get(1) == Some(&until) {
                return commands;
            }
            // Other tests may use other databases of an external Redis.
            if line_database == database {
                commands.push(command);
            }
        }
    });
    work().await;
    redis::cmd("ECHO").arg(&last_word).query_async::<()>(&mut end).await.unwrap();
    tokio::time::timeout(LIMIT, reading).await.expect("MONITOR shows the last command").unwrap()
}

/// Reads `1339518083.107412 [0 127.0.0.1:60866] "set" "key" "value"`.
fn parse(line: &str) -> Option<(i64, Command)> {
    let (origin, words) = line.split_once(" [")?.1.split_once("] ")?;
    let (database, client) = origin.split_once(' ')?;
    let mut words = quoted(words)?;
    words.first_mut()?.make_ascii_uppercase();
    Some((database.parse().ok()?, Command { from_script: client == "lua", words }))
}

/// Words as Redis quotes them: `\n`, `\"`, `\xff` and the like escaped.
fn quoted(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b' ' => continue,
            b'"' => {}
            _ => return None,
        }
        let mut word = Vec::new();
        loop {
            match bytes.next()? {
                b'"' => break,
                b'\\' => word.push(match bytes.next()? {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'a' => 7,
                    b'b' => 8,
                    b'x' => {
                        let digits = [bytes.next()?, bytes.next()?];
                        u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                    }
                    other => other,
                }),
                plain => word.push(plain),
            }
        }
        words.push(String::from_utf8_lossy(&word).into_owned());
    }
    Some(words)
}

#[test]
fn reads_what_monitor_prints() {
    let command =
        |from_script, words: &[&str]| Command { from_script, words: words.iter().map(|&w| w.into()).collect() };
    let line = r#"1339518083.107412 [3 127.0.0.1:60866] "set" "a] \"b\"" "\x41\n" """#;
    assert_eq!(parse(line), Some((3, command(false, &["SET", "a] \"b\"", "A\n", ""]))));
    let line = r#"1339518083.107412 [0 lua] "hset" "like:1:10086" "42" "1""#;
    assert_eq!(parse(line), Some((0, command(true, &["HSET", "like:1:10086", "42", "1"]))));
    assert_eq!(parse("OK"), None);
}
