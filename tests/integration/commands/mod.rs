//! The commands that end by themselves.

mod check;
mod compare;
mod demo;
mod export;
mod verify;

use std::process::Output;

use headcount::clouds::simulated::Simulated;

use crate::emulators::Emulator;
use crate::peers::headcount::ConfigFile;

/// A source `here` behind an emulator, with these groups (lines of `nodeGroups`) and further sections.
fn config(emulator: &impl Emulator, node_groups: &[&str], more: &str) -> ConfigFile {
    let mut lines = vec![format!("sources:\n  - name: here\n    {}:", emulator.cloud())];
    lines.extend(emulator.settings().iter().map(|line| format!("      {line}")));
    lines.push(format!("      nodeGroups: {node_groups:?}"));
    ConfigFile::new(&format!("{}\n{more}\n", lines.join("\n")))
}

/// A simulated cloud without groups.
fn empty() -> std::sync::Arc<Simulated> {
    std::sync::Arc::new(Simulated::new(7))
}

/// What a command printed to stdout and to stderr.
pub(crate) fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}
