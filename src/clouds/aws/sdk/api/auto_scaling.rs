//! The calls to EC2 Auto Scaling.

use async_trait::async_trait;
use aws_sdk_autoscaling::operation::describe_policies::DescribePoliciesOutput;
use aws_sdk_autoscaling::operation::describe_scaling_activities::DescribeScalingActivitiesOutput;
use aws_sdk_autoscaling::operation::describe_scheduled_actions::DescribeScheduledActionsOutput;
use aws_sdk_autoscaling::operation::launch_instances::LaunchInstancesOutput;
use aws_sdk_autoscaling::types::{
    Activity, AutoScalingGroup, Filter, InstanceRefresh, LaunchConfiguration, RetryStrategy,
};

use super::PAGE_RECORDS;
use crate::cloud::{CloudError, LaunchRequest};
use crate::clouds::aws::sdk::errors::{cloud_error, of_write};
use crate::clouds::aws::sdk::groups_response::{Beside, GroupsResponse};

/// The groups that a DescribeAutoScalingGroups asks for. Never empty: an empty query would describe every group.
#[derive(Clone, Debug)]
pub(in crate::clouds::aws) enum GroupQuery {
    /// One group, for a caller that waits for it.
    One(String),
    /// The groups of these names.
    Named(Vec<String>),
    /// The groups that pass all of these filters.
    Filtered(Vec<Filter>),
}

impl GroupQuery {
    /// Whether it asks for the group of this name; `None` if it asks by tags. Groups are checked against it: the names
    /// and the filters are AWS's to honour.
    pub(in crate::clouds::aws) fn names(&self, name: &str) -> Option<bool> {
        match self {
            Self::One(one) => Some(one == name),
            Self::Named(names) => Some(names.iter().any(|one| one == name)),
            Self::Filtered(_) => None,
        }
    }
}

/// One page of groups.
#[derive(Clone, Debug, Default)]
pub(in crate::clouds::aws) struct GroupsPage {
    pub(in crate::clouds::aws) groups: Vec<AutoScalingGroup>,
    pub(in crate::clouds::aws) broken: Vec<BrokenGroup>,
    pub(in crate::clouds::aws) next_token: Option<String>,
    /// The size of the response's body.
    pub(in crate::clouds::aws) bytes: usize,
}

/// A group that AWS describes and that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::clouds::aws) struct BrokenGroup {
    /// `None` if its name cannot be decoded either.
    pub(in crate::clouds::aws) name: Option<String>,
    /// Why, for people.
    pub(in crate::clouds::aws) reason: String,
}

/// EC2 Auto Scaling.
#[async_trait]
pub(in crate::clouds::aws) trait AutoScalingApi: Send + Sync {
    /// One page of groups.
    async fn describe_auto_scaling_groups(
        &self,
        query: &GroupQuery,
        token: Option<String>,
    ) -> Result<GroupsPage, CloudError>;

    /// One launch configuration.
    async fn describe_launch_configuration(&self, name: &str) -> Result<Option<LaunchConfiguration>, CloudError>;

    /// One page of a group's activities: those in progress first, then the newest.
    async fn describe_scaling_activities(
        &self,
        group: &str,
        token: Option<String>,
    ) -> Result<DescribeScalingActivitiesOutput, CloudError>;

    /// The latest instance refresh of a group.
    async fn describe_instance_refresh(&self, group: &str) -> Result<Option<InstanceRefresh>, CloudError>;

    /// One page of the scaling policies of all groups.
    async fn describe_policies(&self, token: Option<String>) -> Result<DescribePoliciesOutput, CloudError>;

    /// One page of the scheduled actions of all groups.
    async fn describe_scheduled_actions(
        &self,
        token: Option<String>,
    ) -> Result<DescribeScheduledActionsOutput, CloudError>;

    /// Sets the desired capacity. Never retried.
    async fn set_desired_capacity(&self, group: &str, units: i32) -> Result<(), CloudError>;

    /// Launches as many units in the only zone of a group, waits for EC2, and returns what became of them. The same
    /// token again is the same launch. Never retried, here and by AWS.
    async fn launch_instances(
        &self,
        group: &str,
        units: i32,
        launch: &LaunchRequest,
    ) -> Result<LaunchInstancesOutput, CloudError>;

    /// Terminates one instance. Where `decrements`, lowers the desired capacity by one. Never retried.
    async fn terminate_instance(&self, instance: &str, decrements: bool) -> Result<(), CloudError>;

    /// Terminates several instances of one group. Where `decrements`, lowers its desired capacity by their number.
    /// Never retried. Not every region and partition has this form.
    async fn terminate_instances(
        &self,
        group: &str,
        instances: &[String],
        decrements: bool,
    ) -> Result<Vec<Activity>, CloudError>;
}

/// EC2 Auto Scaling through the SDK. Several clients, because the SDK may retry a read and must never retry a write,
/// and because a page of a listing and a launch have more time.
pub(in crate::clouds::aws) struct AutoScaling {
    pub(in crate::clouds::aws) lists: aws_sdk_autoscaling::Client,
    pub(in crate::clouds::aws) reads: aws_sdk_autoscaling::Client,
    pub(in crate::clouds::aws) writes: aws_sdk_autoscaling::Client,
    pub(in crate::clouds::aws) launches: aws_sdk_autoscaling::Client,
}

#[async_trait]
impl AutoScalingApi for AutoScaling {
    async fn describe_auto_scaling_groups(
        &self,
        query: &GroupQuery,
        token: Option<String>,
    ) -> Result<GroupsPage, CloudError> {
        let client = if matches!(query, GroupQuery::One(_)) { &self.reads } else { &self.lists };
        let call = client.describe_auto_scaling_groups().max_records(PAGE_RECORDS).set_next_token(token);
        let (call, subject) = match query {
            GroupQuery::One(name) => (call.auto_scaling_group_names(name), name.as_str()),
            GroupQuery::Named(names) => {
                (call.set_auto_scaling_group_names(Some(names.clone())), names.first().map_or("", String::as_str))
            }
            GroupQuery::Filtered(filters) => (call.set_filters(Some(filters.clone())), "by tags"),
        };
        let response = GroupsResponse::default();
        let sent = call.customize().interceptor(response.clone()).send().await;
        let output = sent.map_err(|error| cloud_error("DescribeAutoScalingGroups", subject, error))?;
        let groups = output.auto_scaling_groups.unwrap_or_default();
        let Beside { bytes, broken } = response.take();
        Ok(GroupsPage { groups, broken, next_token: output.next_token.filter(|token| !token.is_empty()), bytes })
    }

    async fn describe_launch_configuration(&self, name: &str) -> Result<Option<LaunchConfiguration>, CloudError> {
        let call = self.reads.describe_launch_configurations().launch_configuration_names(name);
        let output = call.send().await.map_err(|error| cloud_error("DescribeLaunchConfigurations", name, error))?;
        Ok(output.launch_configurations.unwrap_or_default().into_iter().next())
    }

    async fn describe_scaling_activities(
        &self,
        group: &str,
        token: Option<String>,
    ) -> Result<DescribeScalingActivitiesOutput, CloudError> {
        let call = self.reads.describe_scaling_activities().auto_scaling_group_name(group).max_records(PAGE_RECORDS);
        let sent = call.set_next_token(token).send().await;
        sent.map_err(|error| cloud_error("DescribeScalingActivities", group, error))
    }

    async fn describe_instance_refresh(&self, group: &str) -> Result<Option<InstanceRefresh>, CloudError> {
        let call = self.reads.describe_instance_refreshes().auto_scaling_group_name(group).max_records(1);
        let output = call.send().await.map_err(|error| cloud_error("DescribeInstanceRefreshes", group, error))?;
        Ok(output.instance_refreshes.unwrap_or_default().into_iter().next())
    }

    async fn describe_policies(&self, token: Option<String>) -> Result<DescribePoliciesOutput, CloudError> {
        let call = self.reads.describe_policies().max_records(PAGE_RECORDS).set_next_token(token);
        call.send().await.map_err(|error| cloud_error("DescribePolicies", "all", error))
    }

    async fn describe_scheduled_actions(
        &self,
        token: Option<String>,
    ) -> Result<DescribeScheduledActionsOutput, CloudError> {
        let call = self.reads.describe_scheduled_actions().max_records(PAGE_RECORDS).set_next_token(token);
        call.send().await.map_err(|error| cloud_error("DescribeScheduledActions", "all", error))
    }

    async fn set_desired_capacity(&self, group: &str, units: i32) -> Result<(), CloudError> {
        let call = self.writes.set_desired_capacity().auto_scaling_group_name(group);
        let call = call.desired_capacity(units).honor_cooldown(false);
        call.send().await.map(drop).map_err(|error| of_write(cloud_error("SetDesiredCapacity", group, error)))
    }

    async fn launch_instances(
        &self,
        group: &str,
        units: i32,
        launch: &LaunchRequest,
    ) -> Result<LaunchInstancesOutput, CloudError> {
        let call = self.launches.launch_instances().auto_scaling_group_name(group).requested_capacity(units);
        let call = call.client_token(&launch.token).retry_strategy(RetryStrategy::None);
        // A group of several zones needs exactly one of them.
        let sent = call.set_availability_zones(launch.zone.clone().map(|zone| vec![zone])).send().await;
        sent.map_err(|error| of_write(cloud_error("LaunchInstances", group, error)))
    }

    async fn terminate_instance(&self, instance: &str, decrements: bool) -> Result<(), CloudError> {
        let call = self.writes.terminate_instance_in_auto_scaling_group().instance_id(instance);
        let sent = call.should_decrement_desired_capacity(decrements).send().await;
        sent.map(drop).map_err(|error| of_write(cloud_error("TerminateInstanceInAutoScalingGroup", instance, error)))
    }

    async fn terminate_instances(
        &self,
        group: &str,
        instances: &[String],
        decrements: bool,
    ) -> Result<Vec<Activity>, CloudError> {
        let call = self.writes.terminate_instance_in_auto_scaling_group().auto_scaling_group_name(group);
        let call = call.set_instance_ids(Some(instances.to_vec())).should_decrement_desired_capacity(decrements);
        let output = call
            .send()
            .await
            .map_err(|error| of_write(cloud_error("TerminateInstanceInAutoScalingGroup", group, error)))?;
        Ok(output.activities.unwrap_or_default())
    }
}
