//! What differs between two versions of the configuration.

#[cfg(feature = "azure")]
use crate::config::CloudSettings;
use crate::config::{Config, Source};
use crate::fleet::ZonePolicy;

/// Whether the configuration, or a file that it names, contains credentials of this source.
pub(super) fn has_credentials(source: &Source) -> bool {
    match &source.cloud {
        #[cfg(feature = "azure")]
        CloudSettings::Azure(settings) => settings.credential.is_some(),
        _ => false,
    }
}

/// Gives a source the credentials of another one.
pub(super) fn copy_credentials(to: &mut Source, from: &Source) {
    match (&mut to.cloud, &from.cloud) {
        #[cfg(feature = "azure")]
        (CloudSettings::Azure(to), CloudSettings::Azure(from)) => to.credential.clone_from(&from.credential),
        _ => {}
    }
}

/// Whether two versions of a source are in different accounts, so that the credentials of one are none for the other.
pub(super) fn is_moved(old: &Source, new: &Source) -> bool {
    match (&old.cloud, &new.cloud) {
        #[cfg(feature = "azure")]
        (CloudSettings::Azure(old), CloudSettings::Azure(new)) => {
            (&old.cloud, &old.endpoint, &old.subscription_id, &old.resource_group)
                != (&new.cloud, &new.endpoint, &new.subscription_id, &new.resource_group)
        }
        _ => false,
    }
}

/// Whether sources differ in more than their credentials.
fn sources_differ(old: &[Source], new: &[Source]) -> bool {
    let differ = |(old, new): (&Source, &Source)| {
        let mut old = old.clone();
        copy_credentials(&mut old, new);
        old != *new
    };
    old.len() != new.len() || old.iter().zip(new).any(differ)
}

/// The groups that are to be served by zones.
pub(super) fn zones(config: &Config) -> Vec<(String, ZonePolicy)> {
    let policies = config.groups.0.iter();
    policies.filter_map(|policy| Some((policy.matches.to_string(), policy.zones?))).collect()
}

/// The keys that differ: those that take effect now, and those that need a restart. `served` are the zones of the start.
pub(super) fn differences(
    old: &Config,
    new: &Config,
    served: &[(String, ZonePolicy)],
) -> (Vec<&'static str>, Vec<&'static str>) {
    let names = |all: &[(&'static str, bool)]| {
        all.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name).collect::<Vec<_>>()
    };
    let now = names(&[
        ("groups", old.groups != new.groups),
        ("instanceTypes", old.instance_types != new.instance_types),
        ("learn", old.learn != new.learn),
        ("prices", old.live_prices != new.live_prices),
        ("kubernetes.taints", old.taints != new.taints),
    ]);
    let restart = names(&[
        ("groups[].zones", zones(new) != served),
        ("grpc", old.grpc != new.grpc),
        ("admin", old.admin != new.admin),
        ("refreshInterval", old.refresh_interval != new.refresh_interval),
        ("idleRefreshInterval", old.idle_refresh_interval != new.idle_refresh_interval),
        ("drainTimeout", old.drain_timeout != new.drain_timeout),
        ("readOnly", old.read_only != new.read_only),
        ("gpuLabel", old.gpu_label != new.gpu_label),
        ("kubernetes", old.events != new.events),
        ("sources", sources_differ(&old.sources, &new.sources)),
    ]);
    (now, restart)
}
