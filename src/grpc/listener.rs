//! Accepts the connections that the server serves, in plaintext or TLS.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::server::{Connected, TcpIncoming};
use tracing::{debug, field, warn};

use super::peer::{self, Peer};
use super::tls::LiveTls;

/// The longest a handshake may take. It needs only a few round trips.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// The most handshakes at a time; further connections wait in the kernel's backlog. The Cluster Autoscaler opens one
/// connection, so this is generous. It limits the CPU and memory that an unknown client can use.
const HANDSHAKES_MAX: usize = 64;

/// The most connections that are ready and not yet served. The server takes them at once.
const READY_MAX: usize = 16;

/// The pause after the system failed to accept a connection, usually because it ran out of file descriptors or memory. Both
/// become available when connections end; until then, immediate retries would only burn CPU.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Idle time after which the kernel probes the other end. CA sends no keepalives of its own; with these three settings, a
/// client that has vanished is noticed within a minute.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// The time between probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// After this many unanswered probes the connection is closed.
const KEEPALIVE_RETRIES: u32 = 3;

/// Returns the connections to a listening socket, each ready to be served: with TLS, after the handshake and the check of the
/// client's names. Dropping the stream closes the socket. Must be called inside a Tokio runtime.
pub fn incoming(
    tcp: TcpListener,
    tls: Option<Arc<LiveTls>>,
) -> impl Stream<Item = io::Result<Connection>> + Send + 'static {
    let (ready, connections) = mpsc::channel(READY_MAX);
    tokio::spawn(accept(tcp, tls, ready));
    ReceiverStream::new(connections)
}

/// Accepts connections until the receiver is dropped. No error of a single connection ends the loop.
async fn accept(tcp: TcpListener, tls: Option<Arc<LiveTls>>, ready: mpsc::Sender<io::Result<Connection>>) {
    let mut sockets = TcpIncoming::from(tcp)
        .with_nodelay(Some(true))
        .with_keepalive(Some(KEEPALIVE_IDLE))
        .with_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .with_keepalive_retries(Some(KEEPALIVE_RETRIES));
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    loop {
        let next = async {
            let permit = Arc::clone(&handshakes).acquire_owned().await;
            (permit, sockets.next().await)
        };
        let (permit, socket) = tokio::select! {
            () = ready.closed() => return,
            next = next => next,
        };
        match socket {
            Some(Ok(socket)) => {
                let (tls, ready) = (tls.clone(), ready.clone());
                tokio::spawn(async move {
                    if let Some(connection) = admit(socket, tls.as_deref()).await {
                        // This fails only after the server has stopped, when the connection is no longer needed.
                        let _ = ready.send(Ok(connection)).await;
                    }
                    drop(permit);
                });
            }
            Some(Err(error)) if concerns_one_connection(&error) => {
                debug!(%error, "connection closed before it was accepted")
            }
            Some(Err(error)) => {
                warn!(%error, "cannot accept connections; retrying in 1s");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            None => return,
        }
    }
}

/// Performs the TLS handshake and checks the client's names. A rejected client is logged, and its connection is closed.
async fn admit(socket: TcpStream, tls: Option<&LiveTls>) -> Option<Connection> {
    let address = socket.peer_addr().ok();
    let Some(tls) = tls else {
        let peer = Peer { address, names: Arc::from([]) };
        return Some(Connection { transport: Transport::Plain(socket), peer });
    };
    let handshake = TlsAcceptor::from(tls.config()).accept(socket);
    let stream = match tokio::time::timeout(HANDSHAKE_LIMIT, handshake).await {
        Ok(Ok(stream)) => stream,
        // TCP probes do this all the time.
        Ok(Err(error)) if concerns_one_connection(&error) => {
            debug!(client = address.map(field::display), %error, "client disconnected during the TLS handshake");
            return None;
        }
        Ok(Err(error)) => {
            warn!(client = address.map(field::display), %error, "client rejected: TLS handshake failed");
            return None;
        }
        Err(_) => {
            warn!(client = address.map(field::display), limit = ?HANDSHAKE_LIMIT, "client rejected: TLS handshake timed out");
            return None;
        }
    };
    let names = certified_names(&stream, address);
    if !peer::is_allowed(&names, tls.allowed_clients()) {
        warn!(client = address.map(field::display), ?names, "client rejected: none of its names is in allowedClients");
        return None;
    }
    let peer = Peer { address, names: names.into() };
    Some(Connection { transport: Transport::Tls(Box::new(stream)), peer })
}

/// Returns the names in the client's certificate; none if it presented no certificate or an unreadable one.
fn certified_names(stream: &TlsStream<TcpStream>, address: Option<SocketAddr>) -> Vec<String> {
    let (_, session) = stream.get_ref();
    let Some(leaf) = session.peer_certificates().and_then(<[_]>::first) else { return Vec::new() };
    peer::certified_names(leaf).unwrap_or_else(|error| {
        warn!(client = address.map(field::display), %error, "names in the client certificate cannot be read; treating the client as one without names");
        Vec::new()
    })
}

/// Whether an error concerns one connection only, and not this process.
fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::Interrupted
            | io::ErrorKind::UnexpectedEof
    )
}

/// The connection of one client. Its requests carry its [`Peer`] as an extension.
#[derive(Debug)]
pub struct Connection {
    transport: Transport,
    peer: Peer,
}

#[derive(Debug)]
enum Transport {
    Plain(TcpStream),
    // Boxed: the state of a TLS session is a hundred times the size of a socket.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection {
    /// The client at the other end.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Transport::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Transport::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Transport::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Plain(stream) => stream.is_write_vectored(),
            Transport::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Transport::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Transport::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests;
