//! A small JSON client of the real API server.

use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A client with the rights of a cluster administrator. Each request has a connection of its own.
#[derive(Clone)]
pub(super) struct Api {
    address: SocketAddr,
    token: String,
    tls: TlsConnector,
}

impl Api {
    pub(super) fn new(address: SocketAddr, token: &str, authority: &str) -> Self {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_slice(authority.as_bytes()).expect("a certificate");
        roots.add(certificate).expect("an authority");
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self { address, token: token.to_owned(), tls: TlsConnector::from(Arc::new(config)) }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a request; `None` while nothing listens.
    pub(super) async fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Option<(u16, Value)> {
        let stream = TcpStream::connect(self.address).await.ok()?;
        let host = ServerName::try_from(self.address.ip().to_string()).expect("an address");
        let stream = self.tls.connect(host, stream).await.ok()?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
        let connection = tokio::spawn(connection);
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = hyper::Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.address.to_string())
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", kind)
            .body(Full::new(body.map(|body| Bytes::from(body.to_string())).unwrap_or_default()))
            .expect("a request");
        let response = sender.send_request(request).await.ok()?;
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.ok()?.to_bytes();
        drop(sender);
        connection.abort();
        Some((
            status,
            serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into())),
        ))
    }

    /// Sends a request that has to succeed.
    pub(super) async fn ok(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let (status, value) = self.send(method, path, body).await.expect("the API server responds");
        assert!((200..300).contains(&status), "{method} {path}: {status} {value}");
        value
    }

    /// Creates an object of any kind.
    pub(super) async fn create(&self, object: &Value) -> Value {
        self.ok("POST", &collection(object), Some(object)).await
    }

    /// The items of a list.
    pub(super) async fn items(&self, path: &str) -> Vec<Value> {
        let mut list = self.ok("GET", path, None).await;
        list["items"].as_array_mut().map(std::mem::take).unwrap_or_default()
    }
}

/// The path under which objects of this one's kind are created.
pub(super) fn collection(object: &Value) -> String {
    let version = object["apiVersion"].as_str().expect("an apiVersion");
    let kind = object["kind"].as_str().expect("a kind").to_lowercase();
    let plural = if kind.ends_with('y') { format!("{}ies", kind.trim_end_matches('y')) } else { format!("{kind}s") };
    let plural = if kind.ends_with("ss") { format!("{kind}es") } else { plural };
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
        None => format!("{root}/{plural}"),
    }
}
