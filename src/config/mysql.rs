//! The `[mysql]` section.

use std::path::PathBuf;
use std::time::Duration;

use super::error::Problem;
use super::secret::{Secret, SecretFiles, readable};
use super::server_url::ServerUrl;
use super::{fields, raw};

/// MySQL's own port.
const PORT: u16 = 3306;

/// How to reach MySQL or MariaDB.
#[derive(Clone, Debug)]
pub struct MysqlConfig {
    /// Name or address of the server, IPv6 without brackets; of no use when there is a socket.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The socket to use instead of host and port.
    pub socket: Option<PathBuf>,
    /// The user.
    pub user: String,
    /// The user's password.
    pub password: Option<Secret>,
    /// The database.
    pub database: String,
    /// How far to insist on TLS. It verifies certificates whenever there is a `ca_file`.
    pub ssl_mode: SslMode,
    /// Certificates in PEM form to trust instead of the system's; readable at load.
    pub ca_file: Option<PathBuf>,
    /// The most connections at once.
    pub max_connections: u32,
    /// The longest that a connection or a statement may take.
    pub timeout: Duration,
}

/// How far to insist on TLS, in the words of MySQL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SslMode {
    /// No TLS.
    Disabled,
    /// TLS when the server has it.
    Preferred,
    /// TLS or no connection; any certificate will do.
    Required,
    /// The certificate must be signed by a trusted authority.
    VerifyCa,
    /// And it must be that of the host.
    VerifyIdentity,
}

const SSL_MODES: [(&str, SslMode); 5] = [
    ("DISABLED", SslMode::Disabled),
    ("PREFERRED", SslMode::Preferred),
    ("REQUIRED", SslMode::Required),
    ("VERIFY_CA", SslMode::VerifyCa),
    ("VERIFY_IDENTITY", SslMode::VerifyIdentity),
];

impl MysqlConfig {
    /// Which server and database, to print: `127.0.0.1:3306/tallyd`, `/run/mysqld/mysqld.sock/tallyd`.
    #[must_use]
    pub fn address(&self) -> String {
        let database = &self.database;
        match &self.socket {
            Some(path) => format!("{}/{database}", path.display()),
            None if self.host.contains(':') => format!("[{}]:{}/{database}", self.host, self.port),
            None => format!("{}:{}/{database}", self.host, self.port),
        }
    }

    pub(super) fn resolve(raw: &raw::Mysql, files: &SecretFiles) -> Result<Self, Problem> {
        let url = ServerUrl::parse("mysql.url", &raw.url)?;
        if !["mysql", "mariadb"].contains(&url.scheme.as_str()) {
            return Err(url.problem("does not begin with mysql://"));
        }
        let (mut ssl_mode, mut socket) = (None, None);
        for (name, value) in &url.parameters {
            match name.as_str() {
                "ssl-mode" => {
                    let known = SSL_MODES.iter().find(|(word, _)| word.eq_ignore_ascii_case(value));
                    let what = "its ssl-mode is none of DISABLED, PREFERRED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY";
                    ssl_mode = Some(known.ok_or_else(|| url.problem(what))?.1);
                }
                "socket" if value.starts_with('/') => socket = Some(PathBuf::from(value)),
                "socket" => return Err(url.problem("its parameter socket is not an absolute path")),
                other => return Err(unknown_parameter(&url, other)),
            }
        }
        let Some(database) = url.path_name()? else {
            return Err(url.problem("names no database; write mysql://USER@HOST:PORT/DATABASE"));
        };
        let Some(user) = url.user.clone() else {
            return Err(url.problem("names no user; write mysql://USER@HOST:PORT/DATABASE"));
        };
        let host = match url.host.clone() {
            Some(host) => host,
            None if socket.is_some() => "localhost".to_owned(),
            None => return Err(url.problem("names no host; write mysql://USER@HOST:PORT/DATABASE")),
        };
        let password = match (files.password("mysql.password_file", raw.password_file.as_deref())?, &url.password) {
            (Some(_), Some(_)) => {
                let what = "mysql.url holds a password too; leave one of them out";
                return Err(Problem::new("mysql.password_file", what));
            }
            (file, in_url) => file.or_else(|| in_url.clone()),
        };
        let ca_file = readable("mysql.ca_file", raw.ca_file.as_deref())?;
        Ok(Self {
            host,
            port: url.port.unwrap_or(PORT),
            socket,
            user,
            password,
            database,
            ssl_mode: insist(ssl_mode, ca_file.is_some())?,
            ca_file,
            max_connections: fields::within("mysql.max_connections", raw.max_connections, 1..=10_000)?,
            timeout: fields::milliseconds("mysql.timeout_ms", raw.timeout_ms, 600_000)?,
        })
    }
}

/// As MySQL's own clients do: a file of certificates means that certificates are verified.
fn insist(given: Option<SslMode>, has_ca: bool) -> Result<SslMode, Problem> {
    match (given, has_ca) {
        (None, false) => Ok(SslMode::Preferred),
        (None, true) => Ok(SslMode::VerifyCa),
        (Some(SslMode::Disabled | SslMode::Preferred | SslMode::Required), true) => {
            let what =
                "has no effect with the ssl-mode in mysql.url; write ssl-mode=VERIFY_IDENTITY or VERIFY_CA there";
            Err(Problem::new("mysql.ca_file", what))
        }
        (Some(mode), _) => Ok(mode),
    }
}

fn unknown_parameter(url: &ServerUrl, name: &str) -> Problem {
    let letters: String = name.chars().filter(char::is_ascii_alphabetic).collect();
    let meant = match letters.to_ascii_lowercase().as_str() {
        "sslmode" | "tlsmode" | "ssl" | "tls" | "usessl" | "requiressl" => "the right spelling is ssl-mode",
        "sslca" | "tlsca" => "certificates to trust go into mysql.ca_file",
        "unixsocket" => "the right spelling is socket",
        _ => "there are ssl-mode and socket",
    };
    url.problem(format!("knows no parameter {}; {meant}", ServerUrl::shown(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(url: &str, ca_file: Option<&str>) -> Result<MysqlConfig, Problem> {
        let raw = raw::Mysql { url: url.into(), ca_file: ca_file.map(str::to_owned), ..raw::Mysql::default() };
        MysqlConfig::resolve(&raw, &SecretFiles { credentials: None })
    }

    fn refusal(url: &str) -> String {
        resolve(url, None).unwrap_err().to_string()
    }

    #[test]
    fn takes_a_url_apart_and_prints_it_without_the_password() {
        let mysql = resolve("mysql://tally:p%40ss@db.example:3307/likes?ssl-mode=verify_identity", None).unwrap();
        assert_eq!((mysql.host.as_str(), mysql.port, mysql.database.as_str()), ("db.example", 3307, "likes"));
        assert_eq!((mysql.user.as_str(), mysql.password.as_ref().unwrap().expose()), ("tally", "p@ss"));
        assert_eq!((mysql.ssl_mode, mysql.address().as_str()), (SslMode::VerifyIdentity, "db.example:3307/likes"));
        assert_eq!(resolve("mysql://u@[::1]/d", None).unwrap().address(), "[::1]:3306/d");
        for socket in ["%2Frun%2Fmysqld.sock", "/run/mysqld.sock"] {
            let socket = resolve(&format!("mysql://u@localhost/d?socket={socket}"), None).unwrap();
            assert_eq!(socket.address(), "/run/mysqld.sock/d");
        }
    }

    #[test]
    fn a_parameter_that_would_be_ignored_is_refused() {
        for wrong in ["ssl_mode", "sslmode", "sslMode", "SSL-MODE", "tls-mode"] {
            let text = refusal(&format!("mysql://u@h/d?{wrong}=REQUIRED"));
            assert!(text.starts_with("mysql.url: ") && text.contains(wrong) && text.ends_with("ssl-mode"), "{text}");
        }
        assert!(refusal("mysql://u@h/d?ssl-ca=x").contains("mysql.ca_file"));
        assert!(refusal("mysql://u@h/d?charset=utf8mb4").contains("\"charset\""));
        assert!(refusal("mysql://u@h/d?ssl-mode=on").contains("VERIFY_IDENTITY"));
        for (word, mode) in SSL_MODES {
            let mysql = resolve(&format!("mysql://u@h/d?ssl-mode={}", word.to_lowercase()), None).unwrap();
            assert_eq!(mysql.ssl_mode, mode);
        }
    }

    #[test]
    fn needs_a_host_a_user_and_a_database() {
        assert!(refusal("mysql://u@h").contains("names no database"));
        assert!(refusal("mysql://u@h/").contains("names no database"));
        assert!(refusal("mysql://h/d").contains("names no user"));
        assert!(refusal("mysql:///d").contains("names no user"));
        assert!(refusal("postgres://u@h/d").contains("mysql://"));
        assert!(refusal("mysql://u@h/d/e").contains("more than one /"));
        assert!(refusal("mysql://u@h/d?socket=relative").contains("socket"));
    }

    #[test]
    fn certificates_are_never_silently_unused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().display().to_string();
        let mode = |url: &str| resolve(url, Some(&path)).map(|mysql| mysql.ssl_mode);
        assert_eq!(mode("mysql://u@h/d"), Ok(SslMode::VerifyCa));
        assert_eq!(mode("mysql://u@h/d?ssl-mode=VERIFY_IDENTITY"), Ok(SslMode::VerifyIdentity));
        for weaker in ["DISABLED", "PREFERRED", "REQUIRED"] {
            let problem = mode(&format!("mysql://u@h/d?ssl-mode={weaker}")).unwrap_err().to_string();
            assert!(problem.starts_with("mysql.ca_file: "), "{problem}");
        }
    }
}
