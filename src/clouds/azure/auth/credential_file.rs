//! Reads the files with which Headcount signs in to Azure.

use std::io;
use std::path::{Path, PathBuf};

use crate::limits::{AZURE_FILE, read_file};

/// The content of a file, at the start.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_file(path, AZURE_FILE)
}

/// The same while the server runs: a file system that hangs delays no other task.
pub(super) async fn read_later(path: PathBuf) -> io::Result<Vec<u8>> {
    let reading = tokio::task::spawn_blocking(move || read(&path));
    match tokio::time::timeout(AZURE_FILE.time(), reading).await {
        Ok(read) => read.unwrap_or_else(|panic| Err(io::Error::other(panic))),
        Err(_elapsed) => Err(io::ErrorKind::TimedOut.into()),
    }
}
