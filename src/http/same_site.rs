//! Requests that a web browser makes for a page of another site.
//!
//! A listener without a token trusts whoever reaches it, and it listens on loopback only. A browser on the same machine
//! reaches it, too, and sends simple requests for any page that asks it to. It says so in headers that no page can set:
//! `Origin`, which every browser sends with whatever is not `GET` or `HEAD`, and `Sec-Fetch-Site`. A client that sends
//! neither is no browser, and is let in.

use std::net::IpAddr;

use axum::http::HeaderMap;
use axum::http::header::{HOST, ORIGIN};
use url::Url;

use super::problem::{Kind, Problem};

/// Refuses what comes from another site as `cross-site`. With `only_local`, also what a browser sends to a name that is
/// not this machine's: whoever owns a name can let it point to loopback, and is then the same site.
pub fn check(headers: &HeaderMap, only_local: bool) -> Result<(), Problem> {
    let (site, origin) = (headers.get("sec-fetch-site"), headers.get(ORIGIN));
    if site.is_none() && origin.is_none() {
        return Ok(());
    }
    let refused =
        |what: &str| Err(Problem::new(Kind::CrossSite, format!("{what}; open the page of this listener itself")));
    if site.is_some_and(|site| site != "same-origin" && site != "none") {
        return refused("the header Sec-Fetch-Site says that a page of another site sent this");
    }
    let host = headers.get(HOST).and_then(|host| Url::parse(&format!("http://{}", host.to_str().ok()?)).ok());
    let Some(host) = host else { return refused("the header Host does not say whose page sent this") };
    if let Some(origin) = origin {
        let origin = origin.to_str().ok().and_then(|origin| Url::parse(origin).ok());
        if origin.is_none_or(|origin| authority(&origin) != authority_as(&host, &origin)) {
            return refused("the header Origin is not what the header Host is");
        }
    }
    if only_local && !is_local(&host) {
        return refused("the header Host is neither localhost nor an IP address, and no token is configured");
    }
    Ok(())
}

fn authority(url: &Url) -> (Option<&str>, Option<u16>) {
    (url.host_str(), url.port_or_known_default())
}

/// `Host` knows no scheme: without a port it means that of the origin's.
fn authority_as<'u>(host: &'u Url, origin: &Url) -> (Option<&'u str>, Option<u16>) {
    let default = if origin.scheme() == "https" { 443 } else { 80 };
    (host.host_str(), host.port().or(Some(default)))
}

fn is_local(host: &Url) -> bool {
    let name = host.host_str().unwrap_or_default();
    name == "localhost" || name.ends_with(".localhost") || name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn passes(lines: &[(&'static str, &'static str)], only_local: bool) -> bool {
        let line = |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        check(&lines.iter().map(line).collect(), only_local).is_ok()
    }

    #[test]
    fn a_browser_gets_in_from_the_page_itself_and_from_nowhere_else() {
        for (lines, with_token, without) in [
            // No browser.
            (&[][..], true, true),
            (&[("host", "evil.example")], true, true),
            (&[("host", "127.0.0.1:7781"), ("origin", "http://127.0.0.1:7781")], true, true),
            (
                &[("host", "localhost:7781"), ("origin", "http://LOCALHOST:7781"), ("sec-fetch-site", "same-origin")],
                true,
                true,
            ),
            (&[("host", "[::1]:7781"), ("origin", "http://[::1]:7781")], true, true),
            (&[("host", "127.0.0.1:7781"), ("sec-fetch-site", "none")], true, true),
            // Behind a proxy that speaks TLS.
            (
                &[("host", "tallyd.corp"), ("origin", "https://tallyd.corp"), ("sec-fetch-site", "same-origin")],
                true,
                false,
            ),
            // Its owner may let it point to loopback.
            (&[("host", "evil.example:7781"), ("origin", "http://evil.example:7781")], true, false),
            (&[("host", "127.0.0.1.evil.example"), ("sec-fetch-site", "same-origin")], true, false),
            (&[("host", "127.0.0.1:7781"), ("origin", "http://evil.example")], false, false),
            (&[("host", "127.0.0.1:7781"), ("origin", "http://127.0.0.1:3000")], false, false),
            (&[("host", "127.0.0.1:7781"), ("origin", "null")], false, false),
            (&[("host", "127.0.0.1:7781"), ("origin", "")], false, false),
            (&[("host", "127.0.0.1:7781"), ("sec-fetch-site", "cross-site")], false, false),
            (&[("host", "localhost:7781"), ("sec-fetch-site", "same-site")], false, false),
            (&[("origin", "http://127.0.0.1:7781")], false, false),
            (&[("host", "a b"), ("origin", "http://a")], false, false),
        ] {
            assert_eq!((passes(lines, false), passes(lines, true)), (with_token, without), "{lines:?}");
        }
    }
}
