//! A simulated group in the terms of the [`Cloud`](crate::cloud::Cloud) trait.

use std::sync::Arc;
use std::time::SystemTime;

use super::group::Group;
use super::ids;
use super::member::{Member, Phase};
use super::plan::{GroupPlan, GroupStyle};
use super::record::{ActivityKind, ActivityStatus};
use super::world::wall_clock;
use crate::cloud::{
    Consistency, Counts, GroupName, GroupReading, Identity, Instance, InstanceState, LaunchActivity, LaunchSpec,
    Launched, OwnLaunches, Permit, ReservedProfile, Zones,
};

const GIB: u64 = 1 << 30;

impl Group {
    /// The group with its instances, as a read shows it.
    pub fn reading(&self) -> GroupReading {
        GroupReading { instances: Some(self.instances()), without_id: self.without_id(), ..self.outline() }
    }

    /// The group without its instances, as a listing of scale sets shows it.
    pub fn outline(&self) -> GroupReading {
        GroupReading {
            name: GroupName(self.name.clone()),
            identity: Some(Identity::of(&[&self.cloud.to_string(), &self.name, &self.generation.to_string()])),
            consistency: match self.plan.style {
                GroupStyle::AutoScaling => Consistency::AUTO_SCALING,
                GroupStyle::ScaleSet => Consistency::SCALE_SET,
            },
            min: self.plan.min,
            max: self.plan.max,
            floor: if self.plan.style == GroupStyle::AutoScaling { self.plan.min } else { 0 },
            desired: self.capacity,
            etag: self.etag(),
            units_per_node: Some(self.plan.units_per_node),
            is_detail_outdated: false,
            without_id: 0,
            retained: 0,
            has_own_surplus: true,
            provisioning: self.provisioning(),
            growth: self.plan.growth.clone(),
            removal: self.plan.removal.clone(),
            launch: self.launch_permit(),
            instances: None,
            hints: self.hints.clone(),
            zones: self.zones(),
            launch_fingerprint: self.launch_fingerprint(),
            placeholder_prefix: self.placeholder_prefix(),
        }
    }

    /// Whether a launch can be requested, as for the groups of EC2 Auto Scaling.
    fn launch_permit(&self) -> Permit {
        match self.plan.style {
            GroupStyle::AutoScaling => Permit::Granted,
            GroupStyle::ScaleSet => Permit::Withheld("it is a scale set".to_owned()),
        }
    }

    fn zones(&self) -> Zones {
        match self.plan.style {
            GroupStyle::AutoScaling => Zones { names: self.plan.zones.clone(), ..Zones::default() },
            GroupStyle::ScaleSet => Zones::default(),
        }
    }

    /// Its listed instances.
    pub fn instances(&self) -> Vec<Instance> {
        self.members()
            .filter(|member| !member.lacks_id)
            .map(|member| instance(&self.plan, self.generation, member))
            .collect()
    }

    /// How many listed instances lack an ID.
    pub fn without_id(&self) -> u32 {
        self.count(|member| member.lacks_id)
    }

    /// Recent launches. A scale set has none: its operations report them.
    pub fn launch_activity(&self, since: SystemTime) -> LaunchActivity {
        if self.plan.style == GroupStyle::ScaleSet {
            return LaunchActivity::default();
        }
        let failures = self.activities().filter_map(|activity| match &activity.status {
            ActivityStatus::Failed(failure) if activity.kind == ActivityKind::Launch && !activity.is_made_up_for => {
                // AWS's activities are distinguished by their start.
                Some(failure.at(activity.started))
            }
            _ => None,
        });
        let own = || self.activities().filter(|activity| activity.is_own && wall_clock(activity.started) >= since);
        let replacing = own().filter(|activity| activity.kind == ActivityKind::Terminate).count();
        let launched = own().filter(|activity| activity.kind == ActivityKind::Launch);
        let mut instances: Vec<String> = launched.filter_map(|activity| activity.instance.clone()).collect();
        instances.reverse();
        let own = OwnLaunches { instances, replacing };
        let launches = self.activities().filter(|activity| activity.kind == ActivityKind::Launch);
        let lives = |id: &String| self.members().any(|member| member.id == *id && member.phase.lives());
        let launched = launches.filter_map(|activity| {
            let instance = activity.instance.clone().filter(lives)?;
            Some(Launched { instance, at: wall_clock(activity.started) })
        });
        let launched = launched.collect();
        LaunchActivity { failures: failures.collect(), under_way: self.launching(), launched, own }
    }

    /// The launch spec of a new instance.
    pub fn launch_spec(&self) -> LaunchSpec {
        let plan = &self.plan;
        let (region, disk, reserved) = match plan.style {
            GroupStyle::AutoScaling => ("us-east-1", 20 * GIB, ReservedProfile::Eks),
            GroupStyle::ScaleSet => ("eastus", 128 * GIB, ReservedProfile::Aks),
        };
        let mut zones = plan.zones.clone();
        zones.sort();
        LaunchSpec {
            types: plan.instance_types.clone(),
            region: region.to_owned(),
            zones,
            labels: plan.labels.clone(),
            taints: plan.taints.clone(),
            ephemeral_storage_bytes: Some(disk),
            reserved: Some(reserved),
            ..LaunchSpec::default()
        }
    }

    fn placeholder_prefix(&self) -> String {
        let zone = self.plan.zones.first().map(String::as_str).unwrap_or_default();
        ids::placeholder_prefix(self.plan.style, &self.name, zone)
    }
}

fn instance(plan: &GroupPlan, generation: u64, member: &Member) -> Instance {
    let state = match member.phase {
        // A failed instance never becomes a node.
        Phase::Requested | Phase::Creating | Phase::Broken => InstanceState::Creating,
        Phase::Running | Phase::Standby => InstanceState::Running,
        Phase::Deleting => InstanceState::Deleting,
    };
    let counts = match (plan.style, member.phase) {
        (GroupStyle::AutoScaling, Phase::Deleting | Phase::Standby) => Counts::No,
        (GroupStyle::AutoScaling, _) => Counts::Yes,
        (GroupStyle::ScaleSet, _) => Counts::UntilDeleted,
    };
    let failure = member.failure.as_ref().map(|(failure, at)| Arc::new(failure.at(*at)));
    let identity = Some(Identity::of(&[&generation.to_string(), &member.id]));
    let is_protected = plan.is_protected;
    Instance { id: member.provider_id.clone(), identity, state, counts, is_protected, failure }
}
