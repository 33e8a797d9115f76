//! `tallyd completions`

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, Exit};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell
    shell: Shell,
}

pub(super) fn run(args: &Args) -> Exit {
    clap_complete::generate(args.shell, &mut Cli::command(), "tallyd", &mut std::io::stdout());
    Exit::Done
}
