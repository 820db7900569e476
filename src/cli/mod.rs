//! The command line: one file for each command; and the log, the reload of the configuration and the shutdown, which only
//! `serve` needs.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod allocator;
mod autoscaler;
mod check;
mod clouds;
mod compare;
mod demo;
mod environment;
mod events;
mod groups;
mod instance_types;
pub mod log;
mod manifest;
mod migrate;
mod output;
mod patience;
mod prices;
mod reading;
mod record;
mod reload;
mod replay;
mod serve;
mod server;
mod shell;
pub mod shutdown;
mod template;
mod verify;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use thiserror::Error;

use log::LogFormat;
pub use reload::RELOAD_FAMILIES;

use crate::cloud::text::printable;
use crate::config::ConfigError;
use crate::fleet::Fleet;

/// An external cloud provider for the Kubernetes Cluster Autoscaler.
///
/// The Cluster Autoscaler runs with --cloud-provider=externalgrpc. Over gRPC, it asks Headcount which node groups
/// exist, how big they are and what a new node would look like, and asks it to grow or shrink them.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// What to log: error, warn, info, debug, trace, off, or per module, as in `info,headcount::fleet=debug` [default:
    /// info; warn for verify; off for demo].
    #[arg(long, global = true, env = "HEADCOUNT_LOG", value_name = "FILTER", help_heading = "Logging")]
    log: Option<String>,
    /// The log format: text for people, JSON for programs.
    #[arg(long, global = true, env = "HEADCOUNT_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text, help_heading = "Logging")]
    log_format: LogFormat,
}

/// Each command's struct has its help text.
#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    Demo(demo::Demo),
    Check(check::Check),
    Compare(compare::Compare),
    Groups(groups::Groups),
    Template(template::Template),
    Record(record::Record),
    Replay(replay::Replay),
    Verify(verify::Verify),
    Migrate(migrate::Migrate),
    Prices(prices::PricesOfGroups),
    InstanceTypes(instance_types::InstanceTypes),
    Completions(shell::Completions),
    Man(shell::Man),
}

impl Command {
    /// What it logs unless the command line says otherwise. Log lines would run into the page of the demo, and into the
    /// table of verify.
    fn default_log(&self) -> &'static str {
        match self {
            Self::Demo(_) => "off",
            Self::Verify(_) => "warn",
            _ => "info",
        }
    }
}

/// Why a command failed.
#[derive(Debug, Error)]
enum CommandError {
    /// The configuration or the command line is invalid: exit code 2.
    #[error("{0}")]
    Configuration(#[from] ConfigError),
    /// The command itself rejects its arguments: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// Sources that cannot be connected, each with its reason: exit code 2.
    #[error("{}", .0.join("; "))]
    Sources(Vec<String>),
    /// What the command was to find, which it has printed: exit code 1.
    #[error("{0}")]
    Found(String),
    /// Anything else: exit code 1.
    #[error("{0}")]
    Failed(String),
}

impl CommandError {
    /// Fails with these problems of a command that reads, and with what the fleet cannot read.
    fn unless_read(fleet: &Fleet, mut problems: Vec<String>) -> Result<(), Self> {
        problems.extend(fleet.problems());
        problems.extend(fleet.unread_groups().into_iter().map(|(group, why)| format!("{group} cannot be read: {why}")));
        if problems.is_empty() { Ok(()) } else { Err(Self::Failed(problems.join("; "))) }
    }
}

/// Parses the command line and runs the command. Returns 0 for success, 1 for failure, and 2 for an invalid
/// configuration or command line.
pub fn run() -> ExitCode {
    environment::remove_empty_variables();
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    allocator::return_large_buffers();
    let Arguments { command, log, log_format } = Arguments::parse();
    let filter = log.as_deref().filter(|filter| !filter.trim().is_empty()).unwrap_or_else(|| command.default_log());
    let outcome = log::start(filter, log_format).and_then(|()| runtime()).and_then(|runtime| {
        let outcome = runtime.block_on(async {
            match command {
                Command::Serve(serve) => serve.run().await,
                Command::Demo(demo) => demo.run().await,
                Command::Check(check) => check.run().await,
                Command::Compare(compare) => compare.run().await,
                Command::Groups(groups) => groups.run().await,
                Command::Template(template) => template.run().await,
                Command::Record(record) => record.run().await,
                Command::Replay(replay) => replay.run(),
                Command::Verify(verify) => verify.run().await,
                Command::Migrate(migrate) => migrate.run(),
                Command::Prices(prices) => prices.run().await,
                Command::InstanceTypes(instance_types) => instance_types.run().await,
                Command::Completions(completions) => completions.run(),
                Command::Man(man) => man.run(),
            }
        });
        // A file or name server that does not respond blocks a thread. The process exits without waiting for that
        // thread.
        runtime.shutdown_background();
        outcome
    });
    log::flush();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Not log lines: they are part of the command's output.
            let lines = match &error {
                CommandError::Sources(problems) => problems.clone(),
                CommandError::Found(_) => Vec::new(),
                other => vec![other.to_string()],
            };
            for line in lines {
                let _ignored = writeln!(io::stderr(), "headcount: {}", printable(&line));
            }
            match error {
                CommandError::Configuration(_) | CommandError::Usage(_) | CommandError::Sources(_) => ExitCode::from(2),
                CommandError::Found(_) | CommandError::Failed(_) => ExitCode::FAILURE,
            }
        }
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, CommandError> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::Failed(format!("cannot start threads: {error}")))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
