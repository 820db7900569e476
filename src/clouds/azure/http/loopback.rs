//! A server on the loopback address that returns scripted responses and records requests.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, Response};
use axum::serve::{Listener, ListenerExt};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A scripted response. `{base}` in headers and body is the server's own address.
pub(in crate::clouds::azure) struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Reply {
    pub(in crate::clouds::azure) fn new(status: u16, body: impl ToString) -> Self {
        Self { status, headers: Vec::new(), body: body.to_string() }
    }

    pub(in crate::clouds::azure) fn json(body: Value) -> Self {
        Self::new(200, body)
    }

    pub(in crate::clouds::azure) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

/// A recorded request.
#[derive(Clone, Debug)]
pub(in crate::clouds::azure) struct ReceivedRequest {
    pub(in crate::clouds::azure) method: Method,
    /// Path and query, as written.
    pub(in crate::clouds::azure) target: String,
    pub(in crate::clouds::azure) headers: HeaderMap,
    pub(in crate::clouds::azure) body: String,
}

#[derive(Default)]
struct Recording {
    script: Mutex<VecDeque<Reply>>,
    received: Mutex<Vec<ReceivedRequest>>,
    connections: AtomicUsize,
}

/// The server. It stops when it is dropped.
pub(in crate::clouds::azure) struct Loopback {
    address: SocketAddr,
    recording: Arc<Recording>,
    task: JoinHandle<()>,
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Loopback {
    pub(in crate::clouds::azure) async fn start(script: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let recording =
            Arc::new(Recording { script: Mutex::new(script.into_iter().collect()), ..Recording::default() });
        let counted = Arc::clone(&recording);
        let listener = listener.tap_io(move |_| {
            counted.connections.fetch_add(1, Ordering::SeqCst);
        });
        let router = Router::new().fallback(response).with_state((format!("http://{address}"), Arc::clone(&recording)));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.expect("a server") });
        Self { address, recording, task }
    }

    /// The same over TLS, and the certificate to trust.
    pub(in crate::clouds::azure) async fn start_tls(
        script: impl IntoIterator<Item = Reply>,
    ) -> (Self, CertificateDer<'static>) {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("a server's TLS");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let recording =
            Arc::new(Recording { script: Mutex::new(script.into_iter().collect()), ..Recording::default() });
        let router =
            Router::new().fallback(response).with_state((format!("https://{address}"), Arc::clone(&recording)));
        let listener = Tls { listener, acceptor: TlsAcceptor::from(Arc::new(config)) };
        let task = tokio::spawn(async move { axum::serve(listener, router).await.expect("a server") });
        (Self { address, recording, task }, made.cert.der().clone())
    }

    pub(in crate::clouds::azure) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(in crate::clouds::azure) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(in crate::clouds::azure) fn received(&self) -> Vec<ReceivedRequest> {
        self.recording.received.lock().expect("received").clone()
    }

    pub(in crate::clouds::azure) fn connections(&self) -> usize {
        self.recording.connections.load(Ordering::SeqCst)
    }
}

struct Tls {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            let (stream, peer) = self.listener.accept().await.expect("a connection");
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, peer);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

async fn response(State((base, recording)): State<(String, Arc<Recording>)>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.expect("a body");
    recording.received.lock().expect("received").push(ReceivedRequest {
        method: parts.method,
        target: parts.uri.to_string(),
        headers: parts.headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    });
    let next = recording.script.lock().expect("script").pop_front();
    let reply = next.unwrap_or_else(|| Reply::new(500, "the script is at its end"));
    let mut response = Response::builder().status(reply.status);
    for (name, value) in reply.headers {
        response = response.header(name, value.replace("{base}", &base));
    }
    response.body(Body::from(reply.body.replace("{base}", &base))).expect("a response")
}
