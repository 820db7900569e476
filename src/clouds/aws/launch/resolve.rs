//! Looks up what a group's launch settings refer to: launch templates and configurations, and requirements.

use std::sync::Arc;

use aws_sdk_ec2::types::{ArchitectureType, InstanceRequirementsRequest, VirtualizationType};

use super::super::sdk::cache::{IMMUTABLE_TTL, RESOLVED_TTL};
use super::Launches;
use super::images::Evidence;
use super::merged::{MergedLaunch, ResolvedLaunch};
use super::nodegroups::NodegroupDetails;
use super::parameters::LaunchParameters;
use super::settings::{LaunchMethod, LaunchOption, LaunchSettings};
use super::user_data::UserData;
use super::volumes::{ImageDetails, ephemeral_bytes, is_bottlerocket, is_of_eks, node_image};
use crate::cloud::{CloudError, ImageEvidence, ImageFamily, LaunchSpec, NodeImage, OperatingSystem};
use crate::clouds::page_walk::PageWalk;
use crate::clouds::windows::WINDOWS_BUILD_LABEL;

/// Most instance types of one group. EC2 has fewer, so the smallest type is never cut off.
const TYPES_MAX: usize = 2_000;
/// The aliases of images that AWS publishes.
const PUBLIC_ALIAS: &str = "resolve:ssm:/aws/service/";
/// Most pages of instance types that satisfy requirements.
const PAGES_MAX: usize = 50;

impl Launches {
    /// What a new instance of the group would be launched from. `tagged` is the operating system that a tag of the
    /// group names.
    pub(in crate::clouds::aws) async fn launch_spec(
        &self,
        group: &str,
        settings: &LaunchSettings,
        tagged: Option<OperatingSystem>,
    ) -> Result<LaunchSpec, CloudError> {
        if settings.zones.is_empty() {
            return Err(CloudError::refused("DescribeAutoScalingGroups", group, "the group has no availability zones"));
        }
        let nodegroup = match &settings.nodegroup {
            Some(key) => Some(self.nodegroup(key).await),
            None => None,
        };
        let evidence = Evidence::of_group(settings, nodegroup.as_deref(), tagged);
        let merged = self.resolve(group, settings, evidence, nodegroup.as_deref()).await?;
        if merged.types().is_empty() {
            let message = "neither the group nor its launch template names an instance type";
            return Err(CloudError::refused("DescribeAutoScalingGroups", group, message));
        }
        Ok(merged.into_launch_spec(&self.region, settings, nodegroup.as_deref(), tagged))
    }

    /// Looks up every launch option of a group.
    async fn resolve(
        &self,
        group: &str,
        settings: &LaunchSettings,
        evidence: Evidence,
        nodegroup: Option<&NodegroupDetails>,
    ) -> Result<MergedLaunch, CloudError> {
        let mut merged = MergedLaunch::default();
        let options = match &settings.method {
            LaunchMethod::Missing => {
                let message = "the group has neither a launch template nor a launch configuration";
                return Err(CloudError::refused("DescribeAutoScalingGroups", group, message));
            }
            LaunchMethod::Configuration(name) => {
                let parameters = self.launch_configuration(name).await?;
                self.add_option(&mut merged, &LaunchOption::default(), &parameters, evidence, nodegroup).await?;
                return Ok(merged);
            }
            LaunchMethod::Template(options) => options,
        };
        for option in options {
            let parameters = match &option.template {
                Some(template) => self.launch_template(template).await?,
                None => Arc::default(),
            };
            self.add_option(&mut merged, option, &parameters, evidence, nodegroup).await?;
        }
        Ok(merged)
    }

    async fn add_option(
        &self,
        merged: &mut MergedLaunch,
        option: &LaunchOption,
        parameters: &LaunchParameters,
        evidence: Evidence,
        nodegroup: Option<&NodegroupDetails>,
    ) -> Result<(), CloudError> {
        // An override's requirements replace the template's instance type, and an override's instance type replaces the
        // template's requirements.
        let (name, requirements) = match (&option.instance_type, &option.requirements) {
            (None, None) => (&parameters.instance_type, &parameters.requirements),
            (name, requirements) => (name, requirements),
        };
        let requirements = requirements.as_ref().filter(|_| name.is_none());
        let alias = option.image.as_deref().or(parameters.image.as_deref());
        let evidence = evidence.or(&parameters.user_data);
        let image = self.launch_image(alias, evidence, requirements.is_some()).await?;
        let details = image.details.as_deref();
        let types = match requirements {
            Some(requirements) => self.types_satisfying(requirements, details).await?,
            None => name.iter().cloned().collect(),
        };
        let user_data = &parameters.user_data;
        // If the image cannot be read, the settings show it: Bottlerocket joins no cluster without them.
        let by_nodegroup = nodegroup.is_some_and(|details| details.bottlerocket);
        let bottlerocket = by_nodegroup || alias.is_some_and(is_bottlerocket) || user_data.bottlerocket;
        let build = details.and_then(|image| image.windows_build);
        let build = build.map(|build| (WINDOWS_BUILD_LABEL.to_owned(), build.to_owned()));
        merged.add(ResolvedLaunch {
            types,
            windows: image.windows,
            image: shown_image(details, alias, nodegroup, user_data, bottlerocket),
            images: Vec::new(),
            has_efa: parameters.efa_interfaces > 0,
            eks: user_data.eks == Some(true) || alias.is_some_and(is_of_eks) || image.eks,
            ephemeral: ephemeral_bytes(&parameters.volumes, details, bottlerocket),
            local_disks: user_data.local_disks,
            huge_pages: user_data.huge_pages,
            cpus_max: parameters.cpus_max,
            is_encrypted: parameters.is_encrypted,
            labels_gpus: details.is_some_and(|image| image.labels_gpus),
            max_pods: user_data.max_pods,
            pods_at_most: user_data.max_pods,
            efa_interfaces: parameters.efa_interfaces,
            labels: user_data.labels.clone().into_iter().chain(build).collect(),
            taints: user_data.taints.clone(),
            kubelet_reserves: user_data.kubelet_reserves.clone(),
            is_spot: parameters.is_spot,
            is_floating: option.template.as_ref().is_some_and(|template| !template.is_fixed()),
            is_provisional: image.is_provisional,
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
        let (mut names, mut token, mut walk) = (Vec::new(), None, PageWalk::default());
        for page in 1.. {
            let asked = self.ec2.get_instance_types_from_instance_requirements(
                &architectures,
                &virtualization,
                requirements,
                token,
            );
            let response = asked.await?;
            names.extend(response.instance_types().iter().filter_map(|info| info.instance_type.clone()));
            let next = walk.token(response.next_token);
            token = next.map_err(|why| CloudError::unintelligible(OPERATION, "requirements", why))?;
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

/// The family of the image: by its name, its alias, the managed node group, or else by user data that only one family
/// reads.
fn shown_image(
    details: Option<&ImageDetails>,
    alias: Option<&str>,
    nodegroup: Option<&NodegroupDetails>,
    user_data: &UserData,
    bottlerocket: bool,
) -> Option<NodeImage> {
    let of_alias = || alias.filter(|alias| alias.starts_with(PUBLIC_ALIAS));
    let of_user_data = || {
        let family = match (bottlerocket, user_data.nodeadm) {
            (true, _) => ImageFamily::Bottlerocket,
            (false, true) => ImageFamily::AmazonLinux2023,
            (false, false) => return None,
        };
        Some(NodeImage { family, evidence: ImageEvidence::UserData })
    };
    match details {
        // The name of an image that the user built may say nothing.
        Some(details) => details.image,
        None => of_alias().and_then(|alias| node_image(alias, ImageEvidence::Alias)),
    }
    .or_else(|| nodegroup.and_then(|details| details.image))
    .or_else(of_user_data)
}
