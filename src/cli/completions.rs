//! `tallyd completions`

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, Exit, output};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell
    shell: Shell,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    // Not to stdout: the library panics when that cannot be written to.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tallyd", &mut script);
    output::bytes(&script)?;
    Ok(Exit::Done)
}
