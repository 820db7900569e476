//! The command line: one file a command, and no logic of their own.

mod check;
mod clouds;
mod groups;
mod instance_types;
mod serve;
pub mod shutdown;
mod template;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use thiserror::Error;
use tracing_subscriber::EnvFilter;

use crate::config::ConfigError;

/// An external cloud provider for the Kubernetes Cluster Autoscaler.
///
/// The Cluster Autoscaler runs with --cloud-provider=externalgrpc and asks Headcount, over gRPC, which node groups exist,
/// how big they are, what a new node would look like, and to grow or shrink them.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// What to log: error, warn, info, debug, trace, or per module, as in `info,headcount::fleet=debug`.
    #[arg(long, global = true, env = "HEADCOUNT_LOG", default_value = "info", value_name = "FILTER")]
    log: String,
    /// How to log: for people or for machines.
    #[arg(long, global = true, env = "HEADCOUNT_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the node groups to the Cluster Autoscaler.
    Serve(serve::Serve),
    /// Check credentials, permissions, groups and templates, and say what to do about what is wrong.
    Check(check::Check),
    /// List the node groups and their sizes, as they would be served.
    Groups(groups::Groups),
    /// Show the node that the Cluster Autoscaler will be told a group grows by.
    Template(template::Template),
    /// Work with tables of instance types.
    InstanceTypes(instance_types::InstanceTypes),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    /// One line a decision.
    Text,
    /// One JSON object a line.
    Json,
}

/// How a command prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Aligned columns.
    Table,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// Why a command failed.
#[derive(Debug, Error)]
enum CommandError {
    /// The configuration, or the command line, cannot be used: exit code 2.
    #[error("{0}")]
    Configuration(#[from] ConfigError),
    /// The same, for what the command itself refuses.
    #[error("{0}")]
    Usage(String),
    /// Anything else: exit code 1.
    #[error("{0}")]
    Failed(String),
}

/// Parses the command line, runs the command, and says how it went: 0 for success, 1 for failure, 2 where the
/// configuration cannot be used.
pub fn run() -> ExitCode {
    let Arguments { command, log, log_format } = Arguments::parse();
    let outcome = start_logs(&log, log_format).and_then(|()| runtime()).and_then(|runtime| {
        runtime.block_on(async {
            match command {
                Command::Serve(serve) => serve.run().await,
                Command::Check(check) => check.run().await,
                Command::Groups(groups) => groups.run().await,
                Command::Template(template) => template.run().await,
                Command::InstanceTypes(instance_types) => instance_types.run().await,
            }
        })
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Not a log line: it is the command's answer.
            let _nobody_reads = writeln!(io::stderr(), "headcount: {error}");
            match error {
                CommandError::Configuration(_) | CommandError::Usage(_) => ExitCode::from(2),
                CommandError::Failed(_) => ExitCode::FAILURE,
            }
        }
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, CommandError> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::Failed(format!("no threads can be started: {error}")))
}

fn start_logs(filter: &str, format: LogFormat) -> Result<(), CommandError> {
    let bad = |error| CommandError::Usage(format!("--log {filter:?}: {error}; try --log info"));
    // What kube logs about each failed request, src/fleet/learning.rs logs once.
    let filter = EnvFilter::try_new(format!("kube_client=off,kube_runtime=off,{filter}")).map_err(bad)?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match format {
        LogFormat::Text => logs.with_ansi(io::stderr().is_terminal()).init(),
        LogFormat::Json => logs.json().flatten_event(true).init(),
    }
    Ok(())
}

/// Writes a command's answer. A reader that has seen enough (`| head`) is no failure.
fn print(text: &str) -> Result<(), CommandError> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CommandError::Failed(format!("cannot write the answer: {error}")))
        }
        _ => Ok(()),
    }
}

/// Lays rows out in columns, the first row being the heading.
fn columns(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = width(column).unwrap_or_default();
            line.push_str(&format!("{cell:width$}   "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn columns_line_up() {
        let rows = [vec!["ID".to_owned(), "MIN".to_owned()], vec!["web".to_owned(), "1".to_owned()]];
        assert_eq!(columns(&rows), "ID    MIN\nweb   1\n");
    }
}
