//! The file of a Unix socket.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixSocket};

/// The most connections that wait to be accepted.
const BACKLOG: u32 = 128;

/// The file of a Unix socket that this process created.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    /// Binds under another name first, so that the socket has its permissions before anyone can find it, and a stale file is
    /// replaced in one step.
    pub(super) fn bind(path: &Path, mode: u32) -> io::Result<(UnixListener, Self)> {
        refuse_unless_stale(path)?;
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}", std::process::id()));
        let temporary = PathBuf::from(name);
        let _left_by_an_earlier_process_of_this_id = fs::remove_file(&temporary);
        let socket = UnixSocket::new_stream()?;
        socket.bind(&temporary)?;
        let placed = fs::set_permissions(&temporary, Permissions::from_mode(mode)).and_then(|()| {
            // No client can connect before this call, even if the permissions allowed it.
            let listener = socket.listen(BACKLOG)?;
            let identity = identity(&temporary)?;
            fs::rename(&temporary, path)?;
            Ok((listener, Self { path: path.to_owned(), identity }))
        });
        placed.inspect_err(|_| {
            let _nothing_else_can_be_done = fs::remove_file(&temporary);
        })
    }
}

/// Fails if something that is not a socket has this path, or a process listens on it.
fn refuse_unless_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file that is not a socket has this name"))
        }
        Ok(_) => match std::os::unix::net::UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens on this socket")),
        },
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another process may have replaced the file.
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            let _nothing_else_can_be_done = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::socket::Listener;
    use super::*;
    use crate::grpc::listen::Listen;

    fn listen_in(folder: &tempfile::TempDir) -> (PathBuf, Listen) {
        let path = folder.path().join("grpc.sock");
        (path.clone(), Listen::Unix(path))
    }

    #[tokio::test]
    async fn a_socket_has_its_mode_and_its_file_goes_with_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, listen) = listen_in(&folder);
        for mode in [0o600, 0o660] {
            let listener = Listener::bind(&listen, mode).await.expect("bound");
            assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o7777, mode);
            assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
            drop(listener);
            assert!(!path.exists());
        }
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_live_one_or_a_file_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, listen) = listen_in(&folder);
        drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
        assert!(path.exists(), "the standard library leaves the file behind");
        let live = Listener::bind(&listen, 0o600).await.expect("a stale file is replaced");
        let refused = Listener::bind(&listen, 0o600).await.expect_err("it is in use");
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        drop(live);
        fs::write(&path, "precious").expect("a file");
        let refused = Listener::bind(&listen, 0o600).await.expect_err("not a socket");
        assert!(refused.to_string().contains("not a socket"), "{refused}");
        assert_eq!(fs::read_to_string(&path).expect("kept"), "precious");
    }

    #[tokio::test]
    async fn the_file_of_another_process_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, listen) = listen_in(&folder);
        let ours = Listener::bind(&listen, 0o600).await.expect("bound");
        fs::remove_file(&path).expect("removed");
        let _theirs = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
        drop(ours);
        assert!(path.exists());
    }
}
