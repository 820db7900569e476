//! Which groups LaunchInstances can grow, by what its documentation says.

use aws_sdk_autoscaling::types::{AutoScalingGroup, InstancesDistribution};

use super::weights::CapacityUnit;
use crate::cloud::Permit;

/// Whether LaunchInstances can grow a group. The reason says what to change.
pub(super) fn permit(group: &AutoScalingGroup, unit: &CapacityUnit) -> Permit {
    let obstacle =
        no_template(group).or_else(|| warm_pool(group)).or_else(|| mixed_market(group)).or_else(|| match unit {
            CapacityUnit::PerNode(_) => None,
            CapacityUnit::NotInNodes(reason) => Some(reason.clone()),
        });
    obstacle.map_or(Permit::Granted, Permit::Withheld)
}

fn no_template(group: &AutoScalingGroup) -> Option<String> {
    let has_template = group.launch_template().is_some() || group.mixed_instances_policy().is_some();
    (!has_template).then(|| "it has no launch template; LaunchInstances takes no launch configuration".to_owned())
}

/// With a warm pool, LaunchInstances starts instances outside of it, and returns an error.
fn warm_pool(group: &AutoScalingGroup) -> Option<String> {
    let has_pool = group.warm_pool_configuration().is_some();
    has_pool.then(|| "it has a warm pool, which LaunchInstances does not use".to_owned())
}

fn mixed_market(group: &AutoScalingGroup) -> Option<String> {
    let distribution = group.mixed_instances_policy()?.instances_distribution()?;
    is_mixed(distribution).then(|| {
        "it has both On-Demand and Spot Instances; LaunchInstances takes groups that have only one of them".to_owned()
    })
}

/// AWS's defaults: no On-Demand base, and everything above it On-Demand.
fn is_mixed(distribution: &InstancesDistribution) -> bool {
    let base = distribution.on_demand_base_capacity().unwrap_or(0);
    match distribution.on_demand_percentage_above_base_capacity().unwrap_or(100) {
        100.. => false,
        ..=0 => base > 0,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_autoscaling::types::builders::AutoScalingGroupBuilder;
    use aws_sdk_autoscaling::types::{
        LaunchTemplate, LaunchTemplateOverrides, LaunchTemplateSpecification, MixedInstancesPolicy,
        WarmPoolConfiguration,
    };

    use super::*;
    use crate::clouds::aws::sdk::fake::sized_group;

    fn group() -> AutoScalingGroupBuilder {
        let template = LaunchTemplateSpecification::builder().launch_template_id("lt-1").build();
        sized_group(0, 1, 9).launch_template(template)
    }

    fn obstacle(group: AutoScalingGroupBuilder) -> Option<String> {
        let group = group.build();
        match permit(&group, &CapacityUnit::of(&group)) {
            Permit::Granted => None,
            Permit::Withheld(reason) => Some(reason),
        }
    }

    fn mixed(base: Option<i32>, percentage: Option<i32>) -> MixedInstancesPolicy {
        let distribution = InstancesDistribution::builder()
            .set_on_demand_base_capacity(base)
            .set_on_demand_percentage_above_base_capacity(percentage);
        MixedInstancesPolicy::builder().instances_distribution(distribution.build()).build()
    }

    #[test]
    fn a_group_with_a_template_and_one_market_is_eligible() {
        assert_eq!(obstacle(group()), None);
        for (base, percentage) in [(None, None), (Some(3), Some(100)), (Some(0), Some(0)), (None, Some(0))] {
            let policy = mixed(base, percentage);
            assert_eq!(obstacle(group().mixed_instances_policy(policy)), None, "{base:?} {percentage:?}");
        }
    }

    #[test]
    fn each_other_group_has_its_reason() {
        let says = |group: AutoScalingGroupBuilder, words: &str| {
            let reason = obstacle(group).expect(words);
            assert!(reason.contains(words), "{reason}");
        };
        says(group().set_launch_template(None), "no launch template");
        says(group().set_launch_template(None).launch_configuration_name("old"), "no launch configuration");
        says(group().warm_pool_configuration(WarmPoolConfiguration::builder().build()), "warm pool");
        for (base, percentage) in [(Some(1), Some(0)), (None, Some(50)), (Some(0), Some(99))] {
            says(group().mixed_instances_policy(mixed(base, percentage)), "both On-Demand and Spot");
        }
        let over = |weight: &str| LaunchTemplateOverrides::builder().weighted_capacity(weight).build();
        let template = LaunchTemplate::builder().overrides(over("1")).overrides(over("2")).build();
        let unequal = MixedInstancesPolicy::builder().launch_template(template).build();
        says(group().mixed_instances_policy(unequal), "different weights");
    }
}
