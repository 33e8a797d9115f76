//! A client that keeps its connection, as most clients do.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::http::{Http, Reply};

const LIMIT: Duration = Duration::from_secs(30);

/// One request after another on one connection, which is made anew when the server has closed it.
pub struct Connection {
    http: Http,
    stream: Option<TcpStream>,
    /// What was read beyond the last answer.
    rest: Vec<u8>,
    /// How many connections there were so far.
    pub made: usize,
}

impl Connection {
    pub fn to(http: &Http) -> Self {
        Self { http: http.clone(), stream: None, rest: Vec::new(), made: 0 }
    }

    /// A request with the token of `to` and a JSON body, if any.
    pub async fn send(&mut self, method: &str, path: &str, body: &str) -> Reply {
        let json: &[_] = if body.is_empty() { &[] } else { &[("content-type", "application/json")] };
        let head = self.http.head(method, path, json, body);
        self.exchange(format!("{head}\r\n{body}").as_bytes(), method == "HEAD").await.unwrap()
    }

    /// Sends bytes, and reads one answer; `head` when it has no body whatever its length says. An error says why there
    /// is none.
    pub async fn exchange(&mut self, request: &[u8], head: bool) -> Result<Reply, String> {
        if self.stream.is_none() {
            self.rest.clear();
            self.stream = Some(self.http.connect().await);
            self.made += 1;
        }
        let answer = match tokio::time::timeout(LIMIT, self.attempt(request, head)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {LIMIT:?}")),
        };
        let closes = |reply: &Reply| reply.header("connection").is_some_and(|value| value.contains("close"));
        if answer.as_ref().map_or(true, closes) {
            self.stream = None;
        }
        answer
    }

    async fn attempt(&mut self, request: &[u8], head: bool) -> Result<Reply, String> {
        let Some(stream) = &mut self.stream else { return Err("not connected".to_owned()) };
        let (mut from, mut to) = stream.split();
        let mut open = true;
        // Both at once: who refuses early does not read to the end.
        let write = async {
            open = to.write_all(request).await.is_ok();
        };
        let (rest, ()) = tokio::join!(read(&mut from, std::mem::take(&mut self.rest), head), write);
        let (reply, rest) = rest?;
        self.rest = rest;
        if !open {
            self.stream = None;
        }
        Ok(reply)
    }
}

/// One answer, and what came after it.
async fn read(
    from: &mut (impl AsyncReadExt + Unpin),
    mut got: Vec<u8>,
    head: bool,
) -> Result<(Reply, Vec<u8>), String> {
    loop {
        while let Some(at) = got.windows(4).position(|end| end == b"\r\n\r\n") {
            let reply = Reply::parse(&got[..at + 4]);
            let length = reply.header("content-length").map_or(Ok(0), str::parse::<usize>);
            let length = length.map_err(|error| format!("content-length: {error}"))?;
            let length = if head || reply.status < 200 || reply.status == 204 { 0 } else { length };
            if reply.status < 200 {
                // 100 Continue comes before the answer.
                got.drain(..at + 4);
                continue;
            }
            let end = at + 4 + length;
            if got.len() < end {
                break;
            }
            let rest = got.split_off(end);
            return Ok((Reply::parse(&got), rest));
        }
        got.reserve(16_384);
        match from.read_buf(&mut got).await {
            Ok(0) => return Err(format!("closed after {} bytes: {:?}", got.len(), String::from_utf8_lossy(&got))),
            Ok(_) => {}
            Err(error) => return Err(format!("{error} after {} bytes", got.len())),
        }
    }
}
