//! A client that keeps its connection and takes a lost one for an answer.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::Reply;

/// Longer than any fault lasts: who gave up earlier could not know that a stopped daemon does not do it later.
const LIMIT: Duration = Duration::from_secs(45);

/// Why there is no answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// The request was not sent.
    NotSent,
    /// The connection was lost after it was sent: it may have been done.
    Lost,
    /// The connection stands, and nothing came: no request may take that long.
    Hangs,
}

/// One request after another to one daemon.
#[derive(Default)]
pub struct Client {
    connection: Option<(SocketAddr, TcpStream)>,
}

impl Client {
    /// Ready to send; an address that refuses counts as not sent.
    pub async fn connect(&mut self, to: SocketAddr) -> Result<(), NoAnswer> {
        if self.connection.as_ref().is_none_or(|(address, _)| *address != to) {
            let stream = TcpStream::connect(to).await.map_err(|_| NoAnswer::NotSent)?;
            let _ = stream.set_nodelay(true);
            self.connection = Some((to, stream));
        }
        Ok(())
    }

    pub async fn send(&mut self, to: SocketAddr, method: &str, path: &str, body: &str) -> Result<Reply, NoAnswer> {
        self.connect(to).await?;
        let Some((_, mut stream)) = self.connection.take() else { return Err(NoAnswer::NotSent) };
        let (kind, length) = ("content-type: application/json", body.len());
        let request =
            format!("{method} {path} HTTP/1.1\r\nhost: tallyd\r\n{kind}\r\ncontent-length: {length}\r\n\r\n{body}");
        match tokio::time::timeout(LIMIT, exchange(&mut stream, request.as_bytes())).await {
            Ok(Some(reply)) => {
                if reply.header("connection") != Some("close") {
                    self.connection = Some((to, stream));
                }
                Ok(reply)
            }
            Ok(None) => Err(NoAnswer::Lost),
            Err(_) => Err(NoAnswer::Hangs),
        }
    }
}

/// `None` when the connection is lost.
async fn exchange(stream: &mut TcpStream, request: &[u8]) -> Option<Reply> {
    stream.write_all(request).await.ok()?;
    let mut answer = Vec::new();
    loop {
        if let Some(head) = answer.windows(4).position(|end| end == b"\r\n\r\n") {
            let length: usize = Reply::parse(&answer[..head + 4]).header("content-length")?.parse().ok()?;
            if answer.len() >= head + 4 + length {
                return Some(Reply::parse(&answer));
            }
        }
        if stream.read_buf(&mut answer).await.ok()? == 0 {
            return None;
        }
    }
}
