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
    clap_complete::generate(args.shell, &mut shown(), "tallyd", &mut script);
    output::bytes(&script)?;
    Ok(Exit::Done)
}

/// The command line without hidden commands, which the library would offer.
fn shown() -> clap::Command {
    let all = Cli::command();
    clap::Command::new("tallyd")
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments().cloned())
        .subcommands(all.get_subcommands().filter(|command| !command.is_hide_set()).cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_not_offered() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut shown(), "tallyd", &mut script);
            let script = String::from_utf8(script).unwrap();
            // By its description, or, for bash, by its name.
            assert!(!script.contains("manual pages") && !script.contains("tallyd,man"), "{shell}: {script}");
            assert!(script.contains("reconcile") && script.contains("version"), "{shell}: {script}");
        }
    }
}
