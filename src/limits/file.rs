//! Reads files that others write: credentials, certificates, configuration.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

use super::Limit;

/// Reads a file, unless it has more bytes than its limit, could block (a pipe) or has no end (a device).
///
/// # Errors
///
/// If it is no such file, or cannot be read.
pub fn read_file(path: &Path, limit: Limit) -> io::Result<Vec<u8>> {
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    // Without this flag, opening a pipe waits for a writer. On a regular file, it has no effect.
    let non_blocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(non_blocking).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(wrong("it is not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(u64::try_from(limit.bytes).unwrap_or(u64::MAX).saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() > limit.bytes {
        return Err(too_large(limit));
    }
    Ok(bytes)
}

/// The error for what has more bytes than its limit.
pub fn too_large(limit: Limit) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is larger than {} KiB", limit.bytes >> 10))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::TLS_FILE;

    #[test]
    fn pipes_devices_folders_and_long_files_are_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        for path in [&pipe, &socket, Path::new("/dev/zero"), folder.path()] {
            assert!(read_file(path, TLS_FILE).is_err(), "{}", path.display());
        }
        let file = folder.path().join("file");
        for (bytes, is_read) in [(TLS_FILE.bytes, true), (TLS_FILE.bytes + 1, false)] {
            std::fs::write(&file, vec![b'x'; bytes]).expect("a file");
            assert_eq!(read_file(&file, TLS_FILE).is_ok_and(|read| read.len() == bytes), is_read, "{bytes}");
        }
        let link = folder.path().join("link");
        std::fs::write(&file, "x").expect("a file");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        assert_eq!(read_file(&link, TLS_FILE).expect("secrets of Kubernetes are links"), b"x");
    }
}
