//! Heads of requests: odd ones, ones without the right token, and ones that are hardly HTTP.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::requests::{Request, TOKEN};

/// A header that should not matter.
pub fn odd() -> impl Strategy<Value = Vec<u8>> {
    let types =
        ["text/plain", "application/xml", "application/json; charset=utf-16", "", "json", "multipart/form-data"];
    let fixed = [
        "accept: text/html",
        "accept: nothing/at-all;q=9",
        "accept-encoding: gzip, br, *;q=0",
        "content-encoding: gzip",
        "x-http-method-override: PUT",
        "x-forwarded-for: 127.0.0.1",
        "connection: keep-alive",
        "cookie: a=b; =; ;;",
        "if-match: *",
        "range: bytes=0-",
        "upgrade: websocket",
        "expect: 100-continue",
        "x-request-id:",
        "x-request-id: a b",
    ];
    prop_oneof![
        select(types.to_vec()).prop_map(|text| format!("content-type: {text}").into_bytes()),
        select(fixed.to_vec()).prop_map(|text| text.as_bytes().to_vec()),
        "x-request-id: [!-~]{0,200}".prop_map(String::into_bytes),
        vec(0x80..=0xff_u8, 1..200).prop_map(|bytes| [&b"x-bytes: "[..], &bytes].concat()),
        "[a-z-]{1,30}-[a-z]: \\PC{0,60}".prop_map(String::into_bytes),
        (0..8000_usize).prop_map(|length| format!("x-long: {}", "x".repeat(length)).into_bytes()),
    ]
}

/// Good in all but the token.
pub fn unauthorized() -> impl Strategy<Value = Request> {
    let batch = r#"{"ops":[{"op":"set","interaction":"like","target_type":1,"target_id":77,"user_id":78}]}"#;
    let request = select(vec![
        ("PUT", "/v1/like/note/77/users/78", ""),
        ("DELETE", "/v1/like/note/10086/users/42", ""),
        ("GET", "/v1/like/note/999", ""),
        ("GET", "/v1/users/42/like", ""),
        ("GET", "/openapi.json", ""),
        ("HEAD", "/v1/targets/note/999", ""),
        ("OPTIONS", "/v1/batch", ""),
        ("BREW", "/nowhere", ""),
        ("POST", "/v1/view/note/77", r#"{"viewer":"somebody"}"#),
        ("POST", "/v1/batch", batch),
    ]);
    let near = [
        format!("Bearer {}", &TOKEN[1..]),
        format!("Bearer {TOKEN}x"),
        format!("Bearer {TOKEN} {TOKEN}"),
        format!("Bearer {}", TOKEN.to_uppercase()),
        format!("Bearer \"{TOKEN}\""),
        format!("Basic {TOKEN}"),
        format!("Bearer{TOKEN}"),
        format!("Bearer, {TOKEN}"),
        format!("Token {TOKEN}"),
        "Bearer".to_owned(),
        TOKEN.to_owned(),
        String::new(),
    ];
    let lines = prop_oneof![
        Just(Vec::new()),
        Just(vec![format!("authorization: Bearer {TOKEN}").into_bytes(); 2]),
        Just(vec![format!("proxy-authorization: Bearer {TOKEN}").into_bytes()]),
        Just(vec![format!("cookie: authorization=Bearer {TOKEN}").into_bytes()]),
        select(near.to_vec()).prop_map(|value| vec![format!("authorization: {value}").into_bytes()]),
        vec(0x80..=0xff_u8, 1..100).prop_map(|value| vec![[&b"authorization: Bearer "[..], &value].concat()]),
        "\\PC{0,60}".prop_map(|value| vec![format!("authorization: {value}").into_bytes()]),
        (1..20_000_usize).prop_map(|length| vec![format!("authorization: Bearer {}", "x".repeat(length)).into_bytes()]),
    ];
    (request, lines).prop_map(|((method, target, body), lines)| {
        let mut request = Request::new(method, target, &[401]);
        request.headers.pop();
        request.headers.extend(lines);
        Request { body: body.as_bytes().to_vec(), ..request }
    })
}

/// Beyond what is read, or not HTTP.
pub fn absurd() -> impl Strategy<Value = Request> {
    const ANY: &[u16] = &[400, 404, 413];
    let state = "/v1/like/note/77/users/78";
    let in_target = |bytes: &[u8]| [&state.as_bytes()[..9], bytes, &state.as_bytes()[9..]].concat();
    let targets = prop_oneof![
        // Longer than any path that is read.
        (65_600..100_000_usize).prop_map(move |length| format!("{state}?{}", "x".repeat(length)).into_bytes()),
        (65_600..100_000_usize).prop_map(move |length| format!("/{}", "x/".repeat(length)).into_bytes()),
        select(vec![&b"\0"[..], b"\x01", b" ", b"\t", b"\x7f", b"\x0b", b"\r"]).prop_map(in_target),
        select(vec!["", "v1/batch", "\\v1\\batch", "http:///", "?a", "#a", "http://[::1", "http://a:b/"])
            .prop_map(|text| text.as_bytes().to_vec()),
    ];
    let lines = prop_oneof![
        (101..400_usize).prop_map(|times| (0..times).map(|n| format!("x-{n}: x").into_bytes()).collect()),
        (500_000..700_000_usize).prop_map(|length| vec![format!("x-long: {}", "x".repeat(length)).into_bytes()]),
        (500_000..700_000_usize).prop_map(|length| vec!["x".repeat(length).into_bytes()]),
        select(vec![
            "content-length: -1",
            "content-length: 99999999999999999999999999",
            "content-length: 1\r\ncontent-length: 2",
            "content-length: 1, 2",
            "content-length: x",
            "transfer-encoding: gzip",
            "transfer-encoding: chunked, identity",
            "no colon",
            ": no name",
            "x y: z",
            "x\0: z",
            "x: \0",
            "x: \x01",
            " folded: line",
        ])
        .prop_map(|line| vec![line.as_bytes().to_vec()]),
    ];
    let methods = select(vec!["", " ", "PUT\0", "P\u{dc}T", "PUT,", "\"PUT\"", "{}", "\x16\x03\x01\x02"]);
    prop_oneof![
        2 => targets.prop_map(|target| Request::new("PUT", target, ANY)),
        2 => lines.prop_map(move |lines| {
            let mut request = Request::new("PUT", state, ANY);
            request.headers.extend(lines);
            request
        }),
        1 => methods.prop_map(move |method| Request::new(method, state, ANY)),
        1 => "99999999[0-9]{0,10}".prop_map(|length| {
            let mut request = Request::new("POST", "/v1/batch", &[413]);
            request.headers.push(format!("content-length: {length}").into_bytes());
            request
        }),
    ]
}
