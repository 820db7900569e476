//! A node group for one zone of a group that has several.

use crate::cloud::{
    Consistency, Counts, GroupName, GroupReading, GrowsBy, Instance, InstanceState, Permit, ProviderId, Zones,
};

/// The zone of an instance, from an ID of EC2's form: `aws:///ZONE/INSTANCE`.
pub(super) fn zone_of(id: &ProviderId) -> Option<&str> {
    let (_, path) = id.as_str().split_once(":///")?;
    path.split_once('/').map(|(zone, _)| zone)
}

/// The zones that a group has or has instances in, sorted. Empty where it cannot be served by zones.
pub(super) fn zones(whole: &GroupReading) -> Vec<String> {
    let Some(instances) = whole.instances.as_ref().filter(|_| !whole.zones.names.is_empty()) else { return Vec::new() };
    let used = instances.iter().filter_map(|one| zone_of(&one.id)).map(str::to_ascii_lowercase);
    let mut zones: Vec<String> = whole.zones.names.iter().cloned().chain(used).collect();
    zones.sort();
    zones.dedup();
    zones
}

/// The name of a zone's node group.
pub(super) fn name(group: &GroupName, zone: &str) -> GroupName {
    GroupName::from(format!("{group}/{zone}").as_str())
}

/// How many instances live that the group's capacity has no room for.
pub(super) fn excess(whole: &GroupReading) -> u32 {
    count(living(whole).count()).saturating_sub(whole.desired)
}

/// The instances that the group counts on: those that its capacity has room for. Where it terminates none of those that
/// live by itself, all of them.
pub(super) fn held(whole: &GroupReading) -> u32 {
    if living(whole).all(|one| one.is_protected) { whole.desired.saturating_add(excess(whole)) } else { whole.desired }
}

/// The node group of a zone. Its capacity is the number of its live instances, less `owed`: those that the whole group
/// may be about to terminate because of our deletions. What the group lacks belongs to no zone.
///
/// The limits of the whole group are shared: the zone may take all that the group has left, and give up all that it
/// may lose.
pub(super) fn part(whole: &GroupReading, zone: &str, owed: u32) -> GroupReading {
    let is_here = |one: &&Instance| zone_of(&one.id).is_some_and(|other| other.eq_ignore_ascii_case(zone));
    let instances: Vec<Instance> = whole.instances.iter().flatten().filter(is_here).cloned().collect();
    let desired = count(instances.iter().filter(|one| is_live(one)).count()).saturating_sub(owed);
    let taken = whole.desired.saturating_add(excess(whole));
    let is_first = zones(whole).first().is_some_and(|first| first == zone);
    GroupReading {
        name: name(&whole.name, zone),
        min: desired.saturating_sub(held(whole).saturating_sub(whole.min)),
        max: desired.saturating_add(whole.max.saturating_sub(taken)),
        floor: 0,
        desired,
        growth: growth(whole, zone),
        zones: Zones { names: vec![zone.to_owned()], ..whole.zones.clone() },
        // The listing does not say where they are. They are counted once.
        retained: if is_first { whole.retained } else { 0 },
        consistency: Consistency { grows_by: GrowsBy::LaunchOnly, ..whole.consistency },
        instances: Some(instances),
        ..whole.clone()
    }
}

fn growth(whole: &GroupReading, zone: &str) -> Permit {
    if whole.growth != Permit::Granted {
        return whole.growth.clone();
    }
    if let Permit::Withheld(reason) = &whole.launch {
        return Permit::Withheld(format!("no launch in one zone can be requested: {reason}"));
    }
    if let Some(reason) = whole.zones.withdrawn.get(zone) {
        return Permit::Withheld(reason.clone());
    }
    if !whole.zones.names.iter().any(|one| one == zone) {
        return Permit::Withheld(format!("the group has no subnet in {zone} any more"));
    }
    Permit::Granted
}

/// The instances of a group that live and are part of its capacity.
pub(super) fn living(whole: &GroupReading) -> impl Iterator<Item = &Instance> {
    whole.instances.iter().flatten().filter(|one| is_live(one))
}

pub(super) fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Whether an instance lives and is part of the capacity.
pub(super) fn is_live(one: &Instance) -> bool {
    one.counts != Counts::No && one.state != InstanceState::Deleting
}
