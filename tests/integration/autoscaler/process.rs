//! A program that a scenario starts, and its log.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running program. It is killed when this is dropped; its log stays.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts the program and sends what it prints to `NAME.log` in this folder.
    pub(super) fn start(name: &str, folder: &Path, command: &mut Command) -> Self {
        let log = folder.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log).expect("a log file");
        let copy = file.try_clone().expect("a second handle");
        let child = command.stdin(Stdio::null()).stdout(file).stderr(copy).spawn();
        Self { child: child.unwrap_or_else(|error| panic!("{name} does not start: {error}")), log }
    }

    /// All lines of its log so far.
    pub(super) fn lines(&self) -> Vec<String> {
        let text = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
    }

    /// Whether a line of its log contains this text.
    pub(super) fn has_logged(&self, part: &str) -> bool {
        self.lines().iter().any(|line| line.contains(part))
    }
}

impl Process {
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it (SIGKILL).
    pub(super) fn kill(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
