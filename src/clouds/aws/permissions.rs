//! Permissions that serving can do without, and what is lost without each. `headcount check` tries them.

use super::Aws;
use crate::cloud::{CloudError, DeniedCall};

/// An instance type that every region has.
const ANY_TYPE: &str = "m5.large";
/// An image that does not exist. With the permission, the call fails because the image does not exist. Without it, the
/// call is denied.
const NO_IMAGE: &str = "ami-00000000000000000";
/// A launch template that does not exist.
const NO_TEMPLATE: &str = "lt-00000000000000000";

impl Aws {
    /// Makes each call once, for resources that need not exist, and returns the calls that are not permitted.
    pub(super) async fn all_denied_calls(&self) -> Vec<DeniedCall> {
        let (scaling, ec2, eks) = (&self.groups.scaling, &self.launches.ec2, &self.launches.eks);
        let (types, templates) = ([ANY_TYPE.to_owned()], [NO_TEMPLATE.to_owned()]);
        let mut tried: Vec<(Option<CloudError>, &str)> = vec![
            (
                ec2.describe_instance_types(&types, None).await.err(),
                "templates rely on tables, which lack newer instance types",
            ),
            (
                ec2.describe_image(NO_IMAGE).await.err(),
                "templates assume EKS nodes that run Linux, unless tags or user data show otherwise",
            ),
            (
                ec2.describe_launch_templates(&templates, None).await.err(),
                "each launch template is read with a call of its own",
            ),
        ];
        if let Some(group) = self.groups.any_group() {
            let activities = scaling.describe_scaling_activities(group.as_str(), None).await;
            let loss = "failed launches have no reason, and the Cluster Autoscaler waits 15 minutes before it tries \
                another group";
            tried.push((activities.err(), loss));
        }
        if let Some((cluster, nodegroup)) = self.groups.any_managed_nodegroup() {
            let nodegroup = eks.describe_nodegroup(&cluster, &nodegroup).await;
            tried.push((nodegroup.err(), "templates lack the labels and taints of EKS managed node groups"));
        }
        let loss = "a zone that a zonal shift moves groups away from shows in failed launches alone";
        tried.extend(self.groups.shifts.try_calls().await.into_iter().map(|error| (Some(error), loss)));
        let is_denied = |error: &CloudError| matches!(error, CloudError::Denied(_));
        tried
            .into_iter()
            .filter_map(|(error, loss)| Some(DeniedCall { error: error.filter(is_denied)?, loss }))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_autoscaling::types::AutoScalingGroup;

    use super::super::Settings;
    use super::super::sdk::fake::Fake;
    use crate::cloud::{Cloud, NodeGroupSpec};

    #[tokio::test]
    async fn calls_that_are_not_permitted_are_named_with_what_is_lost() {
        let group = AutoScalingGroup::builder()
            .auto_scaling_group_name("web")
            .min_size(0)
            .max_size(9)
            .desired_capacity(1)
            .availability_zones("us-east-1a")
            .build();
        let fake = Fake::with(vec![group]);
        let spec = NodeGroupSpec { min: 0, max: 9, name: "web".to_owned() };
        let aws = fake.aws(Settings { node_groups: vec![spec], ..Settings::default() });
        aws.list().await.expect("listed");
        assert!(aws.denied_calls().await.is_empty());
        fake.fail("DescribeScalingActivities", "AccessDenied", "not allowed", 403);
        fake.fail("DescribeImages", "InvalidAMIID.NotFound", "no such image", 400);
        fake.fail("DescribeLaunchTemplates", "UnauthorizedOperation", "not allowed", 403);
        fake.fail("DescribeInstanceTypes", "UnauthorizedOperation", "not allowed", 403);
        let denied = aws.denied_calls().await;
        let found: Vec<String> = denied.iter().map(|call| format!("{}: {}", call.error, call.loss)).collect();
        assert_eq!(found.len(), 3, "{found:#?}");
        assert!(found[0].contains("DescribeInstanceTypes") && found[0].contains("rely on tables"), "{found:#?}");
        assert!(found[1].contains("DescribeLaunchTemplates") && found[1].contains("a call of its own"), "{found:#?}");
        assert!(found[2].contains("DescribeScalingActivities") && found[2].contains("15 minutes"), "{found:#?}");
    }
}
