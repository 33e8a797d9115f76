//! The `tallyd` binary: see the library for everything it does.

use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;
use tallyd::cli::{self, Cli};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    cli::main(Cli::parse())
}
