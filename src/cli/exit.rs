//! Exit codes.

use std::process::ExitCode;

/// How the process ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Done.
    Done,
    /// Failed, or something was left.
    Failed,
    /// The command line cannot be understood.
    Usage,
    /// Drift was found and not repaired.
    Drift,
    /// Another owner holds the lease for longer than one waits (`EX_TEMPFAIL`).
    Busy,
    /// The configuration is wrong (`EX_CONFIG`).
    Configuration,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Drift => 3,
            Exit::Busy => 75,
            Exit::Configuration => 78,
        })
    }
}
