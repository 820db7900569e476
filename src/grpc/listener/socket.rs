//! The listening socket and the sockets of its clients: TCP or Unix.

use std::fs::{self, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixSocket, UnixStream};
use tokio_stream::StreamExt;
use tonic::transport::server::TcpIncoming;

use crate::grpc::listen::Listen;

/// Idle time after which the kernel probes the other end. CA sends no keepalives of its own; with these three settings, a
/// client that has vanished is noticed within a minute.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// The time between probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// After this many unanswered probes the connection is closed.
const KEEPALIVE_RETRIES: u32 = 3;

/// The most connections that wait to be accepted.
const BACKLOG: u32 = 128;

/// A listening socket. Dropping it closes it; a Unix socket's file is removed.
#[derive(Debug)]
pub struct Listener {
    sockets: Sockets,
    address: Listen,
}

#[derive(Debug)]
enum Sockets {
    Tcp(TcpIncoming),
    Unix { listener: UnixListener, _file: SocketFile },
}

/// The file of a Unix socket, while it is this process's.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl Listener {
    /// Starts to listen. A Unix socket gets these permissions; a file that no process listens on is replaced.
    ///
    /// # Errors
    ///
    /// Fails if the address is in use, or cannot be used.
    pub async fn bind(listen: &Listen, mode: u32) -> io::Result<Self> {
        match listen {
            Listen::Tcp(address) => TcpListener::bind(address).await?.try_into(),
            Listen::Unix(path) => {
                let (listener, file) = bind_unix(path, mode)?;
                Ok(Self { sockets: Sockets::Unix { listener, _file: file }, address: listen.clone() })
            }
        }
    }

    /// Where it listens, with the actual port if port 0 was asked for.
    pub fn address(&self) -> &Listen {
        &self.address
    }

    /// Waits for the next connection.
    pub(super) async fn accept(&mut self) -> io::Result<Socket> {
        match &mut self.sockets {
            Sockets::Tcp(incoming) => match incoming.next().await {
                Some(accepted) => accepted.map(Socket::Tcp),
                // A TCP listener has no last connection.
                None => std::future::pending().await,
            },
            Sockets::Unix { listener, .. } => listener.accept().await.map(|(stream, _)| Socket::Unix(stream)),
        }
    }
}

impl TryFrom<TcpListener> for Listener {
    type Error = io::Error;

    fn try_from(listener: TcpListener) -> io::Result<Self> {
        let address = Listen::Tcp(listener.local_addr()?);
        let incoming = TcpIncoming::from(listener)
            .with_nodelay(Some(true))
            .with_keepalive(Some(KEEPALIVE_IDLE))
            .with_keepalive_interval(Some(KEEPALIVE_INTERVAL))
            .with_keepalive_retries(Some(KEEPALIVE_RETRIES));
        Ok(Self { sockets: Sockets::Tcp(incoming), address })
    }
}

/// Binds under another name first, so that the socket has its permissions before anyone can find it, and a stale file is
/// replaced in one step.
fn bind_unix(path: &Path, mode: u32) -> io::Result<(UnixListener, SocketFile)> {
    refuse_unless_stale(path)?;
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let temporary = PathBuf::from(name);
    let _left_by_an_earlier_process_of_this_id = fs::remove_file(&temporary);
    let socket = UnixSocket::new_stream()?;
    socket.bind(&temporary)?;
    let placed = fs::set_permissions(&temporary, Permissions::from_mode(mode)).and_then(|()| {
        // Nobody can connect before this call, whatever the permissions were.
        let listener = socket.listen(BACKLOG)?;
        let identity = identity(&temporary)?;
        fs::rename(&temporary, path)?;
        Ok((listener, SocketFile { path: path.to_owned(), identity }))
    });
    placed.inspect_err(|_| {
        let _nothing_else_can_be_done = fs::remove_file(&temporary);
    })
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
        // The file may be another process's by now.
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            let _nothing_else_can_be_done = fs::remove_file(&self.path);
        }
    }
}

/// The socket of one client.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// The client's address; a client of a Unix socket has none.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.peer_addr().ok(),
            Self::Unix(_) => None,
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Unix(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
