//! What an input may take: the most memory that the process had, compared with what it needs at rest.

use crate::peers::headcount::{ConfigFile, Server};

/// The most that any input may take above what the server needs at rest, in MiB.
pub(super) const MORE_MAX: u64 = 64;

/// The most memory that a server needs which is ready with this configuration, in MiB.
pub(super) fn at_rest(config: &ConfigFile) -> u64 {
    let server = Server::with_config(config);
    server.logged("\"ready\"");
    server.peak_memory()
}

/// Fails if the process ever had more. `--nocapture` shows the peak.
pub(super) fn takes_little(what: &str, server: &Server, rest: u64) {
    is_little(what, server.peak_memory(), rest);
}

/// The same for a process that has ended.
pub(super) fn is_little(what: &str, peak: u64, rest: u64) {
    println!("{what}: at most {peak} MiB, {rest} MiB at rest");
    assert!(peak < rest + MORE_MAX, "{what}: {peak} MiB, {rest} MiB at rest");
}
