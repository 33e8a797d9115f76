//! A client that sends what it is told, byte for byte: also what no library would send.

use std::net::SocketAddr;
use std::ops::Deref;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::daemon::Daemon;

/// No answer of a test takes this long unless it hangs.
const LIMIT: Duration = Duration::from_mins(1);

/// A daemon that listens; killed when dropped.
pub struct Served {
    pub daemon: Daemon,
    pub admin: Http,
    api: Option<Http>,
}

impl Served {
    pub async fn by(daemon: Daemon, with_api: bool) -> Self {
        let admin = Http::new(address(&daemon, "admin").await);
        let api = if with_api { Some(Http::new(address(&daemon, "api").await)) } else { None };
        Self { daemon, admin, api }
    }

    pub fn api(&self) -> &Http {
        self.api.as_ref().expect("started without --no-api")
    }
}

impl Deref for Served {
    type Target = Daemon;

    fn deref(&self) -> &Daemon {
        &self.daemon
    }
}

async fn address(daemon: &Daemon, name: &str) -> SocketAddr {
    let words = format!("{name} listens on ");
    loop {
        let log = daemon.wait_for_log(&words, LIMIT).await;
        // The line may not be complete yet.
        let rest = log.split_once(&words).and_then(|(_, rest)| rest.split_once('\n'));
        if let Some((address, _)) = rest {
            return address.trim().parse().unwrap();
        }
    }
}

/// Where requests go to, and the token they bear.
#[derive(Clone, Debug)]
pub struct Http {
    pub address: SocketAddr,
    token: Option<String>,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: String,
}

impl Http {
    fn new(address: SocketAddr) -> Self {
        Self { address, token: None }
    }

    pub fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], "").await
    }

    pub async fn put(&self, path: &str) -> Reply {
        self.send("PUT", path, &[], "").await
    }

    pub async fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, &[], "").await
    }

    pub async fn post(&self, path: &str, body: impl AsRef<str>) -> Reply {
        self.send("POST", path, &[("content-type", "application/json")], body.as_ref()).await
    }

    /// One request on a connection of its own.
    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let head = self.head(method, path, &[headers, &[("connection", "close")]].concat(), body);
        self.exchange(format!("{head}\r\n{body}").as_bytes()).await
    }

    /// The lines before the empty one: with the token, and with the length of a body that is not empty.
    pub fn head(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
        let bearer = self.token.as_ref().map(|token| format!("authorization: Bearer {token}"));
        let length = (!body.is_empty()).then(|| format!("content-length: {}", body.len()));
        let fixed = [format!("{method} {path} HTTP/1.1"), "host: tallyd".to_owned()];
        let given = headers.iter().map(|(name, value)| format!("{name}: {value}"));
        let lines: Vec<String> = fixed.into_iter().chain(bearer).chain(given).chain(length).collect();
        lines.join("\r\n") + "\r\n"
    }

    /// Sends bytes on a connection of its own, and reads what comes until the other side closes it.
    pub async fn exchange(&self, request: &[u8]) -> Reply {
        let mut connection = self.connect().await;
        // A server that refuses may close before it has read everything.
        let _ = connection.write_all(request).await;
        let mut answer = Vec::new();
        let read = tokio::time::timeout(LIMIT, connection.read_to_end(&mut answer)).await;
        assert!(matches!(read, Ok(Ok(_))) || !answer.is_empty(), "no answer: {read:?}");
        Reply::parse(&answer)
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }
}

impl Reply {
    pub fn parse(answer: &[u8]) -> Self {
        let text = String::from_utf8_lossy(answer);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("not HTTP: {text:?}"));
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        Self { status: status.expect("a status"), headers: lines.filter_map(header).collect(), body: body.to_owned() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|header| header.0 == name).map(|header| header.1.as_str())
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{} not JSON: {e}: {}", self.status, self.body))
    }

    /// Itself, when the status is `status`.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.body);
        self
    }

    /// Itself, when it is an error of this name and complete.
    #[track_caller]
    pub fn expect_problem(self, status: u16, name: &str) -> Self {
        let body = self.json();
        assert_eq!((self.status, body["type"].as_str()), (status, Some(format!("urn:tallyd:problem:{name}").as_str())));
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(body["status"].as_u64(), Some(u64::from(status)));
        assert!(
            ["title", "detail"].iter().all(|key| body[key].as_str().is_some_and(|text| !text.is_empty())),
            "{body}"
        );
        assert!(self.header("x-request-id").is_some_and(|id| !id.is_empty()));
        assert_eq!(self.header("retry-after").is_some(), [429, 503].contains(&status));
        assert_eq!(self.header("allow").is_some(), status == 405);
        assert_eq!(self.header("www-authenticate"), (status == 401).then_some("Bearer"));
        self
    }
}
