//! Builds a fleet from the configuration: connects each source's cloud, and reads tables and policies.

use std::sync::Arc;

use super::CommandError;
use crate::check::{self, Autoscaler, CheckInput, Finding};
use crate::cloud::{CallMeter, CallMetrics, Cloud, Family, ReadOnlyCloud, SharedCloud};
use crate::clouds::simulated;
use crate::config::{CloudSettings, Config, Source};
use crate::fleet::{self, Fleet, Settings};
use crate::instance_types::Catalog;
use crate::kubernetes::{self, KubernetesApi};
use crate::prices::Prices;

/// The parts of a fleet that only reads, before it makes any call.
pub(super) struct Prepared {
    settings: Settings<ReadOnlyCloud>,
    kubernetes: Option<Cluster>,
}

/// The cluster to learn from, or why it cannot be used although learning is configured.
type Cluster = Result<Arc<dyn KubernetesApi>, String>;

/// A running fleet, and what commands need to know about its sources.
pub(super) struct Connected {
    pub(super) fleet: Arc<Fleet>,
    /// The cloud families of the sources, in the order of the configuration.
    pub(super) families: Vec<Family>,
    /// Simulated sources whose events the demo prints.
    pub(super) simulated: Vec<Arc<simulated::Simulated>>,
    /// The cluster to learn from.
    pub(super) kubernetes: Option<Arc<dyn KubernetesApi>>,
    /// Counts of the calls to the clouds.
    pub(super) calls: CallMetrics,
    /// What nodes and pods cost.
    pub(super) prices: Arc<Prices>,
}

/// Connects every source and starts to watch it. Only this fleet can write.
pub(super) async fn connect(config: &Config) -> Result<Connected, CommandError> {
    let (mut simulated, calls) = (Vec::new(), CallMetrics::default());
    let sources = connect_all(config, &mut simulated, &calls).await?;
    let families = sources.iter().map(|(_, cloud)| cloud.family()).collect();
    let kubernetes = kubernetes(config)?.and_then(Result::ok);
    let settings = settings(config, sources);
    let prices = Arc::new(prices(&settings, |cloud| &**cloud));
    Ok(Connected { fleet: Arc::new(Fleet::start(settings)), families, simulated, kubernetes, prices, calls })
}

/// Connects every source, without a way to write to it, and without calling any.
pub(super) async fn prepare(config: &Config) -> Result<Prepared, CommandError> {
    let sources = connect_all(config, &mut Vec::new(), &CallMetrics::default()).await?;
    let sources = sources.into_iter().map(|(name, cloud)| (name, cloud as ReadOnlyCloud)).collect();
    Ok(Prepared { settings: settings(config, sources), kubernetes: kubernetes(config)? })
}

fn settings<C>(config: &Config, sources: Vec<(Arc<str>, C)>) -> Settings<C> {
    Settings {
        sources,
        refresh_interval: config.refresh_interval,
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
    simulated: &mut Vec<Arc<simulated::Simulated>>,
    calls: &CallMetrics,
) -> Result<Vec<(Arc<str>, SharedCloud)>, CommandError> {
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let (mut sources, mut problems) = (Vec::new(), Vec::new());
    for source in &config.sources {
        match connect_source(source, simulated, calls.meter(&source.name)).await {
            Ok(cloud) => sources.push((Arc::from(source.name.as_str()), cloud)),
            Err(error) => problems.push(error.to_string()),
        }
    }
    if problems.is_empty() { Ok(sources) } else { Err(CommandError::Usage(problems.join("\nheadcount: "))) }
}

impl Prepared {
    /// Loads what was learned before, so that the first templates use it. A failure is only logged.
    pub(super) async fn recall(&self) {
        if let Some(Ok(kubernetes)) = &self.kubernetes {
            fleet::recall(kubernetes.as_ref(), &self.settings.catalog).await;
        }
    }

    /// Checks the sources without starting the fleet.
    pub(super) async fn check(&self, config: &Config, autoscaler: Option<&Autoscaler>) -> Vec<Finding> {
        let input = CheckInput {
            sources: &self.settings.sources,
            catalog: &self.settings.catalog,
            policies: &self.settings.policies,
            warnings: &config.warnings,
            gpu_label: config.gpu_label.is_some(),
            kubernetes: self.kubernetes.as_ref().map(|found| found.as_deref().map_err(String::as_str)),
            autoscaler,
            environment: &|name| std::env::var(name).ok(),
        };
        check::check(&input).await
    }

    /// What nodes and pods cost.
    pub(super) fn prices(&self) -> Prices {
        prices(&self.settings, |cloud| &**cloud)
    }

    /// Starts the fleet. It has no way to write.
    pub(super) fn start(self) -> Fleet {
        Fleet::start_reading(self.settings)
    }
}

/// Returns the cluster to learn from. An unusable kubeconfig is an error. Without one, commands also work outside of a pod;
/// they then learn nothing.
fn kubernetes(config: &Config) -> Result<Option<Cluster>, CommandError> {
    let Some(settings) = &config.learn else { return Ok(None) };
    match kubernetes::Client::new(settings.clone(), &|name| std::env::var(name).ok()) {
        Ok(client) => Ok(Some(Ok(Arc::new(client)))),
        Err(error) if settings.kubeconfig.is_some() => {
            Err(CommandError::Usage(format!("the kubeconfig cannot be used: {error}")))
        }
        Err(error) => {
            tracing::warn!(%error, "there is no Kubernetes API to call; nothing is learned from nodes");
            Ok(Some(Err(error.to_string())))
        }
    }
}

/// Connects one source.
pub(super) async fn connect_source(
    source: &Source,
    simulated: &mut Vec<Arc<simulated::Simulated>>,
    calls: CallMeter,
) -> Result<SharedCloud, CommandError> {
    match &source.cloud {
        CloudSettings::Simulated(settings) => {
            let cloud = Arc::new(simulated::Simulated::configured(settings).metered(calls));
            // Hundreds of groups would print too many events.
            if settings.groups == 0 {
                simulated.push(Arc::clone(&cloud));
            }
            Ok(cloud)
        }
        #[cfg(feature = "aws")]
        CloudSettings::Aws(settings) => {
            let connected = crate::clouds::aws::Aws::connect(settings.clone(), calls).await;
            let cloud = connected.map_err(|error| CommandError::Usage(format!("source {}: {error}", source.name)))?;
            Ok(Arc::new(cloud))
        }
        #[cfg(feature = "azure")]
        CloudSettings::Azure(settings) => {
            let connected = crate::clouds::azure::Azure::connect(settings.clone(), calls).await;
            let cloud = connected.map_err(|error| CommandError::Usage(format!("source {}: {error}", source.name)))?;
            Ok(Arc::new(cloud))
        }
    }
}
