//! An emulator of a Kubernetes API server: nodes and ConfigMaps, as far as Headcount asks for them.

mod nodes;
mod tls;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::Response;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

use super::http_messages::{HttpResponse, Request};
use nodes::Nodes;
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

#[derive(Debug, Default)]
struct Cluster {
    nodes: Nodes,
    /// By namespace and name.
    config_maps: BTreeMap<(String, String), Value>,
    /// Namespaces and Deployments.
    deployments: Vec<(String, Value)>,
    /// Counts versions.
    version: u64,
    token: String,
    down: bool,
    /// How often all watches were ended.
    watches_ended: u64,
    /// The version up to which a watch has been sent everything.
    delivered: u64,
    requests: Vec<Request>,
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

    /// The nodes there are from now on.
    pub(crate) fn set_nodes(&self, nodes: impl IntoIterator<Item = MkNode>) {
        self.change(|cluster| cluster.nodes.set(nodes));
    }

    /// Forgets what happened to the nodes: a watch that resumes from before is told 410 Gone, as after etcd's compaction.
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

    /// The token that is accepted from now on.
    pub(crate) fn expect_token(&self, token: &str) {
        token.clone_into(&mut self.cluster().token);
    }

    /// Whether it responds to everything with 503.
    pub(crate) fn set_down(&self, down: bool) {
        self.change(|cluster| {
            cluster.down = down;
            cluster.watches_ended += 1;
        });
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

    /// Deletes a ConfigMap, as somebody else would.
    pub(crate) fn delete_config_map(&self, namespace: &str, name: &str) {
        self.cluster().config_maps.remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// All requests, oldest first.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.cluster().requests.clone()
    }

    /// Writes a kubeconfig that leads here, and the files it names, into a folder. The token is in the file `token`.
    pub(crate) fn kubeconfig(&self, folder: &Path) -> PathBuf {
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("written");
        write("ca.crt", &self.certificates.authority);
        write("client.crt", &self.certificates.client.0);
        write("client.key", &self.certificates.client.1);
        write("token", &self.cluster().token);
        write("kubeconfig", &self.kubeconfig_text());
        folder.join("kubeconfig")
    }

    /// The same kubeconfig, for a server that needs no other files.
    pub(crate) fn kubeconfig_text(&self) -> String {
        self.kubeconfig_of(match self.state.guard {
            Guard::Open => json!({}),
            Guard::Token => json!({"tokenFile": "token"}),
            Guard::Certificate => json!({"client-certificate": "client.crt", "client-key": "client.key"}),
        })
    }

    /// The CA's certificate.
    pub(crate) fn authority(&self) -> &str {
        &self.certificates.authority
    }

    /// The client's certificate and key.
    pub(crate) fn client_certificate(&self) -> (&str, &str) {
        (&self.certificates.client.0, &self.certificates.client.1)
    }

    /// A kubeconfig that leads here, with this user.
    pub(crate) fn kubeconfig_of(&self, user: Value) -> String {
        let scheme = if self.state.guard == Guard::Open { "http" } else { "https" };
        let cluster = json!({"server": format!("{scheme}://{}", self.address), "certificate-authority": "ca.crt"});
        let cluster = if self.state.guard == Guard::Open { json!({"server": cluster["server"]}) } else { cluster };
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
    let answer = refusal.unwrap_or_else(|| cluster.answer(&request));
    request.status = Some(answer.status);
    cluster.requests.push(request);
    answer.into_http()
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

fn refused(status: u16, message: &str) -> HttpResponse {
    HttpResponse::json(status, &json!({"kind": "Status", "status": "Failure", "message": message, "code": status}))
}

impl Cluster {
    fn refusal(&self, request: &Request, guard: Guard) -> Option<HttpResponse> {
        if self.down {
            return Some(refused(503, "the server is currently unable to handle the request"));
        }
        let authorization = request.header("authorization");
        let is_unknown = guard == Guard::Token && authorization != Some(&format!("Bearer {}", self.token));
        is_unknown.then(|| refused(401, "Unauthorized"))
    }

    fn answer(&mut self, request: &Request) -> HttpResponse {
        let segments: Vec<&str> = request.path.trim_start_matches('/').split('/').collect();
        match (request.method.as_str(), segments.as_slice()) {
            ("GET", ["api", "v1", "nodes"]) => self.nodes.list(request),
            ("GET", ["api", "v1", "namespaces", namespace, "configmaps", name]) => {
                match self.config_maps.get(&((*namespace).to_owned(), (*name).to_owned())) {
                    Some(found) => HttpResponse::json(200, found),
                    None => refused(404, "configmaps not found"),
                }
            }
            ("GET", ["apis", "apps", "v1", "namespaces", namespace, "deployments"]) => {
                let here = self.deployments.iter().filter(|(other, _)| other == namespace);
                let items: Vec<&Value> = here.map(|(_, deployment)| deployment).collect();
                HttpResponse::json(200, &json!({"metadata": {"resourceVersion": "1"}, "items": items}))
            }
            ("POST", ["api", "v1", "namespaces", _, "events"]) => HttpResponse::json(201, &request.json()),
            ("POST", ["api", "v1", "namespaces", namespace, "configmaps"]) => self.create(namespace, request.json()),
            ("PATCH", ["api", "v1", "namespaces", namespace, "configmaps", name])
                if request.header("content-type") == Some("application/merge-patch+json") =>
            {
                self.patch(((*namespace).to_owned(), (*name).to_owned()), &request.json())
            }
            _ => refused(403, "forbidden"),
        }
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
