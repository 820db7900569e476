//! The connections that the server serves, plaintext or TLS.

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

/// The longest a handshake may take. It is a few round trips; who needs longer is not a client of ours.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// The most handshakes at a time; further connections wait in the kernel's backlog. The Cluster Autoscaler opens one
/// connection, so this is generous, and it bounds what a stranger can make us compute and remember.
const HANDSHAKES_MAX: usize = 64;

/// Connections that are ready and not yet taken up. The server takes them up at once.
const READY_MAX: usize = 16;

/// How long accepting pauses after the system refused it, which is for want of file descriptors or memory: both come
/// back when connections end, and until then trying again at once would only burn a processor.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Idle time after which the kernel asks whether the other end is still there. The client sends no keepalives of its own;
/// with these three, an end that has vanished is noticed within a minute.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// The time between such questions.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// How many of them go unanswered before the connection is given up.
const KEEPALIVE_RETRIES: u32 = 3;

/// The connections to a listening socket, each ready to be served: in TLS, after the handshake and the check of the
/// client's names. The socket is closed when the stream is dropped. To be called inside a Tokio runtime.
pub fn incoming(
    tcp: TcpListener,
    tls: Option<Arc<LiveTls>>,
) -> impl Stream<Item = io::Result<Connection>> + Send + 'static {
    let (ready, connections) = mpsc::channel(READY_MAX);
    tokio::spawn(accept(tcp, tls, ready));
    ReceiverStream::new(connections)
}

/// Accepts until nobody wants connections any more. Nothing that happens to one connection ends the loop.
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
                        // Refused only where the server has stopped, and then the connection has no use.
                        let _ = ready.send(Ok(connection)).await;
                    }
                    drop(permit);
                });
            }
            Some(Err(error)) if concerns_one_connection(&error) => debug!(%error, "a connection ended before its time"),
            Some(Err(error)) => {
                warn!(%error, "no connection can be accepted; trying again in a second");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            None => return,
        }
    }
}

/// Shakes hands with a client and checks its names. A client that is refused is logged, and its connection closed.
async fn admit(socket: TcpStream, tls: Option<&LiveTls>) -> Option<Connection> {
    let address = socket.peer_addr().ok();
    let Some(tls) = tls else {
        let peer = Peer { address, names: Arc::from([]) };
        return Some(Connection { transport: Transport::Plain(socket), peer });
    };
    let handshake = TlsAcceptor::from(tls.config()).accept(socket);
    let stream = match tokio::time::timeout(HANDSHAKE_LIMIT, handshake).await {
        Ok(Ok(stream)) => stream,
        // What a bare TCP probe does, again and again.
        Ok(Err(error)) if concerns_one_connection(&error) => {
            debug!(client = address.map(field::display), %error, "a client left during the TLS handshake");
            return None;
        }
        Ok(Err(error)) => {
            warn!(client = address.map(field::display), %error, "a client was refused in the TLS handshake");
            return None;
        }
        Err(_) => {
            warn!(client = address.map(field::display), limit = ?HANDSHAKE_LIMIT, "a client did not finish the TLS handshake");
            return None;
        }
    };
    let names = certified_names(&stream, address);
    if !peer::is_allowed(&names, tls.allowed_clients()) {
        warn!(
            client = address.map(field::display),
            ?names,
            "a client was refused: none of its names is among the allowed ones"
        );
        return None;
    }
    let peer = Peer { address, names: names.into() };
    Some(Connection { transport: Transport::Tls(Box::new(stream)), peer })
}

/// The names that the client's certificate gives it; none where it showed no certificate, or one that cannot be read.
fn certified_names(stream: &TlsStream<TcpStream>, address: Option<SocketAddr>) -> Vec<String> {
    let (_, session) = stream.get_ref();
    let Some(leaf) = session.peer_certificates().and_then(<[_]>::first) else { return Vec::new() };
    peer::certified_names(leaf).unwrap_or_else(|error| {
        warn!(client = address.map(field::display), %error, "a client counts as nameless");
        Vec::new()
    })
}

/// Whether an error is about the other end of one connection, and not about us.
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

/// One client's connection. Its requests carry its [`Peer`] as an extension.
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
    /// Who is at its other end.
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
