use aws_sdk_autoscaling::types::{
    Instance as AsgInstance, LaunchTemplate, LaunchTemplateOverrides, LifecycleState, MixedInstancesPolicy,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::properties::{config, pieces};

const LIFECYCLE: [&str; 10] =
    ["Pending", "InService", "Terminating", "Standby", "Warmed", "Terminated", ":", "Wait", "Stopped", "x"];
const WEIGHT: [&str; 4] = ["1", "2", " ", "-"];

fn size() -> impl Strategy<Value = Option<i32>> {
    option::weighted(0.95, prop_oneof![6 => 0..200_i32, 1 => any::<i32>(), 1 => Just(i32::MAX)])
}

fn instance() -> impl Strategy<Value = AsgInstance> {
    let texts = (option::weighted(0.97, "i-[0-9a-f]{1,8}"), option::weighted(0.97, "us-east-1[a-c]"));
    let state = option::weighted(0.97, pieces(&LIFECYCLE));
    (texts, state, option::of(pieces(&WEIGHT))).prop_map(|((id, zone), state, weight)| {
        let state = state.map(|state| LifecycleState::from(state.as_str()));
        let builder = AsgInstance::builder().set_instance_id(id).set_availability_zone(zone);
        builder.set_lifecycle_state(state).set_weighted_capacity(weight).build()
    })
}

fn group() -> impl Strategy<Value = AutoScalingGroup> {
    let kind = option::weighted(0.1, prop_oneof![Just("units"), Just("vcpu"), Just("memory-mib")]);
    let weights = option::weighted(0.5, vec(option::of(prop_oneof![Just("2"), Just("3"), Just("0"), Just("x")]), 0..3));
    let parts = (size(), size(), size(), vec(instance(), 0..20), kind, weights);
    parts.prop_map(|(min, desired, max, instances, kind, weights)| {
        let over = |weight: Option<&str>| {
            LaunchTemplateOverrides::builder().set_weighted_capacity(weight.map(str::to_owned)).build()
        };
        let policy = weights.map(|weights| {
            let template =
                LaunchTemplate::builder().set_overrides(Some(weights.into_iter().map(over).collect())).build();
            MixedInstancesPolicy::builder().launch_template(template).build()
        });
        AutoScalingGroup::builder()
            .auto_scaling_group_name("asg")
            .set_min_size(min)
            .set_desired_capacity(desired)
            .set_max_size(max)
            .set_instances(Some(instances))
            .set_desired_capacity_type(kind.map(str::to_owned))
            .set_mixed_instances_policy(policy)
            .build()
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_readable_group_has_ordered_bounds_and_no_more_instances_than_aws_listed(
        group in group(),
        spec in option::of((0..50_u32, 0..50_u32)),
    ) {
        let spec = spec.map(|(min, more)| NodeGroupSpec { min, max: min + more, name: "asg".into() });
        if let Ok(ReadingWithWarnings { reading, .. }) = read(&group, spec.as_ref(), "us-east-1") {
            prop_assert!(reading.min <= reading.max, "{:?}", reading);
            prop_assert!(reading.floor <= reading.min, "{:?}", reading);
            prop_assert!(reading.desired <= CAPACITY_MAX, "every missing instance is kept one by one");
            prop_assert!(reading.instances.map_or(0, |all| all.len()) <= group.instances().len());
        }
    }

    #[test]
    fn a_missing_size_never_becomes_a_number(group in group()) {
        let sizes = [group.min_size(), group.desired_capacity(), group.max_size()];
        if sizes.iter().any(Option::is_none) {
            prop_assert!(read(&group, None, "us-east-1").is_err());
        }
    }

    #[test]
    fn equal_weights_make_whole_nodes(nodes in 0..100_i32, weight in 1..=999_i32) {
        let template = LaunchTemplate::builder()
            .overrides(LaunchTemplateOverrides::builder().weighted_capacity(weight.to_string()).build())
            .build();
        let group = AutoScalingGroup::builder()
            .auto_scaling_group_name("asg")
            .min_size(0)
            .desired_capacity(nodes * weight)
            .max_size(100 * weight)
            .mixed_instances_policy(MixedInstancesPolicy::builder().launch_template(template).build());
        let reading = read(&group.build(), None, "us-east-1").expect("a good group").reading;
        prop_assert_eq!(reading.desired, nodes.unsigned_abs());
        prop_assert_eq!((reading.min, reading.max), (0, 100));
        prop_assert_eq!(reading.units_per_node, u32::try_from(weight).ok());
    }
}
