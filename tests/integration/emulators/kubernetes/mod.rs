//! An emulator of a Kubernetes API server: nodes, ConfigMaps and Deployments, as far as Headcount uses them.

mod cluster;
mod kubeconfig;
mod nodes;
mod resource_slices;
mod tls;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::Response;
use futures_util::stream;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

use super::http_messages::Request;
use cluster::Cluster;
pub(crate) use nodes::{MkNode, mk_node};
use tls::{Certificates, MaybeTlsListener};

/// The largest body that is read.
const BODY_MAX: usize = 4 << 20;

/// Which requests are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// All, without TLS.
    Open,
    /// Those with the current token.
    Token,
    /// Those with a certificate of the cluster's CA.
    Certificate,
}

/// An API server. It closes when this is dropped.
#[derive(Debug)]
pub(crate) struct ApiServer {
    state: Served,
    address: SocketAddr,
    certificates: Certificates,
    close: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What all connections share.
#[derive(Clone, Debug)]
struct Served {
    cluster: Arc<Mutex<Cluster>>,
    guard: Guard,
    /// Changes whenever a watch may have something to send, or has to end.
    changed: watch::Sender<()>,
}

impl ApiServer {
    /// Over plain HTTP, for everyone.
    pub(crate) fn plain() -> Self {
        Self::open(Guard::Open)
    }

    /// Under TLS, for those with the token.
    pub(crate) fn with_token(token: &str) -> Self {
        let server = Self::open(Guard::Token);
        server.expect_token(token);
        server
    }

    /// Under TLS, for those with a certificate.
    pub(crate) fn with_certificates() -> Self {
        Self::open(Guard::Certificate)
    }

    fn open(guard: Guard) -> Self {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        listener.set_nonblocking(true).expect("set");
        let address = listener.local_addr().expect("bound");
        let certificates = Certificates::new();
        let state = Served { cluster: Arc::default(), guard, changed: watch::channel(()).0 };
        let (close, closed) = oneshot::channel();
        let acceptor = (guard != Guard::Open).then(|| certificates.acceptor(guard == Guard::Certificate));
        let served = state.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).expect("a listener");
                let router = Router::new().fallback(serve).with_state(served);
                let serving = axum::serve(MaybeTlsListener { listener, acceptor }, router);
                tokio::select! {
                    _ = serving.into_future() => {}
                    _ = closed => {}
                }
            });
        });
        Self { state, address, certificates, close: Some(close), thread: Some(thread) }
    }

    fn cluster(&self) -> MutexGuard<'_, Cluster> {
        self.state.cluster.lock().expect("not poisoned")
    }

    /// Changes something that watches have to see.
    fn change(&self, change: impl FnOnce(&mut Cluster)) {
        change(&mut self.cluster());
        self.state.changed.send_replace(());
    }

    /// Sets the nodes from now on.
    pub(crate) fn set_nodes(&self, nodes: impl IntoIterator<Item = MkNode>) {
        self.change(|cluster| cluster.nodes.set(nodes));
    }

    /// Sets the ResourceSlices from now on: names and specs. `None` stands for a release without their API.
    pub(crate) fn set_resource_slices(&self, slices: Option<Vec<(&str, serde_json::Value)>>) {
        self.change(|cluster| cluster.resource_slices.set(slices));
    }

    /// Forgets what happened to the nodes: a watch that resumes from before gets 410 Gone, as after etcd's compaction.
    pub(crate) fn compact(&self) {
        self.cluster().nodes.compact();
    }

    /// Ends all watches, as a load balancer or a server that restarts does.
    pub(crate) fn end_watches(&self) {
        self.change(|cluster| cluster.watches_ended += 1);
    }

    /// Whether a watch has been sent all that happened to the nodes.
    pub(crate) fn is_delivered(&self) -> bool {
        let cluster = self.cluster();
        cluster.delivered == cluster.nodes.version()
    }

    /// Sets the token that is accepted from now on.
    pub(crate) fn expect_token(&self, token: &str) {
        token.clone_into(&mut self.cluster().token);
    }

    /// Sets whether it responds to everything with 503.
    pub(crate) fn set_down(&self, down: bool) {
        self.change(|cluster| {
            cluster.down = down;
            cluster.watches_ended += 1;
        });
    }

    /// Forbids everyone to read the nodes.
    pub(crate) fn forbid_nodes(&self) {
        self.change(|cluster| cluster.nodes_forbidden = true);
    }

    /// Sets whether requests for ConfigMaps get no response for now.
    pub(crate) fn hold_config_maps(&self, held: bool) {
        self.change(|cluster| cluster.config_maps_held = held);
    }

    /// The data of a ConfigMap.
    pub(crate) fn config_map(&self, namespace: &str, name: &str) -> Option<BTreeMap<String, String>> {
        let found = self.cluster().config_maps.get(&(namespace.to_owned(), name.to_owned())).cloned()?;
        Some(serde_json::from_value(found["data"].clone()).expect("texts"))
    }

    /// Writes a ConfigMap, as another client would.
    pub(crate) fn write_config_map(&self, namespace: &str, name: &str, data: &[(&str, &str)]) {
        let mut cluster = self.cluster();
        cluster.version += 1;
        let data: BTreeMap<&str, &str> = data.iter().copied().collect();
        let written = json!({"metadata": {"name": name, "resourceVersion": cluster.version.to_string()}, "data": data});
        cluster.config_maps.insert((namespace.to_owned(), name.to_owned()), written);
    }

    /// Creates a Deployment with one container that runs this command line.
    pub(crate) fn deploy(&self, namespace: &str, name: &str, image: &str, command: &[&str]) {
        let container = json!({"name": name, "image": image, "command": command});
        let template = json!({"metadata": {}, "spec": {"containers": [container]}});
        let deployment = json!({
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"selector": {}, "template": template},
        });
        self.cluster().deployments.push((namespace.to_owned(), deployment));
    }

    /// Deletes a ConfigMap, as another client would.
    pub(crate) fn delete_config_map(&self, namespace: &str, name: &str) {
        self.cluster().config_maps.remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// All requests, oldest first.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.cluster().requests.clone()
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

async fn serve(State(served): State<Served>, request: axum::extract::Request) -> Response<Body> {
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
    let mut changes = served.changed.subscribe();
    let is_held = || served.cluster.lock().expect("not poisoned").config_maps_held;
    while request.path.contains("/configmaps/") && is_held() {
        changes.changed().await.expect("the server runs");
    }
    let mut cluster = served.cluster.lock().expect("not poisoned");
    let refusal = cluster.refusal(&request, served.guard);
    let is_watch = request.path == "/api/v1/nodes" && request.parameter("watch").is_some();
    if refusal.is_none() && is_watch {
        let version = request.parameter("resourceVersion").and_then(|text| text.parse().ok()).expect("a version");
        let ended = cluster.watches_ended;
        request.status = Some(200);
        cluster.requests.push(request);
        drop(cluster);
        return Response::new(watch_nodes(served, version, ended));
    }
    let is_watch = request.path == resource_slices::PATH && request.parameter("watch").is_some();
    if refusal.is_none() && is_watch && cluster.resource_slices.exist() {
        let version = request.parameter("resourceVersion").and_then(|text| text.parse().ok()).expect("a version");
        let ended = cluster.watches_ended;
        request.status = Some(200);
        cluster.requests.push(request);
        drop(cluster);
        return Response::new(watch_resource_slices(served, version, ended));
    }
    let response = refusal.unwrap_or_else(|| cluster.response(&request));
    request.status = Some(response.status);
    cluster.requests.push(request);
    response.into_http()
}

/// Nothing, until the slices change: then the version is too old, and they have to be listed again.
fn watch_resource_slices(served: Served, version: u64, ended: u64) -> Body {
    let changes = served.changed.subscribe();
    Body::from_stream(stream::unfold(Some((served, changes)), move |state| async move {
        let (served, mut changes) = state?;
        loop {
            {
                let cluster = served.cluster.lock().expect("not poisoned");
                if cluster.watches_ended != ended {
                    return None;
                }
                if cluster.resource_slices.version() != version {
                    return Some((Ok::<_, Infallible>(resource_slices::EXPIRED), None));
                }
            }
            changes.changed().await.ok()?;
        }
    }))
}

/// The events after a version, for as long as watches are not ended.
fn watch_nodes(served: Served, version: u64, ended: u64) -> Body {
    let changes = served.changed.subscribe();
    let start = (served, changes, version, None);
    Body::from_stream(stream::unfold(start, move |(served, mut changes, version, sent)| async move {
        loop {
            {
                let mut cluster = served.cluster.lock().expect("not poisoned");
                if cluster.watches_ended != ended {
                    return None;
                }
                let (lines, seen) = cluster.nodes.since(version);
                if sent != Some(seen) {
                    if cluster.nodes.has(version) {
                        cluster.delivered = seen;
                    }
                    drop(cluster);
                    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
                    return Some((Ok::<_, Infallible>(text), (served, changes, seen, Some(seen))));
                }
            }
            changes.changed().await.ok()?;
        }
    }))
}
