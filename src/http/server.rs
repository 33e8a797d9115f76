//! A listener and its connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::bare::Dressed;
use super::guard::Guarded;

/// The most connections at once to one listener; further ones wait to be accepted.
const CONNECTIONS: usize = 4096;

/// How long the head of a request may take, counted from the end of the answer before it.
const HEAD: Duration = Duration::from_secs(10);

/// How much of a request is held at once, bytes: its head must fit, and bodies are read in pieces. Some more is taken
/// when it arrives together.
const BUFFER: usize = 64 << 10;

/// At the end, how long a connection without a request may stay: for an answer that is still being sent.
const LINGER: Duration = Duration::from_millis(500);

/// How long nothing is accepted after accepting failed, mostly for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// A listener that is bound, and not served yet: connections wait.
#[derive(Debug)]
pub struct Listener {
    name: &'static str,
    socket: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Binds the address of the section `name`, and says so when it is in use or not to be had.
    pub async fn bind(name: &'static str, address: SocketAddr) -> anyhow::Result<Self> {
        let failed = || format!("{name}.listen: cannot listen on {address}");
        let socket = TcpListener::bind(address).await.with_context(failed)?;
        let address = socket.local_addr().with_context(failed)?;
        Ok(Self { name, socket, address })
    }

    /// Where it listens in fact, also when port 0 was asked for.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`. Then it accepts nothing more, lets the requests `at_work` end, and closes connections that
    /// have none; it has no time limit of its own for that.
    pub async fn serve(self, service: Guarded, stop: CancellationToken, at_work: TaskTracker) {
        let Self { name, socket, address } = self;
        tracing::info!("{name} listens on {address}");
        let connections = GracefulShutdown::new();
        let end = CancellationToken::new();
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let accepted = async {
                let place = places.clone().acquire_owned().await;
                (place, socket.accept().await)
            };
            let (place, accepted) = tokio::select! {
                () = stop.cancelled() => break,
                accepted = accepted => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(listener = name, %error, "a connection could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let connection = connections.watch(connection(stream, service.clone()));
            let end = end.clone();
            tokio::spawn(async move {
                tokio::select! {
                    ended = connection => if let Err(error) = ended {
                        tracing::debug!(listener = name, %error, "a connection ended badly");
                    },
                    () = end.cancelled() => {}
                }
                drop(place);
            });
        }
        drop(socket);
        at_work.close();
        // Of a client that is gone there is work, and no connection.
        let done = async {
            connections.shutdown().await;
            at_work.wait().await;
        };
        let idle = async {
            loop {
                at_work.wait().await;
                tokio::time::sleep(LINGER).await;
                if at_work.is_empty() {
                    return;
                }
            }
        };
        tokio::select! {
            () = done => {}
            () = idle => {}
        }
        end.cancel();
    }
}

fn connection(
    stream: TcpStream,
    service: Guarded,
) -> http1::Connection<TokioIo<Dressed<TcpStream>>, TowerToHyperService<Guarded>> {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(BUFFER);
    http.serve_connection(TokioIo::new(Dressed::new(stream)), TowerToHyperService::new(service))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use axum::Router;
    use axum::routing::get;
    use tokio::io::AsyncWriteExt;
    use tokio::sync::Notify;

    use super::super::guard::{Guard, Protects};
    use super::*;
    use crate::config::{Config, Settings};

    #[tokio::test]
    async fn the_end_waits_for_the_work_of_a_client_who_left() {
        let (begun, released) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (begins, release) = (begun.clone(), released.clone());
        let work = async move || {
            begins.notify_one();
            release.notified().await;
        };
        let (at_work, stop) = (TaskTracker::new(), CancellationToken::new());
        let tokens = Settings::new(Config::parse("", [], Path::new("f")).unwrap()).tokens(|config| &config.api.tokens);
        let guard = Guard::new(tokens, Protects::Everything, 1, Duration::from_mins(1), at_work.clone());
        let listener = Listener::bind("api", "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.address();
        let service = guard.before(Router::new().route("/", get(work)));
        let mut serving = tokio::spawn(listener.serve(service, stop.clone(), at_work));

        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        begun.notified().await;
        drop(client);
        stop.cancel();
        assert!(tokio::time::timeout(Duration::from_secs(2), &mut serving).await.is_err(), "it waits");
        released.notify_one();
        tokio::time::timeout(Duration::from_secs(10), serving).await.expect("it ends").unwrap();
    }
}
