//! Limits the number of open connections and how long each may live.
//!
//! axum's server has no limits of its own. With kubelet probes, the port is open to the whole pod network; a client that sends
//! one byte per minute must not lock the probes out.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// The most open connections; further ones wait in the kernel's backlog. Probes and metrics scrapers need only a few.
const CONNECTIONS_MAX: usize = 64;

/// How long a connection may live. Long enough that a metrics scraper seldom has to reconnect.
const LIFETIME: Duration = Duration::from_secs(120);

/// A listening socket with a limit on its open connections.
pub(super) struct BoundedListener {
    tcp: TcpListener,
    permits: Arc<Semaphore>,
    lifetime: Duration,
}

impl BoundedListener {
    pub(super) fn new(tcp: TcpListener) -> Self {
        Self::bounded(tcp, CONNECTIONS_MAX, LIFETIME)
    }

    fn bounded(tcp: TcpListener, connections_max: usize, lifetime: Duration) -> Self {
        Self { tcp, permits: Arc::new(Semaphore::new(connections_max)), lifetime }
    }
}

impl Listener for BoundedListener {
    type Io = BoundedConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        // Cannot fail: the semaphore is never closed.
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        let (stream, address) = Listener::accept(&mut self.tcp).await;
        (BoundedConnection { stream, end: Box::pin(tokio::time::sleep(self.lifetime)), _permit: permit }, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}

/// A connection that holds one of the permits, and whose reads fail once its lifetime is over.
pub(super) struct BoundedConnection {
    stream: TcpStream,
    end: Pin<Box<Sleep>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl BoundedConnection {
    fn poll_alive(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.end.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for BoundedConnection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll_alive(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for BoundedConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_alive(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::time::Instant;

    use super::*;

    async fn mk_listener(connections_max: usize) -> (BoundedListener, SocketAddr) {
        let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = tcp.local_addr().expect("an address");
        (BoundedListener::bounded(tcp, connections_max, LIFETIME), address)
    }

    #[tokio::test]
    async fn a_connection_above_the_limit_waits() {
        let (mut listener, address) = mk_listener(1).await;
        let _clients = (TcpStream::connect(address).await, TcpStream::connect(address).await);
        let (first, _) = listener.accept().await;
        let mut second = std::pin::pin!(listener.accept());
        assert!(has_to_wait(second.as_mut()).await, "more connections than the limit");
        drop(first);
        second.await;
    }

    /// Whether a future is still pending after other tasks have run.
    async fn has_to_wait<F: Future>(mut future: Pin<&mut F>) -> bool {
        for _ in 0..10 {
            tokio::task::yield_now().await;
            if std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await {
                return false;
            }
        }
        true
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_ends_with_its_lifetime() {
        let (mut listener, address) = mk_listener(1).await;
        let _silent = TcpStream::connect(address).await.expect("a connection");
        let began = Instant::now();
        let (mut connection, _) = listener.accept().await;
        let end = connection.read(&mut [0; 1]).await.expect_err("an end");
        assert_eq!(end.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= LIFETIME);
    }
}
