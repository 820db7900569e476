//! SIGHUP reloads the configuration, its tables, the credentials and the TLS files. If something cannot be used, the
//! previous version stays in use. Credentials in the configuration and in cloud-config files are also reloaded
//! without a signal.

mod differences;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::{error, info, warn};

use differences::{copy_credentials, differences, has_credentials, is_moved, zones};

use super::clouds::{LivePrices, SignIn};
use crate::config::{Arguments, Config, Source};
use crate::fleet::{Fleet, LEARN_EVERY, Learner, ZonePolicy};
use crate::grpc::tls::LiveTls;
use crate::kubernetes;
use crate::metrics::FamilySpec;

/// How often the files are checked for new credentials. The kubelet takes about a minute to update a secret in a pod,
/// so a shorter interval gains nothing.
const CHECK_EVERY: Duration = Duration::from_secs(10);
/// The pause before credentials that did not work are tried again. It takes minutes until every server of the sign-in
/// service knows a new secret, and the service limits failed attempts.
const RETRY_AFTER: Duration = Duration::from_secs(60);

const RELOADS: FamilySpec = FamilySpec::counter(
    "headcount_config_reloads",
    &["result"],
    "Reloads of the configuration at SIGHUP, by result; after a failure, the previous version stays in use",
);

/// The families of this module.
pub const RELOAD_FAMILIES: [FamilySpec; 1] = [RELOADS];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

/// Counts reloads.
#[derive(Clone, Debug, Default)]
struct Counts(Family<ResultLabel, Counter>);

impl Counts {
    fn count(&self, succeeded: bool) {
        self.0.get_or_create(&Self::label(succeeded)).inc();
    }

    fn label(succeeded: bool) -> ResultLabel {
        ResultLabel { result: if succeeded { "success" } else { "failure" } }
    }
}

/// Reloads at each SIGHUP.
pub(super) struct Reload {
    hangups: Signal,
    /// Where the configuration is from; `None` for the demo, which has none.
    arguments: Option<Arguments>,
    config: Config,
    /// Which groups the process serves by zone: as configured at its start.
    zones: Vec<(String, ZonePolicy)>,
    counts: Counts,
    /// Credentials that did not work, by source, and when they were tried.
    refused: Vec<(Source, Instant)>,
}

/// The parts of the process that the new version applies to.
pub(super) struct Target {
    pub(super) fleet: Arc<Fleet>,
    pub(super) tls: Option<Arc<LiveTls>>,
    pub(super) learner: Option<Learner>,
    /// How the credentials of each source are renewed.
    pub(super) sign_ins: Vec<(String, SignIn)>,
    /// Fetches prices from the clouds.
    pub(super) live_prices: LivePrices,
}

impl Reload {
    /// From now on, SIGHUP no longer ends the process.
    pub(super) fn on_hangup(arguments: Option<Arguments>, config: Config) -> io::Result<Self> {
        let hangups = signal(SignalKind::hangup())?;
        let zones = zones(&config);
        Ok(Self { hangups, arguments, config, zones, counts: Counts::default(), refused: Vec::new() })
    }

    /// Registers the counts.
    pub(super) fn register(&self, registry: &mut Registry) {
        for succeeded in [true, false] {
            drop(self.counts.0.get_or_create(&Counts::label(succeeded)));
        }
        RELOADS.register(registry, self.counts.0.clone());
    }

    /// Reloads forever.
    pub(super) async fn run(&mut self, target: &mut Target) {
        let mut checks = interval(CHECK_EVERY);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // A reload may bring the first ones.
            let may_change = self.arguments.is_some() && self.config.sources.iter().any(has_credentials);
            tokio::select! {
                hangup = self.hangups.recv() => match hangup {
                    Some(()) => self.reload(target).await,
                    None => return,
                },
                _ = checks.tick(), if may_change => self.renew_credentials(target).await,
            }
        }
    }

    async fn reload(&mut self, target: &mut Target) {
        if let Some(tls) = &target.tls {
            tls.reload();
        }
        let Some(arguments) = self.arguments.clone() else {
            info!("the demo has no configuration to reload");
            return;
        };
        let new = match read(arguments).await {
            Ok(new) => new,
            Err(reason) => {
                self.counts.count(false);
                error!(error = reason, "configuration cannot be reloaded; continuing with the previous one");
                return;
            }
        };
        self.renew(&new, target, true).await;
        self.take(new, target);
        target.fleet.tasks().input_changed();
    }

    fn take(&mut self, mut new: Config, target: &mut Target) {
        let is_followed = self.use_nodes(&new, target);
        if !is_followed {
            new.learn.clone_from(&self.config.learn);
            new.taints.clone_from(&self.config.taints);
        }
        let Target { fleet, live_prices, .. } = target;
        if new.live_prices != self.config.live_prices {
            live_prices.set(new.live_prices, fleet.tasks());
        }
        self.counts.count(is_followed);
        let (changed, restart) = differences(&self.config, &new, &self.zones);
        if is_followed && changed.is_empty() && restart.is_empty() {
            info!("configuration reloaded; nothing has changed");
            return;
        }
        fleet.reconfigure(new.groups.clone(), new.instance_types.clone());
        if !changed.is_empty() {
            info!(changed = changed.join(", "), "configuration reloaded");
        }
        if !restart.is_empty() {
            warn!(keys = restart.join(", "), "changed keys need a restart; the previous values stay in use");
        }
        self.config.groups = new.groups;
        self.config.instance_types = new.instance_types;
        self.config.learn = new.learn;
        self.config.taints = new.taints;
        self.config.live_prices = new.live_prices;
    }

    /// Uses the nodes of the cluster as the new configuration says. Returns whether it can be followed.
    fn use_nodes(&self, new: &Config, target: &mut Target) -> bool {
        let Target { fleet, learner, .. } = target;
        if new.node_use() == self.config.node_use() {
            return true;
        }
        let Some((settings, uses)) = new.node_use() else {
            learner.take().into_iter().for_each(Learner::stop);
            return true;
        };
        match kubernetes::Client::new(settings.clone(), &|name| std::env::var(name).ok()) {
            Ok(client) => {
                drop(learner.take());
                *learner = Some(fleet.learn(Arc::new(client), uses, LEARN_EVERY));
                true
            }
            Err(error) => {
                error!(%error, "learn and kubernetes.taints cannot be applied; their previous values stay in use");
                false
            }
        }
    }

    /// Checks for new credentials. Other changes wait for SIGHUP. If the files cannot be read, the next check reads
    /// them again.
    async fn renew_credentials(&mut self, target: &Target) {
        let Some(arguments) = self.arguments.clone() else { return };
        if let Ok(new) = read(arguments).await {
            self.renew(&new, target, false).await;
        }
    }

    /// Renews the credentials of all sources, or only of those whose credentials have changed.
    async fn renew(&mut self, new: &Config, target: &Target, all: bool) {
        for (name, sign_in) in &target.sign_ins {
            let of = |config: &Config| config.sources.iter().position(|source| source.name == *name);
            let (Some(old), Some(new)) = (of(&self.config), of(new).map(|at| &new.sources[at])) else { continue };
            let old = &mut self.config.sources[old];
            let mut renewed = old.clone();
            copy_credentials(&mut renewed, new);
            // The source is in another account only after a restart.
            if renewed != *old && is_moved(old, new) {
                if all {
                    warn!(
                        source = name,
                        "source credentials changed together with the account; both need a restart; the \
                        previous ones stay in use"
                    );
                }
                continue;
            }
            let is_refused = |(source, at): &(Source, Instant)| *source == renewed && at.elapsed() < RETRY_AFTER;
            if !all && (renewed == *old || self.refused.iter().any(is_refused)) {
                continue;
            }
            self.refused.retain(|(source, _)| source.name != *name);
            match sign_in.renew(&renewed.cloud).await {
                Ok(()) => {
                    info!(source = name, "source credentials reloaded");
                    *old = renewed;
                    target.fleet.tasks().input_changed();
                }
                Err(reason) => {
                    error!(
                        source = name,
                        error = reason,
                        "source credentials cannot be used; continuing with the previous ones"
                    );
                    self.refused.push((renewed, Instant::now()));
                }
            }
        }
    }
}

async fn read(arguments: Arguments) -> Result<Config, String> {
    match tokio::task::spawn_blocking(move || Config::load(&arguments)).await {
        Ok(read) => read.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}
