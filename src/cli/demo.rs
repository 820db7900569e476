//! `headcount demo`

use std::io::{self, IsTerminal as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tonic::service::Routes;

use super::CommandError;
use crate::admin::statusz::{Audience, Statusz};
use crate::admin::{self, Metrics, Pages, Readiness, ReadinessCheck};
use crate::cloud::{Cloud as _, SharedCloud};
use crate::clouds::simulated::Simulated;
use crate::demo;
use crate::fleet::{Cadence, Fleet, Policies, Settings};
use crate::grpc::dialect::SendPolicy;
use crate::grpc::{self, Gpu, GrpcMetrics, Listen, Listener};
use crate::instance_types::Catalog;
use crate::prices::Prices;

/// The shortest `refreshInterval`, so that a viewer need not wait.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// How long the first reading of the simulated cloud may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The permissions of a Unix socket; the demo has none.
const SOCKET_MODE: u32 = 0o600;

/// Play a cluster's life in one terminal: the server over a simulated cloud, and an imitation of the Cluster
/// Autoscaler's loop.
///
/// Keys make a launch or a deletion fail, evict a spot instance, lose a response, and more. Below, line by line, is
/// what Headcount reports and why, and what the in-tree provider's published rules come to where they differ. Where
/// stdout is no terminal, a script plays all of it in two minutes, as lines. Needs no account and no configuration, and
/// reaches no real cloud.
#[derive(Debug, clap::Args)]
pub(super) struct Demo {
    /// Print lines even on a terminal.
    #[arg(long)]
    text: bool,
    /// The seed of the simulated cloud.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
}

impl Demo {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let cloud = Arc::new(Simulated::stage(self.seed));
        let fleet = Arc::new(Fleet::start(Settings {
            sources: vec![(Arc::from("demo"), Arc::clone(&cloud) as SharedCloud)],
            cadence: Cadence::new(REFRESH_INTERVAL, Some(REFRESH_INTERVAL)),
            catalog: Arc::new(Catalog::new(Vec::new())),
            policies: Arc::new(Policies::default()),
            read_only: false,
        }));
        let failed = |error: io::Error| CommandError::Failed(format!("the demo cannot be shown: {error}"));
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let grpc_port = Listener::bind(&Listen::Tcp(free), SOCKET_MODE).await.map_err(failed)?;
        let admin_port = TcpListener::bind(free).await.map_err(failed)?;
        let addresses = format!(
            "gRPC on {}, status page on http://{}/statusz, for as long as it plays.",
            grpc_port.address(),
            admin_port.local_addr().map_err(failed)?
        );
        let ready = fleet.wait_ready(tokio::time::Instant::now() + PATIENCE).await;
        ready.map_err(|error| CommandError::Failed(error.to_string()))?;
        let (service, _no_tls) = grpc::service(settings(&fleet, &cloud));
        let demo = demo::Demo {
            service: Routes::new(service),
            fleet: Arc::clone(&fleet),
            cloud: Arc::clone(&cloud),
            addresses,
        };
        let is_shown = !self.text && io::stdout().is_terminal() && io::stdin().is_terminal();
        let playing =
            async { if is_shown { demo.play_on_terminal().await } else { demo.play_as_text(io::stdout()).await } };
        tokio::select! {
            played = playing => played.or_else(is_closed).map_err(failed),
            () = grpc::serve(grpc_port, settings(&fleet, &cloud), std::future::pending()) => Ok(()),
            () = admin::serve(admin_port, pages(&fleet), fleet.tasks(), std::future::pending()) => Ok(()),
        }
    }
}

/// A reader that closes the pipe early (`| head`) is not an error.
fn is_closed(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) }
}

/// What is served, as `serve` does without a configuration.
fn settings(fleet: &Arc<Fleet>, cloud: &Arc<Simulated>) -> grpc::Settings {
    let market = (cloud.family(), cloud.market());
    grpc::Settings {
        fleet: Arc::clone(fleet),
        gpu: Gpu::new(None, &[cloud.family()]),
        prices: Arc::new(Prices::new(Arc::default(), &[market])),
        options_since_135: SendPolicy::Suppress,
        zero_or_max_node_scaling: SendPolicy::Suppress,
        resource_slices: SendPolicy::Suppress,
        tls: None,
        refusals: Arc::default(),
        metrics: GrpcMetrics::default(),
    }
}

fn pages(fleet: &Arc<Fleet>) -> Pages {
    let readiness: ReadinessCheck = Arc::new(|| Readiness { ready: true, ..Readiness::default() });
    let metrics = Metrics::new(Registry::default(), Arc::clone(fleet), Arc::new(Default::default));
    let statusz = Statusz { fleet: Arc::clone(fleet), audience: Audience::default() };
    Pages { readiness, metrics: Arc::new(metrics), statusz: Some(statusz) }
}
