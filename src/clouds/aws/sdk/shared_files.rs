//! The shared credentials and configuration files of AWS, and whether they have changed.

use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

use thiserror::Error;

use crate::limits::{AWS_FILE, read_file};

/// The variables that name files with tokens, which the SDK exchanges for credentials: of IAM roles for service accounts, and of EKS Pod
/// Identity.
const TOKEN_FILES: [&str; 2] = ["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"];

/// A file that the SDK would read without a limit.
#[derive(Debug, Error)]
#[error("the file {path}, which AWS credentials may be in, cannot be used: {source}")]
pub struct SharedFileError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

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

/// Fails if a file that the SDK reads for credentials could block it, has no end or is too long. The SDK itself reads any file.
pub(super) async fn check() -> Result<Vec<String>, SharedFileError> {
    let reading = tokio::task::spawn_blocking(|| {
        for path in shared_files() {
            match read_file(&path, AWS_FILE) {
                Err(source) if source.kind() == io::ErrorKind::InvalidInput => {
                    return Err(SharedFileError { path, source });
                }
                // The SDK says what it lacks.
                Ok(_) | Err(_) => {}
            }
        }
        let mut tokens = Vec::new();
        for path in TOKEN_FILES.iter().filter_map(std::env::var_os).map(PathBuf::from) {
            match read_file(&path, AWS_FILE) {
                Err(source) if source.kind() == io::ErrorKind::InvalidInput => {
                    return Err(SharedFileError { path, source });
                }
                Ok(bytes) => tokens.extend(String::from_utf8(bytes)),
                Err(_) => {}
            }
        }
        Ok(tokens)
    });
    let late = || SharedFileError { path: "~/.aws".into(), source: io::ErrorKind::TimedOut.into() };
    let read = tokio::time::timeout(AWS_FILE.time, reading).await.map_err(|_elapsed| late())?;
    read.unwrap_or_else(|_panicked| Err(late()))
}

fn shared_files() -> impl Iterator<Item = PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let files = [("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"), ("AWS_CONFIG_FILE", ".aws/config")];
    files
        .into_iter()
        .map(move |(variable, usual)| std::env::var_os(variable).map_or_else(|| home.join(usual), PathBuf::from))
}
