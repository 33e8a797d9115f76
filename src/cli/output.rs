//! What commands print. Nothing here panics, and nothing else prints: `println!` would end the process by a panic when
//! nobody reads.

use std::fmt::Display;
use std::io::{self, Write};

use anyhow::Context;

/// Whether somebody still reads the results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reader {
    /// As far as is known.
    Listens,
    /// The pipe is broken: `| head` has seen enough. That is no error.
    Gone,
}

/// A result and a line feed, to stdout at once.
pub(super) fn result(text: impl Display) -> anyhow::Result<Reader> {
    bytes(format!("{text}\n").as_bytes())
}

/// A result as it is, to stdout at once.
pub(super) fn bytes(bytes: &[u8]) -> anyhow::Result<Reader> {
    write_to(io::stdout().lock(), bytes).context("stdout cannot be written to")
}

/// One JSON object.
pub(super) fn json(value: &impl serde::Serialize) -> anyhow::Result<Reader> {
    result(serde_json::to_string(value)?)
}

/// A line for people, to stderr. Where that is closed there is nobody left to tell.
pub(super) fn note(text: impl Display) {
    let _nobody_to_tell = io::stderr().lock().write_all(format!("{text}\n").as_bytes());
}

fn write_to(mut to: impl Write, bytes: &[u8]) -> io::Result<Reader> {
    match to.write_all(bytes).and_then(|()| to.flush()) {
        Ok(()) => Ok(Reader::Listens),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes the bytes, and fails when they are to be gone.
    struct Failing(io::ErrorKind);

    impl Write for Failing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn a_broken_pipe_is_told_apart_from_what_is_an_error() {
        assert_eq!(write_to(Vec::new(), b"text").unwrap(), Reader::Listens);
        assert_eq!(write_to(Failing(io::ErrorKind::BrokenPipe), b"text").unwrap(), Reader::Gone);
        assert!(write_to(Failing(io::ErrorKind::StorageFull), b"text").is_err());
    }
}
