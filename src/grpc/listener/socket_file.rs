//! The file of a Unix socket.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::{UnixListener, UnixSocket};
use tracing::warn;

/// The most connections that wait to be accepted.
const BACKLOG: u32 = 128;

/// How often, and after which pauses, a lock is asked for. It is held for less than a millisecond.
const LOCK_ATTEMPTS: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The permissions of users who are neither the owner nor of its group.
const EVERYONE: u32 = 0o007;

/// The file of a Unix socket that this process created.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    /// Binds in a private folder first, so that the socket has its permissions before anyone can find it, nobody can
    /// plant a link in its place, and a stale file is replaced in one step.
    pub(super) fn bind(path: &Path, mode: u32) -> io::Result<(UnixListener, Self)> {
        let _until_it_is_in_place = lock_folder(path)?;
        refuse_unless_stale(path)?;
        if mode & EVERYONE != 0 {
            warn!(socket = %path.display(), "every user of this host may connect to the Unix socket; set socketMode: \
                \"0600\"");
        }
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}", std::process::id()));
        let folder = PathBuf::from(name);
        remove(&folder);
        DirBuilder::new().mode(0o700).create(&folder)?;
        let placed = Self::place(&folder.join("s"), path, mode);
        remove(&folder);
        placed
    }

    fn place(temporary: &Path, path: &Path, mode: u32) -> io::Result<(UnixListener, Self)> {
        let socket = UnixSocket::new_stream()?;
        socket.bind(temporary)?;
        fs::set_permissions(temporary, Permissions::from_mode(mode))?;
        // No client can connect before this call, even if the permissions allowed it.
        let listener = socket.listen(BACKLOG)?;
        let identity = identity(temporary)?;
        fs::rename(temporary, path)?;
        Ok((listener, Self { path: path.to_owned(), identity }))
    }
}

/// Locks the folder of a socket: of two processes that start at once, the second one has to find the socket of the first.
/// `None` where the folder or its file system allows no lock.
fn lock_folder(path: &Path) -> io::Result<Option<File>> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let Ok(folder) = File::open(folder) else { return Ok(None) };
    for _ in 0..LOCK_ATTEMPTS {
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(folder)),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(LOCK_PAUSE),
            Err(_not_supported) => return Ok(None),
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "another process holds a lock on its folder"))
}

/// Removes a private folder, which an earlier process of this ID may have left.
fn remove(folder: &Path) {
    let _there_is_none = fs::remove_file(folder.join("s"));
    let _there_is_none = fs::remove_dir(folder);
}

/// Fails if something that is not a socket has this path, or a process listens on it.
fn refuse_unless_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file that is not a socket has this name"))
        }
        Ok(_) => match probe(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens on this socket")),
        },
    }
}

/// Connects to a socket without waiting. Where its owner has stopped and its queue is full, this returns at once.
fn probe(path: &Path) -> io::Result<()> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) {
        // Its queue is full, so some process owns it.
        Err(error) if error == Errno::AGAIN => Ok(()),
        connected => Ok(connected?),
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

    #[test]
    fn of_two_that_start_at_once_the_second_waits_until_the_first_has_its_socket() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, _) = listen_in(&folder);
        let first = lock_folder(&path).expect("free").expect("a lock");
        let again = File::open(folder.path()).expect("a folder");
        assert_eq!(flock(again, FlockOperation::NonBlockingLockExclusive), Err(Errno::WOULDBLOCK));
        let second = std::thread::spawn(move || lock_folder(&path).map(|lock| lock.is_some()));
        drop(first);
        assert!(second.join().expect("no panic").expect("free again"));
    }

    #[tokio::test]
    async fn a_socket_whose_owner_accepts_nothing_is_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, listen) = listen_in(&folder);
        let socket = UnixSocket::new_stream().expect("a socket");
        socket.bind(&path).expect("bound");
        let _stopped = socket.listen(1).expect("listens");
        // Fills the queue; the kernel takes one more than asked for.
        let _queued: Vec<_> = (0..8).map(|_| probe(&path)).collect();
        let kept = (0..8).map(|_| {
            let stream = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK, None);
            let stream = stream.expect("a socket");
            let _full = rustix::net::connect(&stream, &SocketAddrUnix::new(&path).expect("a path"));
            stream
        });
        let _kept: Vec<_> = kept.collect();
        let refused = Listener::bind(&listen, 0o600).await.expect_err("it is in use");
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
    }

    #[tokio::test]
    async fn a_planted_link_or_folder_gains_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, listen) = listen_in(&folder);
        let precious = folder.path().join("precious");
        fs::write(&precious, "x").expect("a file");
        fs::set_permissions(&precious, Permissions::from_mode(0o600)).expect("set");
        let planted = folder.path().join(format!("grpc.sock.{}", std::process::id()));
        std::os::unix::fs::symlink(&precious, &planted).expect("a link");
        assert!(Listener::bind(&listen, 0o666).await.is_err(), "the folder's name is taken");
        assert_eq!(fs::metadata(&precious).expect("a file").permissions().mode() & 0o777, 0o600);
        assert!(!path.exists());
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
