//! The zones of a group that is served as one node group for each of them (`zones: separate`).
//!
//! The Cluster Autoscaler can then place a pod whose volume is in a zone, and a zone without capacity stops no other
//! (autoscaler #1431, #3845, #8970). The group itself stays one: one capacity, one minimum, one maximum.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::consistency::GrowsBy;
use super::ids::{GroupName, ProviderId};
use super::reading::{GroupReading, Instance, Permit};

/// The name of a zone.
pub type ZoneName = Arc<str>;

impl GroupName {
    /// The name of the node group that serves a zone of this group.
    pub fn in_zone(&self, zone: &str) -> Self {
        Self::from(format!("{self}/{zone}").as_str())
    }
}

impl ProviderId {
    /// The zone in an ID of EC2's form, `aws:///ZONE/INSTANCE`.
    pub fn zone(&self) -> Option<&str> {
        let (_, path) = self.folded().split_once(":///")?;
        path.split_once('/').map(|(zone, _)| zone)
    }

    /// Whether it is the ID of an instance in this zone.
    pub fn is_in(&self, zone: &str) -> bool {
        self.zone().is_some_and(|own| own.eq_ignore_ascii_case(zone))
    }
}

impl GroupReading {
    /// Whether each of its zones is served as a node group.
    pub fn has_separate_zones(&self) -> bool {
        self.consistency.grows_by == GrowsBy::LaunchInZone
    }

    /// The zones that it has or has instances in, if each of them is served.
    pub fn separate_zones(&self, instances: &[Instance]) -> BTreeSet<ZoneName> {
        if !self.has_separate_zones() {
            return BTreeSet::new();
        }
        let used = instances.iter().filter_map(|one| one.id.zone());
        self.zones.names.iter().map(String::as_str).chain(used).map(ZoneName::from).collect()
    }

    /// Whether it can grow in this zone.
    pub fn growth_in(&self, zone: &str) -> Permit {
        if self.growth != Permit::Granted {
            return self.growth.clone();
        }
        if let Permit::Withheld(reason) = &self.launch {
            return Permit::Withheld(format!("no launch in one zone can be requested: {reason}"));
        }
        if let Some(reason) = self.zones.withdrawn.get(zone) {
            return Permit::Withheld(reason.clone());
        }
        if !self.zones.names.iter().any(|one| one == zone) {
            return Permit::Withheld(format!("the group has no subnet in {zone} any more"));
        }
        Permit::Granted
    }
}
