//! What `redis.url` says: one server or several, on TCP, with TLS, or on a socket.

use super::error::Problem;
use super::redis::RedisAddress;
use super::secret::Secret;
use super::server_url::ServerUrl;

/// Redis' own port.
const PORT: u16 = 6379;

/// What `redis.url` says.
pub(super) struct Nodes {
    pub(super) addresses: Vec<RedisAddress>,
    pub(super) tls: bool,
    pub(super) db: i64,
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
}

impl Nodes {
    /// Several nodes are separated by commas; each is a URL, or `host:port` like the first.
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        let first = text.split(',').next().unwrap_or_default();
        let scheme = first.split_once("://").map_or("redis", |(scheme, _)| scheme).trim();
        let mut nodes = Self { addresses: Vec::new(), tls: false, db: 0, user: None, password: None };
        let mut db = None;
        for part in text.split(',') {
            let part = part.trim();
            let is_first = nodes.addresses.is_empty();
            let whole = if is_first || part.contains("://") { part.to_owned() } else { format!("{scheme}://{part}") };
            let (node, node_db) = Node::parse(ServerUrl::parse("redis.url", &whole)?)?;
            if !is_first && node.tls != nodes.tls {
                return Err(Problem::new("redis.url", "mixes redis:// and rediss://; use one of them for all nodes"));
            }
            let same = |a: &Option<Secret>, b: &Option<Secret>| {
                a.as_ref().map(Secret::expose) == b.as_ref().map(Secret::expose)
            };
            let other_user = node.user.is_some() && !is_first && node.user != nodes.user;
            let other_password = node.password.is_some() && !is_first && !same(&node.password, &nodes.password);
            if other_user || other_password || (db.is_some() && node_db.is_some() && db != node_db) {
                let what = "its nodes differ in user, password or database; write them at one of them, or all alike";
                return Err(Problem::new("redis.url", what));
            }
            nodes.addresses.push(node.address);
            nodes.tls = node.tls;
            nodes.user = nodes.user.or(node.user);
            nodes.password = nodes.password.or(node.password);
            db = db.or(node_db);
        }
        nodes.db = db.unwrap_or(0);
        Ok(nodes)
    }
}

/// One part of `redis.url`.
struct Node {
    address: RedisAddress,
    tls: bool,
    user: Option<String>,
    password: Option<Secret>,
}

impl Node {
    fn parse(url: ServerUrl) -> Result<(Self, Option<i64>), Problem> {
        let tls = url.scheme == "rediss";
        match url.scheme.as_str() {
            "redis" | "rediss" => {
                if let Some((name, _)) = url.parameters.first() {
                    let what = format!("knows no parameters, but has {}", ServerUrl::shown(name));
                    return Err(url.problem(what));
                }
                let db = url.path_name()?.map(|name| number_of_db(&url, &name)).transpose()?;
                let Some(host) = url.host.clone() else {
                    return Err(url.problem("has no host; write redis://HOST:PORT/DATABASE"));
                };
                let address = RedisAddress::Tcp { host, port: url.port.unwrap_or(PORT) };
                Ok((Self { address, tls, user: url.user, password: url.password }, db))
            }
            "unix" | "redis+unix" => Self::on_a_socket(&url),
            _ => Err(url.problem("begins with none of redis://, rediss://, redis+unix:// and unix://")),
        }
    }

    /// `unix:///run/redis.sock?db=0&user=…&pass=…`, as other Redis clients write it.
    fn on_a_socket(url: &ServerUrl) -> Result<(Self, Option<i64>), Problem> {
        if url.host.is_some() {
            return Err(
                url.problem("has a host, and a socket has none; write three slashes, as in unix:///run/redis.sock")
            );
        }
        let path = url.path_of_file()?;
        let (mut db, mut user, mut password) = (None, None, None);
        for (name, value) in &url.parameters {
            match name.as_str() {
                "db" => db = Some(number_of_db(url, value)?),
                "user" => user = Some(value.clone()),
                "pass" => password = Some(Secret::new(value.clone())),
                other => {
                    let what = format!("knows the parameters db, user and pass, but not {}", ServerUrl::shown(other));
                    return Err(url.problem(what));
                }
            }
        }
        Ok((Self { address: RedisAddress::Unix(path), tls: false, user, password }, db))
    }
}

fn number_of_db(url: &ServerUrl, text: &str) -> Result<i64, Problem> {
    let number = text.parse().ok().filter(|number| (0..=i64::from(i32::MAX)).contains(number));
    number.ok_or_else(|| url.problem("its database is not a number; write redis://HOST:PORT/0"))
}

/// The URL without user and password.
pub(super) fn redacted(addresses: &[RedisAddress], tls: bool, db: i64) -> String {
    let nodes: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    let nodes = nodes.join(",");
    match addresses.first() {
        Some(RedisAddress::Unix(_)) => format!("unix://{nodes}?db={db}"),
        _ => format!("{}://{nodes}/{db}", if tls { "rediss" } else { "redis" }),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse(text: &str) -> Nodes {
        Nodes::parse(text).unwrap()
    }

    fn show(text: &str) -> String {
        let nodes = parse(text);
        redacted(&nodes.addresses, nodes.tls, nodes.db)
    }

    #[test]
    fn takes_every_form_of_one_server() {
        assert_eq!(show("redis://h"), "redis://h:6379/0");
        assert_eq!(show("redis://h:7000/3"), "redis://h:7000/3");
        assert_eq!(show("rediss://user:pw@[::1]:7000/"), "rediss://[::1]:7000/0");
        assert_eq!(show("unix:///run/redis.sock?db=2&pass=p%2Bw"), "unix:///run/redis.sock?db=2");
        assert!(parse("rediss://h").tls && !parse("redis://h").tls);
        let socket = parse("redis+unix:///run/a%20b.sock?db=2&user=me&pass=p%2Bw");
        assert_eq!(socket.addresses, [RedisAddress::Unix(Path::new("/run/a b.sock").to_owned())]);
        assert_eq!((socket.db, socket.user.as_deref()), (2, Some("me")));
        assert_eq!(socket.password.unwrap().expose(), "p+w");
    }

    #[test]
    fn takes_several_servers() {
        for text in ["redis://:pw@a:1,b,c:3/4", "redis://:pw@a:1/4, redis://b, redis://:pw@c:3/4"] {
            let nodes = parse(text);
            let shown: Vec<_> = nodes.addresses.iter().map(ToString::to_string).collect();
            assert_eq!((shown, nodes.db), (vec!["a:1".to_owned(), "b:6379".to_owned(), "c:3".to_owned()], 4));
            assert_eq!(nodes.password.unwrap().expose(), "pw");
        }
        for bad in ["redis://a,rediss://b", "redis://a/1,b/2", "redis://:x@a,:y@b", "redis://x:p@a,y:p@b", "redis://a,"]
        {
            assert!(Nodes::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn refuses_what_it_would_have_to_ignore() {
        for bad in [
            "",
            "h:6379",
            "http://h",
            "redis://",
            "redis:///0",
            "redis://h/x",
            "redis://h/-1",
            "redis://h/0/1",
            "redis://h:0x",
            "redis://h?protocol=resp3",
            "rediss://h#insecure",
            "unix://run/redis.sock",
            "unix:///s?db=x",
            "unix:///s?password=x",
            "unix:///",
            "redis://h/99999999999",
        ] {
            let problem = Nodes::parse(bad).map(drop).unwrap_err().to_string();
            assert!(problem.starts_with("redis.url: "), "{bad}: {problem}");
        }
    }
}
