//! A panic in each kind of long-lived task, while clients are served on both ports: it is counted and shown by the
//! task's name, the task starts again, and what is served does not change.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use headcount::admin::{self, Metrics, Pages, Readiness, ReadinessCheck};
use headcount::cloud::SharedCloud;
use headcount::clouds::simulated::{Faults, GroupPlan, Simulated};
use headcount::fleet::{Fleet, Learner, NodeUse};
use headcount::grpc;
use headcount::grpc::tls::{LiveTls, TlsSettings};
use headcount::kubernetes::{self, Client as KubernetesClient, EventWriter, OwnPod};
use headcount::tasks::TaskKind;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::emulators::kubernetes::ApiServer;
use crate::in_process;
use crate::peers::headcount::{Client, ConfigFile, Server, command, eventually};

/// The kinds of tasks that run as long as the process and are started by a library call. The others: `side task` is in
/// `fleet::panics`, connections and requests have a task each, and those that belong to the command are below.
const ENDLESS: [TaskKind; 9] = [
    TaskKind::Source,
    TaskKind::NodeGroup,
    TaskKind::Templates,
    TaskKind::Learning,
    TaskKind::NodeWatch,
    TaskKind::Events,
    TaskKind::GrpcPort,
    TaskKind::TlsFiles,
    TaskKind::AdminPort,
];

/// A server in this process.
struct Fixture {
    clouds: [Arc<Simulated>; 2],
    fleet: Arc<Fleet>,
    grpc: SocketAddr,
    admin: SocketAddr,
    api: ApiServer,
    _learner: Learner,
    _files: ConfigFile,
}

/// What is served for a group: its target, its instances and its template.
type Shown = (i32, Vec<String>, Vec<u8>);

impl Fixture {
    async fn start(prepare: impl Fn(&mut Faults)) -> Self {
        let clouds = [GroupPlan::aws("a").sized(0, 9, 2), GroupPlan::azure("b").sized(0, 9, 3)]
            .map(|plan| Arc::new(Simulated::with_groups(1, [plan])));
        clouds.iter().for_each(|cloud| cloud.faults(&prepare));
        let names = ["one", "two"].map(Arc::from);
        let sources = names.into_iter().zip(clouds.clone().map(|cloud| cloud as SharedCloud)).collect();
        let fleet = in_process::fleet(sources, Duration::from_secs(1));
        let api = ApiServer::plain();
        let files = ConfigFile::new("").beside("kubeconfig", &api.kubeconfig_text());
        let learner = fleet.learn(
            Arc::new(mk_client(&files)),
            NodeUse { learns: true, follows_taints: true },
            Duration::from_millis(50),
        );
        let pod = OwnPod { name: "headcount-0".to_owned(), namespace: "autoscaling".to_owned() };
        fleet.write_events(EventWriter::new(mk_client(&files), pod));
        let tls = mk_tls(&files);
        fleet.tasks().spawn(TaskKind::TlsFiles, "", move || Arc::clone(&tls).watch());
        let settings = in_process::service(Arc::clone(&fleet));
        let (listener, grpc) = bound().await;
        tokio::spawn(grpc::serve(listener.try_into().expect("a listener"), settings, std::future::pending()));
        let watched = Arc::clone(&fleet);
        let readiness: ReadinessCheck = Arc::new(move || Readiness {
            ready: watched.is_ready(),
            reasons: watched.problem_summaries(),
            unread_for: watched.unread_for(),
        });
        let metrics = Metrics::new(Registry::default(), Arc::clone(&fleet), Arc::new(Vec::new));
        let pages = Pages { readiness, metrics: Arc::new(metrics), statusz: None };
        let (listener, admin) = bound().await;
        let tasks = fleet.tasks().clone();
        tokio::spawn(async move { admin::serve(listener, pages, &tasks, std::future::pending()).await });
        Self { clouds, fleet, grpc, admin, api, _learner: learner, _files: files }
    }

    async fn shown(&self, client: &mut Client) -> Vec<Shown> {
        let mut shown = Vec::new();
        for group in ["a", "b"] {
            let mut nodes: Vec<_> = client.nodes(group).await.into_iter().map(|node| node.id).collect();
            nodes.sort();
            shown.push((
                client.target(group).await,
                nodes,
                client.template(group).await.expect("built").node_info.to_vec(),
            ));
        }
        shown
    }

    fn failures(&self, kind: TaskKind) -> u64 {
        let failed = self.fleet.tasks().failed();
        failed.iter().filter(|(name, _)| name.starts_with(kind.as_str())).map(|(_, health)| health.failures).sum()
    }

    async fn probe(&self, path: &'static str) -> String {
        let admin = self.admin;
        tokio::task::spawn_blocking(move || Server::probe_at(admin, path)).await.expect("no panic")
    }
}

async fn bound() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    (listener, address)
}

fn mk_client(files: &ConfigFile) -> KubernetesClient {
    let settings = kubernetes::Settings {
        kubeconfig: Some(files.path_of("kubeconfig").into()),
        allow_exec: false,
        namespace: None,
        config_map: "headcount-learned".to_owned(),
    };
    KubernetesClient::new(settings, &|_| None).expect("a good kubeconfig")
}

fn mk_tls(files: &ConfigFile) -> Arc<LiveTls> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    for (name, text) in [("tls.crt", made.cert.pem()), ("tls.key", made.signing_key.serialize_pem())] {
        std::fs::write(files.path_of(name), text).expect("written");
    }
    let path = |name: &str| Path::new(&files.path_of(name)).to_owned();
    let settings =
        TlsSettings { cert: path("tls.crt"), key: path("tls.key"), client_ca: None, allowed_clients: Vec::new() };
    Arc::new(LiveTls::load(settings).expect("good files"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_any_task_changes_nothing_that_is_served() {
    let fixture = Fixture::start(|_| {}).await;
    let mut connected = Server::client_at(fixture.grpc).await;
    connected
        .until("templates", async |client| client.template("a").await.is_ok() && client.template("b").await.is_ok())
        .await;
    eventually("the nodes are watched", || {
        fixture.api.requests().iter().any(|request| request.query.contains("watch"))
    })
    .await;
    for kind in ENDLESS {
        let (name, before) = (kind.as_str(), fixture.shown(&mut connected).await);
        // A task that has just started again may not run yet.
        let breaks = || {
            fixture.fleet.tasks().break_down(kind);
            fixture.failures(kind) > 0
        };
        eventually(name, breaks).await;
        assert_eq!(fixture.shown(&mut connected).await, before, "{name}: on the connection that was open");
        let mut starting = Server::client_at(fixture.grpc).await;
        assert_eq!(fixture.shown(&mut starting).await, before, "{name}: on a new connection");
        let ready = fixture.probe("/readyz").await;
        assert!(ready.starts_with("HTTP/1.1 200") && ready.contains(name), "{name}: {ready}");
        // Requests that come close together share a rendering.
        let sample = format!("headcount_task_restarts_total{{task=\"{name}\"}} ");
        let is_counted = async |_: &mut Client| {
            let metrics = fixture.probe("/metrics").await;
            metrics.lines().find_map(|line| line.strip_prefix(&sample)).is_some_and(|count| count != "0")
        };
        connected.until(name, is_counted).await;
    }
    connected
        .until("the keepers are back", async |client| {
            client.increase("a", 1).await.is_ok() && client.increase("b", 1).await.is_ok()
        })
        .await;
    let refused = connected.increase("a", 1000).await;
    assert!(refused.is_err());
    let written = || fixture.api.requests().iter().any(|request| request.path.ends_with("/events"));
    eventually("Events are written again", written).await;
    assert!(fixture.clouds.iter().all(|cloud| cloud.killed_unnamed().is_empty()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_before_the_fleet_is_ready_does_not_keep_it_from_becoming_ready() {
    let fixture = Fixture::start(|faults| faults.down = true).await;
    let channel = tonic::transport::Channel::from_shared(format!("http://{}", fixture.grpc)).expect("an address");
    let mut health = HealthClient::new(channel.connect().await.expect("connects"));
    let mut status_of = async |service: &str| {
        let request = HealthCheckRequest { service: service.to_owned() };
        health.check(request).await.expect("a response").into_inner().status()
    };
    let named = status_of("clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider").await;
    assert_eq!(named, ServingStatus::NotServing, "a probe that names the service");
    let mut status = async || status_of("").await;
    for kind in [TaskKind::Readiness, TaskKind::HealthReporter] {
        fixture.fleet.tasks().break_down(kind);
        eventually(kind.as_str(), || fixture.failures(kind) > 0).await;
        assert_eq!(status().await, ServingStatus::NotServing, "{}", kind.as_str());
        assert!(fixture.probe("/readyz").await.starts_with("HTTP/1.1 503"));
    }
    fixture.clouds.iter().for_each(|cloud| cloud.faults(|faults| faults.down = false));
    eventually("it is ready", || fixture.fleet.is_ready()).await;
    while status().await != ServingStatus::Serving {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_panic_in_a_task_of_the_command_changes_nothing_that_is_served() {
    let config = ConfigFile::new("refreshInterval: 1s\nsources: [{name: demo, simulated: {}}]\n");
    for kind in [TaskKind::Reload, TaskKind::Prices, TaskKind::Demo] {
        let name = kind.as_str();
        let server = Server::in_environment(&["--config", &config.path()], &[("HEADCOUNT_DEFECT", name)]);
        let line = server.logged("a task panicked; it will be started again");
        assert!(line.contains(&format!("\"task\":\"{name}")), "{line}");
        let mut client = server.client().await;
        let before = client.target("web").await;
        client.increase("web", 1).await.expect("there is room");
        assert_eq!(client.target("web").await, before + 1, "{name}");
        let ready = server.probe("/readyz");
        assert!(ready.starts_with("HTTP/1.1 200") && ready.contains(name), "{name}: {ready}");
        let counted = format!("\nheadcount_task_restarts_total{{task=\"{name}\"}} 1\n");
        assert!(server.probe("/metrics").contains(&counted), "{name}");
        server.signal("HUP");
        server.logged("configuration reloaded; nothing has changed");
        assert_eq!(server.terminate().code(), Some(0), "{name}");
    }
}

#[test]
fn a_panic_in_the_task_that_handles_signals_ends_the_process_with_an_error() {
    let mut serve = command(&["serve", "--demo", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    let ended = serve.env("HEADCOUNT_DEFECT", TaskKind::Signals.as_str()).output().expect("the binary runs");
    let log = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(101), "{log}");
    assert!(log.contains("the task that handles signals panicked; exiting"), "{log}");
}
