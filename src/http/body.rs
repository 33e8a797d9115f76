//! JSON bodies, within limits.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::problem::{Kind, Problem};

/// The largest body, bytes.
pub const LIMIT: usize = 1 << 20;

/// How long a body may take to arrive.
const TIME: Duration = Duration::from_secs(10);

/// Reads a body to its end.
///
/// Errors: `too-large` over 1 MiB, `request-timeout` after 10 s, `malformed` when it breaks off.
pub async fn read(body: Body) -> Result<Bytes, Problem> {
    read_within(body, TIME).await
}

async fn read_within(body: Body, time: Duration) -> Result<Bytes, Problem> {
    let too_large = || Problem::new(Kind::TooLarge, "the body is larger than 1 MiB; send several requests");
    if body.size_hint().lower() > LIMIT as u64 {
        return Err(too_large());
    }
    match tokio::time::timeout(time, Limited::new(body, LIMIT).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => Err(Problem::new(Kind::Malformed, format!("the body breaks off: {error}; send it again"))),
        Err(_) => {
            let detail = format!("the body did not arrive within {} s; send it again", time.as_secs());
            Err(Problem::new(Kind::RequestTimeout, detail))
        }
    }
}

/// What a JSON object says. `malformed` names what is wrong and where.
pub fn parse<'b, T: Deserialize<'b>>(body: &'b [u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map(|Object(value)| value).map_err(|error| {
        let detail = match error.classify() {
            serde_json::error::Category::Data => format!("the body is not what this call takes: {error}"),
            _ => format!("the body is not JSON: {error}"),
        };
        Problem::new(Kind::Malformed, detail)
    })
}

/// What is written as an object. A struct alone would take an array of its fields' values as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OfObject(PhantomData))
    }
}

struct OfObject<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OfObject<T> {
    type Value = Object<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt, stream};

    use super::*;

    #[tokio::test]
    async fn a_body_of_one_mebibyte_is_read_and_not_a_byte_more() {
        assert_eq!(read(Body::from(vec![b'x'; LIMIT])).await.unwrap().len(), LIMIT);
        assert_eq!(read(Body::from(vec![b'x'; LIMIT + 1])).await.unwrap_err().kind, Kind::TooLarge);
        // Of unknown length.
        let endless = stream::repeat(Bytes::from_static(&[b'x'; 4096])).map(Ok::<_, std::io::Error>);
        assert_eq!(read(Body::from_stream(endless)).await.unwrap_err().kind, Kind::TooLarge);
        let broken = stream::iter([Ok(Bytes::from_static(b"x")), Err(std::io::Error::other("gone"))]);
        assert_eq!(read(Body::from_stream(broken)).await.unwrap_err().kind, Kind::Malformed);
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_is_not_waited_for() {
        let stalled = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"x"))]).chain(stream::pending());
        let read = read_within(Body::from_stream(stalled), Duration::from_millis(20));
        assert_eq!(read.await.unwrap_err().kind, Kind::RequestTimeout);
    }
    #[test]
    fn an_array_is_no_object() {
        #[derive(Deserialize, Debug, PartialEq)]
        #[serde(deny_unknown_fields)]
        struct View<'b> {
            #[serde(borrow)]
            viewer: &'b str,
        }
        assert_eq!(parse(b" {\"viewer\":\"a\"}"), Ok(View { viewer: "a" }));
        for bad in
            ["[\"a\"]", "\"a\"", "null", "{\"viewer\":\"a\"} x", "{\"viewer\":\"a\",\"viewer\":\"a\"}", "{\"x\":1}"]
        {
            assert_eq!(parse::<View<'_>>(bad.as_bytes()).unwrap_err().kind, Kind::Malformed, "{bad}");
        }
        let detail = parse::<View<'_>>(b"[\"a\"]").unwrap_err().detail;
        assert!(detail.contains("expected an object at line 1"), "{detail}");
    }
}
