//! The transport of one connection, in plaintext or TLS.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use super::client::ClientState;
use super::socket::Socket;

/// What requests arrive on.
#[derive(Debug)]
pub(super) enum Transport {
    /// Plaintext.
    Plain(Socket),
    /// TLS. Boxed: the state of a TLS session is a hundred times the size of a socket.
    Tls(Box<TlsStream<Socket>>),
}

trait Bytes: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Bytes for T {}

impl Transport {
    fn stream(&mut self) -> Pin<&mut dyn Bytes> {
        match self {
            Self::Plain(stream) => Pin::new(stream),
            Self::Tls(stream) => Pin::new(stream.as_mut()),
        }
    }
}

/// A transport whose client is watched.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) transport: Transport,
    pub(super) client: Arc<ClientState>,
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = self.transport.stream().poll_read(cx, buffer);
        if let Some(new) = buffer.filled().get(before..).filter(|new| !new.is_empty()) {
            self.client.receive(new);
        }
        outcome
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.transport.stream().poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.transport.stream().poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Plain(stream) => stream.is_write_vectored(),
            Transport::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport.stream().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport.stream().poll_shutdown(cx)
    }
}
