//! `headcount completions` and `headcount man`: what a package installs beside the binary.

use clap::CommandFactory;
use clap_complete::Shell;

use super::output::print;
use super::{Arguments, CommandError};

const PROGRAM: &str = "headcount";

/// Print the completions for a shell.
#[derive(Debug, clap::Args)]
pub(super) struct Completions {
    /// The shell.
    shell: Shell,
}

/// Print the manual page in roff.
#[derive(Debug, clap::Args)]
pub(super) struct Man;

impl Completions {
    pub(super) fn run(self) -> Result<(), CommandError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), PROGRAM, &mut script);
        print(&String::from_utf8_lossy(&script))
    }
}

impl Man {
    pub(super) fn run(self) -> Result<(), CommandError> {
        let mut page = Vec::new();
        let rendered = clap_mangen::Man::new(Arguments::command()).render(&mut page);
        rendered.map_err(|error| CommandError::Failed(format!("the manual page cannot be rendered: {error}")))?;
        print(&String::from_utf8_lossy(&page))
    }
}
