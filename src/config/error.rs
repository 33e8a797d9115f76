//! Why a configuration was refused.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why there is no configuration to work with. None of these texts holds a value that could be a secret.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// No file was named, and none is where one is looked for.
    #[error("no configuration file: there is no {}; name one with --config or $TALLYD_CONFIG", list(looked))]
    NotFound {
        /// Where it looked.
        looked: Vec<PathBuf>,
    },
    /// The file cannot be read.
    #[error("{}: {error}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// The file is not TOML, or holds an unknown key or a value of the wrong type.
    #[error("{}: {message}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// A `TALLYD__` variable names no setting, or has a value of the wrong type.
    #[error("environment: {message}")]
    Environment {
        /// What is wrong with it.
        message: String,
    },
    /// A setting has a value that cannot be used.
    #[error("{}{}: {problem}", file.display(), overridden(variables))]
    Setting {
        /// The file.
        file: PathBuf,
        /// The variables that override it.
        variables: Vec<String>,
        /// Which setting, and why.
        problem: Problem,
    },
}

/// A setting that cannot be used: `sync.batch_rows: 0 is too small; …`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    field: String,
    what: String,
}

impl Problem {
    /// `field` in dotted form; `what` is wrong and how to put it right.
    pub(super) fn new(field: impl Into<String>, what: impl Into<String>) -> Self {
        Self { field: field.into(), what: what.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.what)
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" and no ")
}

fn overridden(variables: &[String]) -> String {
    if variables.is_empty() { String::new() } else { format!(" (with {})", variables.join(", ")) }
}
