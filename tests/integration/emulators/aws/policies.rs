//! DescribePolicies.

use super::super::backstage::lock;
use super::super::exchange::Answer;
use super::front::Counter;
use super::xml::{members, scaling_answer, text};

impl Counter {
    pub(super) fn describe_policies(&self) -> Answer {
        let looks = lock(&self.looks);
        let all = looks.iter().flat_map(|(group, look)| look.policies.iter().map(move |policy| (group, policy)));
        let policies = all.map(|(group, policy)| {
            let of = text("AutoScalingGroupName", group) + &text("PolicyName", policy);
            of + &text("PolicyType", "TargetTrackingScaling") + &text("Enabled", true)
        });
        Answer::xml(200, scaling_answer("DescribePolicies", members("ScalingPolicies", policies)))
    }
}
