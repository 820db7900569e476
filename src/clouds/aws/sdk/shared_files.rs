//! The shared credentials and configuration files of AWS, and whether they have changed.

use std::path::PathBuf;
use std::time::SystemTime;

/// The last modification time of a file, and its size. `None` if there is no such file.
pub(super) type FileStamp = Option<(SystemTime, u64)>;

/// The stamps of the shared files.
pub(super) fn stamps() -> Vec<FileStamp> {
    let stamp = |path: PathBuf| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    shared_files().map(stamp).collect()
}

fn shared_files() -> impl Iterator<Item = PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let files = [("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"), ("AWS_CONFIG_FILE", ".aws/config")];
    files
        .into_iter()
        .map(move |(variable, usual)| std::env::var_os(variable).map_or_else(|| home.join(usual), PathBuf::from))
}
