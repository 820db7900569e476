//! [`READ_ACTIONS`], [`WRITE_ACTIONS`], [`LAUNCH_ACTIONS`], [`FLEET_ACTIONS`], [`ZONE_ACTIONS`], [`CHECK_ACTIONS`] and
//! [`PRICE_ACTIONS`] are the actions of the IAM policy in `deploy/aws-iam-policy.json`. A test compares them.

/// The actions that read. For these, EC2 and EC2 Auto Scaling accept no resource but `*`.
pub const READ_ACTIONS: [&str; 9] = [
    "autoscaling:DescribeAutoScalingGroups",
    "autoscaling:DescribeLaunchConfigurations",
    "autoscaling:DescribeScalingActivities",
    "ec2:DescribeImages",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeLaunchTemplateVersions",
    "ec2:DescribeLaunchTemplates",
    "ec2:GetInstanceTypesFromInstanceRequirements",
    "eks:DescribeNodegroup",
];

/// The actions that Headcount needs on the groups it scales.
pub const WRITE_ACTIONS: [&str; 2] =
    ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"];

/// The action that only groups with `launch: synchronous` need. Without it, their desired capacity is set.
pub const LAUNCH_ACTIONS: [&str; 1] = ["autoscaling:LaunchInstances"];

/// What EC2 Auto Scaling does for a launch in the name of its caller. Headcount does not call it.
pub const FLEET_ACTIONS: [&str; 1] = ["ec2:CreateFleet"];

/// The actions that show which zones a group is moved away from. Without them, no zone counts as one.
pub const ZONE_ACTIONS: [&str; 2] = ["arc-zonal-shift:GetManagedResource", "ec2:DescribeAvailabilityZones"];

/// The actions that only `headcount check` needs.
pub const CHECK_ACTIONS: [&str; 3] =
    ["autoscaling:DescribeInstanceRefreshes", "autoscaling:DescribePolicies", "autoscaling:DescribeScheduledActions"];

/// The actions that only live prices need. Without them, prices come from the user's and the shipped tables.
pub const PRICE_ACTIONS: [&str; 2] = ["ec2:DescribeSpotPriceHistory", "pricing:GetProducts"];

/// The names of all calls, in the order of the actions.
pub(in crate::clouds::aws) fn call_names() -> impl Iterator<Item = &'static str> {
    let writes = WRITE_ACTIONS.into_iter().chain(LAUNCH_ACTIONS);
    let actions = READ_ACTIONS.into_iter().chain(writes).chain(ZONE_ACTIONS).chain(CHECK_ACTIONS).chain(PRICE_ACTIONS);
    actions.map(|action| action.rsplit(':').next().unwrap_or(action))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cloud::{SET_ASIDE_TAG, SET_ASIDE_VALUE};

    fn statement(policy: &Value, sid: &str) -> Value {
        let statements = policy["Statement"].as_array().expect("statements");
        let statement = statements.iter().find(|statement| statement["Sid"] == sid).expect(sid);
        assert_eq!(statement["Effect"], "Allow");
        statement.clone()
    }

    fn allowed(policy: &Value, sid: &str) -> Vec<String> {
        let statement = statement(policy, sid);
        let actions = statement["Action"].as_array().expect("actions").iter();
        actions.map(|action| action.as_str().expect("text").to_owned()).collect()
    }

    #[test]
    fn the_iam_policy_allows_exactly_the_calls_made() {
        let policy = include_str!("../../../../../deploy/aws-iam-policy.json");
        let policy: Value = serde_json::from_str(policy).expect("valid JSON");
        assert_eq!(allowed(&policy, "HeadcountReads"), READ_ACTIONS);
        assert_eq!(allowed(&policy, "HeadcountScales"), WRITE_ACTIONS);
        assert_eq!(allowed(&policy, "HeadcountLaunches"), LAUNCH_ACTIONS);
        assert_eq!(allowed(&policy, "HeadcountLaunchesFleets"), FLEET_ACTIONS);
        assert_eq!(allowed(&policy, "HeadcountSeesZonalShifts"), ZONE_ACTIONS);
        assert_eq!(allowed(&policy, "HeadcountChecks"), CHECK_ACTIONS);
        assert_eq!(allowed(&policy, "HeadcountPrices"), PRICE_ACTIONS);
        assert_eq!(policy["Statement"].as_array().map(Vec::len), Some(7));
    }

    #[test]
    fn the_policy_of_verify_allows_writes_to_a_group_that_is_set_aside_alone() {
        let policy = include_str!("../../../../../deploy/aws-iam-policy-verify.json");
        let policy: Value = serde_json::from_str(policy).expect("valid JSON");
        assert_eq!(allowed(&policy, "HeadcountReads"), READ_ACTIONS);
        assert_eq!(allowed(&policy, "HeadcountVerifies"), [&WRITE_ACTIONS[..], &LAUNCH_ACTIONS].concat());
        assert_eq!(allowed(&policy, "HeadcountLaunchesFleets"), FLEET_ACTIONS);
        let tag = format!("aws:ResourceTag/{SET_ASIDE_TAG}");
        let condition = &statement(&policy, "HeadcountVerifies")["Condition"]["StringEquals"];
        assert_eq!(condition, &json!({tag: SET_ASIDE_VALUE}));
        assert_eq!(policy["Statement"].as_array().map(Vec::len), Some(3));
    }
}
