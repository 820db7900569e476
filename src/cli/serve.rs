//! `headcount serve`

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use rustix::io::Errno;
use tokio::net::TcpListener;
use tokio::sync::broadcast::error::RecvError;

use super::CommandError;
use super::clouds::{self, Connected};
use super::log;
use super::reload::{Reload, Target};
use super::shutdown::Shutdown;
use crate::admin::statusz::Statusz;
use crate::admin::{self, Metrics, Pages, Readiness, ReadinessCheck};
use crate::cloud::CallMetrics;
use crate::clouds::simulated::Simulated;
use crate::config::{self, Config};
use crate::demo::{self, NodeRegistrar};
use crate::fleet::{Fleet, LEARN_EVERY};
use crate::grpc::tls::{LiveTls, TLS_RELOAD_FAILURES, TlsSettings};
use crate::grpc::{self, Gpu, GrpcMetrics, Listen, Listener, ServiceTotals};
use crate::kubernetes::{self, NodeWriter};
use crate::tasks::{TaskKind, Tasks};

/// Loads the certificates that the configuration names. Without them, the server does not start.
pub(super) fn load_tls(settings: Option<&TlsSettings>) -> Result<Option<Arc<LiveTls>>, CommandError> {
    let load = |settings: &TlsSettings| LiveTls::load(settings.clone()).map(Arc::new);
    settings.map(load).transpose().map_err(|error| CommandError::Usage(error.to_string()))
}

/// Serve the node groups to the Cluster Autoscaler.
///
/// Listens on 127.0.0.1:8086 for gRPC, and on 127.0.0.1:8087 for probes, metrics and the status page. Needs --config, the
/// flags of an in-tree provider, or --demo. With --demo, what happens in the simulated cloud is printed to stderr.
#[derive(Debug, clap::Args)]
pub(super) struct Serve {
    #[command(flatten)]
    configuration: config::Arguments,
    /// The address of the gRPC port, or unix:///path of a socket [default: 127.0.0.1:8086].
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<Listen>,
    /// The address of the admin port, which serves /livez, /readyz, /metrics, /statusz and /debug/recordings
    /// [default: 127.0.0.1:8087].
    #[arg(long, value_name = "ADDRESS:PORT")]
    admin_listen: Option<SocketAddr>,
    /// Allow plaintext gRPC on an address other than loopback. Anyone who can connect can then delete nodes.
    #[arg(long)]
    insecure_plaintext: bool,
    /// Allow TLS without grpc.tls.clientCa on an address other than loopback. Anyone who can connect can then delete
    /// nodes.
    #[arg(long)]
    insecure_no_client_auth: bool,
    /// Refuse every write with FAILED_PRECONDITION, and log what it would have been.
    #[arg(long)]
    read_only: bool,
    /// Register each simulated instance as a Node of the cluster, with the annotation and the taint of kwok's nodes,
    /// and remove it with its instance.
    #[arg(long, requires = "demo")]
    register_nodes: bool,
    /// The kubeconfig of the cluster for --register-nodes; the pod's service account by default.
    #[arg(long, value_name = "FILE", requires = "register_nodes")]
    kubeconfig: Option<PathBuf>,
}

/// What the command line and the configuration ask for.
struct Loaded {
    config: Config,
    /// The configuration without what the command line adds, to compare a reloaded one with.
    as_written: Config,
    /// Where to load it from again; `None` for the demo.
    arguments: Option<config::Arguments>,
    listen: Listen,
    admin_listen: SocketAddr,
    tls: Option<Arc<LiveTls>>,
    /// What registers the simulated instances.
    writer: Option<NodeWriter>,
}

impl Serve {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let Loaded { config, as_written, arguments, listen, admin_listen, tls, writer } = self.load()?;
        let unhandled = |error: io::Error| CommandError::Failed(format!("cannot handle signals: {error}"));
        let shutdown = Shutdown::on_signals().map_err(unhandled)?;
        let reload = Reload::on_hangup(arguments, as_written).map_err(unhandled)?;
        let (grpc_port, admin_port) = (bind(&listen, config.grpc.socket_mode).await?, bind_admin(admin_listen).await?);
        let connected = tokio::select! {
            connected = clouds::connect(&config) => connected?,
            () = shutdown.begun() => {
                tracing::info!("stopped");
                return Ok(());
            }
        };
        if let Some(writer) = writer {
            connected.simulated.iter().for_each(|cloud| start_registering_nodes(cloud, &connected.fleet, &writer));
        }
        let (settings, pages) = start(&config, connected, tls, reload, &shutdown);
        tracing::info!(
            grpc = %grpc_port.address(), admin = %local(&admin_port), sources = config.sources.len(),
            refresh_interval = %humantime::format_duration(config.refresh_interval),
            read_only = config.read_only, "serving"
        );
        serve_until(shutdown, config.drain_timeout, (grpc_port, settings), (admin_port, pages)).await;
        tracing::info!("stopped");
        Ok(())
    }

    /// Loads the configuration, the certificates and the kubeconfig, and refuses what is not safe to serve.
    fn load(self) -> Result<Loaded, CommandError> {
        let Self {
            configuration,
            listen,
            admin_listen,
            insecure_plaintext,
            insecure_no_client_auth,
            read_only,
            register_nodes,
            kubeconfig,
        } = self;
        let mut config =
            if register_nodes { Config::demo_with_taint(&demo::taint())? } else { Config::load(&configuration)? };
        let writer = register_nodes.then(|| node_writer(kubeconfig)).transpose()?;
        let as_written = config.clone();
        config.read_only |= read_only;
        let listen = listen.unwrap_or_else(|| config.grpc.listen.clone());
        let admin_listen = admin_listen.unwrap_or(config.admin.listen);
        let switches = Switches { insecure_plaintext, insecure_no_client_auth };
        check_access(config.grpc.tls.as_ref(), &listen, switches)?;
        let tls = load_tls(config.grpc.tls.as_ref())?;
        let arguments = (!configuration.demo).then_some(configuration);
        Ok(Loaded { config, as_written, arguments, listen, admin_listen, tls, writer })
    }
}

/// Starts everything that runs beside the two ports, and returns what these serve.
fn start(
    config: &Config,
    connected: Connected,
    tls: Option<Arc<LiveTls>>,
    mut reload: Reload,
    shutdown: &Shutdown,
) -> (grpc::Settings, Pages) {
    let Connected { fleet, families, simulated, sign_ins, cluster, calls, prices, mut live_prices } = connected;
    if config.grpc.lists_new_at_once {
        fleet.list_new_at_once();
    }
    let tasks = fleet.tasks().clone();
    simulated.iter().for_each(|cloud| print_events(cloud, &tasks));
    let learner = cluster.map(|(api, uses)| fleet.learn(api, uses, LEARN_EVERY));
    live_prices.set(config.live_prices, &tasks);
    super::events::start(config, &fleet);
    let settings = grpc::Settings {
        fleet: Arc::clone(&fleet),
        gpu: Gpu::new(config.gpu_label.clone(), &families),
        prices,
        options_since_135: config.grpc.options_since_135,
        zero_or_max_node_scaling: config.grpc.zero_or_max_node_scaling,
        resource_slices: config.grpc.resource_slices,
        tls: tls.clone(),
        refusals: Arc::default(),
        metrics: GrpcMetrics::default(),
    };
    let metrics = Arc::new(metrics(&settings, &calls, &reload));
    let mut target = Target { fleet: Arc::clone(&fleet), tls: tls.clone(), learner, sign_ins, live_prices };
    let mut restarts = tasks.supervise(TaskKind::Reload, "").endless();
    tokio::spawn(async move { while restarts.run(reload.run(&mut target)).await {} });
    if let Some(tls) = tls.clone() {
        tasks.spawn(TaskKind::TlsFiles, "", move || Arc::clone(&tls).watch());
    }
    let statusz = Some(Statusz { fleet: Arc::clone(&fleet), audience: config.admin.statusz });
    let pages = Pages { readiness: readiness(&fleet, tls, shutdown), metrics, statusz };
    (settings, pages)
}

/// Serves both ports until the shutdown, and then until calls and writes under way are finished, for `limit` at most.
async fn serve_until(
    shutdown: Shutdown,
    limit: Duration,
    (grpc_port, settings): (Listener, grpc::Settings),
    (admin_port, pages): (TcpListener, Pages),
) {
    let fleet = Arc::clone(&settings.fleet);
    let tasks = fleet.tasks().clone();
    // Probes are answered while the process drains.
    let probes = tokio::spawn(async move {
        admin::serve(admin_port, pages, &tasks, std::future::pending()).await;
    });
    tokio::spawn(log_when_ready(Arc::clone(&fleet)));
    let serving = grpc::serve(grpc_port, settings, shutdown.begun());
    let _in_time = shutdown
        .drain(limit, async {
            serving.await;
            fleet.drain(limit).await
        })
        .await;
    probes.abort();
}

/// All that `/metrics` shows.
fn metrics(settings: &grpc::Settings, calls: &CallMetrics, reload: &Reload) -> Metrics {
    let mut registry = Registry::default();
    reload.register(&mut registry);
    calls.register(&mut registry);
    settings.metrics.register(&mut registry);
    let (refusals, prices) = (Arc::clone(&settings.refusals), Arc::clone(&settings.prices));
    registry.register_collector(Box::new(ServiceTotals { refusals, prices }));
    let failures = settings.tls.as_ref().map(|tls| tls.reload_failures()).unwrap_or_default();
    TLS_RELOAD_FAILURES.register(&mut registry, failures);
    log::LOG_DROPPED_LINES.register(&mut registry, log::dropped_lines());
    let live = settings.tls.clone();
    let expiry = Arc::new(move || live.as_ref().map(|tls| tls.expiry()).unwrap_or_default());
    Metrics::new(registry, Arc::clone(&settings.fleet), expiry)
}

/// The dangerous settings that the command line allows.
#[derive(Clone, Copy)]
struct Switches {
    insecure_plaintext: bool,
    insecure_no_client_auth: bool,
}

/// Refuses to serve clients without authentication on open addresses, unless the command line allows it.
fn check_access(tls: Option<&TlsSettings>, listen: &Listen, switches: Switches) -> Result<(), CommandError> {
    let is_local = listen.is_local();
    match tls {
        _ if is_local => {}
        None if !switches.insecure_plaintext => {
            return Err(CommandError::Usage(format!(
                "refusing to serve plaintext gRPC on {listen}, because anyone who can connect could delete nodes: configure \
                 grpc.tls, listen on 127.0.0.1 or a Unix socket, or pass --insecure-plaintext"
            )));
        }
        Some(tls) if tls.client_ca.is_none() && !switches.insecure_no_client_auth => {
            return Err(CommandError::Usage(format!(
                "refusing to serve gRPC on {listen} to clients without a certificate, because anyone who can connect could \
                 delete nodes: configure grpc.tls.clientCa, listen on 127.0.0.1, or pass --insecure-no-client-auth"
            )));
        }
        None => tracing::warn!(%listen, "gRPC is served in plaintext; anyone who can connect can delete nodes"),
        Some(tls) if tls.client_ca.is_none() => {
            tracing::warn!(%listen, "gRPC is served to clients without a certificate; anyone who can connect can \
                delete nodes");
        }
        Some(_) => {}
    }
    if tls.is_some_and(|tls| tls.client_ca.is_some() && tls.allowed_clients.is_empty()) {
        tracing::warn!(
            "every client with a certificate of clientCa can delete nodes; name the Cluster Autoscaler in \
                grpc.tls.allowedClients"
        );
    }
    Ok(())
}

/// What writes the demo's nodes.
fn node_writer(kubeconfig: Option<PathBuf>) -> Result<NodeWriter, CommandError> {
    let settings = kubernetes::Settings { kubeconfig, ..kubernetes::Settings::default() };
    let client = kubernetes::Client::new(settings, &|name| std::env::var(name).ok());
    let client = client
        .map_err(|error| CommandError::Usage(format!("--register-nodes needs a cluster, see --kubeconfig: {error}")))?;
    Ok(NodeWriter::new(&client))
}

/// Keeps the nodes of the cluster in step with the instances of a simulated cloud.
fn start_registering_nodes(cloud: &Arc<Simulated>, fleet: &Arc<Fleet>, writer: &NodeWriter) {
    let (cloud, served, writer) = (Arc::clone(cloud), Arc::clone(fleet), writer.clone());
    fleet.tasks().spawn(TaskKind::Demo, "nodes", move || {
        NodeRegistrar::new(Arc::clone(&cloud), Arc::clone(&served), writer.clone()).run()
    });
}

async fn bind(listen: &Listen, socket_mode: u32) -> Result<Listener, CommandError> {
    let hint = match listen {
        Listen::Tcp(_) => "choose another address or port",
        Listen::Unix(_) => {
            "its directory must exist and be writable, and no other file and no other process may have its name"
        }
    };
    let failed = |error| CommandError::Failed(format!("cannot listen on {listen}: {error}; {hint}"));
    Listener::bind(listen, socket_mode).await.map_err(failed)
}

/// `[::]` takes connections over IPv4, too. Where the kernel has no IPv6, the port listens on 0.0.0.0 instead.
async fn bind_admin(address: SocketAddr) -> Result<TcpListener, CommandError> {
    let bound = match TcpListener::bind(address).await {
        Err(error) if address.ip() == Ipv6Addr::UNSPECIFIED && has_no_ipv6(&error) => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    };
    bound.map_err(|error| {
        CommandError::Failed(format!("cannot listen on {address}: {error}; choose another address or port"))
    })
}

fn has_no_ipv6(error: &io::Error) -> bool {
    let without = [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL];
    Errno::from_io_error(error).is_some_and(|error| without.contains(&error))
}

/// Returns the bound address, which has the actual port if port 0 was configured.
fn local(listener: &TcpListener) -> String {
    listener.local_addr().map(|address| address.to_string()).unwrap_or_default()
}

/// Ready once every source has been listed, or one of them after a minute; until the shutdown begins.
fn readiness(fleet: &Arc<Fleet>, tls: Option<Arc<LiveTls>>, shutdown: &Shutdown) -> ReadinessCheck {
    let (fleet, shutdown) = (Arc::clone(fleet), shutdown.clone());
    Arc::new(move || {
        if shutdown.has_begun() {
            let reasons = vec!["shutting down".to_owned()];
            return Readiness { ready: false, reasons, unread_for: fleet.unread_for() };
        }
        let ready = fleet.is_ready();
        let mut reasons = [fleet.problem_summaries(), fleet.delays()].concat();
        if let Some(error) = tls.as_ref().and_then(|tls| tls.reload_error()) {
            let since = humantime::format_rfc3339_seconds(error.since);
            reasons.push(format!("tls: the files cannot be used since {since}; the log says why"));
        }
        Readiness { ready, reasons, unread_for: fleet.unread_for() }
    })
}

async fn log_when_ready(fleet: Arc<Fleet>) {
    if fleet.readiness().wait_for(|ready| *ready).await.is_ok() {
        tracing::info!(groups = fleet.snapshot().groups().count(), "ready");
    }
}

/// Prints the events of a simulated cloud for the demo. They are not log lines.
fn print_events(cloud: &Arc<Simulated>, tasks: &Tasks) {
    let (world, watched) = (Arc::clone(cloud), Arc::clone(cloud));
    tasks.spawn(TaskKind::Demo, "cloud", move || {
        let world = Arc::clone(&world);
        async move { world.run_demo().await }
    });
    tasks.spawn(TaskKind::Demo, "events", move || {
        let mut events = watched.subscribe();
        async move {
            loop {
                match events.recv().await {
                    Ok(event) => log::print(&format!("demo | {event}")),
                    Err(RecvError::Lagged(missed)) => tracing::debug!(missed, "demo events were dropped"),
                    Err(RecvError::Closed) => return,
                }
            }
        }
    });
}
