//! The `tallyd` binary: see the library for everything it does.

use std::process::ExitCode;

use clap::Parser;
use tallyd::cli::{self, Cli};

fn main() -> ExitCode {
    cli::main(Cli::parse())
}
