//! The node groups that a listed group is served as: itself, or one for each of its zones.

use std::sync::Arc;

use crate::cloud::{Counts, GroupReading, GrowsBy, Instance, InstanceState, ZoneName};
use crate::fleet::{GroupKey, Policies};

/// A node group, as it is served.
pub(super) struct Served {
    /// The group as it was listed.
    pub whole: GroupReading,
    /// The zone that it is, if each is served.
    pub zone: Option<ZoneName>,
    /// What was listed of it.
    pub reading: GroupReading,
}

impl Served {
    /// What these policies serve a group of this source as.
    pub(super) fn of(mut whole: GroupReading, source: &Arc<str>, policies: &Policies) -> Vec<Self> {
        let key = GroupKey { source: Arc::clone(source), name: whole.name.clone() };
        if policies.of(&key).separates(&whole) {
            whole.consistency.grows_by = GrowsBy::LaunchInZone;
        }
        let zones = whole.separate_zones(whole.instances.as_deref().unwrap_or_default());
        if zones.is_empty() {
            return vec![Self { reading: whole.clone(), zone: None, whole }];
        }
        zones
            .into_iter()
            .map(|zone| Self { reading: in_zone(&whole, &zone), zone: Some(zone), whole: whole.clone() })
            .collect()
    }
}

/// What a reading says of one zone. The limits of the group are shared: each zone may grow by all that the group has
/// left, and lose all that it may lose.
fn in_zone(whole: &GroupReading, zone: &str) -> GroupReading {
    let here = whole.instances.iter().flatten().filter(|one| one.id.is_in(zone));
    let instances: Vec<Instance> = here.cloned().collect();
    let desired = live(&instances);
    let taken = whole.desired.max(live(whole.instances.as_deref().unwrap_or_default()));
    GroupReading {
        name: whole.name.in_zone(zone),
        min: desired.saturating_sub(whole.desired.saturating_sub(whole.min)),
        max: desired.saturating_add(whole.max.saturating_sub(taken)),
        desired,
        growth: whole.growth_in(zone),
        instances: Some(instances),
        ..whole.clone()
    }
}

fn live(instances: &[Instance]) -> u32 {
    let live = instances.iter().filter(|one| one.counts != Counts::No && one.state != InstanceState::Deleting);
    u32::try_from(live.count()).unwrap_or(u32::MAX)
}
