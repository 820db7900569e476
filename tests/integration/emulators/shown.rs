//! A simulated group as one response shows it.

use std::time::Duration;

use headcount::cloud::{Counts, GroupReading, Instance, InstanceState, Provisioning};
use headcount::clouds::simulated::{Group, GroupPlan, Member, Phase, World};

/// A group as one response shows it.
#[derive(Clone, Debug)]
pub(super) struct ShownGroup {
    /// Distinguishes it from an earlier group of this name.
    pub(super) generation: u64,
    pub(super) plan: GroupPlan,
    pub(super) capacity: u32,
    pub(super) etag: Option<String>,
    pub(super) instances: Vec<ShownInstance>,
    /// Whether the cloud is changing it.
    pub(super) busy: bool,
    /// Whether the latest operation failed.
    pub(super) failed: bool,
}

/// An instance as one response shows it.
#[derive(Clone, Debug)]
pub(super) struct ShownInstance {
    pub(super) id: String,
    pub(super) zone: String,
    pub(super) instance_type: String,
    pub(super) phase: Phase,
    pub(super) since: Duration,
    /// Code and message of its failure.
    pub(super) failure: Option<(String, String)>,
}

impl ShownGroup {
    pub(super) fn of(group: &Group) -> Self {
        Self {
            generation: group.generation(),
            plan: group.plan().clone(),
            capacity: group.capacity(),
            etag: group.etag(),
            instances: group.members().map(ShownInstance::from).collect(),
            busy: group.provisioning() == Provisioning::Running,
            failed: group.provisioning() == Provisioning::Failed,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.plan.name
    }

    /// The same group as in an earlier reading.
    pub(super) fn shown_at(self, then: &GroupReading) -> Self {
        let instances = then.instances.iter().flatten().map(|instance| self.instance(instance)).collect();
        Self { capacity: then.desired, etag: then.etag.clone(), instances, busy: false, failed: false, ..self }
    }

    fn instance(&self, instance: &Instance) -> ShownInstance {
        let phase = match (instance.state, instance.counts) {
            (InstanceState::Creating, _) if instance.failure.is_some() => Phase::Broken,
            (InstanceState::Creating, _) => Phase::Creating,
            (InstanceState::Deleting, _) => Phase::Deleting,
            (InstanceState::Running, Counts::No) => Phase::Standby,
            (InstanceState::Running, _) => Phase::Running,
        };
        let id = instance.id.as_str().rsplit('/').next().unwrap_or_default();
        let known = self.instances.iter().find(|instance| instance.id == id);
        let first = |list: &[String]| list.first().cloned().unwrap_or_default();
        // One that is gone by now is known by its ID alone, which has its zone.
        let zone = || self.plan.zones.iter().find(|zone| instance.id.is_in(zone)).cloned();
        ShownInstance {
            id: id.to_owned(),
            zone: known.map(|known| known.zone.clone()).or_else(zone).unwrap_or_else(|| first(&self.plan.zones)),
            instance_type: known.map_or_else(|| first(&self.plan.instance_types), |known| known.instance_type.clone()),
            phase,
            since: known.map_or(Duration::ZERO, |known| known.since),
            failure: instance.failure.as_ref().map(|failure| (failure.code.clone(), failure.message.clone())),
        }
    }
}

impl From<&Member> for ShownInstance {
    fn from(member: &Member) -> Self {
        Self {
            id: member.id.clone(),
            zone: member.zone.clone(),
            instance_type: member.instance_type.clone(),
            phase: member.phase,
            since: member.since,
            failure: member.failure.as_ref().map(|(failure, _)| (failure.code.clone(), failure.message.clone())),
        }
    }
}

/// The exact name of the group with this name in any case.
pub(super) fn spelled(world: &World, name: &str) -> Option<String> {
    world.groups().map(Group::name).find(|known| known.eq_ignore_ascii_case(name)).map(str::to_owned)
}

/// The group with this name in any case.
pub(super) fn look_up(world: &World, name: &str) -> Option<ShownGroup> {
    world.groups().find(|group| group.name().eq_ignore_ascii_case(name)).map(ShownGroup::of)
}
