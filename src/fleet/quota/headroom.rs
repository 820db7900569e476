//! How many more nodes the quotas of an account leave for each group: a pure function of the quotas as they were read,
//! and of the groups since then.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::cloud::{GroupName, InstanceState, Quotas};
use crate::fleet::snapshot::{GroupKey, GroupView};

/// The quotas of one source, as they were read, with the targets of its groups just before.
#[derive(Clone, Debug, Default)]
pub(in crate::fleet) struct QuotaReading {
    pub(in crate::fleet) quotas: Quotas,
    pub(in crate::fleet) targets: BTreeMap<GroupName, u32>,
}

/// What the quotas leave for one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headroom {
    /// The scarcest quota of the group.
    pub quota: Arc<str>,
    /// How much of it is used, with increases in flight, in vCPUs.
    pub used: u64,
    /// How much there is, in vCPUs.
    pub limit: u64,
    /// How many more nodes it leaves room for.
    pub nodes: u32,
}

/// What the quotas leave, for each group whose quotas are known.
#[derive(Clone, Debug, Default)]
pub struct Headrooms(HashMap<GroupKey, Headroom>);

impl Headrooms {
    /// Adds the groups of a source. `reserved` are nodes that were asked for a moment ago and that no target shows yet.
    pub(super) fn add(&mut self, reading: &QuotaReading, views: &[&GroupView], reserved: &HashMap<GroupKey, u32>) {
        let mut used: BTreeMap<&str, u64> =
            reading.quotas.by_name.iter().map(|(name, quota)| (&**name, quota.used)).collect();
        for view in views {
            let Some(taken) = reading.quotas.groups.get(&view.key.name) else { continue };
            let nodes = in_flight(reading, view).saturating_add(reserved.get(&view.key).copied().unwrap_or_default());
            for name in &taken.names {
                if let Some(used) = used.get_mut(&**name) {
                    *used = used.saturating_add(u64::from(nodes) * u64::from(taken.per_node));
                }
            }
        }
        for view in views {
            let Some(taken) = reading.quotas.groups.get(&view.key.name) else { continue };
            let of_quota = taken.names.iter().filter_map(|name| {
                let (used, limit) = (*used.get(&**name)?, reading.quotas.by_name.get(name)?.limit);
                let nodes = limit.saturating_sub(used) / u64::from(taken.per_node.max(1));
                let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
                Some(Headroom { quota: Arc::clone(name), used, limit, nodes })
            });
            if let Some(scarcest) = of_quota.min_by_key(|headroom| headroom.nodes) {
                self.0.insert(view.key.clone(), scarcest);
            }
        }
    }

    /// Makes a group one that no quota limits.
    pub(super) fn forget(&mut self, key: &GroupKey) {
        self.0.remove(key);
    }

    /// What is left for a group; `None` if its quotas are not known.
    pub fn of(&self, key: &GroupKey) -> Option<&Headroom> {
        self.0.get(key)
    }

    /// The maximum to report: the group's own, or its target and what its quotas leave. Never below the target.
    pub fn max(&self, view: &GroupView) -> u32 {
        let target = view.status.target;
        match self.of(&view.key) {
            Some(headroom) => view.max.min(target.saturating_add(headroom.nodes)).max(target.min(view.max)),
            None => view.max,
        }
    }

    /// What limits a group below its own maximum.
    pub fn limiting(&self, view: &GroupView) -> Option<&Headroom> {
        self.of(&view.key).filter(|_| self.max(view) < view.max)
    }
}

/// The nodes of a group that were asked for and that the reading does not count: those that no VM is listed for, or by
/// which the target has grown since. What a group gave back since then counts only from the next reading on.
fn in_flight(reading: &QuotaReading, view: &GroupView) -> u32 {
    let status = &view.status;
    let is_coming =
        |state: InstanceState, exists: bool, failed: bool| state == InstanceState::Creating && !exists && !failed;
    let coming = status.instances.iter();
    let coming = coming.filter(|one| is_coming(one.state, one.exists, one.failure.is_some())).count();
    let before = reading.targets.get(&view.key.name).copied().unwrap_or_default();
    let grown = status.target.saturating_sub(status.failed()).saturating_sub(before);
    grown.max(u32::try_from(coming).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
