//! The Auto Scaling API of the fake.

use tokio::time::sleep;

use super::*;
use crate::cloud::LaunchRequest;

#[async_trait]
impl AutoScalingApi for Fake {
    async fn describe_auto_scaling_groups(
        &self,
        query: &GroupQuery,
        token: Option<String>,
    ) -> Result<GroupsPage, CloudError> {
        let subject = match query {
            GroupQuery::One(_) => "1 names".to_owned(),
            GroupQuery::Named(names) => {
                assert!((1..=100).contains(&names.len()), "AWS takes 1 to 100 names");
                format!("{} names", names.len())
            }
            GroupQuery::Filtered(filters) => {
                assert!(!filters.is_empty(), "a query without filters describes every group");
                filters.iter().filter_map(|filter| filter.name()).collect::<Vec<_>>().join(",")
            }
        };
        let passes = |group: &AutoScalingGroup| match query {
            GroupQuery::One(name) => group.auto_scaling_group_name() == Some(name),
            GroupQuery::Named(names) => {
                group.auto_scaling_group_name().is_some_and(|name| names.iter().any(|one| one == name))
            }
            GroupQuery::Filtered(filters) => filters.iter().all(|filter| {
                let name = filter.name().unwrap_or_default();
                group.tags().iter().any(|tag| match name.strip_prefix("tag:") {
                    Some(key) => tag.key() == Some(key) && filter.values().iter().any(|one| tag.value() == Some(one)),
                    None => filter.values().iter().any(|key| tag.key() == Some(key)),
                })
            }),
        };
        self.call("DescribeAutoScalingGroups", &subject, |state| {
            let found = state.groups.iter().filter(|group| state.ignores_queries || passes(group));
            let found: Vec<_> = found.cloned().collect();
            let (groups, next_token) = page(&found, token, state.page);
            GroupsPage { groups, next_token, ..GroupsPage::default() }
        })
    }

    async fn describe_launch_configuration(&self, name: &str) -> Result<Option<LaunchConfiguration>, CloudError> {
        self.call("DescribeLaunchConfigurations", name, |state| state.configurations.get(name).cloned())
    }

    async fn describe_scaling_activities(
        &self,
        group: &str,
        token: Option<String>,
    ) -> Result<DescribeScalingActivitiesOutput, CloudError> {
        self.call("DescribeScalingActivities", group, |state| {
            let empty = token.as_deref().map_or(Some(0), |token| token.strip_prefix("empty-")?.parse::<usize>().ok());
            let (activities, next) = match empty {
                Some(empty) if empty < state.empty_pages => (Vec::new(), Some(format!("empty-{}", empty + 1))),
                _ => page(&state.activities, token.filter(|_| empty.is_none()), state.page),
            };
            DescribeScalingActivitiesOutput::builder().set_activities(Some(activities)).set_next_token(next).build()
        })
    }

    async fn describe_instance_refresh(&self, group: &str) -> Result<Option<InstanceRefresh>, CloudError> {
        self.call("DescribeInstanceRefreshes", group, |state| state.refreshes.get(group).cloned())
    }

    async fn describe_policies(&self, token: Option<String>) -> Result<DescribePoliciesOutput, CloudError> {
        self.call("DescribePolicies", "all", |state| {
            let (policies, next) = page(&state.policies, token, state.page);
            let output = DescribePoliciesOutput::builder().set_scaling_policies(Some(policies));
            output.set_next_token(next).build()
        })
    }

    async fn describe_scheduled_actions(
        &self,
        token: Option<String>,
    ) -> Result<DescribeScheduledActionsOutput, CloudError> {
        self.call("DescribeScheduledActions", "all", |state| {
            let (actions, next) = page(&state.scheduled, token, state.page);
            let output = DescribeScheduledActionsOutput::builder().set_scheduled_update_group_actions(Some(actions));
            output.set_next_token(next).build()
        })
    }

    async fn set_desired_capacity(&self, group: &str, units: i32) -> Result<(), CloudError> {
        self.call("SetDesiredCapacity", &format!("{group}={units}"), |_| ())
    }

    async fn launch_instances(
        &self,
        group: &str,
        units: i32,
        launch: &LaunchRequest,
    ) -> Result<LaunchInstancesOutput, CloudError> {
        self.call("LaunchInstances", &format!("{group}+{units} {}", launch.token), |state| {
            state.launched.clone().unwrap_or_else(|| LaunchInstancesOutput::builder().build())
        })
    }

    async fn terminate_instance(&self, instance: &str, decrements: bool) -> Result<(), CloudError> {
        sleep(self.state(|state| state.latency)).await;
        self.call("TerminateInstance", &format!("{instance}{}", how(decrements)), |_| ())
    }

    async fn terminate_instances(
        &self,
        group: &str,
        instances: &[String],
        decrements: bool,
    ) -> Result<Vec<Activity>, CloudError> {
        sleep(self.state(|state| state.latency)).await;
        let subject = format!("{group}: {}{}", instances.join(","), how(decrements));
        let activity = |instance: &String| {
            let description = format!("Terminating EC2 instance: {instance}");
            Activity::builder().activity_id("a").description(description).build()
        };
        self.call("TerminateInstances", &subject, |_| instances.iter().map(activity).collect())
    }
}

/// How a recorded termination differs from the usual one.
fn how(decrements: bool) -> &'static str {
    if decrements { "" } else { ", same capacity" }
}
