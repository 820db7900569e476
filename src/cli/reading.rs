//! The arguments of commands that read the node groups and print them.

use super::output::Output;
use super::patience::Patience;
use crate::config;

/// The arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Reading {
    #[command(flatten)]
    pub(super) configuration: config::Arguments,
    /// The output format.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub(super) output: Output,
    #[command(flatten)]
    pub(super) patience: Patience,
}
