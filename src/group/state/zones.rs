//! The zones of a group that is served as one node group for each of them. The group itself stays one: what is decided
//! about its capacity, its minimum and its maximum is decided once, for all zones.

use std::collections::BTreeSet;

use super::GroupState;
use crate::cloud::ZoneName;
use crate::group::observation::count;

impl GroupState {
    /// Whether each of its zones is served as a node group.
    pub(crate) fn has_separate_zones(&self) -> bool {
        self.observation.reading.has_separate_zones()
    }

    /// The zones that are served, and those that CA still has to give something back in.
    pub(crate) fn zones(&self) -> BTreeSet<ZoneName> {
        let mut zones = self.observation.reading.separate_zones(&self.observation.instances);
        zones.extend(self.placeholders.iter().filter_map(|placeholder| placeholder.zone.clone()));
        zones
    }

    /// How much of the maximum is taken. The zones show all instances that live, also those beyond the capacity.
    pub(crate) fn taken(&self) -> u32 {
        let target = self.status().target;
        if !self.has_separate_zones() {
            return target;
        }
        let missing = count(self.placeholders.iter().filter(|placeholder| placeholder.in_target()).count());
        target.max(self.census().live.saturating_add(missing))
    }
}
