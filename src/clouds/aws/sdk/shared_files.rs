//! The shared credentials and configuration files of AWS, and whether they have changed.

use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

use thiserror::Error;

use crate::cloud::secrets::Secret;
use crate::limits::{AWS_FILE, read_file};

/// The variables that name files with tokens, which the SDK exchanges for credentials: of IAM roles for service
/// accounts, and of EKS Pod Identity.
const TOKEN_FILES: [&str; 2] = ["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"];

/// The key that names such a file in a profile.
const TOKEN_FILE_KEY: &str = "web_identity_token_file";

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

/// Fails if a file that the SDK reads for credentials could block it, has no end or is too long. The SDK itself reads
/// any file.
pub(super) async fn check() -> Result<Vec<Secret>, SharedFileError> {
    let reading = tokio::task::spawn_blocking(|| {
        let read: Result<Vec<_>, _> = all_token_files()?.into_iter().map(text_of).collect();
        Ok(read?.into_iter().flatten().map(Secret::new).collect())
    });
    let late = || SharedFileError { path: "~/.aws".into(), source: io::ErrorKind::TimedOut.into() };
    let read = tokio::time::timeout(AWS_FILE.time(), reading).await.map_err(|_elapsed| late())?;
    read.unwrap_or_else(|_panicked| Err(late()))
}

/// Why a file with a token cannot be read, if there is such a file. The SDK's own error does not name the file.
pub(super) async fn unreadable_token_file() -> Option<SharedFileError> {
    let reading = tokio::task::spawn_blocking(|| {
        let files = all_token_files().unwrap_or_default();
        files
            .into_iter()
            .find_map(|path| read_file(&path, AWS_FILE).err().map(|source| SharedFileError { path, source }))
    });
    tokio::time::timeout(AWS_FILE.time(), reading).await.ok()?.ok()?
}

/// The files with tokens that the environment and the shared files name.
fn all_token_files() -> Result<Vec<PathBuf>, SharedFileError> {
    let mut files: Vec<PathBuf> = TOKEN_FILES.iter().filter_map(std::env::var_os).map(PathBuf::from).collect();
    for path in shared_files() {
        files.extend(text_of(path)?.as_deref().map(token_files).unwrap_or_default());
    }
    Ok(files)
}

/// The text of a file; `None` if it cannot be read, or is no text: the SDK says what it lacks.
fn text_of(path: PathBuf) -> Result<Option<String>, SharedFileError> {
    match read_file(&path, AWS_FILE) {
        Err(source) if source.kind() == io::ErrorKind::InvalidInput => Err(SharedFileError { path, source }),
        read => Ok(read.ok().and_then(|bytes| String::from_utf8(bytes).ok())),
    }
}

/// The files with tokens that the profiles in a shared file name.
pub(in crate::clouds::aws) fn token_files(text: &str) -> Vec<PathBuf> {
    let values = text.lines().filter_map(|line| line.split_once('=').filter(|(key, _)| key.trim() == TOKEN_FILE_KEY));
    values.map(|(_, path)| PathBuf::from(path.trim())).collect()
}

fn shared_files() -> impl Iterator<Item = PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let files = [("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"), ("AWS_CONFIG_FILE", ".aws/config")];
    files
        .into_iter()
        .map(move |(variable, usual)| std::env::var_os(variable).map_or_else(|| home.join(usual), PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_files_of_all_profiles_are_found() {
        let text = "[default]\nregion = r\n[profile a]\nweb_identity_token_file = /var/a=b \n\
                    [profile b]\n web_identity_token_file=/dev/zero\n# web_identity_token_file_x = /c\n";
        assert_eq!(token_files(text), [PathBuf::from("/var/a=b"), PathBuf::from("/dev/zero")]);
    }
}
