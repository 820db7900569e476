//! The demo as lines, where stdout is no terminal.

use std::io::{self, Write};

use super::stage::Stage;
use crate::cloud::text::printable;

/// Writes the lines as they come.
pub(super) struct Text<W> {
    output: W,
}

impl<W: Write> Text<W> {
    /// Writes the heading.
    pub(super) fn begin(mut output: W, addresses: &str) -> io::Result<Self> {
        writeln!(output, "{}\n", heading(addresses))?;
        Ok(Self { output })
    }

    /// Writes the new lines.
    pub(super) fn show(&mut self, stage: &mut Stage) -> io::Result<()> {
        for line in stage.take_new_lines() {
            writeln!(self.output, "{}", printable(&line.to_string()))?;
        }
        self.output.flush()
    }
}

/// What the demo is, for people who see only its output.
fn heading(addresses: &str) -> String {
    format!(
        "headcount demo: the server over a simulated cloud, and an imitation of the Cluster Autoscaler's loop.\n\
         {addresses}\n\
         in-tree: what the in-tree provider would have reported or written, by its published rules, where it differs.\n\
         Headcount reads the cloud every second here (refreshInterval, 15 s by default); the in-tree providers, every 60 s."
    )
}
