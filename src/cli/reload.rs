//! What SIGHUP does: the configuration, its tables and the TLS files are read again. What cannot be used leaves the earlier version
//! in force.

use std::io;
use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

use crate::config::{Arguments, Config};
use crate::fleet::{Fleet, LEARN_EVERY, Learner};
use crate::grpc::tls::LiveTls;
use crate::kubernetes;

/// Reloads at each SIGHUP.
pub(super) struct Reload {
    hangups: Signal,
    /// Where the configuration is from; `None` for the demo, which has none.
    arguments: Option<Arguments>,
    config: Config,
}

/// What takes on the new version.
pub(super) struct Target {
    pub(super) fleet: Arc<Fleet>,
    pub(super) tls: Option<Arc<LiveTls>>,
    pub(super) learner: Option<Learner>,
}

impl Reload {
    /// From now on, SIGHUP no longer ends the process.
    pub(super) fn on_hangup(arguments: Option<Arguments>, config: Config) -> io::Result<Self> {
        Ok(Self { hangups: signal(SignalKind::hangup())?, arguments, config })
    }

    /// Reloads forever.
    pub(super) async fn run(&mut self, target: &mut Target) {
        let Target { fleet, tls, learner } = target;
        while self.hangups.recv().await.is_some() {
            if let Some(tls) = tls {
                tls.reload();
            }
            let Some(new) = self.read().await else { continue };
            if new.learn != self.config.learn {
                match &new.learn {
                    None => drop(learner.take()),
                    Some(settings) => match kubernetes::Client::new(settings.clone(), &|name| std::env::var(name).ok())
                    {
                        Ok(client) => {
                            drop(learner.take());
                            *learner = Some(fleet.learn(Arc::new(client), LEARN_EVERY));
                        }
                        Err(error) => {
                            error!(%error, "learn: cannot be changed; continuing as before");
                            continue;
                        }
                    },
                }
            }
            let (changed, restart) = differences(&self.config, &new);
            if changed.is_empty() && restart.is_empty() {
                info!("configuration reloaded; nothing has changed");
                continue;
            }
            fleet.reconfigure(new.groups.clone(), new.instance_types.clone());
            info!(changed = changed.join(", "), "configuration reloaded");
            if !restart.is_empty() {
                warn!(keys = restart.join(", "), "changed keys need a restart; the earlier values stay in force");
            }
            self.config.groups = new.groups;
            self.config.instance_types = new.instance_types;
            self.config.learn = new.learn;
        }
    }

    async fn read(&self) -> Option<Config> {
        let Some(arguments) = self.arguments.clone() else {
            info!("the demo has no configuration to reload");
            return None;
        };
        match tokio::task::spawn_blocking(move || Config::load(&arguments)).await {
            Ok(Ok(config)) => Some(config),
            Ok(Err(error)) => {
                error!(%error, "configuration cannot be reloaded; continuing with the earlier one");
                None
            }
            Err(error) => {
                error!(%error, "configuration cannot be reloaded; continuing with the earlier one");
                None
            }
        }
    }
}

/// The keys that differ: those that take effect now, and those that need a restart.
fn differences(old: &Config, new: &Config) -> (Vec<&'static str>, Vec<&'static str>) {
    let names = |all: &[(&'static str, bool)]| {
        all.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name).collect::<Vec<_>>()
    };
    let now = names(&[
        ("groups", old.groups != new.groups),
        ("instanceTypes", old.instance_types != new.instance_types),
        ("learn", old.learn != new.learn),
    ]);
    let restart = names(&[
        ("grpc", old.grpc != new.grpc),
        ("admin", old.admin != new.admin),
        ("refreshInterval", old.refresh_interval != new.refresh_interval),
        ("drainTimeout", old.drain_timeout != new.drain_timeout),
        ("readOnly", old.read_only != new.read_only),
        ("gpuLabel", old.gpu_label != new.gpu_label),
        ("sources", old.sources != new.sources),
    ]);
    (now, restart)
}
