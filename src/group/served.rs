//! What the Cluster Autoscaler may ask for, of the group or of each of its zones: the least and the greatest number of
//! nodes.

use std::collections::BTreeSet;

use super::{Group, GroupStatus, plan};
use crate::cloud::{Permit, ZoneName};

impl Group {
    /// The zones that are served as node groups; empty where the whole group is one.
    pub(crate) fn zones(&self) -> BTreeSet<ZoneName> {
        self.state.zones()
    }

    /// Whether the group, or a zone of it, can grow as it is served.
    pub(crate) fn growth(&self, zone: Option<&ZoneName>) -> Permit {
        let reading = &self.state.observation().reading;
        match &self.blocked {
            Some(blocked) if blocked.is_served => Permit::Withheld(blocked.reason.clone()),
            _ => zone.map_or_else(|| reading.growth.clone(), |zone| reading.growth_in(zone)),
        }
    }

    /// The least number of nodes of the group, or of a zone that is served with this status: what all zones may lose,
    /// each of them may lose, and where nothing may be deleted, none. Otherwise CA would drain nodes in vain.
    pub(crate) fn min_for(&self, zone: Option<&ZoneName>, status: &GroupStatus) -> u32 {
        let reading = &self.state.observation().reading;
        let healthy = status.target.saturating_sub(status.failed());
        let min = match zone {
            Some(_) => healthy.saturating_sub(plan::room_to_shrink(&self.state)),
            None => reading.min,
        };
        if reading.removal == Permit::Granted { min } else { min.max(healthy) }
    }

    /// The greatest number of nodes that CA may ask for, in the group or in a zone of it, where the target and whether
    /// it can grow are these. Nodes that the target leaves out take up room all the same. What all zones have left, each
    /// of them has.
    pub(crate) fn max_for(&self, zone: Option<&ZoneName>, target: u32, growth: &Permit) -> u32 {
        let reading = &self.state.observation().reading;
        if zone.is_some() {
            let left = if *growth == Permit::Granted { reading.max.saturating_sub(self.state.taken()) } else { 0 };
            return target.saturating_add(left);
        }
        let left_out = self.state.status().target.saturating_sub(target);
        match growth {
            Permit::Granted => match self.state.taken_by_unfilled().saturating_add(left_out) {
                0 => reading.max,
                taken => reading.max.saturating_sub(taken).max(target),
            },
            // CA chooses no group that is at its maximum, also not one that is below its minimum.
            Permit::Withheld(_) => target,
        }
    }
}
