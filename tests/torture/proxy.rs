//! A network between tallyd and a server, and what can go wrong with it.

use std::sync::Arc;

use rand::RngExt;
use tokio::io::{AsyncReadExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What happens to new connections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum New {
    Forwarded,
    Swallowed,
    Refused,
}

#[derive(Clone, Copy)]
struct State {
    server: u16,
    new: New,
    /// Connections of an earlier generation are cut …
    generation: u64,
    /// … by closing them, or so that neither side learns of it.
    closing: bool,
}

/// Forwards connections to a server on this machine.
#[derive(Clone)]
pub struct Proxy {
    port: u16,
    state: Arc<watch::Sender<State>>,
    _accepting: Arc<JoinSet<()>>,
}

impl Proxy {
    /// In front of the server on this port.
    pub async fn start(server: u16) -> Self {
        let listener = listen_anywhere().await;
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(watch::Sender::new(State { server, new: New::Forwarded, generation: 0, closing: true }));
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, port, state.subscribe()));
        Self { port, state, _accepting: Arc::new(accepting) }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Nothing comes through any more, on connections that exist, and with `new_ones` on those to come.
    pub fn swallow(&self, new_ones: bool) {
        let new = if new_ones { New::Swallowed } else { New::Forwarded };
        self.state
            .send_modify(|state| *state = State { new, generation: state.generation + 1, closing: false, ..*state });
    }

    /// Closes connections, and refuses new ones.
    pub fn refuse(&self) {
        self.cut(New::Refused);
    }

    /// New connections are forwarded again. What was swallowed stays dead.
    pub fn open(&self) {
        self.state.send_modify(|state| state.new = New::Forwarded);
    }

    /// Closes connections, and forwards new ones to the server on this port.
    pub fn turn_to(&self, server: u16) {
        self.state.send_modify(|state| state.server = server);
        self.cut(New::Forwarded);
    }

    fn cut(&self, new: New) {
        self.state
            .send_modify(|state| *state = State { new, generation: state.generation + 1, closing: true, ..*state });
    }
}

/// Below the ports that the kernel gives to outgoing connections: one of those must not take it while it is refused.
async fn listen_anywhere() -> TcpListener {
    loop {
        let port = rand::rng().random_range(10_000..20_000_u16);
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)).await {
            return listener;
        }
    }
}

async fn accept(listener: TcpListener, port: u16, mut state: watch::Receiver<State>) {
    let (mut listener, mut connections) = (Some(listener), JoinSet::new());
    loop {
        let State { new, .. } = *state.borrow_and_update();
        if new == New::Refused {
            listener = None;
        } else if listener.is_none() {
            listener = Some(TcpListener::bind(("127.0.0.1", port)).await.unwrap());
        }
        tokio::select! {
            changed = state.changed() => if changed.is_err() { return },
            client = next(listener.as_ref()) => {
                connections.spawn(serve(client, state.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn next(listener: Option<&TcpListener>) -> TcpStream {
    match listener {
        Some(listener) => match listener.accept().await {
            Ok((client, _)) => client,
            Err(error) => panic!("{error}"),
        },
        None => std::future::pending().await,
    }
}

async fn serve(mut client: TcpStream, mut state: watch::Receiver<State>) {
    let State { server, new, generation, .. } = *state.borrow_and_update();
    if new == New::Swallowed {
        return swallow(client, state).await;
    }
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
    let (_, _) = (client.set_nodelay(true), server.set_nodelay(true));
    let closing = tokio::select! {
        biased;
        cut = state.wait_for(|state| state.generation != generation) => cut.map_or(true, |state| state.closing),
        _ = copy_bidirectional(&mut client, &mut server) => true,
    };
    if closing {
        return;
    }
    // The server's side is held as long as nothing comes through: it cannot know that its client has gone.
    swallow(client, state).await;
    drop(server);
}

/// Until the client has closed it and the network is whole again.
async fn swallow(mut client: TcpStream, mut state: watch::Receiver<State>) {
    let mut nowhere = [0; 4096];
    while let Ok(1..) = client.read(&mut nowhere).await {}
    let _ = state.wait_for(|state| state.new != New::Swallowed).await;
}
