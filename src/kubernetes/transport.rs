//! What carries the requests of `kube::Client`: HTTP/1.1 over rustls, one connection a request.
//!
//! Each request reads the address and the credentials again, so a rotated token, certificate or CA counts from the next
//! request on, and a watch that reconnects needs no new client. Every wait has a time limit here, so nothing above
//! needs one.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::Either as EitherStream;
use http_body_util::{Either, Full};
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use kube::client::Body;
use rustix::net::sockopt;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsConnector;
use tower_service::Service;

use super::cluster_config::{ClusterConfig, ClusterConfigError, Credentials};
use super::endpoint::Endpoint;
use super::exec::{ExecCache, ExecError};
use super::names::is_plain_path;
use super::watch_lines::WatchLines;
use crate::limits::{KUBERNETES_RESPONSE, read_body};

/// The API server is in the same network; one that takes longer to accept a connection is down.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// An API server that has sent nothing for this long is asked whether it is there, this often, and so many times.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;
/// The shortest time between two watches: one that is accepted and ended at once must not become a busy loop.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// The path of the nodes.
const NODES: &str = "/api/v1/nodes";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why there is no response.
#[derive(Debug, Error)]
pub enum TransportError {
    /// The files with the API server's address and credentials cannot be used.
    #[error(transparent)]
    ClusterConfig(#[from] ClusterConfigError),
    /// The exec plugin returned no credentials.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// There is no connection.
    #[error("cannot connect to the API server at {server}: {source}")]
    Connect {
        /// Host and port.
        server: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A name in the path of the request leads elsewhere.
    #[error("{0:?} is no path of the Kubernetes API; check the names of the namespace, the pod and the ConfigMap")]
    Path(String),
    /// The connection broke, or the peer does not speak HTTP.
    #[error("the connection to the API server broke: {0}")]
    Broken(#[source] BoxError),
    /// The time limit passed.
    #[error("no response from the API server within {0:?}")]
    Timeout(Duration),
}

/// Carries requests to the API server.
#[derive(Clone)]
pub(super) struct Transport(Arc<Shared>);

struct Shared {
    cluster: ClusterConfig,
    credentials: ExecCache,
    node_watches_accepted: AtomicU64,
    slice_watches_accepted: AtomicU64,
    last_watch: Mutex<Option<Instant>>,
}

impl Transport {
    pub(super) fn new(cluster: ClusterConfig) -> Self {
        Self(Arc::new(Shared {
            cluster,
            credentials: ExecCache::default(),
            node_watches_accepted: AtomicU64::new(0),
            slice_watches_accepted: AtomicU64::new(0),
            last_watch: Mutex::default(),
        }))
    }

    /// How many watches of nodes the API server has accepted.
    pub(super) fn node_watches_accepted(&self) -> u64 {
        self.0.node_watches_accepted.load(Ordering::Relaxed)
    }

    /// How many watches of ResourceSlices the API server has accepted.
    pub(super) fn slice_watches_accepted(&self) -> u64 {
        self.0.slice_watches_accepted.load(Ordering::Relaxed)
    }

    /// Reads where the API server is and how to sign in. Returns whether a plugin issued the credentials.
    async fn endpoint(&self) -> Result<(Endpoint, bool), TransportError> {
        let cluster = self.0.cluster.clone();
        let settings = tokio::task::spawn_blocking(move || cluster.read()).await;
        let settings = settings.map_err(|error| TransportError::Broken(error.into()))??;
        let (identity, is_issued) = match &settings.credentials {
            Credentials::Static(identity) => (identity.clone(), false),
            Credentials::Exec(plugin) => (self.0.credentials.identity(plugin).await?, true),
        };
        Ok((Endpoint::new(&settings, identity)?, is_issued))
    }

    async fn send(self, request: Request<Body>) -> Result<Response<ResponseBody>, TransportError> {
        if !is_plain_path(request.uri().path()) {
            return Err(TransportError::Path(request.uri().path().to_owned()));
        }
        let is_watch = request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"));
        if is_watch {
            let mut last = self.0.last_watch.lock().await;
            if let Some(last) = *last {
                sleep_until(last + WATCH_INTERVAL).await;
            }
            *last = Some(Instant::now());
        }
        let accepted = match request.uri().path() {
            NODES if is_watch => Some(&self.0.node_watches_accepted),
            SLICES if is_watch => Some(&self.0.slice_watches_accepted),
            _ => None,
        };
        let (endpoint, is_issued) = self.endpoint().await?;
        // For a watch, this limits only the head of the response.
        let exchange = timeout(KUBERNETES_RESPONSE.time(), exchange(&endpoint, request, is_watch));
        let response = exchange.await.map_err(|_elapsed| TransportError::Timeout(KUBERNETES_RESPONSE.time()))??;
        if is_issued && response.status() == StatusCode::UNAUTHORIZED {
            self.0.credentials.forget().await;
        }
        if let Some(accepted) = accepted.filter(|_| response.status().is_success()) {
            accepted.fetch_add(1, Ordering::Relaxed);
        }
        Ok(response)
    }
}

impl Service<Request<Body>> for Transport {
    type Response = Response<ResponseBody>;
    type Error = TransportError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

async fn exchange(
    endpoint: &Endpoint,
    request: Request<Body>,
    is_watch: bool,
) -> Result<Response<ResponseBody>, TransportError> {
    let server = endpoint.authority();
    let connecting = async {
        let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await?;
        keep_alive(&stream)?;
        match &endpoint.tls {
            None => Ok(EitherStream::Left(stream)),
            Some((config, name)) => {
                TlsConnector::from(config.clone()).connect(name.clone(), stream).await.map(EitherStream::Right)
            }
        }
    };
    let connected = timeout(CONNECT_LIMIT, connecting).await.unwrap_or_else(|_elapsed| {
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {CONNECT_LIMIT:?}")))
    });
    let request = addressed(request, endpoint).map_err(|error| TransportError::Broken(error.into()))?;
    match connected.map_err(|source| TransportError::Connect { server, source })? {
        EitherStream::Left(stream) => send(stream, request, is_watch).await,
        EitherStream::Right(stream) => send(stream, request, is_watch).await,
    }
}

/// Has the kernel ask whether an idle API server is still there. One that vanished without a word would leave a watch
/// waiting for five minutes, and its nodes as they were.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES)?;
    Ok(())
}

async fn send<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    stream: S,
    request: Request<Body>,
    is_watch: bool,
) -> Result<Response<ResponseBody>, TransportError> {
    let broken = |error: hyper::Error| TransportError::Broken(error.into());
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let connection = Connection(tokio::spawn(async move {
        // Errors are reported by the response or its body.
        let _closed = connection.await;
    }));
    let (parts, body) = sender.send_request(request).await.map_err(broken)?.into_parts();
    let body = if is_watch && parts.status.is_success() {
        ResponseBody { body: Either::Right(WatchLines::new(body)), _connection: Some(connection) }
    } else {
        let body = read_body(body, KUBERNETES_RESPONSE).await.map_err(|error| TransportError::Broken(error.into()))?;
        ResponseBody { body: Either::Left(Full::new(body)), _connection: None }
    };
    Ok(Response::from_parts(parts, body))
}

/// A request as it goes to this API server.
fn addressed(request: Request<Body>, endpoint: &Endpoint) -> Result<Request<Body>, hyper::http::Error> {
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    parts.uri = Uri::builder().path_and_query(format!("{}{path}", endpoint.prefix)).build()?;
    parts.headers.insert(HOST, HeaderValue::from_str(&endpoint.authority())?);
    parts.headers.insert(USER_AGENT, HeaderValue::from_static(concat!("headcount/", env!("CARGO_PKG_VERSION"))));
    if let Some(authorization) = &endpoint.authorization {
        parts.headers.insert(AUTHORIZATION, authorization.clone());
    }
    Ok(Request::from_parts(parts, body))
}

/// The task that drives a connection. It ends when this is dropped.
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The body of a response: complete, or an ongoing watch.
pub(super) struct ResponseBody {
    body: Either<Full<Bytes>, WatchLines<Incoming>>,
    _connection: Option<Connection>,
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
