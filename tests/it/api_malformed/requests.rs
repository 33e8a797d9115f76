//! Requests that must not succeed.

use std::fmt;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::bodies::{self, Form};
use super::heads;

pub const TOKEN: &str = "the-token-of-this-test";
pub const TYPES: [&str; 8] = ["1", "2", "3", "4", "note", "video", "comment", "user"];
const STATES: [&str; 3] = ["like", "collect", "follow"];
const INTERACTIONS: [&str; 4] = ["like", "collect", "follow", "view"];

/// A request, and the statuses that it may be answered with. 200 is one with an error for every operation or item.
#[derive(Clone)]
pub struct Request {
    pub method: String,
    pub target: Vec<u8>,
    /// Complete lines without their ends.
    pub headers: Vec<Vec<u8>>,
    pub body: Vec<u8>,
    /// In pieces of this size, of unknown length.
    pub chunked: Option<usize>,
    pub statuses: &'static [u16],
}

impl Request {
    /// A good token, and no body.
    pub fn new(method: impl Into<String>, target: impl Into<Vec<u8>>, statuses: &'static [u16]) -> Self {
        let headers = vec![b"host: tallyd".to_vec(), format!("authorization: Bearer {TOKEN}").into_bytes()];
        Self { method: method.into(), target: target.into(), headers, body: Vec::new(), chunked: None, statuses }
    }

    fn with(mut self, header: Vec<u8>) -> Self {
        self.headers.push(header);
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut lines = vec![[self.method.as_bytes(), b" ", &self.target, b" HTTP/1.1"].concat()];
        lines.extend(self.headers.iter().cloned());
        let mut body = self.body.clone();
        if let Some(size) = self.chunked {
            lines.push(b"transfer-encoding: chunked".to_vec());
            let chunks = self.body.chunks(size).chain([&b""[..]]);
            body = chunks
                .flat_map(|chunk| [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat())
                .collect();
        } else if !body.is_empty() {
            lines.push(format!("content-length: {}", body.len()).into_bytes());
        }
        [lines.join(&b"\r\n"[..]), b"\r\n\r\n".to_vec(), body].concat()
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes();
        let (start, end) = bytes.split_at(bytes.len().min(1000));
        let end = &end[end.len().saturating_sub(1000)..];
        write!(f, "{} bytes: {} … {}", bytes.len(), start.escape_ascii(), end.escape_ascii())
    }
}

pub fn malformed() -> impl Strategy<Value = Request> {
    let request = prop_oneof![
        3 => bad_piece(),
        2 => wrong_method(),
        2 => nowhere(),
        2 => bad_query(),
        4 => bad_body(),
        2 => heads::unauthorized(),
        1 => heads::absurd(),
    ];
    (request, vec(heads::odd(), 0..3)).prop_map(|(request, headers)| headers.into_iter().fold(request, Request::with))
}

/// Whether this spells an id, worked out otherwise than the program does.
pub fn is_id(text: &[u8]) -> bool {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit) && text[0] != b'0';
    digits && text.len() <= 19 && (text.len() < 19 || text <= &b"9223372036854775807"[..])
}

fn encoded(text: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_~!$&'()*+,;=:@.".contains(byte);
    text.iter().map(|byte| if plain(byte) { char::from(*byte).to_string() } else { format!("%{byte:02x}") }).collect()
}

/// Something within one segment of a path that is no id, and no name that is known.
fn piece() -> impl Strategy<Value = String> {
    let known = ["0", "-1", "01", "+1", "1.0", "1e3", "0x10", "9223372036854775808", "18446744073709551617", "NaN"];
    let spelled = ["", ".", "..", "%2e%2e", "%2f", "%00", "1%00", "%ff", "%c3%28", "%", "%zz", "%1", "%20", "1%20"];
    let foreign =
        ["\u{ff11}", "\u{661}", "1\u{200b}", "\u{2460}", "l\u{131}ke", "like\u{301}", "\u{1f44d}", "\u{202e}1"];
    prop_oneof![
        3 => select([&known[..], &spelled[..]].concat()).prop_map(str::to_owned),
        1 => select(foreign.to_vec()).prop_map(|text| encoded(text.as_bytes())),
        2 => vec(any::<u8>(), 0..40)
            .prop_filter("unknown", |bytes| is_unknown(bytes))
            .prop_map(|bytes| encoded(&bytes)),
        2 => "\\PC{1,30}"
            .prop_filter("unknown", |text| is_unknown(text.as_bytes()))
            .prop_map(|text| encoded(text.as_bytes())),
        1 => "[1-9][0-9]{0,30}[a-z.,:;_-]{1,3}",
        1 => (20..9000_usize).prop_map(|times| "9".repeat(times)),
        1 => (1..1000_usize).prop_map(|times| "%e2%82%ac".repeat(times)),
    ]
}

fn is_unknown(text: &[u8]) -> bool {
    let known = INTERACTIONS.into_iter().chain(TYPES).chain(["users", "targets", "batch", "query"]);
    !is_id(text) && known.into_iter().all(|name| name.as_bytes() != text)
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![Just("10086".to_owned()), (1..=i64::MAX).prop_map(|id| id.to_string())]
}

/// A template and its methods; what stands in braces is replaced.
const ROUTES: [(&str, &[&str]); 5] = [
    ("/v1/{state}/{type}/{id}/users/{id}", &["GET", "HEAD", "PUT", "DELETE"]),
    ("/v1/{state}/{type}/{id}", &["GET", "HEAD"]),
    ("/v1/view/{type}/{id}", &["GET", "HEAD", "POST"]),
    ("/v1/targets/{type}/{id}", &["GET", "HEAD"]),
    ("/v1/users/{id}/{state}", &["GET", "HEAD"]),
];

/// The segments of a good path, and what may be done there.
fn good_path() -> impl Strategy<Value = (Vec<String>, &'static [&'static str])> {
    (select(ROUTES.to_vec()), vec((id(), any::<Index>()), 8)).prop_map(|((template, methods), random)| {
        let fill = |(segment, (id, at)): (&str, (String, Index))| match segment {
            "{id}" => id,
            "{type}" => at.get(&TYPES).to_string(),
            "{state}" => at.get(&STATES).to_string(),
            fixed => fixed.to_owned(),
        };
        (template.split('/').skip(1).zip(random).map(fill).collect(), methods)
    })
}

fn path(segments: &[String]) -> String {
    format!("/{}", segments.join("/"))
}

/// A good path but for one or more of its variable parts.
fn bad_piece() -> impl Strategy<Value = Request> {
    let methods = select(vec!["GET", "PUT", "DELETE", "POST", "HEAD", "PATCH"]);
    let body = prop_oneof![Just(Vec::new()), Just(br#"{"viewer":"somebody"}"#.to_vec()), vec(any::<u8>(), 0..50)];
    (good_path(), vec((any::<Index>(), piece()), 1..3), methods, body).prop_map(
        |((mut segments, _), bad, method, body)| {
            for (at, piece) in bad {
                // "v1", "users" and "targets" stay.
                let variable: Vec<usize> =
                    (1..segments.len()).filter(|&at| segments[at] != "users" && segments[at] != "targets").collect();
                segments[variable[at.index(variable.len())]] = piece;
            }
            Request { body, ..Request::new(method, path(&segments), &[400, 404, 405, 422]) }
        },
    )
}

fn method() -> impl Strategy<Value = String> {
    let known =
        ["POST", "PATCH", "TRACE", "CONNECT", "OPTIONS", "PUT", "DELETE", "GET", "HEAD", "get", "put", "PROPFIND"];
    prop_oneof![select(known.to_vec()).prop_map(str::to_owned), "[A-Z]{1,20}", "[a-zA-Z!#$%&'*+.^_`|~-]{1,30}"]
}

/// A good path, and a method that is not for it.
fn wrong_method() -> impl Strategy<Value = Request> {
    (good_path(), method(), any::<bool>(), "[a-z0-9=&?/]{0,9}").prop_filter_map(
        "allowed",
        |((segments, methods), method, list, query)| {
            let (target, methods) =
                if list { ("/v1/batch".to_owned(), &["POST"][..]) } else { (path(&segments), methods) };
            let statuses: &[u16] = if method == "OPTIONS" { &[204] } else { &[405] };
            (!methods.contains(&method.as_str())).then(|| Request::new(method, format!("{target}?{query}"), statuses))
        },
    )
}

/// A path where nothing is.
fn nowhere() -> impl Strategy<Value = Request> {
    let inserted = (good_path(), any::<Index>(), piece()).prop_map(|((mut segments, _), at, piece)| {
        segments.insert(at.index(segments.len() + 1), piece);
        path(&segments)
    });
    let removed = (good_path(), any::<Index>()).prop_map(|((mut segments, _), at)| {
        segments.remove(at.index(segments.len()));
        path(&segments)
    });
    let elsewhere = vec(piece(), 0..12).prop_map(|segments| path(&segments));
    let fixed = select(vec![
        "/v1",
        "/V1/batch",
        "//v1/batch",
        "/v1/batch/",
        "/v1/../../v1/batch",
        "/v1/./query",
        "/openapi.json/",
        "/v1%2Fbatch",
        "*",
        "http://tallyd/",
        "http://tallyd/nowhere?a",
        "/v1/batch%00",
        "/metrics",
        "/openapi%2ejson",
    ]);
    let target = prop_oneof![2 => inserted, 1 => removed, 2 => elsewhere, 1 => fixed.prop_map(str::to_owned)];
    (target, method()).prop_map(|(target, method)| Request::new(method, target, &[404]))
}

/// A list of a user with a limit or cursor that is none, or with something else.
fn bad_query() -> impl Strategy<Value = Request> {
    let limit = prop_oneof![
        select(vec![
            "0",
            "201",
            "-1",
            "",
            "1.5",
            "%2b1e1",
            "4294967296",
            "18446744073709551616",
            "null",
            "%00",
            "%ff",
            "0x10",
            "%D9%A1"
        ])
        .prop_map(str::to_owned),
        (201..u64::MAX).prop_map(|limit| limit.to_string()),
        "\\PC{1,20}"
            .prop_filter("no number", |text| text.parse::<u32>().is_err())
            .prop_map(|text| encoded(text.as_bytes()).replace(['&', '+'], "-")),
    ];
    let cursor = prop_oneof![
        "[A-Za-z0-9_-]{0,22}|[A-Za-z0-9_-]{24,60}|[g-z0-9_-][A-Za-z0-9_-]{21}A|A[A-Za-z0-9_-]{21}[BCDFGH]",
        "\\PC{1,20}".prop_map(|text| encoded(text.as_bytes()).replace(['&', '+'], "-")),
        (1..9000_usize).prop_map(|times| "A".repeat(24 + times)),
    ];
    let unknown = ("[a-z]{1,8}[A-Z0-9%]{1,3}", "[a-z0-9%=]{0,8}").prop_map(|(name, value)| format!("{name}={value}"));
    let query = prop_oneof![
        limit.prop_map(|limit| format!("limit={limit}")),
        cursor.prop_map(|cursor| format!("after={cursor}")),
        unknown,
        select(vec![
            "limit=1&limit=2",
            "limit=5&Limit=5",
            "after=AAAAAAAAAAAAAAAAAAAAAAA&after=",
            "limit",
            "limit[]=5",
            "=5"
        ])
        .prop_map(str::to_owned),
    ];
    (id(), select(STATES.to_vec()), query, select(vec!["", "limit=50&", "after=AAAAAAAAAAAAAAAAAAAAAAA&"])).prop_map(
        |(user, name, query, before)| Request::new("GET", format!("/v1/users/{user}/{name}?{before}{query}"), &[400]),
    )
}

fn bad_body() -> impl Strategy<Value = Request> {
    let form = select(vec![Form::Batch, Form::Query, Form::View]);
    let body = form.prop_flat_map(|form| {
        let of = |body: BoxedStrategy<Vec<u8>>, statuses: &'static [u16]| {
            body.prop_map(move |body| (form, body, statuses)).boxed()
        };
        let one_by_one = if form == Form::View { bodies::refused(form) } else { bodies::refused_one_by_one(form) };
        let of_one_by_one: &[u16] = if form == Form::View { &[400] } else { &[200] };
        prop_oneof![
            16 => of(bodies::refused(form), &[400]),
            12 => of(one_by_one, of_one_by_one),
            1 => of(bodies::too_large(form), &[413]),
        ]
    });
    (body, prop_oneof![4 => Just(None), 1 => (1..5000_usize).prop_map(Some)]).prop_map(
        |((form, body, statuses), chunked)| {
            let target = match form {
                Form::Batch => "/v1/batch",
                Form::Query => "/v1/query?",
                Form::View => "/v1/view/note/10086",
            };
            Request { body, chunked, ..Request::new("POST", target, statuses) }
        },
    )
}
