//! A simulated group as one answer shows it.

use std::time::Duration;

use headcount::cloud::{Counts, GroupReading, Instance, InstanceState};
use headcount::clouds::simulated::{Ending, Group, GroupPlan, Member, Phase, World};

/// A group as one answer shows it.
#[derive(Clone, Debug)]
pub(super) struct Sight {
    pub(super) plan: GroupPlan,
    pub(super) capacity: u32,
    pub(super) etag: Option<String>,
    pub(super) instances: Vec<Seen>,
    /// Whether an operation is under way.
    pub(super) busy: bool,
    /// Whether the latest operation failed.
    pub(super) failed: bool,
}

/// An instance as one answer shows it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) id: String,
    pub(super) zone: String,
    pub(super) instance_type: String,
    pub(super) phase: Phase,
    pub(super) since: Duration,
    /// Code and message of what broke it.
    pub(super) failure: Option<(String, String)>,
}

impl Sight {
    pub(super) fn of(group: &Group) -> Self {
        let latest = group.operations().last();
        Self {
            plan: group.plan().clone(),
            capacity: group.capacity(),
            etag: group.etag(),
            instances: group.members().map(Seen::from).collect(),
            busy: group.operations().any(|operation| operation.ending.is_none()),
            failed: latest.is_some_and(|latest| matches!(latest.ending, Some((_, Ending::Failed(_))))),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.plan.name
    }

    /// The same group as it was when it was read then.
    pub(super) fn back_then(self, then: &GroupReading) -> Self {
        let instances = then.instances.iter().flatten().map(|instance| self.seen(instance)).collect();
        Self { capacity: then.desired, etag: then.etag.clone(), instances, busy: false, failed: false, ..self }
    }

    fn seen(&self, instance: &Instance) -> Seen {
        let phase = match (instance.state, instance.counts) {
            (InstanceState::Creating, _) if instance.failure.is_some() => Phase::Broken,
            (InstanceState::Creating, _) => Phase::Creating,
            (InstanceState::Deleting, _) => Phase::Deleting,
            (InstanceState::Running, Counts::No) => Phase::Standby,
            (InstanceState::Running, _) => Phase::Running,
        };
        let id = instance.id.as_str().rsplit('/').next().unwrap_or_default();
        let known = self.instances.iter().find(|seen| seen.id == id);
        let first = |list: &[String]| list.first().cloned().unwrap_or_default();
        Seen {
            id: id.to_owned(),
            zone: known.map_or_else(|| first(&self.plan.zones), |known| known.zone.clone()),
            instance_type: known.map_or_else(|| first(&self.plan.instance_types), |known| known.instance_type.clone()),
            phase,
            since: known.map_or(Duration::ZERO, |known| known.since),
            failure: instance.failure.as_ref().map(|failure| (failure.code.clone(), failure.message.clone())),
        }
    }
}

impl From<&Member> for Seen {
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

/// The name of the group that is called so in any case, as it is written.
pub(super) fn spelled(world: &World, name: &str) -> Option<String> {
    world.groups().map(Group::name).find(|known| known.eq_ignore_ascii_case(name)).map(str::to_owned)
}

/// The group that is called so in any case.
pub(super) fn look_up(world: &World, name: &str) -> Option<Sight> {
    world.groups().find(|group| group.name().eq_ignore_ascii_case(name)).map(Sight::of)
}
