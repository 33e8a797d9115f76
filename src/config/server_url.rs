//! The URL of a server, taken apart without ever echoing it: an unencoded character in a password can put a piece of
//! the password into any other part.

use std::path::PathBuf;

use url::{Host, Url};

use super::error::Problem;
use super::secret::Secret;

/// Said wherever a URL makes no sense.
const HINT: &str = "in a user name or password, write %2F for /, %3F for ?, %23 for #, %40 for @, %2C for a comma and \
                    %25 for %, or use password_file";

/// The parts of a URL, percent-decoded.
pub(super) struct ServerUrl {
    field: &'static str,
    url: Url,
    /// The part before `:`, in lower case.
    pub(super) scheme: String,
    /// Absent in `mysql:///tallyd`.
    pub(super) host: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    /// `name=value` after the question mark, in order.
    pub(super) parameters: Vec<(String, String)>,
}

impl ServerUrl {
    /// Takes the URL in the setting `field` apart.
    pub(super) fn parse(field: &'static str, text: &str) -> Result<Self, Problem> {
        let bad = |what: String| Problem::new(field, format!("{what}; {HINT}"));
        let url = Url::parse(text.trim()).map_err(|error| bad(format!("is not a URL: {error}")))?;
        if url.fragment().is_some() {
            return Err(bad("has a # in it, which means nothing here".into()));
        }
        if url.query().is_some_and(|query| query.contains('@')) {
            return Err(bad("has a ? in an odd place".into()));
        }
        let decode = |part: &str, what: &str| {
            decode(part).ok_or_else(|| bad(format!("its {what} is not percent-encoded UTF-8")))
        };
        let host = match url.host() {
            Some(Host::Domain(name)) if !name.is_empty() => Some(decode(name, "host")?),
            Some(Host::Domain(_)) | None => None,
            Some(Host::Ipv4(ip)) => Some(ip.to_string()),
            Some(Host::Ipv6(ip)) => Some(ip.to_string()),
        };
        let user = decode(url.username(), "user name")?;
        let password = url.password().map(|password| decode(password, "password")).transpose()?;
        let parameters = url.query_pairs().into_owned().collect();
        Ok(Self {
            field,
            scheme: url.scheme().to_owned(),
            host,
            port: url.port(),
            user: Some(user).filter(|user| !user.is_empty()),
            password: password.filter(|password| !password.is_empty()).map(Secret::new),
            parameters,
            url,
        })
    }

    /// A problem of this URL.
    pub(super) fn problem(&self, what: impl Into<String>) -> Problem {
        Problem::new(self.field, what)
    }

    /// The path as one name: the 0 of `redis://host/0`, the tallyd of `mysql://host/tallyd`.
    pub(super) fn path_name(&self) -> Result<Option<String>, Problem> {
        let path = self.url.path();
        let name = path.strip_prefix('/').unwrap_or(path);
        if name.contains('/') {
            return Err(self.problem(format!("has more than one / after the host; {HINT}")));
        }
        let name = decode(name).ok_or_else(|| self.problem("its path is not percent-encoded UTF-8"))?;
        Ok(Some(name).filter(|name| !name.is_empty()))
    }

    /// The path as that of a file.
    pub(super) fn path_of_file(&self) -> Result<PathBuf, Problem> {
        let path = decode(self.url.path()).filter(|path| path.starts_with('/') && path.len() > 1);
        path.map(PathBuf::from)
            .ok_or_else(|| self.problem("has no absolute path of a socket, as in unix:///run/redis.sock"))
    }

    /// The name of a parameter as it may be shown.
    pub(super) fn shown(name: &str) -> String {
        let plain = name.len() <= 32 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if plain { format!("{name:?}") } else { "an unreadable one".to_owned() }
    }
}

/// Undoes percent-encoding; `None` when it is malformed or not UTF-8.
fn decode(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        decoded.push(digit()? * 16 + digit()?);
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_a_url_apart() {
        let url = ServerUrl::parse("redis.url", "redis://tally%40x:p%2Fw%25%C3%A9@[::1]:7000/3?a=b").unwrap();
        assert_eq!((url.scheme.as_str(), url.host.as_deref(), url.port), ("redis", Some("::1"), Some(7000)));
        assert_eq!(url.user.as_deref(), Some("tally@x"));
        assert_eq!(url.password.as_ref().unwrap().expose(), "p/w%é");
        assert_eq!(url.path_name().unwrap().as_deref(), Some("3"));
        assert_eq!(url.parameters, [("a".to_owned(), "b".to_owned())]);
    }

    #[test]
    fn never_echoes_a_url_it_cannot_take_apart() {
        let pieces = ["hun/ter2", "hun?ter2", "hun#ter2", "hun%zzter2", "12/ter2", "12?ter2", "12#ter2"];
        for password in pieces {
            let text = format!("mysql://tally:{password}@db.example/tallyd");
            let problem = ServerUrl::parse("mysql.url", &text).and_then(|url| url.path_name().map(drop)).unwrap_err();
            let problem = problem.to_string();
            assert!(problem.starts_with("mysql.url: ") && !problem.contains("ter2"), "{problem}");
        }
    }
}
