//! The calls to EC2.

use std::collections::HashMap;
use std::time::SystemTime;

use async_trait::async_trait;
use aws_sdk_ec2::operation::describe_instance_types::DescribeInstanceTypesOutput;
use aws_sdk_ec2::operation::describe_launch_templates::DescribeLaunchTemplatesOutput;
use aws_sdk_ec2::operation::describe_spot_price_history::DescribeSpotPriceHistoryOutput;
use aws_sdk_ec2::operation::get_instance_types_from_instance_requirements::GetInstanceTypesFromInstanceRequirementsOutput;
use aws_sdk_ec2::types::{
    ArchitectureType, Image, InstanceRequirementsRequest, InstanceType, LaunchTemplateVersion, VirtualizationType,
};

use super::PAGE_RECORDS;
use crate::cloud::{CloudError, PriceExtent};
use crate::clouds::aws::sdk::errors::cloud_error;

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

    /// One page of launch templates, which says which version of each is the default one and the latest one. Fails if
    /// one of them does not exist.
    async fn describe_launch_templates(
        &self,
        ids: &[String],
        token: Option<String>,
    ) -> Result<DescribeLaunchTemplatesOutput, CloudError>;

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

    /// The names of the region's zones by their IDs.
    async fn zone_names(&self) -> Result<HashMap<String, String>, CloudError>;

    /// One page of the spot prices of Linux that are valid at a time.
    async fn describe_spot_price_history(
        &self,
        at: SystemTime,
        extent: PriceExtent,
        token: Option<String>,
    ) -> Result<DescribeSpotPriceHistoryOutput, CloudError>;
}

/// EC2 through the SDK.
pub(in crate::clouds::aws) struct Ec2 {
    pub(in crate::clouds::aws) reads: aws_sdk_ec2::Client,
    /// Does not retry: all calls of a client share one retry quota, and templates need it more than prices.
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

    async fn describe_launch_templates(
        &self,
        ids: &[String],
        token: Option<String>,
    ) -> Result<DescribeLaunchTemplatesOutput, CloudError> {
        let call = self.reads.describe_launch_templates().set_launch_template_ids(Some(ids.to_vec()));
        let subject = ids.first().map_or("none", String::as_str);
        let sent = call.set_next_token(token).send().await;
        sent.map_err(|error| cloud_error("DescribeLaunchTemplates", subject, error))
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

    async fn zone_names(&self) -> Result<HashMap<String, String>, CloudError> {
        let sent = self.reads.describe_availability_zones().send().await;
        let output = sent.map_err(|error| cloud_error("DescribeAvailabilityZones", "all", error))?;
        let zones = output.availability_zones.unwrap_or_default().into_iter();
        Ok(zones.filter_map(|zone| Some((zone.zone_id?, zone.zone_name?))).collect())
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
