//! A fingerprint of what a group launches, so that a template is rebuilt only after a change.

use std::hash::{DefaultHasher, Hash, Hasher};

use aws_sdk_autoscaling::types::AutoScalingGroup;

use super::{settings, tags};

/// A hash of everything that decides what a group launches, and of nothing else.
pub(in crate::clouds::aws) fn launch_fingerprint(group: &AutoScalingGroup) -> u64 {
    let mut hasher = DefaultHasher::new();
    let sorted = |texts: &[String]| {
        let mut texts = texts.to_vec();
        texts.sort();
        texts
    };
    group.launch_configuration_name.hash(&mut hasher);
    format!("{:?}", group.launch_template).hash(&mut hasher);
    let template = group.mixed_instances_policy.as_ref().and_then(|policy| policy.launch_template.as_ref());
    format!("{template:?}").hash(&mut hasher);
    settings::is_spot(group).hash(&mut hasher);
    sorted(group.availability_zones()).hash(&mut hasher);
    group.vpc_zone_identifier.hash(&mut hasher);
    let mut shaping: Vec<_> =
        group.tags().iter().filter_map(tags::pair).filter(|(key, _)| tags::shapes_nodes(key)).collect();
    shaping.sort_unstable();
    shaping.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use aws_sdk_autoscaling::types::builders::AutoScalingGroupBuilder;
    use aws_sdk_autoscaling::types::{
        Instance, LaunchTemplate, LaunchTemplateOverrides, LaunchTemplateSpecification, MixedInstancesPolicy,
        TagDescription,
    };

    use crate::clouds::aws::sdk::fake::sized_group as group;

    fn weighted() -> MixedInstancesPolicy {
        let weight = LaunchTemplateOverrides::builder().weighted_capacity("1").build();
        let template = LaunchTemplate::builder().overrides(weight).build();
        MixedInstancesPolicy::builder().launch_template(template).build()
    }

    #[test]
    fn the_fingerprint_changes_with_the_launch_settings_and_with_nothing_else() {
        let tag = |key: &str, value: &str| TagDescription::builder().key(key).value(value).build();
        let template =
            |version: &str| LaunchTemplateSpecification::builder().launch_template_id("lt-1").version(version).build();
        let base = || group(1, 2, 3).launch_template(template("1"));
        let launch_fingerprint = |builder: AutoScalingGroupBuilder| super::launch_fingerprint(&builder.build());
        let original = launch_fingerprint(base());
        let cpu = "k8s.io/cluster-autoscaler/node-template/resources/cpu";
        for same in [
            base().desired_capacity(3).min_size(0).max_size(9),
            base().instances(Instance::builder().instance_id("i-1").build()),
            base().tags(tag("Owner", "me")),
            base().status("Delete in progress"),
        ] {
            assert_eq!(launch_fingerprint(same), original);
        }
        for other in [
            base().launch_template(template("2")),
            base().availability_zones("us-east-1b"),
            base().vpc_zone_identifier("subnet-1"),
            base().tags(tag(cpu, "1")),
            base().tags(tag(cpu, "2")),
            base().tags(tag("alpha.eksctl.io/cluster-name", "c")),
            base().launch_configuration_name("lc"),
            base().mixed_instances_policy(weighted()),
        ] {
            assert_ne!(launch_fingerprint(other), original);
        }
        let tags = [tag(cpu, "1"), tag("eks:cluster-name", "c")];
        let [one, other] = tags.clone();
        let order = |tags: Vec<TagDescription>| launch_fingerprint(base().set_tags(Some(tags)));
        assert_eq!(order(vec![one.clone(), other.clone()]), order(vec![other, one]));
    }
}
