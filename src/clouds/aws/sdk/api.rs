//! The AWS calls that Headcount makes. [`READ_ACTIONS`], [`WRITE_ACTIONS`], [`CHECK_ACTIONS`] and [`PRICE_ACTIONS`] are the
//! actions of the IAM policy in `deploy/aws-iam-policy.json`. A test compares them.

use std::time::SystemTime;

use async_trait::async_trait;
use aws_sdk_autoscaling::operation::describe_policies::DescribePoliciesOutput;
use aws_sdk_autoscaling::operation::describe_scaling_activities::DescribeScalingActivitiesOutput;
use aws_sdk_autoscaling::types::{Activity, AutoScalingGroup, Filter, InstanceRefresh, LaunchConfiguration};
use aws_sdk_ec2::operation::describe_instance_types::DescribeInstanceTypesOutput;
use aws_sdk_ec2::operation::describe_spot_price_history::DescribeSpotPriceHistoryOutput;
use aws_sdk_ec2::operation::get_instance_types_from_instance_requirements::GetInstanceTypesFromInstanceRequirementsOutput;
use aws_sdk_ec2::types::{
    ArchitectureType, Image, InstanceRequirementsRequest, InstanceType, LaunchTemplateVersion, VirtualizationType,
};
use aws_sdk_eks::types::Nodegroup;
use aws_sdk_pricing::operation::get_products::GetProductsOutput;
use aws_sdk_pricing::types::{Filter as PriceFilter, FilterType};

use super::errors::cloud_error;
use super::responses::BodySize;
use crate::cloud::{CloudError, PriceExtent};

/// The actions that read. For these, EC2 and EC2 Auto Scaling accept no resource but `*`.
pub const READ_ACTIONS: [&str; 8] = [
    "autoscaling:DescribeAutoScalingGroups",
    "autoscaling:DescribeLaunchConfigurations",
    "autoscaling:DescribeScalingActivities",
    "ec2:DescribeImages",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeLaunchTemplateVersions",
    "ec2:GetInstanceTypesFromInstanceRequirements",
    "eks:DescribeNodegroup",
];

/// The actions that Headcount needs on the groups it scales.
pub const WRITE_ACTIONS: [&str; 2] =
    ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"];

/// The actions that only `headcount check` needs.
pub const CHECK_ACTIONS: [&str; 2] = ["autoscaling:DescribeInstanceRefreshes", "autoscaling:DescribePolicies"];

/// The actions that only live prices need. Without them, prices come from the user's and the shipped tables.
pub const PRICE_ACTIONS: [&str; 2] = ["ec2:DescribeSpotPriceHistory", "pricing:GetProducts"];

/// The names of all calls, in the order of the actions.
pub(in crate::clouds::aws) fn call_names() -> impl Iterator<Item = &'static str> {
    let actions = READ_ACTIONS.into_iter().chain(WRITE_ACTIONS).chain(CHECK_ACTIONS).chain(PRICE_ACTIONS);
    actions.map(|action| action.rsplit(':').next().unwrap_or(action))
}

/// The most group names one DescribeAutoScalingGroups takes, the most records of a page of it, the most instance types
/// one DescribeInstanceTypes takes and the most instances one TerminateInstanceInAutoScalingGroup takes.
pub(in crate::clouds::aws) const BATCH: usize = 100;
/// [`BATCH`] in the type that the APIs take.
const PAGE_RECORDS: i32 = 100;

/// The groups that a DescribeAutoScalingGroups asks for. Never empty: an empty query would describe every group.
#[derive(Clone, Debug)]
pub(in crate::clouds::aws) enum GroupQuery {
    /// One group, for a caller who waits for it.
    One(String),
    /// The groups of these names.
    Named(Vec<String>),
    /// The groups that pass all of these filters.
    Filtered(Vec<Filter>),
}

/// One page of groups.
#[derive(Clone, Debug, Default)]
pub(in crate::clouds::aws) struct GroupsPage {
    pub(in crate::clouds::aws) groups: Vec<AutoScalingGroup>,
    pub(in crate::clouds::aws) next_token: Option<String>,
    /// The size of the response's body.
    pub(in crate::clouds::aws) bytes: usize,
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

    /// Sets the desired capacity. Never retried.
    async fn set_desired_capacity(&self, group: &str, units: i32) -> Result<(), CloudError>;

    /// Terminates one instance and decrements the desired capacity. Never retried.
    async fn terminate_instance(&self, instance: &str) -> Result<(), CloudError>;

    /// Terminates several instances of one group and lowers its desired capacity by their number. Never retried. Not
    /// every region and partition has this form.
    async fn terminate_instances(&self, group: &str, instances: &[String]) -> Result<Vec<Activity>, CloudError>;
}

/// EC2.
#[async_trait]
pub(in crate::clouds::aws) trait Ec2Api: Send + Sync {
    /// One image, or `None` if it does not exist.
    async fn describe_image(&self, id: &str) -> Result<Option<Image>, CloudError>;

    /// Instance types by name, or one page of all types if `names` is empty.
    async fn describe_instance_types(
        &self,
        names: &[String],
        token: Option<String>,
    ) -> Result<DescribeInstanceTypesOutput, CloudError>;

    /// One version of a launch template.
    async fn describe_launch_template_version(
        &self,
        template: &TemplateKey,
        version: &str,
    ) -> Result<Option<LaunchTemplateVersion>, CloudError>;

    /// One page of the instance types that satisfy requirements.
    async fn get_instance_types_from_instance_requirements(
        &self,
        architectures: &[ArchitectureType],
        virtualization: &[VirtualizationType],
        requirements: &InstanceRequirementsRequest,
        token: Option<String>,
    ) -> Result<GetInstanceTypesFromInstanceRequirementsOutput, CloudError>;

    /// One page of the spot prices of Linux that are valid at a time.
    async fn describe_spot_price_history(
        &self,
        at: SystemTime,
        extent: PriceExtent,
        token: Option<String>,
    ) -> Result<DescribeSpotPriceHistoryOutput, CloudError>;
}

/// AWS Price List.
#[async_trait]
pub(in crate::clouds::aws) trait PricingApi: Send + Sync {
    /// One page of the on-demand prices of Linux instances in a region, each as JSON.
    async fn get_products(
        &self,
        region: &str,
        hardware: Hardware,
        extent: PriceExtent,
        token: Option<String>,
    ) -> Result<GetProductsOutput, CloudError>;
}

/// Which of two price lists: they differ in product family and tenancy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::clouds::aws) enum Hardware {
    /// Virtual machines.
    Shared,
    /// `*.metal*`, which AWS sells as dedicated.
    Metal,
}

/// EKS.
#[async_trait]
pub(in crate::clouds::aws) trait EksApi: Send + Sync {
    /// One managed node group.
    async fn describe_nodegroup(&self, cluster: &str, nodegroup: &str) -> Result<Option<Nodegroup>, CloudError>;
}

/// The ID or the name of a launch template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::clouds::aws) enum TemplateKey {
    /// By its ID.
    Id(String),
    /// By its name.
    Name(String),
}

impl TemplateKey {
    /// The ID or the name.
    pub(in crate::clouds::aws) fn as_str(&self) -> &str {
        match self {
            Self::Id(text) | Self::Name(text) => text,
        }
    }
}

/// EC2 Auto Scaling through the SDK. Several clients, because the SDK may retry a read and must never retry a write, and because
/// a page of a listing has more time.
pub(in crate::clouds::aws) struct AutoScaling {
    pub(in crate::clouds::aws) lists: aws_sdk_autoscaling::Client,
    pub(in crate::clouds::aws) reads: aws_sdk_autoscaling::Client,
    pub(in crate::clouds::aws) writes: aws_sdk_autoscaling::Client,
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
        let size = BodySize::default();
        let sent = call.customize().interceptor(size.clone()).send().await;
        let output = sent.map_err(|error| cloud_error("DescribeAutoScalingGroups", subject, error))?;
        let groups = output.auto_scaling_groups.unwrap_or_default();
        Ok(GroupsPage { groups, next_token: output.next_token.filter(|token| !token.is_empty()), bytes: size.get() })
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

    async fn set_desired_capacity(&self, group: &str, units: i32) -> Result<(), CloudError> {
        let call = self.writes.set_desired_capacity().auto_scaling_group_name(group);
        let call = call.desired_capacity(units).honor_cooldown(false);
        call.send().await.map(drop).map_err(|error| cloud_error("SetDesiredCapacity", group, error))
    }

    async fn terminate_instance(&self, instance: &str) -> Result<(), CloudError> {
        let call = self.writes.terminate_instance_in_auto_scaling_group().instance_id(instance);
        let sent = call.should_decrement_desired_capacity(true).send().await;
        sent.map(drop).map_err(|error| cloud_error("TerminateInstanceInAutoScalingGroup", instance, error))
    }

    async fn terminate_instances(&self, group: &str, instances: &[String]) -> Result<Vec<Activity>, CloudError> {
        let call = self.writes.terminate_instance_in_auto_scaling_group().auto_scaling_group_name(group);
        let call = call.set_instance_ids(Some(instances.to_vec())).should_decrement_desired_capacity(true);
        let output =
            call.send().await.map_err(|error| cloud_error("TerminateInstanceInAutoScalingGroup", group, error))?;
        Ok(output.activities.unwrap_or_default())
    }
}

/// EC2 through the SDK.
pub(in crate::clouds::aws) struct Ec2 {
    pub(in crate::clouds::aws) reads: aws_sdk_ec2::Client,
    /// Does not retry: clients share what they may retry, and templates need it more than prices.
    pub(in crate::clouds::aws) spot_prices: aws_sdk_ec2::Client,
}

#[async_trait]
impl Ec2Api for Ec2 {
    async fn describe_image(&self, id: &str) -> Result<Option<Image>, CloudError> {
        let sent = self.reads.describe_images().image_ids(id).send().await;
        let output = sent.map_err(|error| cloud_error("DescribeImages", id, error))?;
        Ok(output.images.unwrap_or_default().into_iter().next())
    }

    async fn describe_instance_types(
        &self,
        names: &[String],
        token: Option<String>,
    ) -> Result<DescribeInstanceTypesOutput, CloudError> {
        let call = self.reads.describe_instance_types().set_next_token(token);
        // The API refuses a page size together with names.
        let call = if names.is_empty() {
            call.max_results(PAGE_RECORDS)
        } else {
            call.set_instance_types(Some(names.iter().map(|name| InstanceType::from(name.as_str())).collect()))
        };
        let subject = names.first().map_or("all", String::as_str);
        call.send().await.map_err(|error| cloud_error("DescribeInstanceTypes", subject, error))
    }

    async fn describe_launch_template_version(
        &self,
        template: &TemplateKey,
        version: &str,
    ) -> Result<Option<LaunchTemplateVersion>, CloudError> {
        let call = self.reads.describe_launch_template_versions().versions(version);
        let call = match template {
            TemplateKey::Id(id) => call.launch_template_id(id),
            TemplateKey::Name(name) => call.launch_template_name(name),
        };
        let sent = call.send().await;
        let output = sent.map_err(|error| cloud_error("DescribeLaunchTemplateVersions", template.as_str(), error))?;
        Ok(output.launch_template_versions.unwrap_or_default().into_iter().next())
    }

    async fn get_instance_types_from_instance_requirements(
        &self,
        architectures: &[ArchitectureType],
        virtualization: &[VirtualizationType],
        requirements: &InstanceRequirementsRequest,
        token: Option<String>,
    ) -> Result<GetInstanceTypesFromInstanceRequirementsOutput, CloudError> {
        let call = self.reads.get_instance_types_from_instance_requirements();
        let call = call.set_architecture_types(Some(architectures.to_vec()));
        let call = call.set_virtualization_types(Some(virtualization.to_vec()));
        let call = call.instance_requirements(requirements.clone()).set_next_token(token);
        let sent = call.send().await;
        sent.map_err(|error| cloud_error("GetInstanceTypesFromInstanceRequirements", "requirements", error))
    }

    async fn describe_spot_price_history(
        &self,
        at: SystemTime,
        extent: PriceExtent,
        token: Option<String>,
    ) -> Result<DescribeSpotPriceHistoryOutput, CloudError> {
        let call = self.spot_prices.describe_spot_price_history().start_time(at.into()).set_next_token(token);
        // Accounts that still have EC2-Classic see two descriptions of Linux.
        let call = call.product_descriptions("Linux/UNIX").product_descriptions("Linux/UNIX (Amazon VPC)");
        let call = call.set_max_results((extent == PriceExtent::Sample).then_some(1));
        call.send().await.map_err(|error| cloud_error("DescribeSpotPriceHistory", "all", error))
    }
}

/// AWS Price List through the SDK.
pub(in crate::clouds::aws) struct Pricing(pub(in crate::clouds::aws) aws_sdk_pricing::Client);

#[async_trait]
impl PricingApi for Pricing {
    async fn get_products(
        &self,
        region: &str,
        hardware: Hardware,
        extent: PriceExtent,
        token: Option<String>,
    ) -> Result<GetProductsOutput, CloudError> {
        let (tenancy, product_family) = match hardware {
            Hardware::Shared => ("Shared", "Compute Instance"),
            Hardware::Metal => ("Dedicated", "Compute Instance (bare metal)"),
        };
        let filters = [
            ("regionCode", region),
            ("operatingSystem", "Linux"),
            ("preInstalledSw", "NA"),
            ("capacitystatus", "Used"),
            ("marketoption", "OnDemand"),
            ("tenancy", tenancy),
            ("productFamily", product_family),
        ];
        let filter =
            |(field, value)| PriceFilter::builder().r#type(FilterType::TermMatch).field(field).value(value).build();
        let filters = filters.into_iter().map(filter).collect::<Result<_, _>>();
        let filters = filters.map_err(|error| CloudError::refused("GetProducts", region, error.to_string()))?;
        let call = self.0.get_products().service_code("AmazonEC2").set_filters(Some(filters)).set_next_token(token);
        let call = call.max_results(if extent == PriceExtent::Sample { 1 } else { PAGE_RECORDS });
        call.send().await.map_err(|error| cloud_error("GetProducts", region, error))
    }
}

/// EKS through the SDK.
pub(in crate::clouds::aws) struct Eks(pub(in crate::clouds::aws) aws_sdk_eks::Client);

#[async_trait]
impl EksApi for Eks {
    async fn describe_nodegroup(&self, cluster: &str, nodegroup: &str) -> Result<Option<Nodegroup>, CloudError> {
        let sent = self.0.describe_nodegroup().cluster_name(cluster).nodegroup_name(nodegroup).send().await;
        let output = sent.map_err(|error| cloud_error("DescribeNodegroup", nodegroup, error))?;
        Ok(output.nodegroup)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_iam_policy_allows_exactly_the_calls_made() {
        let policy: serde_json::Value =
            serde_json::from_str(include_str!("../../../../deploy/aws-iam-policy.json")).expect("valid JSON");
        let allowed = |sid: &str| -> Vec<String> {
            let statements = policy["Statement"].as_array().expect("statements");
            let statement = statements.iter().find(|statement| statement["Sid"] == sid).expect(sid);
            assert_eq!(statement["Effect"], "Allow");
            let actions = statement["Action"].as_array().expect("actions").iter();
            actions.map(|action| action.as_str().expect("text").to_owned()).collect()
        };
        assert_eq!(allowed("HeadcountReads"), READ_ACTIONS);
        assert_eq!(allowed("HeadcountScales"), WRITE_ACTIONS);
        assert_eq!(allowed("HeadcountChecks"), CHECK_ACTIONS);
        assert_eq!(allowed("HeadcountPrices"), PRICE_ACTIONS);
        assert_eq!(policy["Statement"].as_array().map(Vec::len), Some(4));
    }
}
