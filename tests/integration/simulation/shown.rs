//! What the cloud and the snapshot show of a group, which decides what the caller does and what the laws promise it.

use std::time::Duration;

use headcount::cloud::{InstanceState, ProviderId};
use headcount::clouds::simulated::{Call, CallKind, Event, Group, GroupStyle, Overlap};
use headcount::fleet::{NamedNode, NodeKind};

use super::world::{World, whole, zone};

/// For how long the failure of an operation may not show after a poll of it failed.
const POLLS_MISSED: Duration = Duration::from_secs(60);

/// For how long a process may be silent that need not list its groups again when it is called.
const NOT_LISTED_AGAIN: Duration = Duration::from_secs(40);

/// Whether another process deleted instances of this group within the time in which a new leader may not list it again.
pub(super) fn was_handed_over(world: &World, group: &str) -> bool {
    let since = world.cloud.elapsed().saturating_sub(NOT_LISTED_AGAIN);
    world.cloud.faults(|faults| {
        let is_deletion = |call: &&Call| {
            call.kind == CallKind::DeleteInstances && call.group.as_deref() == Some(whole(group)) && call.at >= since
        };
        faults.calls().filter(is_deletion).any(|call| !world.has_sent(call))
    })
}

/// The capacity of a group in the cloud itself, without the instances being deleted. A zone has no capacity of its own:
/// there it is the number of live instances.
pub(super) fn kept(world: &World, group: &str) -> u32 {
    match zone(group) {
        Some(zone) => world.cloud.world(|world, _| world.group(whole(group)).map_or(0, |group| live_in(group, zone))),
        None => kept_in_all(world, group),
    }
}

/// The same of all zones of a group that is served by zones.
pub(super) fn kept_in_all(world: &World, group: &str) -> u32 {
    world.cloud.world(|world, _| {
        world.group(whole(group)).map_or(0, |group| {
            let going = group.members().filter(|member| member.counts() && !member.phase.lives()).count();
            group.capacity().saturating_sub(u32::try_from(going).unwrap_or(u32::MAX))
        })
    })
}

/// The live instances of one zone in the cloud itself.
pub(super) fn live_in(group: &Group, zone: &str) -> u32 {
    let live = group.members().filter(|member| member.zone == zone && member.phase.lives());
    u32::try_from(live.count()).unwrap_or(u32::MAX)
}

/// A target, and its limits.
pub(super) struct Sizes {
    pub(super) target: u32,
    pub(super) min: u32,
    pub(super) max: u32,
}

/// The sizes of a group. If it is served by zones, they are those of all its zones together.
pub(super) fn sizes_of_all(world: &World, group: &str) -> Option<Sizes> {
    let snapshot = world.fleet.snapshot();
    let (_, view) = snapshot.group(group)?;
    if zone(group).is_none() {
        return Some(Sizes { target: view.status.target, min: view.min, max: view.max });
    }
    let zones = snapshot.groups().filter(|(id, _)| whole(id) == whole(group));
    let target = zones.map(|(_, view)| view.status.target).sum();
    world.cloud.world(|cloud, _| {
        let plan = cloud.group(whole(group))?.plan();
        Some(Sizes { target, min: plan.min, max: plan.max })
    })
}

/// Whether a scale set has created instances for reasons of its own.
pub(super) fn has_surplus_in_scale_set(world: &World, group: &str) -> bool {
    world.has_had_surplus(group) && is_scale_set(world, group)
}

/// Whether a group is a scale set.
pub(super) fn is_scale_set(world: &World, group: &str) -> bool {
    let is_scale_set = |group: &Group| group.plan().style == GroupStyle::ScaleSet;
    world.cloud.world(|cloud, _| cloud.group(whole(group)).is_some_and(is_scale_set))
}

/// Whether an instance is live in the cloud itself.
pub(super) fn lives(world: &World, group: &str, id: &ProviderId) -> bool {
    world.cloud.world(|world, _| {
        let mut members = world.group(whole(group)).into_iter().flat_map(|group| group.members());
        members.any(|member| member.provider_id == *id && member.phase.lives())
    })
}

/// Whether one write preempts another in this group: an instance being deleted is then live again, and is deleted
/// again.
pub(super) fn is_preempted(world: &World, group: &str) -> bool {
    world
        .cloud
        .world(|world, _| world.group(whole(group)).is_some_and(|group| group.plan().overlap == Overlap::Preempt))
}

/// How many calls asked the cloud to delete any of these. A deletion of others, whose caller's deadline has passed, may
/// still be in progress.
pub(super) fn deletions(world: &World, group: &str, ids: &[ProviderId]) -> usize {
    let last_parts: Vec<&str> = ids.iter().filter_map(|id| id.as_str().rsplit('/').next()).collect();
    let of_group = |call: &&Call| call.kind == CallKind::DeleteInstances && call.group.as_deref() == Some(whole(group));
    let names_one = |call: &&Call| call.detail.split(' ').any(|named| last_parts.contains(&named));
    world.cloud.faults(|faults| faults.calls().filter(of_group).filter(names_one).count())
}

/// Whether a deletion of any of these has failed since then.
pub(super) fn has_failed_to_delete(world: &World, group: &str, ids: &[ProviderId], since: Duration) -> bool {
    let names: Vec<&str> = ids.iter().filter_map(|id| id.as_str().rsplit('/').next()).collect();
    world.cloud.world(|cloud, _| {
        let is_failure = |event: &&Event| event.what.starts_with("deletion of ") && event.at >= since;
        let mut recent = cloud.events().filter(is_failure).filter(|event| *event.group == *whole(group));
        recent.any(|event| names.iter().any(|name| event.what.contains(&format!(" {name} failed: "))))
    })
}

/// The group's minimum, and its listed instances in this state without a failure.
pub(super) fn listed(world: &World, group: &str, state: InstanceState) -> Option<(u32, Vec<ProviderId>)> {
    let snapshot = world.fleet.snapshot();
    let (_, view) = snapshot.group(group)?;
    let in_state =
        view.status.instances.iter().filter(|reported| reported.state == state && reported.failure.is_none());
    Some((view.min, in_state.map(|reported| reported.id.clone()).collect()))
}

/// Whether a poll has failed lately.
pub(super) fn are_polls_failing(world: &World) -> bool {
    let since = world.cloud.elapsed().saturating_sub(POLLS_MISSED);
    world.cloud.faults(|faults| {
        faults.calls().any(|call| call.kind == CallKind::Follow && call.call_fault.is_some() && call.at >= since)
    })
}

/// The instances that failed to be created.
pub(super) fn failed(world: &World, group: &str) -> Option<Vec<NamedNode>> {
    let snapshot = world.fleet.snapshot();
    let (_, view) = snapshot.group(group)?;
    let failed = view.status.instances.iter().filter(|reported| reported.failure.is_some());
    let nodes: Vec<_> =
        failed.map(|reported| NamedNode { id: reported.id.clone(), kind: NodeKind::CreateError }).collect();
    (!nodes.is_empty()).then_some(nodes)
}
