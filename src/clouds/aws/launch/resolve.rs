//! Looks up what a group's launch settings refer to: launch templates and configurations, requirements and images.

use std::sync::Arc;

use aws_sdk_ec2::types::{ArchitectureType, InstanceRequirementsRequest, VirtualizationType};

use super::super::sdk::cache::{FAILED_TTL, IMMUTABLE_TTL, RESOLVED_TTL};
use super::Launches;
use super::merged::{MergedLaunch, ResolvedLaunch};
use super::nodegroups::NodegroupDetails;
use super::parameters::LaunchParameters;
use super::settings::{LaunchMethod, LaunchOption, LaunchSettings};
use super::volumes::{ImageDetails, ephemeral_bytes, is_bottlerocket, is_of_eks};
use crate::cloud::{CloudError, LaunchSpec};

/// Most instance types of one group. EC2 has fewer, so the smallest type is never cut off.
const TYPES_MAX: usize = 2_000;
/// Most pages of instance types that satisfy requirements.
const PAGES_MAX: usize = 50;

impl Launches {
    /// What a new instance of the group would be launched from.
    pub(in crate::clouds::aws) async fn launch_spec(
        &self,
        group: &str,
        settings: &LaunchSettings,
        tagged_windows: bool,
    ) -> Result<LaunchSpec, CloudError> {
        if settings.zones.is_empty() {
            return Err(CloudError::refused("DescribeAutoScalingGroups", group, "the group has no availability zones"));
        }
        let nodegroup = match &settings.nodegroup {
            Some(key) => Some(self.nodegroup(key).await),
            None => None,
        };
        let merged = self.resolve(group, settings, nodegroup.as_deref()).await?;
        if merged.types().is_empty() {
            let message = "neither the group nor its launch template names an instance type";
            return Err(CloudError::refused("DescribeAutoScalingGroups", group, message));
        }
        Ok(merged.into_launch_spec(&self.region, settings, nodegroup.as_deref(), tagged_windows))
    }

    /// Looks up every launch option of a group.
    async fn resolve(
        &self,
        group: &str,
        settings: &LaunchSettings,
        nodegroup: Option<&NodegroupDetails>,
    ) -> Result<MergedLaunch, CloudError> {
        let mut merged = MergedLaunch::default();
        let bottlerocket = nodegroup.is_some_and(|details| details.bottlerocket);
        let options = match &settings.method {
            LaunchMethod::Missing => {
                let message = "the group has neither a launch template nor a launch configuration";
                return Err(CloudError::refused("DescribeAutoScalingGroups", group, message));
            }
            LaunchMethod::Configuration(name) => {
                let parameters = self.launch_configuration(name).await?;
                self.add_option(&mut merged, &LaunchOption::default(), &parameters, bottlerocket).await?;
                return Ok(merged);
            }
            LaunchMethod::Template(options) => options,
        };
        for option in options {
            let parameters = match &option.template {
                Some(template) => self.launch_template(template).await?,
                None => Arc::default(),
            };
            self.add_option(&mut merged, option, &parameters, bottlerocket).await?;
        }
        Ok(merged)
    }

    async fn add_option(
        &self,
        merged: &mut MergedLaunch,
        option: &LaunchOption,
        parameters: &LaunchParameters,
        bottlerocket: bool,
    ) -> Result<(), CloudError> {
        let alias = option.image.as_deref().or(parameters.image.as_deref());
        let image = match alias {
            Some(id) => self.image(id).await,
            None => None,
        };
        let image = image.as_deref();
        // An override's requirements replace the template's instance type, and an override's instance type replaces the
        // template's requirements.
        let types =
            match (&option.instance_type, &option.requirements, &parameters.instance_type, &parameters.requirements) {
                (Some(name), _, _, _) | (None, None, Some(name), _) => vec![name.clone()],
                (None, Some(requirements), _, _) | (None, None, None, Some(requirements)) => {
                    self.types_satisfying(requirements, image).await?
                }
                (None, None, None, None) => Vec::new(),
            };
        let bottlerocket = bottlerocket || alias.is_some_and(is_bottlerocket);
        let user_data = &parameters.user_data;
        merged.add(ResolvedLaunch {
            types,
            windows: image.is_some_and(|image| image.windows),
            eks: user_data.eks || alias.is_some_and(is_of_eks) || image.is_some_and(|image| image.eks),
            ephemeral: ephemeral_bytes(&parameters.volumes, image, bottlerocket),
            joins_local_disks: user_data.joins_local_disks,
            cpus_max: parameters.cpus_max,
            max_pods: user_data.max_pods,
            efa_interfaces: parameters.efa_interfaces,
            labels: user_data.labels.clone(),
            taints: user_data.taints.clone(),
            kubelet_reserves: user_data.kubelet_reserves.clone(),
            is_spot: parameters.is_spot,
            is_floating: option.template.as_ref().is_some_and(|template| !template.is_fixed()),
        });
        Ok(())
    }

    async fn launch_configuration(&self, name: &str) -> Result<Arc<LaunchParameters>, CloudError> {
        let key = name.to_owned();
        if let Some(data) = self.configurations.get(&key) {
            return Ok(data);
        }
        let described = self.scaling.describe_launch_configuration(name).await?;
        let missing =
            || CloudError::not_found("DescribeLaunchConfigurations", name, "the launch configuration does not exist");
        let described = described.ok_or_else(missing)?;
        let data = Arc::new(LaunchParameters::from(&described));
        self.configurations.put(key, Arc::clone(&data), IMMUTABLE_TTL);
        Ok(data)
    }

    // An image only makes the template more precise, so a template is built even if its image cannot be read.
    async fn image(&self, id: &str) -> Option<Arc<ImageDetails>> {
        if !id.starts_with("ami-") {
            return ImageDetails::from_alias(id).map(Arc::new);
        }
        let key = id.to_owned();
        if let Some(facts) = self.images.get(&key) {
            return facts;
        }
        let (facts, ttl) = match self.ec2.describe_image(id).await {
            Ok(image) => (image.as_ref().map(|image| Arc::new(ImageDetails::from(image))), IMMUTABLE_TTL),
            Err(error) => {
                tracing::warn!(image = %id, %error, "machine image cannot be read; building the node template without it");
                (self.images.get_expired(&key).flatten(), FAILED_TTL)
            }
        };
        self.images.put(key, facts.clone(), ttl);
        facts
    }

    async fn types_satisfying(
        &self,
        requirements: &InstanceRequirementsRequest,
        image: Option<&ImageDetails>,
    ) -> Result<Vec<String>, CloudError> {
        const OPERATION: &str = "GetInstanceTypesFromInstanceRequirements";
        let (architectures, virtualization) = match image {
            Some(image) => (vec![image.architecture.clone()], image.virtualization.clone()),
            None => (vec![ArchitectureType::Arm64, ArchitectureType::X8664], VirtualizationType::Hvm),
        };
        let key = format!("{architectures:?} {virtualization:?} {requirements:?}");
        if let Some(types) = self.types_by_requirements.get(&key) {
            return Ok(types.to_vec());
        }
        let virtualization = [virtualization];
        let (mut names, mut token) = (Vec::new(), None);
        for page in 1.. {
            let asked = self.ec2.get_instance_types_from_instance_requirements(
                &architectures,
                &virtualization,
                requirements,
                token,
            );
            let response = asked.await?;
            names.extend(response.instance_types().iter().filter_map(|info| info.instance_type.clone()));
            token = response.next_token.filter(|token| !token.is_empty());
            if token.is_none() {
                break;
            }
            if page >= PAGES_MAX || names.len() > TYPES_MAX {
                return Err(CloudError::unintelligible(
                    OPERATION,
                    "requirements",
                    format!("more than {} instance types", names.len()),
                ));
            }
        }
        if names.is_empty() {
            return Err(CloudError::refused(
                OPERATION,
                "requirements",
                "no instance type satisfies the group's requirements",
            ));
        }
        // EC2 returns the types in no useful order.
        names.sort();
        names.dedup();
        self.types_by_requirements.put(key, Arc::from(names.as_slice()), RESOLVED_TTL);
        Ok(names)
    }
}
