//! A proxy that can stop forwarding without closing anything: a network that swallows what is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use url::Url;

/// Forwards connections to a server until it is frozen. What was frozen stays so: both sides hold a connection on
/// which nothing comes any more.
pub struct Proxy {
    port: u16,
    frozen: Arc<watch::Sender<bool>>,
    delay_ms: Arc<AtomicU64>,
    _accepting: JoinSet<()>,
}

impl Proxy {
    /// In front of the server of `url`. It freezes by itself once a client has sent `needle` (which still arrives).
    pub async fn start(url: &str, needle: &'static str) -> Self {
        let url = Url::parse(url).unwrap();
        let server = (url.host_str().unwrap().to_owned(), url.port().unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let frozen = Arc::new(watch::Sender::new(false));
        let mut accepting = JoinSet::new();
        let delay_ms: Arc<AtomicU64> = Arc::default();
        let (freeze, delay) = (frozen.clone(), delay_ms.clone());
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(serve(client, server.clone(), freeze.clone(), needle, delay.clone()));
            }
        });
        Self { port, frozen, delay_ms, _accepting: accepting }
    }

    /// A server that accepts connections and never says a word.
    pub async fn black_hole() -> Self {
        let proxy = Self::start("none://127.0.0.1:9", "").await;
        proxy.freeze();
        proxy
    }

    /// `url` by way of this proxy.
    pub fn in_front_of(&self, url: &str) -> String {
        let mut url = Url::parse(url).unwrap();
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(self.port)).unwrap();
        url.into()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn is_frozen(&self) -> bool {
        *self.frozen.borrow()
    }

    /// Nothing is forwarded any more; new connections are accepted, and get no answer.
    pub fn freeze(&self) {
        self.frozen.send_replace(true);
    }

    /// What is sent arrives so much later, either way.
    pub fn delay(&self, time: Duration) {
        self.delay_ms.store(time.as_millis().try_into().unwrap(), Ordering::Relaxed);
    }

    /// New connections are served again.
    pub fn thaw(&self) {
        self.frozen.send_replace(false);
    }
}

async fn serve(
    client: TcpStream,
    server: (String, u16),
    frozen: Arc<watch::Sender<bool>>,
    needle: &'static str,
    delay: Arc<AtomicU64>,
) {
    let mut watching = frozen.subscribe();
    let server = if *watching.borrow() { None } else { TcpStream::connect(server).await.ok() };
    if let Some(server) = server {
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
        // Held here, so that nothing is closed when forwarding stops.
        let (mut there, mut back) = ((from_client, to_server), (from_server, to_client));
        let closed = tokio::select! {
            biased;
            () = until_frozen(&mut watching) => false,
            () = forward(&mut there, needle, &frozen, &delay) => true,
            () = forward(&mut back, "", &frozen, &delay) => true,
        };
        if !closed {
            std::future::pending::<()>().await;
        }
    } else {
        let _held = client;
        std::future::pending::<()>().await;
    }
}

async fn forward(
    (from, to): &mut (OwnedReadHalf, OwnedWriteHalf),
    needle: &'static str,
    frozen: &watch::Sender<bool>,
    delay_ms: &AtomicU64,
) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let sent = &buffer[..length];
        tokio::time::sleep(Duration::from_millis(delay_ms.load(Ordering::Relaxed))).await;
        if to.write_all(sent).await.is_err() {
            return;
        }
        // A needle that two reads cut in two is found the next time it is sent.
        if !needle.is_empty() && sent.windows(needle.len()).any(|window| window == needle.as_bytes()) {
            frozen.send_replace(true);
        }
    }
}

async fn until_frozen(frozen: &mut watch::Receiver<bool>) {
    let _ = frozen.wait_for(|frozen| *frozen).await;
}
