//! The listening socket and the sockets of its clients: TCP or Unix.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_stream::StreamExt;
use tonic::transport::server::TcpIncoming;

use super::socket_file::SocketFile;
use crate::grpc::listen::Listen;

/// Idle time after which the kernel probes the other end. CA sends no keepalives of its own; with these three settings,
/// a client that has vanished is noticed within a minute.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// The time between probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// After this many unanswered probes the connection is closed.
const KEEPALIVE_RETRIES: u32 = 3;

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
                let (listener, file) = SocketFile::bind(path, mode)?;
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

    /// Waits until the client has sent something, or has left: `false`.
    pub(super) async fn has_sent(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.peek(&mut [0]).await.is_ok_and(|bytes| bytes > 0),
            Self::Unix(_) => true,
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
