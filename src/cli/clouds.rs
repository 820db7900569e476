//! Builds a fleet from the configuration: connects each source's cloud, and reads tables and policies.

use std::sync::Arc;

use tokio::task::JoinHandle;

use super::CommandError;
use crate::check::{self, Autoscaler, CheckInput, Finding};
use crate::cloud::{CallMeter, CallMetrics, Cloud, Family, ReadOnlyCloud, ResponseLog, SharedCloud, VerifiableCloud};
use crate::clouds::simulated;
use crate::config::{CloudSettings, Config, Source};
use crate::fleet::{self, Cadence, Fleet, NodeUse, Settings};
use crate::grpc::Gpu;
use crate::grpc::dialect::SendPolicy;
use crate::instance_types::Catalog;
use crate::kubernetes::{self, ClusterConfigError, KubernetesApi};
use crate::prices::{PriceRefresh, Prices};
use crate::tasks::{TaskKind, Tasks};

/// The parts of a fleet that only reads, before it makes any call.
pub(super) struct Prepared {
    settings: Settings<ReadOnlyCloud>,
    kubernetes: Option<Cluster>,
    /// Whether what nodes report is learned.
    learns: bool,
}

/// The cluster whose nodes are watched, or why it cannot be used although the configuration asks for that.
type Cluster = Result<Arc<dyn KubernetesApi>, Arc<ClusterConfigError>>;

/// A running fleet, and what commands need to know about its sources.
pub(super) struct Connected {
    pub(super) fleet: Arc<Fleet>,
    /// The cloud families of the sources, in the order of the configuration.
    pub(super) families: Vec<Family>,
    /// Simulated sources whose events the demo prints.
    pub(super) simulated: Vec<Arc<simulated::Simulated>>,
    /// How to renew the credentials of the sources, by name.
    pub(super) sign_ins: Vec<(String, SignIn)>,
    /// The cluster whose nodes are watched, and for what.
    pub(super) cluster: Option<(Arc<dyn KubernetesApi>, NodeUse)>,
    /// Counts of the calls to the clouds.
    pub(super) calls: CallMetrics,
    /// What nodes and pods cost.
    pub(super) prices: Arc<Prices>,
    /// Fetches prices from the clouds, unless the configuration turns this off.
    pub(super) live_prices: LivePrices,
}

/// The task that fetches prices from the clouds.
pub(super) struct LivePrices {
    prices: Arc<Prices>,
    clouds: Vec<(Arc<str>, ReadOnlyCloud)>,
    running: Option<JoinHandle<()>>,
}

impl LivePrices {
    /// Starts to fetch prices, or stops. Prices that were fetched stay in use.
    pub(super) fn set(&mut self, is_live: bool, tasks: &Tasks) {
        if let Some(running) = self.running.take() {
            running.abort();
        }
        if is_live {
            let refresh = PriceRefresh::new(Arc::clone(&self.prices), self.clouds.clone());
            let mut restarts = tasks.supervise(TaskKind::Prices, "");
            self.running = Some(tokio::spawn(async move { while restarts.run(refresh.run()).await {} }));
        }
    }
}

/// The handles of connected sources that are not part of the trait `Cloud`.
#[derive(Default)]
pub(super) struct Handles {
    simulated: Vec<Arc<simulated::Simulated>>,
    sign_ins: Vec<(String, SignIn)>,
}

/// How the credentials of a source are renewed.
pub(super) enum SignIn {
    /// From the SDK's credential chain.
    #[cfg(feature = "aws")]
    Aws(Arc<crate::clouds::aws::Aws>),
    /// From the configuration and the files that it names.
    #[cfg(feature = "azure")]
    Azure(Arc<crate::clouds::azure::Azure>),
}

impl SignIn {
    /// Signs in with what the files and the configuration hold now. If that fails, the previous credentials stay in
    /// use.
    pub(super) async fn renew(&self, settings: &CloudSettings) -> Result<(), String> {
        match (self, settings) {
            #[cfg(feature = "aws")]
            (Self::Aws(aws), _) => aws.renew_credentials().await,
            #[cfg(feature = "azure")]
            (Self::Azure(azure), CloudSettings::Azure(settings)) => match &settings.credential {
                Some(credential) => azure.renew_credential(credential).await,
                None => Ok(()),
            },
            #[allow(unreachable_patterns, reason = "a build for one cloud alone")]
            _ => Ok(()),
        }
    }
}

/// Connects every source and starts to watch it. Only this fleet can write.
pub(super) async fn connect(config: &Config) -> Result<Connected, CommandError> {
    let (mut handles, calls) = (Handles::default(), CallMetrics::default());
    let sources = connect_all(config, &mut handles, |source| calls.meter(source)).await?;
    let sources: Vec<_> = sources.into_iter().map(|(name, cloud)| (name, cloud as SharedCloud)).collect();
    let Handles { simulated, sign_ins } = handles;
    let families = sources.iter().map(|(_, cloud)| cloud.family()).collect();
    let node_use = config.node_use();
    let cluster = kubernetes(node_use.map(|(settings, _)| settings))?.and_then(Result::ok);
    let cluster = cluster.zip(node_use.map(|(_, uses)| uses));
    let settings = settings(config, sources);
    let prices = Arc::new(prices(&settings, |cloud| &**cloud));
    let clouds = settings.sources.iter().map(|(name, cloud)| (Arc::clone(name), Arc::clone(cloud) as ReadOnlyCloud));
    let live_prices = LivePrices { prices: Arc::clone(&prices), clouds: clouds.collect(), running: None };
    let fleet = Arc::new(Fleet::start(settings));
    Ok(Connected { fleet, families, simulated, sign_ins, cluster, calls, prices, live_prices })
}

/// Connects every source for `verify`, without calling any. Their responses are kept in this log.
pub(super) async fn connect_for_probes(
    config: &Config,
    responses: &ResponseLog,
) -> Result<Vec<(Arc<str>, Arc<dyn VerifiableCloud>)>, CommandError> {
    let meter = |_: &str| CallMeter::default().logging(responses.clone());
    connect_all(config, &mut Handles::default(), meter).await
}

/// Connects every source, without a way to write to it, and without calling any.
pub(super) async fn prepare(config: &Config) -> Result<Prepared, CommandError> {
    let calls = CallMetrics::default();
    let sources = connect_all(config, &mut Handles::default(), |source| calls.meter(source)).await?;
    let sources = sources.into_iter().map(|(name, cloud)| (name, cloud as ReadOnlyCloud)).collect();
    let kubernetes = kubernetes(config.node_use().map(|(settings, _)| settings))?;
    Ok(Prepared { settings: settings(config, sources), kubernetes, learns: config.learn.is_some() })
}

fn settings<C>(config: &Config, sources: Vec<(Arc<str>, C)>) -> Settings<C> {
    Settings {
        sources,
        cadence: Cadence::new(config.refresh_interval, config.idle_refresh_interval),
        catalog: Arc::new(Catalog::new(config.instance_types.clone())),
        policies: Arc::new(config.groups.clone()),
        read_only: config.read_only,
    }
}

fn prices<C>(settings: &Settings<C>, as_cloud: impl Fn(&C) -> &dyn Cloud) -> Prices {
    let clouds = settings.sources.iter().map(|(_, cloud)| as_cloud(cloud));
    let markets: Vec<_> = clouds.map(|cloud| (cloud.family(), cloud.market())).collect();
    Prices::new(Arc::clone(&settings.catalog), &markets)
}

/// Connects every source. Each one that cannot be connected has a line in the error.
async fn connect_all(
    config: &Config,
    handles: &mut Handles,
    meter: impl Fn(&str) -> CallMeter,
) -> Result<Vec<(Arc<str>, Arc<dyn VerifiableCloud>)>, CommandError> {
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let (mut sources, mut problems) = (Vec::new(), Vec::new());
    for source in &config.sources {
        match connect_source(source, handles, meter(&source.name)).await {
            Ok(cloud) => sources.push((Arc::from(source.name.as_str()), cloud)),
            Err(error) => problems.push(error.to_string()),
        }
    }
    if problems.is_empty() { Ok(sources) } else { Err(CommandError::Sources(problems)) }
}

impl Prepared {
    /// Loads what was learned before, so that the first templates use it. A failure is only logged.
    pub(super) async fn recall(&self) {
        if let (true, Some(Ok(kubernetes))) = (self.learns, &self.kubernetes) {
            fleet::recall(kubernetes.as_ref(), &self.settings.catalog).await;
        }
    }

    /// Checks the sources without starting the fleet.
    pub(super) async fn check(&self, config: &Config, autoscaler: &Autoscaler) -> Vec<Finding> {
        let (prices, refresh) = self.prices(config);
        let families: Vec<_> = self.settings.sources.iter().map(|(_, cloud)| cloud.family()).collect();
        let gpu_label_key = Gpu::new(config.gpu_label.clone(), &families).label;
        let input = CheckInput {
            prices: &prices,
            price_refresh: refresh.as_ref(),
            sources: &self.settings.sources,
            catalog: &self.settings.catalog,
            policies: &self.settings.policies,
            warnings: &config.warnings,
            gpu_label: config.gpu_label.is_some(),
            gpu_label_key: &gpu_label_key,
            kubernetes: self.kubernetes.as_ref().map(|found| found.as_ref().map(|api| &**api)),
            learns: self.learns,
            are_options_sent_since_135: config.grpc.options_since_135 == SendPolicy::Send,
            is_zero_or_max_sent: config.grpc.zero_or_max_node_scaling == SendPolicy::Send,
            are_new_listed_at_once: config.grpc.lists_new_at_once,
            autoscaler,
            environment: &|name| std::env::var(name).ok(),
        };
        check::check(&input).await
    }

    /// What nodes and pods cost, and what fetches prices from the clouds, unless the configuration turns this off.
    pub(super) fn prices(&self, config: &Config) -> (Arc<Prices>, Option<PriceRefresh>) {
        let prices = Arc::new(prices(&self.settings, |cloud| &**cloud));
        let refresh = || PriceRefresh::new(Arc::clone(&prices), self.settings.sources.iter().cloned());
        let refresh = config.live_prices.then(refresh);
        (prices, refresh)
    }

    /// Starts the fleet. It has no way to write.
    pub(super) fn start(self) -> Fleet {
        Fleet::start_reading(self.settings)
    }
}

/// Returns the cluster whose nodes are watched. An unusable kubeconfig is an error. Without one, commands also work
/// outside of a pod; they then learn nothing.
fn kubernetes(settings: Option<&kubernetes::Settings>) -> Result<Option<Cluster>, CommandError> {
    let Some(settings) = settings else { return Ok(None) };
    match kubernetes::Client::new(settings.clone(), &|name| std::env::var(name).ok()) {
        Ok(client) => Ok(Some(Ok(Arc::new(client)))),
        Err(error) if settings.kubeconfig.is_some() => {
            Err(CommandError::Usage(format!("the kubeconfig cannot be used: {error}")))
        }
        Err(error) => {
            tracing::warn!(%error, "no Kubernetes API is available; not watching nodes, and not learning from them");
            Ok(Some(Err(Arc::new(error))))
        }
    }
}

/// Connects one source.
pub(super) async fn connect_source(
    source: &Source,
    handles: &mut Handles,
    calls: CallMeter,
) -> Result<Arc<dyn VerifiableCloud>, CommandError> {
    match &source.cloud {
        CloudSettings::Simulated(settings) => {
            let cloud = Arc::new(simulated::Simulated::configured(settings).metered(calls));
            // Hundreds of groups would print too many events.
            if settings.groups == 0 {
                handles.simulated.push(Arc::clone(&cloud));
            }
            Ok(cloud)
        }
        #[cfg(feature = "aws")]
        CloudSettings::Aws(settings) => {
            let connected = crate::clouds::aws::Aws::connect(settings.clone(), calls).await;
            let cloud = connected.map_err(|error| CommandError::Usage(format!("source {}: {error}", source.name)))?;
            let cloud = Arc::new(cloud);
            handles.sign_ins.push((source.name.clone(), SignIn::Aws(Arc::clone(&cloud))));
            Ok(cloud)
        }
        #[cfg(feature = "azure")]
        CloudSettings::Azure(settings) => {
            let connected = crate::clouds::azure::Azure::connect(settings.clone(), calls).await;
            let cloud = connected.map_err(|error| CommandError::Usage(format!("source {}: {error}", source.name)))?;
            let cloud = Arc::new(cloud);
            handles.sign_ins.push((source.name.clone(), SignIn::Azure(Arc::clone(&cloud))));
            Ok(cloud)
        }
    }
}
