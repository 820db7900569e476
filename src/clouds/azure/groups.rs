//! Turns a scale set into a reading.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::arm::{OwnChanges, RepairAction, ScaleSet};
use super::tags;
use crate::cloud::{CAPACITY_MAX, Consistency, GroupName, GroupReading, Identity, Permit, Provisioning, Zones};
use crate::clouds::bounds::Bounds;

/// The most VMs of a scale set whose `singlePlacementGroup` is true.
/// <https://learn.microsoft.com/azure/virtual-machine-scale-sets/virtual-machine-scale-sets-placement-groups>
const PLACEMENT_GROUP_MAX: u32 = 100;

/// A reading without instances, and warnings about the group.
#[derive(Debug)]
pub(super) struct GroupRead {
    pub(super) reading: GroupReading,
    pub(super) remarks: Vec<String>,
}

/// Reads a scale set, with its name and what the IDs of its placeholders begin with. Returns an error for an unknown value
/// and never substitutes a number for it.
pub(super) fn read(
    (name, placeholder_prefix): (GroupName, String),
    set: &ScaleSet,
    bounds: Bounds,
    etag: Option<String>,
) -> Result<GroupRead, String> {
    // The in-tree provider took an unreadable capacity for 0, and its next write deleted 89 of 90 nodes (#9452).
    let desired = set.capacity.ok_or("its capacity is not known")?;
    if desired > CAPACITY_MAX {
        return Err(format!("its capacity {desired} is more than a scale set can have"));
    }
    let mut remarks = Vec::new();
    if set.overprovision {
        remarks
            .push("overprovision is on, so extra VMs appear and disappear while it grows; set it to false".to_owned());
    }
    let max = max(set, &bounds, desired);
    if max < bounds.max {
        remarks.push(format!(
            "singlePlacementGroup is on, so Azure limits it to {PLACEMENT_GROUP_MAX} VMs, and its max size of {} is \
             not served; set it to false, or lower the max size",
            bounds.max
        ));
    }
    let hints = tags::hints(&set.tags, &mut remarks);
    let permit = being_deleted(set).map_or(Permit::Granted, Permit::Withheld);
    let reading = GroupReading {
        name,
        identity: set.unique_id.as_deref().map(|id| Identity::of(&[id])),
        consistency: match &etag {
            Some(_) => Consistency::SCALE_SET,
            None => Consistency::SCALE_SET_WITHOUT_ETAG,
        },
        min: bounds.min,
        max,
        floor: 0,
        desired,
        etag,
        units_per_node: Some(1),
        is_detail_outdated: false,
        without_id: 0,
        retained: 0,
        has_own_surplus: has_own_surplus(set),
        provisioning: provisioning(set),
        growth: permit.clone(),
        removal: permit,
        launch: Permit::Withheld("a scale set has no call that launches and returns instances".to_owned()),
        instances: None,
        hints: Arc::new(hints),
        zones: Zones::default(),
        launch_fingerprint: launch_fingerprint(set),
        placeholder_prefix,
    };
    Ok(GroupRead { reading, remarks })
}

/// Azure refuses more VMs than a single placement group holds, so the Cluster Autoscaler is to turn to another group.
/// What exists, and the least to keep, stay within the bounds.
fn max(set: &ScaleSet, bounds: &Bounds, desired: u32) -> u32 {
    if !set.has_single_placement_group {
        return bounds.max;
    }
    bounds.max.min(PLACEMENT_GROUP_MAX.max(bounds.min).max(desired))
}

/// Overprovisioning, surges of upgrades, zone balancing and repairs that replace VMs make more than the capacity.
fn has_own_surplus(set: &ScaleSet) -> bool {
    let OwnChanges { repairs, zone_balance, surge, .. } = &set.own_changes;
    set.overprovision || *surge || *zone_balance || *repairs == Some(RepairAction::Replace)
}

// The autoscaler must not grow a node pool that is being deleted. Any other state allows scaling, including an update
// that is running or that failed.
fn being_deleted(set: &ScaleSet) -> Option<String> {
    is_in(set, "Deleting").then(|| "the scale set is being deleted".to_owned())
}

fn provisioning(set: &ScaleSet) -> Provisioning {
    // A resource without a state counts as succeeded, as for its operations.
    if is_in(set, "Succeeded") || set.provisioning_state.is_none() {
        Provisioning::Succeeded
    } else if ["Failed", "Canceled", "Cancelled"].into_iter().any(|state| is_in(set, state)) {
        Provisioning::Failed
    } else {
        Provisioning::Running
    }
}

fn is_in(set: &ScaleSet, state: &str) -> bool {
    set.provisioning_state.as_deref().is_some_and(|known| known.eq_ignore_ascii_case(state))
}

/// A hash that changes if, and only if, the inputs of a new VM change.
pub(super) fn launch_fingerprint(set: &ScaleSet) -> u64 {
    let mut hasher = DefaultHasher::new();
    let sorted = |texts: &[String]| {
        let mut texts = texts.to_vec();
        texts.sort();
        texts
    };
    set.size.hash(&mut hasher);
    sorted(&set.mixed_sizes).hash(&mut hasher);
    set.location.hash(&mut hasher);
    sorted(&set.zones).hash(&mut hasher);
    set.windows.hash(&mut hasher);
    set.os_disk_gb.hash(&mut hasher);
    set.ephemeral_os_disk.hash(&mut hasher);
    set.storage_account_type.hash(&mut hasher);
    set.security_type.hash(&mut hasher);
    set.image.hash(&mut hasher);
    set.image_name.hash(&mut hasher);
    (set.spot, set.mixes_priorities, set.cpus_available, set.has_one_thread_per_core).hash(&mut hasher);
    set.addresses.hash(&mut hasher);
    let shaping: Vec<_> = set.tags.iter().filter(|(key, _)| tags::shapes_nodes(key)).collect();
    shaping.hash(&mut hasher);
    hasher.finish()
}
