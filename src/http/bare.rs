//! Answers that the HTTP library gives by itself, to heads that it cannot read: no handler sees them. They get the form
//! of every other error on their way out.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::problem::{Kind, Problem};
use super::request_id;

/// A stream on which no answer is bare: what is written passes as it is, but for an answer without a request id.
#[derive(Debug)]
pub(super) struct Dressed<S> {
    stream: S,
    /// What is to be written first; taken over from the writer already.
    first: Vec<u8>,
}

impl<S> Dressed<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, first: Vec::new() }
    }
}

impl<S: AsyncWrite + Unpin> Dressed<S> {
    fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.first.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.first))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.first.drain(..written);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Dressed<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_first(cx))?;
        match dress(bytes) {
            None => Pin::new(&mut this.stream).poll_write(cx, bytes),
            Some(dressed) => {
                this.first = dressed;
                // What is not written now is when the writer flushes.
                if let Poll::Ready(Err(error)) = this.poll_first(cx) {
                    return Poll::Ready(Err(error));
                }
                Poll::Ready(Ok(bytes.len()))
            }
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut filled = parts.iter().filter(|part| !part.is_empty());
        // A bare answer has no body and is thus one part.
        if let (Some(part), None) = (filled.next(), filled.next()) {
            return self.poll_write(cx, part);
        }
        ready!(self.poll_first(cx))?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_first(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_first(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Dressed<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

/// The same with a complete error at its end, if it ends in a bare one.
fn dress(bytes: &[u8]) -> Option<Vec<u8>> {
    const START: &[u8] = b"HTTP/1.";
    if !bytes.ends_with(b"\r\n\r\n") {
        return None;
    }
    let at = bytes.windows(START.len()).rposition(|window| window == START)?;
    let head = std::str::from_utf8(&bytes[at..]).ok()?.trim_end();
    let (first, headers) = head.split_once("\r\n")?;
    let is = |line: &str, name: &str| line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    if headers.lines().any(|line| is(line, request_id::HEADER.as_str())) {
        return None;
    }
    let problem = match first.split(' ').nth(1)? {
        "400" => Problem::new(Kind::Malformed, "the head of the request is not HTTP; write it as RFC 9112 says"),
        "414" => Problem::new(Kind::TooLarge, "the path is too long; no path of this API has more than 200 characters"),
        "431" => Problem::new(Kind::TooLarge, "the headers are too many or too long; send fewer"),
        _ => return None,
    };
    let status = problem.kind.status();
    let body = serde_json::to_string(&problem.into_body()).ok()?;
    let id = request_id::new();
    let kept = headers.lines().filter(|line| !is(line, "content-length:"));
    let kept: String = kept.flat_map(|line| [line, "\r\n"]).collect();
    let dressed = format!(
        "HTTP/1.1 {status}\r\n{kept}content-type: application/problem+json\r\nx-request-id: {}\r\ncontent-length: {}\r\n\r\n\
         {body}",
        id.to_str().unwrap_or_default(),
        body.len()
    );
    Some([&bytes[..at], dressed.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const BARE: &str = "HTTP/1.1 414 URI Too Long\r\nconnection: close\r\ncontent-length: 0\r\ndate: today\r\n\r\n";

    #[test]
    fn a_bare_error_becomes_a_complete_one() {
        let before = "HTTP/1.1 200 OK\r\nx-request-id: a\r\ncontent-length: 2\r\n\r\n{}";
        for before in ["", before] {
            let dressed = String::from_utf8(dress(format!("{before}{BARE}").as_bytes()).unwrap()).unwrap();
            let own = dressed.strip_prefix(before).unwrap();
            let (head, body) = own.split_once("\r\n\r\n").unwrap();
            assert!(
                head.starts_with("HTTP/1.1 413 Payload Too Large\r\nconnection: close\r\ndate: today\r\n"),
                "{head}"
            );
            assert!(head.contains("\r\ncontent-type: application/problem+json\r\nx-request-id: "), "{head}");
            assert!(head.ends_with(&format!("\r\ncontent-length: {}", body.len())), "{head}");
            let body: serde_json::Value = serde_json::from_str(body).unwrap();
            assert_eq!(body["type"], "urn:tallyd:problem:too-large");
        }
        for (status, dressed) in [("400 Bad Request", "400 Bad Request"), ("431 Too", "413 Payload Too Large")] {
            let text = dress(BARE.replace("414 URI Too Long", status).as_bytes()).unwrap();
            assert!(text.starts_with(format!("HTTP/1.1 {dressed}\r\n").as_bytes()));
        }
    }

    #[test]
    fn everything_else_passes() {
        for text in [
            "",
            "{\"detail\":\"…\"}",
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 204 No Content\r\nx-request-id: a\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\nX-Request-Id: a\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n",
            &BARE[..BARE.len() - 1],
            &BARE[1..],
        ] {
            assert_eq!(dress(text.as_bytes()), None, "{text:?}");
        }
    }

    #[tokio::test]
    async fn it_is_written_however_little_is_taken_at_once() {
        for vectored in [false, true] {
            let (near, mut far) = tokio::io::duplex(7);
            let mut stream = Dressed::new(near);
            let writing = tokio::spawn(async move {
                let taken = if vectored {
                    stream.write_vectored(&[IoSlice::new(b""), IoSlice::new(BARE.as_bytes())]).await
                } else {
                    stream.write(BARE.as_bytes()).await
                };
                assert_eq!(taken.unwrap(), BARE.len());
                stream.flush().await.unwrap();
                stream.write_all(b"more").await.unwrap();
                stream.shutdown().await.unwrap();
            });
            let mut text = String::new();
            far.read_to_string(&mut text).await.unwrap();
            writing.await.unwrap();
            assert!(text.starts_with("HTTP/1.1 413 ") && text.ends_with("}more"), "{text}");
        }
    }
}
