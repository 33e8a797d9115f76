//! A mail server that keeps what it is given, and is as difficult as a test wants.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::home::new_home;

/// How a server is.
#[derive(Clone, Default)]
pub struct SmtpRules {
    /// 0 for any.
    pub port: u16,
    pub tls: Tls,
    /// Mechanism (`PLAIN` or `LOGIN`), user and password that are asked for.
    pub login: Option<(&'static str, &'static str, &'static str)>,
    /// Recipients that are not known here.
    pub unknown: Vec<&'static str>,
    /// What is answered to a whole mail instead of taking it.
    pub full: Option<&'static str>,
    /// How long it thinks about a mail.
    pub slow: Duration,
    /// Takes connections and never says a word.
    pub mute: bool,
    /// Never answers QUIT.
    pub clingy: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tls {
    #[default]
    None,
    Starttls,
    Implicit,
}

/// A mail that was taken.
#[derive(Clone, Debug)]
pub struct Received {
    pub from: String,
    pub to: Vec<String>,
    pub data: Vec<u8>,
    pub encrypted: bool,
    pub user: Option<String>,
}

pub struct Smtp {
    port: u16,
    received: Arc<Mutex<Vec<Received>>>,
    /// Every line that clients sent, outside of mails.
    heard: Arc<Mutex<Vec<String>>>,
    home: TempDir,
    _accepting: JoinSet<()>,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

type Talk = BufReader<Box<dyn Stream>>;

impl Smtp {
    pub async fn start(rules: SmtpRules) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", rules.port)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let home = new_home("smtp");
        let acceptor = certificates(home.path());
        let (received, heard) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<Mutex<Vec<_>>>::default());
        let mut accepting = JoinSet::new();
        let server = Server { rules, acceptor, received: received.clone(), heard: heard.clone() };
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let server = server.clone();
                // A client that goes away in the middle is no failure of the test.
                connections.spawn(async move { server.serve(Box::new(client)).await.unwrap_or_default() });
            }
        });
        Self { port, received, heard, home, _accepting: accepting }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    pub fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    /// The certificate (PEM) that vouches for `localhost` here.
    pub fn ca(&self) -> PathBuf {
        self.home.path().join("ca.pem")
    }
}

/// Writes the authority's certificate, and serves with one that it signed for `localhost`.
fn certificates(folder: &Path) -> TlsAcceptor {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

#[derive(Clone)]
struct Server {
    rules: SmtpRules,
    acceptor: TlsAcceptor,
    received: Arc<Mutex<Vec<Received>>>,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn serve(&self, stream: Box<dyn Stream>) -> std::io::Result<()> {
        if self.rules.mute {
            return std::future::pending().await;
        }
        let mut encrypted = self.rules.tls == Tls::Implicit;
        let mut talk: Talk =
            BufReader::new(if encrypted { Box::new(self.acceptor.accept(stream).await?) } else { stream });
        say(&mut talk, "220 localhost ESMTP").await?;
        let (mut user, mut from, mut to) = (None, String::new(), Vec::new());
        while let Some(line) = self.hear(&mut talk).await? {
            let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
            let locked = self.rules.login.is_some() && user.is_none();
            match verb.to_ascii_uppercase().as_str() {
                "EHLO" => say(&mut talk, &self.greeting(encrypted)).await?,
                "STARTTLS" if self.rules.tls == Tls::Starttls => {
                    say(&mut talk, "220 go ahead").await?;
                    talk = BufReader::new(Box::new(self.acceptor.accept(talk.into_inner()).await?));
                    (encrypted, user) = (true, None);
                }
                "AUTH" => match self.login(&mut talk, rest).await? {
                    Ok(name) => {
                        user = Some(name);
                        say(&mut talk, "235 welcome").await?;
                    }
                    // As rude as a server can be.
                    Err(tried) => say(&mut talk, &format!("535 5.7.8 no: {tried}")).await?,
                },
                "MAIL" | "RCPT" if locked => say(&mut talk, "530 5.7.0 log in first").await?,
                "MAIL" => {
                    from = address(rest);
                    say(&mut talk, "250 ok").await?;
                }
                "RCPT" if self.rules.unknown.iter().any(|unknown| address(rest) == *unknown) => {
                    say(&mut talk, "550 5.1.1 nobody of this name").await?;
                }
                "RCPT" => {
                    to.push(address(rest));
                    say(&mut talk, "250 ok").await?;
                }
                "DATA" => {
                    say(&mut talk, "354 end with a dot").await?;
                    let data = mail(&mut talk).await?;
                    tokio::time::sleep(self.rules.slow).await;
                    if let Some(answer) = self.rules.full {
                        say(&mut talk, answer).await?;
                        continue;
                    }
                    let (from, to) = (std::mem::take(&mut from), std::mem::take(&mut to));
                    let received = Received { from, to, data, encrypted, user: user.clone() };
                    self.received.lock().unwrap().push(received);
                    say(&mut talk, "250 taken").await?;
                }
                "QUIT" if self.rules.clingy => return std::future::pending().await,
                "QUIT" => {
                    say(&mut talk, "221 bye").await?;
                    return Ok(());
                }
                _ => say(&mut talk, "502 what?").await?,
            }
        }
        Ok(())
    }

    async fn hear(&self, talk: &mut Talk) -> std::io::Result<Option<String>> {
        let mut line = String::new();
        if talk.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        let line = line.trim_end().to_owned();
        self.heard.lock().unwrap().push(line.clone());
        Ok(Some(line))
    }

    fn greeting(&self, encrypted: bool) -> String {
        let mut lines = vec!["localhost".to_owned(), "SMTPUTF8".to_owned()];
        if self.rules.tls == Tls::Starttls && !encrypted {
            lines.push("STARTTLS".to_owned());
        }
        if let Some((mechanism, ..)) = self.rules.login {
            lines.push(format!("AUTH {mechanism}"));
        }
        let last = lines.pop().unwrap();
        format!("250-{}\r\n250 {last}", lines.join("\r\n250-"))
    }

    /// The user who logged in, or everything that was tried.
    async fn login(&self, talk: &mut Talk, rest: &str) -> std::io::Result<Result<String, String>> {
        let Some((expected, user, password)) = self.rules.login else { return Ok(Err(String::new())) };
        let mut words = rest.split(' ');
        let mechanism = words.next().unwrap_or_default();
        let mut given: Vec<String> = words.map(str::to_owned).collect();
        let wanted = if mechanism == "LOGIN" { 2 } else { 1 };
        while given.len() < wanted {
            let prompt = STANDARD.encode(if given.is_empty() { "Username:" } else { "Password:" });
            say(talk, &format!("334 {prompt}")).await?;
            given.extend(self.hear(talk).await?);
        }
        let decoded: Vec<String> =
            given.iter().map(|text| String::from_utf8(STANDARD.decode(text).unwrap()).unwrap()).collect();
        let right = match mechanism {
            "PLAIN" => decoded == [format!("\0{user}\0{password}")],
            _ => decoded == [user, password],
        };
        let tried = format!("{} {}", given.join(" "), decoded.join(" ").replace('\0', " "));
        Ok(if right && mechanism == expected { Ok(user.to_owned()) } else { Err(tried) })
    }
}

async fn say(talk: &mut Talk, line: &str) -> std::io::Result<()> {
    talk.write_all(format!("{line}\r\n").as_bytes()).await?;
    talk.flush().await
}

/// A mail up to its dot, with the doubled dots undone.
async fn mail(talk: &mut Talk) -> std::io::Result<Vec<u8>> {
    let mut data = Vec::new();
    loop {
        let mut line = Vec::new();
        if talk.read_until(b'\n', &mut line).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        match line.as_slice() {
            b".\r\n" => return Ok(data),
            [b'.', rest @ ..] => data.extend_from_slice(rest),
            line => data.extend_from_slice(line),
        }
    }
}

/// `a@b.cd` of `FROM:<a@b.cd> SIZE=1`.
fn address(rest: &str) -> String {
    rest.split_once('<')
        .and_then(|(_, rest)| rest.split_once('>'))
        .map(|(address, _)| address.to_owned())
        .unwrap_or_default()
}
