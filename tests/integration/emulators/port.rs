//! A loopback port with an emulator behind it, in plain HTTP or under TLS.
//!
//! It is served on a thread of its own: a test may block its own runtime, as it does while it waits for a line in
//! Headcount's log, and Headcount must get its answers all the same.

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

use super::backstage::{Backstage, Moment};
use super::exchange::{Instead, Outcome, Request};

/// The largest body that is read.
const BODY_MAX: usize = 1 << 20;

/// What answers at a port.
#[async_trait]
pub(super) trait Front: Send + Sync + 'static {
    /// What it stands on.
    fn backstage(&self) -> &Backstage;

    /// Answers a request that no script answers.
    async fn answer(&self, request: &Request) -> Outcome;
}

/// An open port. It closes when this is dropped.
#[derive(Debug)]
pub(super) struct Port {
    scheme: &'static str,
    address: SocketAddr,
    close: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Port {
    /// Opens a free one.
    pub(super) fn open(front: Arc<dyn Front>) -> Self {
        Self::with(front, None)
    }

    /// The same under TLS.
    pub(super) fn open_secure(front: Arc<dyn Front>, tls: ServerConfig) -> Self {
        Self::with(front, Some(TlsAcceptor::from(Arc::new(tls))))
    }

    fn with(front: Arc<dyn Front>, tls: Option<TlsAcceptor>) -> Self {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        listener.set_nonblocking(true).expect("set");
        let address = listener.local_addr().expect("bound");
        let (close, closed) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let door = Door { listener: TcpListener::from_std(listener).expect("a listener"), tls };
                let router = Router::new().fallback(serve).with_state((front, scheme));
                let serving = axum::serve(door, router.into_make_service_with_connect_info::<Scissors>());
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

impl Drop for Port {
    fn drop(&mut self) {
        drop(self.close.take());
        if let Some(thread) = self.thread.take() {
            let _panicked_as_it_said = thread.join();
        }
    }
}

async fn serve(
    State((front, scheme)): State<(Arc<dyn Front>, &'static str)>,
    ConnectInfo(scissors): ConnectInfo<Scissors>,
    request: axum::extract::Request,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_MAX).await else { return Response::new(Body::empty()) };
    let text = |value: &axum::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let backstage = front.backstage();
    let request = Request {
        scheme,
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
        body: String::from_utf8_lossy(&body).into_owned(),
        status: None,
    };
    let entry = backstage.note(&request);
    let behind = Arc::clone(&front);
    // A cloud that has a request carries it out, whatever becomes of the connection that it came over.
    let carried_out = tokio::spawn(async move {
        behind.backstage().wait(&request, Moment::Arrived).await;
        let outcome = match behind.backstage().scripted(&request) {
            Some(answer) => Ok(answer),
            None => behind.answer(&request).await,
        };
        behind.backstage().wait(&request, Moment::Done).await;
        outcome
    });
    match carried_out.await.expect("an emulator does not panic") {
        Ok(answer) | Err(Instead::Answer(answer)) => {
            backstage.note_answer(entry, answer.status);
            answer.into_http()
        }
        Err(Instead::Silence) => {
            scissors.0.store(true, Ordering::Relaxed);
            Response::new(Body::empty())
        }
    }
}

/// Cuts a connection: nothing is written to it any more.
#[derive(Clone, Debug)]
struct Scissors(Arc<AtomicBool>);

impl Connected<IncomingStream<'_, Door>> for Scissors {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        stream.remote_addr().clone()
    }
}

/// Lets connections in, each with scissors to it.
struct Door {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
}

impl Listener for Door {
    type Io = Line;
    type Addr = Scissors;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, _) = Listener::accept(&mut self.listener).await;
            let stream: Box<dyn Wire> = match &self.tls {
                None => Box::new(stream),
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => Box::new(stream),
                    Err(_who_does_not_trust_it) => continue,
                },
            };
            let cut = Arc::new(AtomicBool::new(false));
            return (Line { stream, cut: Arc::clone(&cut) }, Scissors(cut));
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(Scissors(Arc::default()))
    }
}

/// What bytes come and go by.
trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// A connection that can be cut.
struct Line {
    stream: Box<dyn Wire>,
    cut: Arc<AtomicBool>,
}

impl Line {
    fn intact(&self) -> io::Result<()> {
        if self.cut.load(Ordering::Relaxed) { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

impl AsyncRead for Line {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Line {
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
