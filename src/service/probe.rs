//! A listener is alive when it answers, through TCP, as it would answer anybody.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::config::Tokens;
use crate::pulse::Pulses;

/// Between two requests.
const OFTEN: Duration = Duration::from_secs(5);
/// How long an answer may take: connections that came before are accepted before.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a listener may answer nothing.
const LIMIT: Duration = Duration::from_secs(45);

/// How a listener is asked.
pub struct Probe {
    /// Its name in the log.
    pub name: &'static str,
    /// Where it listens.
    pub address: SocketAddr,
    /// Method and path: something that costs nothing.
    pub ask: &'static str,
    /// The tokens of which one is shown, where they are needed for it.
    pub tokens: Option<Tokens>,
}

/// Asks a listener now and then, until `stop` is cancelled. Any answer is a sign of life: what it says is for clients.
pub async fn keep_probing(probe: Probe, pulses: Pulses, stop: CancellationToken) {
    let Probe { name, address, ask, tokens } = probe;
    let pulse = pulses.add(name, LIMIT);
    let _until_end = pulse.until_dropped();
    let address = reachable(address);
    while tokio::time::timeout(OFTEN, stop.cancelled()).await.is_err() {
        let token = tokens.as_ref().and_then(|tokens| tokens.now(|tokens| tokens.first().cloned()));
        let bearer = token.map(|token| format!("authorization: Bearer {}\r\n", token.expose())).unwrap_or_default();
        let request = format!("{ask} HTTP/1.1\r\nhost: {address}\r\n{bearer}connection: close\r\n\r\n");
        match tokio::time::timeout(PATIENCE, answers(address, &request)).await {
            Ok(Ok(true)) => pulse.beat(),
            Ok(Ok(false)) => tracing::debug!(listener = name, "a probe was answered by something else than HTTP"),
            Ok(Err(error)) => tracing::debug!(listener = name, %error, "a probe failed"),
            Err(_) => tracing::debug!(listener = name, "a probe was not answered in time"),
        }
    }
}

async fn answers(address: SocketAddr, request: &str) -> io::Result<bool> {
    let mut connection = TcpStream::connect(address).await?;
    connection.write_all(request.as_bytes()).await?;
    let mut beginning = [0; 9];
    connection.read_exact(&mut beginning).await?;
    Ok(beginning == *b"HTTP/1.1 ")
}

/// Where a listener is reached from this machine.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::pulse::Trouble;

    #[tokio::test]
    async fn a_listener_that_answers_beats_and_a_silent_one_is_stuck() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (pulses, stop) = (Pulses::default(), CancellationToken::new());
        let (name, address) = ("test", listener.local_addr().unwrap());
        let probe = Probe { name, address, ask: "GET /healthz", tokens: None };
        let probing = tokio::spawn(keep_probing(probe, pulses.clone(), stop.clone()));
        let accept = async || tokio::time::timeout(3 * OFTEN, listener.accept()).await.unwrap().unwrap().0;
        let mut connection = accept().await;
        let stuck = [Trouble::Stuck(name.to_owned(), LIMIT)];
        assert_eq!(pulses.look(LIMIT), stuck);
        let mut request = vec![0; 1000];
        let length = connection.read(&mut request).await.unwrap();
        assert!(request[..length].starts_with(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1:"));
        connection.write_all(b"HTTP/1.1 503 Service Unavailable\r\n\r\n").await.unwrap();
        // It has read the answer when it asks again.
        let _silent = accept().await;
        assert_eq!(pulses.look(LIMIT), []);
        assert_eq!(pulses.look(LIMIT), stuck);
        stop.cancel();
        probing.abort();
        assert!(probing.await.is_err());
        assert_eq!(pulses.look(LIMIT), [], "nobody looks any more");
    }

    #[tokio::test]
    async fn only_an_answer_is_a_sign_of_life() {
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let address = reachable(listener.local_addr().unwrap());
        assert!(address.ip().is_loopback());
        for (answer, alive) in [("HTTP/1.1 401 Unauthorized\r\n\r\n", true), ("220 mail.example.com ESMTP\r\n", false)]
        {
            let (answered, ()) = tokio::join!(answers(address, "GET / HTTP/1.1\r\n\r\n"), async {
                let (mut connection, _) = listener.accept().await.unwrap();
                let mut request = [0; 18];
                connection.read_exact(&mut request).await.unwrap();
                connection.write_all(answer.as_bytes()).await.unwrap();
            });
            assert_eq!(answered.unwrap(), alive);
        }
        // It accepts, and never answers.
        let silent = tokio::time::timeout(Duration::from_millis(50), answers(address, "GET / HTTP/1.1\r\n\r\n")).await;
        assert!(silent.is_err());
        drop(listener);
        assert!(answers(address, "GET / HTTP/1.1\r\n\r\n").await.is_err());
    }
}
