//! The command line: one file a command.

mod check;
mod completions;
mod exit;
mod man;
mod migrate;
mod output;
mod progress;
mod reconcile;
mod report;
mod serve;
mod status;
mod sync;
mod warm;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;
use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

pub use exit::Exit;

use crate::config::{self, Config};
use crate::logging::{self, Level};
use crate::sync::Context;

/// Likes, favourites, follows and views: recorded in Redis, mirrored to MySQL in batches.
#[derive(Debug, Parser)]
#[command(name = "tallyd", version, arg_required_else_help = true)]
pub struct Cli {
    /// Configuration file [default: $TALLYD_CONFIG, /etc/tallyd/config.toml or ./config.toml]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon: schedules, and the write API
    Serve(serve::Args),
    /// Copy what changed to MySQL, now
    Sync(sync::Args),
    /// Show or mail what the last reconciliation found
    Report(report::Args),
    /// Compare both sides, and repair what differs
    Reconcile(reconcile::Args),
    /// Load the most active targets
    Warm(warm::Args),
    /// Show the backlog, the partitions and the last runs
    Status(status::Args),
    /// Check the configuration and both servers
    Check(check::Args),
    /// Bring the schema up to date
    Migrate,
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Write the manual pages
    #[command(hide = true)]
    Man(man::Args),
}

/// Runs a command, and answers the exit code of the process.
#[must_use]
pub fn main(cli: Cli) -> ExitCode {
    let outcome = match cli.command {
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
        command => match configuration(cli.config.as_deref()) {
            Ok((config, filter)) => start(config, filter).and_then(|(context, level, runtime)| {
                let outcome = runtime.block_on(dispatch(command, context, level));
                // What a hung server still holds up is not waited for.
                runtime.shutdown_background();
                outcome
            }),
            Err(error) => {
                output::note(format_args!("tallyd: {error:#}"));
                Ok(Exit::Configuration)
            }
        },
    };
    outcome
        .unwrap_or_else(|error| {
            output::note(format_args!("tallyd: {error:#}"));
            Exit::Failed
        })
        .into()
}

/// All that is configured: the file with the variables over it, and `$RUST_LOG`.
fn configuration(file: Option<&Path>) -> anyhow::Result<(Config, EnvFilter)> {
    // Its text holds its cause.
    let config = config::load(file).map_err(|error| anyhow!("{error}"))?;
    let filter = logging::filter(&config.log)?;
    Ok((config, filter))
}

fn start(config: Config, filter: EnvFilter) -> anyhow::Result<(Context, Level, tokio::runtime::Runtime)> {
    // All TLS users, redis, sqlx and lettre, take this one; two of them in one process would panic.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        anyhow::bail!("a TLS provider was installed already");
    }
    let level = logging::init(&config.log, filter)?;
    tracing::debug!(file = %config.file.display(), "configuration");
    let runtime = tokio::runtime::Runtime::new()?;
    Ok((Context::new(config), level, runtime))
}

async fn dispatch(command: Command, context: Context, level: Level) -> anyhow::Result<Exit> {
    match command {
        Command::Serve(args) => Box::pin(serve::run(args, context, level)).await,
        Command::Sync(args) => sync::run(args, context).await,
        Command::Report(args) => report::run(args, context).await,
        Command::Reconcile(args) => Box::pin(reconcile::run(args, context)).await,
        Command::Warm(args) => warm::run(args, context).await,
        Command::Status(args) => status::run(args, context).await,
        Command::Check(args) => Box::pin(check::run(args, context)).await,
        Command::Migrate => migrate::run(&context).await,
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
