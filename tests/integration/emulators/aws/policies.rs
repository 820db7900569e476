//! DescribePolicies.

use super::super::core::lock;
use super::super::http_messages::HttpResponse;
use super::router::AwsApi;
use super::xml::{members, scaling_answer, text};

impl AwsApi {
    pub(super) fn describe_policies(&self) -> HttpResponse {
        let group_details = lock(&self.group_details);
        let all = group_details
            .iter()
            .flat_map(|(group, details)| details.policies.iter().map(move |policy| (group, policy)));
        let policies = all.map(|(group, policy)| {
            let of = text("AutoScalingGroupName", group) + &text("PolicyName", policy);
            of + &text("PolicyType", "TargetTrackingScaling") + &text("Enabled", true)
        });
        HttpResponse::xml(200, scaling_answer("DescribePolicies", members("ScalingPolicies", policies)))
    }
}
