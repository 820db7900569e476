//! Turns AWS's description of an Auto Scaling group into a reading.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use aws_sdk_autoscaling::types::AutoScalingGroup;

use super::super::launch::{launch_fingerprint, tags};
use super::sizes::Sizes;
use super::weights::CapacityUnit;
use super::{eligibility, ids, lifecycle};
use crate::cloud::text::shell_word;
use crate::cloud::{CAPACITY_MAX, Consistency, GroupReading, Identity, NodeGroupSpec, Permit, Provisioning, Zones};

/// A reading, and warnings about the group's settings.
#[derive(Debug)]
pub(super) struct ReadingWithWarnings {
    pub(super) reading: GroupReading,
    pub(super) warnings: Vec<String>,
}

/// Reads a group of this region. `Err` says what is missing or invalid. It never guesses a value.
pub(super) fn read(
    group: &AutoScalingGroup,
    spec: Option<&NodeGroupSpec>,
    region: &str,
) -> Result<ReadingWithWarnings, String> {
    let name = group.auto_scaling_group_name.as_deref().ok_or("the group has no name")?;
    let mut warnings = Vec::new();
    let mut instances = Vec::with_capacity(group.instances().len());
    let mut listed = HashSet::new();
    for described in group.instances() {
        // One that is listed twice is one instance.
        instances.extend(lifecycle::instance(described)?.filter(|instance| listed.insert(instance.id.clone())));
    }
    let unit = CapacityUnit::of(group);
    let sizes = Sizes::read(group)?;
    let (sizes, unfit) = match &unit {
        CapacityUnit::PerNode(units) => sizes.in_nodes(*units, spec, &mut warnings),
        CapacityUnit::NotInNodes(reason) => sizes.as_live(&instances, spec, reason),
    };
    if sizes.desired > CAPACITY_MAX {
        return Err(format!("desired capacity {} is more nodes than a group can have", sizes.desired));
    }
    let leaving = leaving(group).or_else(|| operated(group));
    let growth = suspended(group, "Launch").or_else(|| leaving.clone()).or(unfit);
    let removal = suspended(group, "Terminate").or(leaving);
    let hints = tags::hints(group.tags().iter().filter_map(tags::pair), &mut warnings);
    let reading = GroupReading {
        name: name.into(),
        identity: identity(group),
        consistency: Consistency::AUTO_SCALING,
        min: sizes.min,
        max: sizes.max,
        floor: sizes.floor,
        desired: sizes.desired,
        etag: None,
        units_per_node: unit.per_node(),
        is_detail_outdated: false,
        without_id: 0,
        retained: u32::try_from(lifecycle::retained(group).count()).unwrap_or(u32::MAX),
        has_own_surplus: true,
        provisioning: Provisioning::Running,
        growth: growth.map_or(Permit::Granted, Permit::Withheld),
        removal: removal.map_or(Permit::Granted, Permit::Withheld),
        launch: eligibility::permit(group, &unit),
        instances: Some(instances),
        hints: Arc::new(hints),
        zones: zones(group),
        launch_fingerprint: launch_fingerprint(group),
        placeholder_prefix: ids::placeholder_prefix(region, name),
    };
    Ok(ReadingWithWarnings { reading, warnings })
}

/// A group that is created again under its name has another creation time; its ARN has another ID, too.
fn identity(group: &AutoScalingGroup) -> Option<Identity> {
    let created = group.created_time().map(ToString::to_string).unwrap_or_default();
    group.auto_scaling_group_arn().map(|arn| Identity::of(&[arn, &created]))
}

/// The process that spreads instances evenly over zones. Every group of several zones has it, unless it is suspended.
const REBALANCE: &str = "AZRebalance";

/// The command that stops a group from rebalancing its zones, if it does.
pub(super) fn stop_rebalancing(group: &AutoScalingGroup) -> Option<String> {
    let is_rebalanced = group.availability_zones().len() > 1 && suspended(group, REBALANCE).is_none();
    is_rebalanced.then(|| {
        format!(
            "aws autoscaling suspend-processes --auto-scaling-group-name {} --scaling-processes {REBALANCE}",
            shell_word(group.auto_scaling_group_name().unwrap_or_default())
        )
    })
}

fn zones(group: &AutoScalingGroup) -> Zones {
    let mut names = group.availability_zones().to_vec();
    names.sort();
    Zones { names, stop_rebalancing: stop_rebalancing(group), withdrawn: BTreeMap::new() }
}

fn suspended(group: &AutoScalingGroup, process: &str) -> Option<String> {
    let suspended = group.suspended_processes().iter().find(|suspended| suspended.process_name() == Some(process))?;
    let because = suspended.suspension_reason().filter(|reason| !reason.is_empty());
    let because = because.map(|reason| format!(" ({reason})")).unwrap_or_default();
    Some(format!(
        "the group's {process} process is suspended{because}; resume it with: aws autoscaling resume-processes \
         --auto-scaling-group-name {} --scaling-processes {process}",
        shell_word(group.auto_scaling_group_name().unwrap_or_default())
    ))
}

/// "Only the designated operator service principal can make mutating changes to the Auto Scaling group" (API reference).
fn operated(group: &AutoScalingGroup) -> Option<String> {
    let principal = group.operator()?.principal().unwrap_or("another service");
    Some(format!("its Operator is {principal}: AWS lets nobody else change the group"))
}

fn leaving(group: &AutoScalingGroup) -> Option<String> {
    let status = group.status().filter(|status| status.to_ascii_lowercase().contains("delete"))?;
    Some(format!("the group is being deleted (status {status:?})"))
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests {
    use aws_sdk_autoscaling::types::builders::AutoScalingGroupBuilder;
    use aws_sdk_autoscaling::types::{
        Instance as AsgInstance, LaunchTemplate, LaunchTemplateOverrides, LifecycleState, MixedInstancesPolicy,
        SuspendedProcess,
    };

    use super::*;
    use crate::cloud::{Counts, InstanceState};
    use crate::clouds::aws::sdk::fake::sized_group as group;

    fn asg_instance(number: usize, lifecycle: &str, weight: Option<&str>) -> AsgInstance {
        AsgInstance::builder()
            .instance_id(format!("i-{number}"))
            .availability_zone("us-east-1b")
            .lifecycle_state(LifecycleState::from(lifecycle))
            .set_weighted_capacity(weight.map(str::to_owned))
            .build()
    }

    fn weighted(builder: AutoScalingGroupBuilder, weights: &[&str]) -> AutoScalingGroupBuilder {
        let over = |weight: &&str| LaunchTemplateOverrides::builder().weighted_capacity(*weight).build();
        let template = LaunchTemplate::builder().set_overrides(Some(weights.iter().map(over).collect())).build();
        builder.mixed_instances_policy(MixedInstancesPolicy::builder().launch_template(template).build())
    }

    fn spec(min: u32, max: u32) -> NodeGroupSpec {
        NodeGroupSpec { min, max, name: "asg".into() }
    }

    fn sizes(reading: &GroupReading) -> (u32, u32, u32, u32) {
        (reading.floor, reading.min, reading.desired, reading.max)
    }

    #[test]
    fn a_group_is_read_with_its_instances() {
        let lifecycles = ["InService", "Pending:Wait", "Terminating:Wait", "Standby", "Warmed:Stopped", "Terminated"];
        let instances =
            lifecycles.iter().enumerate().map(|(number, state)| asg_instance(number, state, None)).collect();
        let read =
            read(&group(1, 3, 5).set_instances(Some(instances)).build(), None, "us-east-1").expect("a good group");
        assert_eq!(sizes(&read.reading), (1, 1, 3, 5));
        assert_eq!((&read.reading.growth, &read.reading.removal), (&Permit::Granted, &Permit::Granted));
        let listed = read.reading.instances.expect("listed");
        let plain: Vec<_> =
            listed.iter().map(|instance| (instance.id.as_str(), instance.state, instance.counts)).collect();
        assert_eq!(
            plain,
            [
                ("aws:///us-east-1b/i-0", InstanceState::Running, Counts::Yes),
                ("aws:///us-east-1b/i-1", InstanceState::Creating, Counts::Yes),
                ("aws:///us-east-1b/i-2", InstanceState::Deleting, Counts::No),
                ("aws:///us-east-1b/i-3", InstanceState::Running, Counts::No),
            ]
        );
        assert!(read.warnings.is_empty());
        assert_eq!(read.reading.retained, 0);
    }

    #[test]
    fn instances_that_a_lifecycle_policy_keeps_are_being_deleted_and_counted() {
        let lifecycles = ["InService", "Terminating:Retained", "Terminating:Wait", "Terminating:Retained"];
        let instances = lifecycles.iter().enumerate().map(|(number, state)| asg_instance(number, state, None));
        let group = group(0, 1, 5).set_instances(Some(instances.collect())).build();
        let reading = read(&group, None, "us-east-1").expect("a good group").reading;
        let states: Vec<_> = reading.instances.expect("listed").iter().map(|instance| instance.state).collect();
        assert_eq!(states[1..], [InstanceState::Deleting; 3]);
        assert_eq!(reading.retained, 2);
    }

    #[test]
    fn a_missing_or_invalid_value_is_an_error() {
        let nameless = AutoScalingGroup::builder().min_size(0).max_size(1).desired_capacity(0);
        let stateless = AsgInstance::builder().instance_id("i-1").availability_zone("us-east-1a").build();
        let zoneless = AsgInstance::builder().instance_id("i-1").lifecycle_state(LifecycleState::InService).build();
        for (builder, expected) in [
            (nameless, "has no name"),
            (group(0, 0, 1).set_desired_capacity(None), "no desired capacity"),
            (group(0, 0, 1).set_max_size(None), "no max size"),
            (group(0, -1, 1), "desired capacity -1 is negative"),
            (group(2, 2, 1), "min size 2 is greater than max size 1"),
            (group(0, 1, 1).instances(stateless), "has no lifecycle state"),
            (group(0, 1, 1).instances(zoneless), "has no availability zone"),
        ] {
            let problems = read(&builder.build(), None, "us-east-1").expect_err(expected);
            assert!(problems.contains(expected), "{problems}");
        }
    }

    #[test]
    fn the_bounds_are_those_that_configuration_and_group_both_allow() {
        for (configured, bounds, warning) in [
            (spec(1, 10), (1, 10), None),
            (spec(3, 20), (3, 10), Some("3:10 is used")),
            (spec(0, 5), (1, 5), Some("1:5 is used")),
            (spec(11, 20), (10, 10), Some("do not overlap")),
            (spec(0, 0), (1, 1), Some("do not overlap")),
        ] {
            let read = read(&group(1, 2, 10).build(), Some(&configured), "us-east-1").expect("a good group");
            assert_eq!((read.reading.min, read.reading.max), bounds, "{configured:?}");
            assert_eq!(read.reading.floor, 1, "what the cloud itself accepts does not depend on the configuration");
            assert_eq!(read.warnings.len(), usize::from(warning.is_some()));
            assert!(read.warnings.iter().all(|text| text.contains(warning.unwrap_or_default())), "{:?}", read.warnings);
        }
    }

    #[test]
    fn an_instance_that_is_listed_twice_counts_once() {
        let instance = || {
            let instance =
                aws_sdk_autoscaling::types::Instance::builder().instance_id("i-1").availability_zone("us-east-1a");
            instance.lifecycle_state(aws_sdk_autoscaling::types::LifecycleState::InService).build()
        };
        let read = read(&group(0, 1, 2).instances(instance()).instances(instance()).build(), None, "us-east-1")
            .expect("a good group");
        assert_eq!(read.reading.instances.map(|instances| instances.len()), Some(1));
    }

    #[test]
    fn suspended_processes_and_deletion_withhold_growth_and_removal() {
        let suspend =
            |process: &str| SuspendedProcess::builder().process_name(process).suspension_reason("user").build();
        let permits = |builder: AutoScalingGroupBuilder| {
            let reading = read(&builder.build(), None, "us-east-1").expect("a good group").reading;
            (reading.growth, reading.removal)
        };
        let withheld =
            |permit: &Permit, text: &str| matches!(permit, Permit::Withheld(reason) if reason.contains(text));
        let (growth, removal) = permits(group(0, 1, 2).suspended_processes(suspend("Launch")));
        assert!(
            withheld(&growth, "resume-processes --auto-scaling-group-name asg --scaling-processes Launch"),
            "{growth:?}"
        );
        assert_eq!(removal, Permit::Granted);
        let (growth, removal) = permits(group(0, 1, 2).suspended_processes(suspend("Terminate")));
        assert_eq!(growth, Permit::Granted);
        assert!(withheld(&removal, "Terminate process is suspended (user)"), "{removal:?}");
        let (growth, removal) = permits(group(0, 1, 2).status("Delete in progress"));
        assert!(withheld(&growth, "being deleted") && withheld(&removal, "being deleted"));
        let (growth, removal) = permits(group(0, 1, 2).suspended_processes(suspend("AZRebalance")));
        assert_eq!((growth, removal), (Permit::Granted, Permit::Granted));
    }

    #[test]
    fn with_equal_weights_all_sizes_are_in_nodes() {
        let reading =
            read(&weighted(group(3, 5, 9), &["2", "2"]).build(), None, "us-east-1").expect("a good group").reading;
        assert_eq!(sizes(&reading), (2, 2, 3, 4));
        assert_eq!(reading.growth, Permit::Granted);
        let reading = read(&weighted(group(1, 1, 1), &["2"]).build(), None, "us-east-1").expect("a good group").reading;
        assert_eq!(sizes(&reading), (1, 1, 1, 1));
        assert!(matches!(reading.growth, Permit::Withheld(reason) if reason.contains("2 units each")));
    }

    #[test]
    fn a_group_with_unequal_weights_has_the_size_of_its_live_instances() {
        let instances = vec![
            asg_instance(1, "InService", Some("1")),
            asg_instance(2, "Pending", Some("2")),
            asg_instance(3, "Terminating", Some("2")),
        ];
        let builder = weighted(group(2, 40, 100), &["1", "2"]).set_instances(Some(instances));
        let reading = read(&builder.build(), None, "us-east-1").expect("a good group").reading;
        assert_eq!(sizes(&reading), (1, 1, 2, 2));
        assert!(matches!(reading.growth, Permit::Withheld(reason) if reason.contains("different weights")));
        assert_eq!(reading.removal, Permit::Granted);
    }
}
