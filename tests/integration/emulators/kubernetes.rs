//! An emulator of a Kubernetes API server: nodes and ConfigMaps, as far as anybody should ask for them.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::Response;
use axum::serve::Listener;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use super::http_messages::{HttpResponse, Request};

/// The largest body that is read.
const BODY_MAX: usize = 4 << 20;

/// A node, in the words of its kubelet.
#[derive(Clone, Debug)]
pub(crate) struct MkNode {
    pub(crate) name: String,
    pub(crate) provider_id: String,
    pub(crate) instance_type: String,
    pub(crate) os: String,
    pub(crate) created: String,
    pub(crate) ready: bool,
    pub(crate) capacity: BTreeMap<&'static str, String>,
    pub(crate) allocatable: BTreeMap<&'static str, String>,
}

/// A ready m5.large with this memory, 1 GiB of which it keeps.
pub(crate) fn mk_node(name: &str, provider_id: &str, memory_kib: u64) -> MkNode {
    let figures = |memory: u64, cpu: &str| {
        BTreeMap::from([("cpu", cpu.to_owned()), ("memory", format!("{memory}Ki")), ("pods", "29".to_owned())])
    };
    MkNode {
        name: name.to_owned(),
        provider_id: provider_id.to_owned(),
        instance_type: "m5.large".to_owned(),
        os: "Amazon Linux 2023".to_owned(),
        created: "2026-11-01T00:00:00Z".to_owned(),
        ready: true,
        capacity: figures(memory_kib, "2"),
        allocatable: figures(memory_kib - (1 << 20), "1930m"),
    }
}

impl MkNode {
    fn json(&self) -> Value {
        let status = if self.ready { "True" } else { "Unknown" };
        json!({
            "metadata": {
                "name": self.name,
                "creationTimestamp": self.created,
                "labels": {"node.kubernetes.io/instance-type": self.instance_type, "kubernetes.io/os": "linux"},
                "managedFields": [{"manager": "kubelet", "operation": "Update"}],
            },
            "spec": {"providerID": self.provider_id},
            "status": {
                "capacity": self.capacity,
                "allocatable": self.allocatable,
                "conditions": [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": status}],
                "nodeInfo": {"osImage": self.os, "kernelVersion": "6.1.0", "kubeletVersion": "v1.36.0"},
                "images": [{"names": ["registry.example/pause:3"], "sizeBytes": 1}],
            },
        })
    }
}

/// Who is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// Everybody, without TLS.
    Nobody,
    /// Who has the token of the moment.
    Token,
    /// Who has a certificate of the cluster's CA.
    Certificate,
}

#[derive(Debug, Default)]
struct Cluster {
    nodes: Vec<MkNode>,
    /// By namespace and name.
    config_maps: BTreeMap<(String, String), Value>,
    /// Counts versions.
    version: u64,
    token: String,
    down: bool,
    requests: Vec<Request>,
}

/// An API server. It closes when this is dropped.
#[derive(Debug)]
pub(crate) struct ApiServer {
    cluster: Arc<Mutex<Cluster>>,
    address: SocketAddr,
    guard: Guard,
    papers: Papers,
    close: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The CA's certificate, the server's and a client's, PEM.
#[derive(Clone, Debug)]
struct Papers {
    authority: String,
    server: (String, String),
    client: (String, String),
}

impl Papers {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.distinguished_name.push(DnType::CommonName, "kubernetes");
        let authority = params.self_signed(&key).expect("a certificate").pem();
        let issuer = Issuer::new(params, key);
        let leaf = |usage| {
            let key = KeyPair::generate().expect("a key");
            let mut params = CertificateParams::default();
            params.subject_alt_names = vec![SanType::IpAddress(Ipv4Addr::LOCALHOST.into())];
            params.extended_key_usages = vec![usage];
            (params.signed_by(&key, &issuer).expect("a certificate").pem(), key.serialize_pem())
        };
        let server = leaf(ExtendedKeyUsagePurpose::ServerAuth);
        Self { authority, server, client: leaf(ExtendedKeyUsagePurpose::ClientAuth) }
    }

    fn acceptor(&self, guard: Guard) -> TlsAcceptor {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.as_bytes()).expect("PEM")).expect("a root");
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().expect("versions");
        let builder = match guard {
            Guard::Certificate => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.expect("a verifier"))
            }
            Guard::Nobody | Guard::Token => builder.with_no_client_auth(),
        };
        let chain = vec![CertificateDer::from_pem_slice(self.server.0.as_bytes()).expect("PEM")];
        let key = PrivateKeyDer::from_pem_slice(self.server.1.as_bytes()).expect("PEM");
        TlsAcceptor::from(Arc::new(builder.with_single_cert(chain, key).expect("a configuration")))
    }
}

impl ApiServer {
    /// Over plain HTTP, open to all.
    pub(crate) fn plain() -> Self {
        Self::open(Guard::Nobody)
    }

    /// Under TLS, open to who has the token.
    pub(crate) fn with_token(token: &str) -> Self {
        let server = Self::open(Guard::Token);
        server.expect_token(token);
        server
    }

    /// Under TLS, open to who has a certificate.
    pub(crate) fn with_certificates() -> Self {
        Self::open(Guard::Certificate)
    }

    fn open(guard: Guard) -> Self {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        listener.set_nonblocking(true).expect("set");
        let address = listener.local_addr().expect("bound");
        let (papers, cluster) = (Papers::new(), Arc::new(Mutex::new(Cluster::default())));
        let (close, closed) = oneshot::channel();
        let acceptor = (guard != Guard::Nobody).then(|| papers.acceptor(guard));
        let state = (Arc::clone(&cluster), guard);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener =
                    ConnectionListener { listener: TcpListener::from_std(listener).expect("a listener"), acceptor };
                let serving = axum::serve(listener, Router::new().fallback(serve).with_state(state));
                tokio::select! {
                    _ = serving.into_future() => {}
                    _ = closed => {}
                }
            });
        });
        Self { cluster, address, guard, papers, close: Some(close), thread: Some(thread) }
    }

    fn cluster(&self) -> MutexGuard<'_, Cluster> {
        self.cluster.lock().expect("not poisoned")
    }

    /// The nodes there are from now on.
    pub(crate) fn set_nodes(&self, nodes: impl IntoIterator<Item = MkNode>) {
        self.cluster().nodes = nodes.into_iter().collect();
    }

    /// The token that counts from now on.
    pub(crate) fn expect_token(&self, token: &str) {
        token.clone_into(&mut self.cluster().token);
    }

    /// Whether it answers everything with 503.
    pub(crate) fn set_down(&self, down: bool) {
        self.cluster().down = down;
    }

    /// The data of a ConfigMap.
    pub(crate) fn config_map(&self, namespace: &str, name: &str) -> Option<BTreeMap<String, String>> {
        let found = self.cluster().config_maps.get(&(namespace.to_owned(), name.to_owned())).cloned()?;
        Some(serde_json::from_value(found["data"].clone()).expect("texts"))
    }

    /// Writes a ConfigMap, as somebody else would.
    pub(crate) fn write_config_map(&self, namespace: &str, name: &str, data: &[(&str, &str)]) {
        let mut cluster = self.cluster();
        cluster.version += 1;
        let data: BTreeMap<&str, &str> = data.iter().copied().collect();
        let written = json!({"metadata": {"name": name, "resourceVersion": cluster.version.to_string()}, "data": data});
        cluster.config_maps.insert((namespace.to_owned(), name.to_owned()), written);
    }

    /// Deletes a ConfigMap, as somebody else would.
    pub(crate) fn delete_config_map(&self, namespace: &str, name: &str) {
        self.cluster().config_maps.remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// Everything that was asked, oldest first.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.cluster().requests.clone()
    }

    /// Writes a kubeconfig that leads here, and the files it names, into a folder. The token is in the file `token`.
    pub(crate) fn kubeconfig(&self, folder: &Path) -> PathBuf {
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("written");
        write("ca.crt", &self.papers.authority);
        write("client.crt", &self.papers.client.0);
        write("client.key", &self.papers.client.1);
        write("token", &self.cluster().token);
        write("kubeconfig", &self.kubeconfig_text());
        folder.join("kubeconfig")
    }

    /// The same kubeconfig, for a server that needs no other files.
    pub(crate) fn kubeconfig_text(&self) -> String {
        let (scheme, user) = match self.guard {
            Guard::Nobody => ("http", json!({})),
            Guard::Token => ("https", json!({"tokenFile": "token"})),
            Guard::Certificate => ("https", json!({"client-certificate": "client.crt", "client-key": "client.key"})),
        };
        let cluster = json!({"server": format!("{scheme}://{}", self.address), "certificate-authority": "ca.crt"});
        let cluster = if self.guard == Guard::Nobody { json!({"server": cluster["server"]}) } else { cluster };
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": user}],
        })
        .to_string()
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        drop(self.close.take());
        if let Some(thread) = self.thread.take() {
            let _panicked_as_it_said = thread.join();
        }
    }
}

async fn serve(
    State((cluster, guard)): State<(Arc<Mutex<Cluster>>, Guard)>,
    request: axum::extract::Request,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, BODY_MAX).await.expect("a sane body");
    let text = |value: &axum::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let mut request = Request {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
        body: String::from_utf8_lossy(&body).into_owned(),
        ..Request::default()
    };
    let mut cluster = cluster.lock().expect("not poisoned");
    let answer = cluster.answer(&request, guard);
    request.status = Some(answer.status);
    cluster.requests.push(request);
    answer.into_http()
}

fn refused(status: u16, message: &str) -> HttpResponse {
    HttpResponse::json(status, &json!({"kind": "Status", "status": "Failure", "message": message, "code": status}))
}

impl Cluster {
    fn answer(&mut self, request: &Request, guard: Guard) -> HttpResponse {
        if self.down {
            return refused(503, "the server is currently unable to handle the request");
        }
        let authorization = request.header("authorization");
        if guard == Guard::Token && authorization != Some(&format!("Bearer {}", self.token)) {
            return refused(401, "Unauthorized");
        }
        let segments: Vec<&str> = request.path.trim_start_matches('/').split('/').collect();
        match (request.method.as_str(), segments.as_slice()) {
            ("GET", ["api", "v1", "nodes"]) => self.list_nodes(request),
            ("GET", ["api", "v1", "namespaces", namespace, "configmaps", name]) => {
                match self.config_maps.get(&((*namespace).to_owned(), (*name).to_owned())) {
                    Some(found) => HttpResponse::json(200, found),
                    None => refused(404, "configmaps not found"),
                }
            }
            ("POST", ["api", "v1", "namespaces", namespace, "configmaps"]) => self.create(namespace, request.json()),
            ("PATCH", ["api", "v1", "namespaces", namespace, "configmaps", name])
                if request.header("content-type") == Some("application/merge-patch+json") =>
            {
                self.patch(((*namespace).to_owned(), (*name).to_owned()), &request.json())
            }
            _ => refused(403, "forbidden"),
        }
    }

    fn list_nodes(&self, request: &Request) -> HttpResponse {
        let number = |name: &str| request.parameter(name).and_then(|text| text.parse::<usize>().ok());
        let from = request.parameter("continue").map_or(0, |token| {
            token.strip_prefix("from+/=").and_then(|from| from.parse().ok()).expect("a token of this server's")
        });
        let to = (from + number("limit").unwrap_or(usize::MAX - from)).min(self.nodes.len());
        let items: Vec<Value> = self.nodes[from..to].iter().map(MkNode::json).collect();
        let next = if to < self.nodes.len() { format!("from+/={to}") } else { String::new() };
        HttpResponse::json(200, &json!({"kind": "NodeList", "metadata": {"continue": next}, "items": items}))
    }

    fn create(&mut self, namespace: &str, mut map: Value) -> HttpResponse {
        let name = map["metadata"]["name"].as_str().expect("a name").to_owned();
        let key = (namespace.to_owned(), name);
        if self.config_maps.contains_key(&key) {
            return refused(409, "already exists");
        }
        self.version += 1;
        map["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.config_maps.insert(key, map.clone());
        HttpResponse::json(201, &map)
    }

    fn patch(&mut self, key: (String, String), patch: &Value) -> HttpResponse {
        self.version += 1;
        let Some(found) = self.config_maps.get_mut(&key) else { return refused(404, "configmaps not found") };
        let wanted = &patch["metadata"]["resourceVersion"];
        if *wanted != Value::Null && *wanted != found["metadata"]["resourceVersion"] {
            return refused(409, "the object has been modified");
        }
        for (name, text) in patch["data"].as_object().expect("data") {
            found["data"][name] = text.clone();
        }
        found["metadata"]["resourceVersion"] = self.version.to_string().into();
        HttpResponse::json(200, found)
    }
}

/// A connection, with TLS or without.
trait Line: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Line for T {}

/// Lets connections in, after a handshake where there is to be one.
struct ConnectionListener {
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
}

impl Listener for ConnectionListener {
    type Io = Box<dyn Line>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            match &self.acceptor {
                None => return (Box::new(stream), address),
                Some(acceptor) => match acceptor.accept(stream).await {
                    Ok(stream) => return (Box::new(stream), address),
                    Err(_turned_away) => {}
                },
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
