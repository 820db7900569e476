//! A server on the loopback address that answers by a script and remembers what it was asked.

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

use super::arm::Arm;
use crate::config::settings::azure::{AzureCloud, Settings};

/// What is answered next. `{base}` in headers and body is the server's own address.
pub(super) struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Reply {
    pub(super) fn new(status: u16, body: impl ToString) -> Self {
        Self { status, headers: Vec::new(), body: body.to_string() }
    }

    pub(super) fn json(body: Value) -> Self {
        Self::new(200, body)
    }

    pub(super) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

/// What was asked.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) method: Method,
    /// Path and query, as written.
    pub(super) target: String,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

#[derive(Default)]
struct Book {
    script: Mutex<VecDeque<Reply>>,
    seen: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
}

/// The server. It stops when it is dropped.
pub(super) struct Loopback {
    address: SocketAddr,
    book: Arc<Book>,
    task: JoinHandle<()>,
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Loopback {
    pub(super) async fn start(script: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let book = Arc::new(Book { script: Mutex::new(script.into_iter().collect()), ..Book::default() });
        let counted = Arc::clone(&book);
        let listener = listener.tap_io(move |_| {
            counted.connections.fetch_add(1, Ordering::SeqCst);
        });
        let router = Router::new().fallback(answer).with_state((format!("http://{address}"), Arc::clone(&book)));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.expect("a server") });
        Self { address, book, task }
    }

    /// The same over TLS, and what to trust to reach it.
    pub(super) async fn start_tls(script: impl IntoIterator<Item = Reply>) -> (Self, CertificateDer<'static>) {
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
        let book = Arc::new(Book { script: Mutex::new(script.into_iter().collect()), ..Book::default() });
        let router = Router::new().fallback(answer).with_state((format!("https://{address}"), Arc::clone(&book)));
        let listener = Tls { listener, acceptor: TlsAcceptor::from(Arc::new(config)) };
        let task = tokio::spawn(async move { axum::serve(listener, router).await.expect("a server") });
        (Self { address, book, task }, made.cert.der().clone())
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn settings(&self) -> Settings {
        Settings {
            cloud: AzureCloud::Public,
            endpoint: Some(self.base()),
            location: None,
            subscription_id: Some("sub".to_owned()),
            resource_group: "rg".to_owned(),
            credential: None,
            node_groups: Vec::new(),
            auto_discovery: Vec::new(),
            enable_force_delete: false,
            detailed_extension_messages: false,
            label_predictions: true,
        }
    }

    pub(super) fn arm(&self) -> Arm {
        Arm::connect(&self.settings()).expect("a way to the loopback server")
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.book.seen.lock().expect("seen").clone()
    }

    pub(super) fn connections(&self) -> usize {
        self.book.connections.load(Ordering::SeqCst)
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

async fn answer(State((base, book)): State<(String, Arc<Book>)>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.expect("a body");
    book.seen.lock().expect("seen").push(Seen {
        method: parts.method,
        target: parts.uri.to_string(),
        headers: parts.headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    });
    let next = book.script.lock().expect("script").pop_front();
    let reply = next.unwrap_or_else(|| Reply::new(500, "the script is at its end"));
    let mut response = Response::builder().status(reply.status);
    for (name, value) in reply.headers {
        response = response.header(name, value.replace("{base}", &base));
    }
    response.body(Body::from(reply.body.replace("{base}", &base))).expect("a response")
}
