//! A group may count its capacity in weights, vCPUs or memory. CA counts nodes (#4851), so sizes are converted if every
//! node has the same weight. Otherwise the group is not offered for scale-up.

use aws_sdk_autoscaling::types::{AutoScalingGroup, Instance};

use super::lifecycle;
use crate::cloud::InstanceState;

/// The unit in which a group counts its capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CapacityUnit {
    /// This many units make a node. 1 for nearly every group.
    PerNode(u32),
    /// Units do not convert to nodes, for this reason.
    NotInNodes(String),
}

impl CapacityUnit {
    /// The unit of a group.
    pub(super) fn of(group: &AutoScalingGroup) -> Self {
        if let Some(kind) = group.desired_capacity_type.as_deref().filter(|kind| !matches!(*kind, "" | "units")) {
            return Self::NotInNodes(format!(
                "the group's capacity is counted in {kind}, which does not convert to nodes: set its desired capacity \
                 type to units"
            ));
        }
        let overrides = group.mixed_instances_policy.as_ref().and_then(|policy| policy.launch_template.as_ref());
        let overrides = overrides.map(|template| template.overrides()).unwrap_or_default();
        // Without overrides, a new instance counts as one, while those of an earlier policy keep their weights.
        let of_next = overrides.is_empty().then_some("1");
        let weights = overrides.iter().map(|over| over.weighted_capacity.as_deref().unwrap_or("1")).chain(of_next);
        // An instance may have another weight than the current policy sets. An instance without a weight is ignored, and so
        // is one that leaves: the capacity does not count it.
        let is_leaving = |instance: &&Instance| {
            let state = instance.lifecycle_state().map(|state| state.as_str()).unwrap_or_default();
            matches!(lifecycle::state_of(state), None | Some((InstanceState::Deleting, _)))
        };
        let staying = group.instances().iter().filter(|instance| !is_leaving(instance));
        let weights = weights.chain(staying.filter_map(|instance| instance.weighted_capacity()));
        let mut common = None;
        for text in weights {
            let Ok(weight) = text.trim().parse::<u32>() else {
                return Self::NotInNodes(format!("the weight {text:?} is not a whole number"));
            };
            if *common.get_or_insert(weight) != weight {
                return Self::NotInNodes(
                    "the group's instances have different weights, so its capacity does not convert to nodes: give \
                     its instance types the same weight, or none"
                        .to_owned(),
                );
            }
        }
        // AWS allows 1 to 999.
        Self::PerNode(common.unwrap_or(1).max(1))
    }

    /// Units per node, or `None` if units do not convert to nodes.
    pub(super) fn per_node(&self) -> Option<u32> {
        match self {
            Self::PerNode(units) => Some(*units),
            Self::NotInNodes(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_autoscaling::types::{LaunchTemplate, LaunchTemplateOverrides, LifecycleState, MixedInstancesPolicy};

    use super::*;

    fn group(overrides: &[Option<&str>], instances: &[Option<&str>]) -> AutoScalingGroup {
        let overriding = |weight: &Option<&str>| {
            LaunchTemplateOverrides::builder().set_weighted_capacity(weight.map(str::to_owned)).build()
        };
        let template = LaunchTemplate::builder().set_overrides(Some(overrides.iter().map(overriding).collect()));
        let instance = |weight: &Option<&str>| {
            let builder = Instance::builder().lifecycle_state(LifecycleState::InService);
            builder.set_weighted_capacity(weight.map(str::to_owned)).build()
        };
        AutoScalingGroup::builder()
            .mixed_instances_policy(MixedInstancesPolicy::builder().launch_template(template.build()).build())
            .set_instances(Some(instances.iter().map(instance).collect()))
            .build()
    }

    #[test]
    fn equal_weights_convert_to_nodes_and_unequal_weights_do_not() {
        assert_eq!(CapacityUnit::of(&AutoScalingGroup::builder().build()), CapacityUnit::PerNode(1));
        assert_eq!(CapacityUnit::of(&group(&[None, None], &[None])), CapacityUnit::PerNode(1));
        assert_eq!(CapacityUnit::of(&group(&[Some("2"), Some("2")], &[Some("2"), None])), CapacityUnit::PerNode(2));
        for (overrides, instances) in [
            (vec![Some("1"), Some("2")], vec![]),
            (vec![Some("2"), None], vec![]),
            (vec![Some("2")], vec![Some("4")]),
            (vec![Some("heavy")], vec![]),
            // The policy is gone, and its instances are not.
            (vec![], vec![Some("2")]),
        ] {
            let unit = CapacityUnit::of(&group(&overrides, &instances));
            assert!(matches!(unit, CapacityUnit::NotInNodes(_)), "{overrides:?} {instances:?}: {unit:?}");
        }
        // A type was removed, and its last instance waits in a lifecycle hook.
        for state in [LifecycleState::TerminatingWait, LifecycleState::from("Terminating:Retained")] {
            let old = Instance::builder().lifecycle_state(state).weighted_capacity("4").build();
            let mut without = group(&[Some("2")], &[Some("2")]);
            without.instances.get_or_insert_default().push(old);
            assert_eq!(CapacityUnit::of(&without), CapacityUnit::PerNode(2));
        }
        let vcpu = AutoScalingGroup::builder().desired_capacity_type("vcpu").build();
        assert!(matches!(CapacityUnit::of(&vcpu), CapacityUnit::NotInNodes(reason) if reason.contains("vcpu")));
    }
}
