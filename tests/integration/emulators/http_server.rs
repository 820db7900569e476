//! An HTTP server on a loopback port for an emulator, in plain HTTP or with TLS.
//!
//! It runs on a thread of its own: a test may block its own runtime, for example while it waits for a line in
//! Headcount's log, and Headcount needs responses meanwhile.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, State};
use axum::http::Response;
use axum::serve::{IncomingStream, Listener};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use super::core::{EmulatorCore, HoldPoint};
use super::http_messages::{HandlerResult, Interruption, Request};

/// The maximum size of a request's body.
const BODY_MAX: usize = 1 << 20;

/// Handles the requests of a server.
#[async_trait]
pub(super) trait RequestHandler: Send + Sync + 'static {
    /// The part that all emulators share.
    fn core(&self) -> &EmulatorCore;

    /// Handles a request that has no scripted response.
    async fn response(&self, request: &Request) -> HandlerResult;
}

/// A running server. It stops when this is dropped.
#[derive(Debug)]
pub(super) struct HttpServer {
    scheme: &'static str,
    address: SocketAddr,
    close: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Starts one on a free port.
    pub(super) fn open(front: Arc<dyn RequestHandler>) -> Self {
        Self::with(front, None)
    }

    /// The same with TLS.
    pub(super) fn open_secure(front: Arc<dyn RequestHandler>, tls: ServerConfig) -> Self {
        Self::with(front, Some(TlsAcceptor::from(Arc::new(tls))))
    }

    fn with(front: Arc<dyn RequestHandler>, tls: Option<TlsAcceptor>) -> Self {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        listener.set_nonblocking(true).expect("set");
        let address = listener.local_addr().expect("bound");
        let (close, closed) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener =
                    ConnectionListener { listener: TcpListener::from_std(listener).expect("a listener"), tls };
                let router = Router::new().fallback(serve).with_state((front, scheme));
                let serving = axum::serve(listener, router.into_make_service_with_connect_info::<ConnectionCutter>());
                tokio::select! {
                    _ = serving.into_future() => {}
                    _ = closed => {}
                }
            });
        });
        Self { scheme, address, close: Some(close), thread: Some(thread) }
    }

    pub(super) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        drop(self.close.take());
        if let Some(thread) = self.thread.take() {
            let _panicked_as_it_said = thread.join();
        }
    }
}

async fn serve(
    State((front, scheme)): State<(Arc<dyn RequestHandler>, &'static str)>,
    ConnectInfo(cutter): ConnectInfo<ConnectionCutter>,
    request: axum::extract::Request,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_MAX).await else { return Response::new(Body::empty()) };
    let text = |value: &axum::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let core = front.core();
    let request = Request {
        scheme,
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
        body: String::from_utf8_lossy(&body).into_owned(),
        at: core.uptime(),
        status: None,
    };
    let entry = core.note(&request);
    let behind = Arc::clone(&front);
    // A cloud that has received a request carries it out, even if the connection is gone.
    let carried_out = tokio::spawn(async move {
        behind.core().wait(&request, HoldPoint::BeforeEffect).await;
        let outcome = match behind.core().scripted(&request) {
            Some(response) => Ok(response),
            None => behind.response(&request).await,
        };
        behind.core().wait(&request, HoldPoint::BeforeResponse).await;
        outcome
    });
    match carried_out.await.expect("an emulator does not panic") {
        Ok(response) | Err(Interruption::Response(response)) => {
            core.note_answer(entry, response.status);
            response.into_http()
        }
        Err(Interruption::ConnectionCut) => {
            cutter.0.store(true, Ordering::Relaxed);
            Response::new(Body::empty())
        }
    }
}

/// Cuts a connection: nothing more is written to it.
#[derive(Clone, Debug)]
struct ConnectionCutter(Arc<AtomicBool>);

impl Connected<IncomingStream<'_, ConnectionListener>> for ConnectionCutter {
    fn connect_info(stream: IncomingStream<'_, ConnectionListener>) -> Self {
        stream.remote_addr().clone()
    }
}

/// Accepts connections, each with a cutter.
struct ConnectionListener {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
}

impl Listener for ConnectionListener {
    type Io = CuttableStream;
    type Addr = ConnectionCutter;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, _) = Listener::accept(&mut self.listener).await;
            let stream: Box<dyn ByteStream> = match &self.tls {
                None => Box::new(stream),
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => Box::new(stream),
                    Err(_who_does_not_trust_it) => continue,
                },
            };
            let cut = Arc::new(AtomicBool::new(false));
            return (CuttableStream { stream, cut: Arc::clone(&cut) }, ConnectionCutter(cut));
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(ConnectionCutter(Arc::default()))
    }
}

/// A stream with or without TLS.
trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// A connection that can be cut.
struct CuttableStream {
    stream: Box<dyn ByteStream>,
    cut: Arc<AtomicBool>,
}

impl CuttableStream {
    fn intact(&self) -> io::Result<()> {
        if self.cut.load(Ordering::Relaxed) { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

impl AsyncRead for CuttableStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for CuttableStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.intact()?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.intact()?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
