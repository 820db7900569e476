//! DescribePolicies, DescribeScheduledActions and DescribeInstanceRefreshes.

use super::super::core::lock;
use super::super::http_messages::{HttpResponse, Request};
use super::router::AwsApi;
use super::xml::{members, perhaps, scaling_answer, text};

impl AwsApi {
    pub(super) fn describe_instance_refreshes(&self, request: &Request) -> HttpResponse {
        let group = request.field("AutoScalingGroupName").unwrap_or_default();
        let refreshes = self.group_details(&group).refresh.into_iter().map(|status| {
            let of = text("InstanceRefreshId", "refresh-1") + &text("AutoScalingGroupName", &group);
            of + &text("Status", status) + &text("PercentageComplete", 40)
        });
        HttpResponse::xml(200, scaling_answer("DescribeInstanceRefreshes", members("InstanceRefreshes", refreshes)))
    }

    pub(super) fn describe_scheduled_actions(&self, request: &Request) -> HttpResponse {
        let group_details = lock(&self.group_details).clone();
        let all = group_details.iter().flat_map(|(group, details)| details.scheduled.iter().map(move |it| (group, it)));
        let actions = all.map(|(group, action)| {
            let of = text("AutoScalingGroupName", group) + &text("ScheduledActionName", action);
            of + &text("StartTime", "2026-12-01T20:00:00Z")
                + &text("Recurrence", "0 20 * * *")
                + &text("DesiredCapacity", 0)
        });
        let (page, next) = self.page(request, "MaxRecords", 50, actions.collect());
        let result = members("ScheduledUpdateGroupActions", page) + &perhaps("NextToken", next);
        HttpResponse::xml(200, scaling_answer("DescribeScheduledActions", result))
    }

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
