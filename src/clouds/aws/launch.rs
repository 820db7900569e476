//! From a group's blueprint to the machine: launch templates and configurations, overrides, requirements, images.

use std::sync::Arc;

use aws_sdk_ec2::types::{
    ArchitectureType, InstanceRequirementsRequest, LaunchTemplateCpuOptions, ResponseLaunchTemplateData,
    VirtualizationType,
};

use super::Aws;
use super::blueprint::{Blueprint, Launch, TemplateRef, Variant};
use super::cache::{FAILED_TTL, IMMUTABLE_TTL, RESOLVED_TTL};
use super::gathered::{Found, Gathered};
use super::nodegroups::NodegroupFacts;
use super::requirements;
use super::startup::Startup;
use super::volumes::{self, ImageFacts, Volume, ephemeral_bytes, is_bottlerocket, is_of_eks};
use crate::cloud::{CloudError, GroupReading, LaunchSpec};

/// Types that one group may launch: more than EC2 has, so that the least of them is never cut off.
const TYPES_MAX: usize = 2_000;
/// Pages of types that satisfy requirements.
const PAGES_MAX: usize = 50;
/// Kinds of network interfaces with an EFA device.
const EFA_INTERFACES: [&str; 2] = ["efa", "efa-only"];

/// What a launch template or a launch configuration says of a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LaunchData {
    instance_type: Option<String>,
    requirements: Option<InstanceRequirementsRequest>,
    image: Option<String>,
    volumes: Vec<Volume>,
    cpus_max: Option<u32>,
    efa_interfaces: u32,
    startup: Startup,
}

impl From<&ResponseLaunchTemplateData> for LaunchData {
    fn from(data: &ResponseLaunchTemplateData) -> Self {
        let is_efa = |kind: Option<&str>| kind.is_some_and(|kind| EFA_INTERFACES.contains(&kind));
        let efa = data.network_interfaces().iter().filter(|interface| is_efa(interface.interface_type()));
        Self {
            instance_type: data.instance_type.as_ref().map(|name| name.as_str().to_owned()),
            requirements: data.instance_requirements.as_ref().map(requirements::of_template),
            image: data.image_id.clone(),
            volumes: volumes::of_template(data.block_device_mappings()),
            cpus_max: data.cpu_options.as_ref().and_then(cpus),
            efa_interfaces: u32::try_from(efa.count()).unwrap_or(u32::MAX),
            startup: Startup::read(data.user_data()),
        }
    }
}

/// Of half the options nothing follows: a type has its own default for the other half.
fn cpus(options: &LaunchTemplateCpuOptions) -> Option<u32> {
    let positive = |number: Option<i32>| u32::try_from(number?).ok().filter(|number| *number > 0);
    positive(options.core_count)?.checked_mul(positive(options.threads_per_core)?)
}

impl Aws {
    /// What a new instance of the group would be made from.
    pub(super) async fn machine_of(&self, reading: &GroupReading) -> Result<LaunchSpec, CloudError> {
        let name = reading.name.as_str();
        let blueprint = self.blueprint(reading).await?;
        if blueprint.zones.is_empty() {
            return Err(CloudError::refused("DescribeAutoScalingGroups", name, "the group has no availability zones"));
        }
        let nodegroup = match &blueprint.nodegroup {
            Some(key) => Some(self.nodegroup(key).await),
            None => None,
        };
        let gathered = self.gather(name, &blueprint, nodegroup.as_deref()).await?;
        if gathered.types().is_empty() {
            let message = "neither the group nor its launch template names an instance type";
            return Err(CloudError::refused("DescribeAutoScalingGroups", name, message));
        }
        let tagged_windows = reading.hints.labels.get("kubernetes.io/os").is_some_and(|os| os == "windows");
        Ok(gathered.machine(&self.region, &blueprint, nodegroup.as_deref(), tagged_windows))
    }

    async fn blueprint(&self, reading: &GroupReading) -> Result<Arc<Blueprint>, CloudError> {
        let remembered = self
            .remembered(&reading.name)
            .filter(|blueprint| blueprint.launch_fingerprint == reading.launch_fingerprint);
        if let Some(blueprint) = remembered {
            return Ok(blueprint);
        }
        let name = reading.name.as_str();
        let group = self.describe(name).await?;
        let group =
            group.ok_or_else(|| CloudError::not_found("DescribeAutoScalingGroups", name, "there is no such group"))?;
        Ok(Arc::new(Blueprint::of(&group)))
    }

    async fn gather(
        &self,
        group: &str,
        blueprint: &Blueprint,
        nodegroup: Option<&NodegroupFacts>,
    ) -> Result<Gathered, CloudError> {
        let mut gathered = Gathered::default();
        let bottlerocket = nodegroup.is_some_and(|facts| facts.bottlerocket);
        let variants = match &blueprint.launch {
            Launch::Nowhere => {
                let message = "the group has neither a launch template nor a launch configuration";
                return Err(CloudError::refused("DescribeAutoScalingGroups", group, message));
            }
            Launch::Configuration(name) => {
                let data = self.launch_configuration(name).await?;
                self.add_variant(&mut gathered, &Variant::default(), &data, bottlerocket).await?;
                return Ok(gathered);
            }
            Launch::Template(variants) => variants,
        };
        for variant in variants {
            let data = match &variant.template {
                Some(template) => self.launch_template(template).await?,
                None => Arc::default(),
            };
            self.add_variant(&mut gathered, variant, &data, bottlerocket).await?;
        }
        Ok(gathered)
    }

    async fn add_variant(
        &self,
        gathered: &mut Gathered,
        variant: &Variant,
        data: &LaunchData,
        bottlerocket: bool,
    ) -> Result<(), CloudError> {
        let alias = variant.image.as_deref().or(data.image.as_deref());
        let image = match alias {
            Some(id) => self.image(id).await,
            None => None,
        };
        let image = image.as_deref();
        // An override's requirements stand in for the template's type, and the other way round.
        let types = match (&variant.instance_type, &variant.requirements, &data.instance_type, &data.requirements) {
            (Some(name), _, _, _) | (None, None, Some(name), _) => vec![name.clone()],
            (None, Some(requirements), _, _) | (None, None, None, Some(requirements)) => {
                self.types_satisfying(requirements, image).await?
            }
            (None, None, None, None) => Vec::new(),
        };
        let bottlerocket = bottlerocket || alias.is_some_and(is_bottlerocket);
        let startup = &data.startup;
        gathered.add(Found {
            types,
            windows: image.is_some_and(|image| image.windows),
            eks: startup.eks || alias.is_some_and(is_of_eks) || image.is_some_and(|image| image.eks),
            ephemeral: ephemeral_bytes(&data.volumes, image, bottlerocket),
            joins_local_disks: startup.joins_local_disks,
            cpus_max: data.cpus_max,
            max_pods: startup.max_pods,
            efa_interfaces: data.efa_interfaces,
            labels: startup.labels.clone(),
            taints: startup.taints.clone(),
        });
        Ok(())
    }

    async fn launch_configuration(&self, name: &str) -> Result<Arc<LaunchData>, CloudError> {
        let key = name.to_owned();
        if let Some(data) = self.configurations.get(&key) {
            return Ok(data);
        }
        let described = self.scaling.describe_launch_configuration(name).await?;
        let missing =
            || CloudError::not_found("DescribeLaunchConfigurations", name, "there is no such launch configuration");
        let described = described.ok_or_else(missing)?;
        let data = Arc::new(LaunchData {
            instance_type: described.instance_type.clone().filter(|name| !name.is_empty()),
            image: described.image_id.clone().filter(|id| !id.is_empty()),
            volumes: volumes::of_configuration(described.block_device_mappings()),
            startup: Startup::read(described.user_data()),
            ..LaunchData::default()
        });
        self.configurations.put(key, Arc::clone(&data), IMMUTABLE_TTL);
        Ok(data)
    }

    async fn launch_template(&self, template: &TemplateRef) -> Result<Arc<LaunchData>, CloudError> {
        if let Some(data) = self.templates.get(template) {
            return Ok(data);
        }
        let described = self.ec2.describe_launch_template_version(&template.key, &template.version).await?;
        let data = described.and_then(|described| described.launch_template_data).ok_or_else(|| {
            let message = format!("there is no version {} of this launch template", template.version);
            CloudError::not_found("DescribeLaunchTemplateVersions", template.key.as_str(), message)
        })?;
        let data = Arc::new(LaunchData::from(&data));
        let ttl = if template.is_fixed() { IMMUTABLE_TTL } else { RESOLVED_TTL };
        self.templates.put(template.clone(), Arc::clone(&data), ttl);
        Ok(data)
    }

    // An image only refines the template, so that one which cannot be read costs the template nothing but that.
    async fn image(&self, id: &str) -> Option<Arc<ImageFacts>> {
        // `resolve:ssm:…` is an alias that only a launch resolves.
        if !id.starts_with("ami-") {
            return None;
        }
        let key = id.to_owned();
        if let Some(facts) = self.images.get(&key) {
            return facts;
        }
        let (facts, ttl) = match self.ec2.describe_image(id).await {
            Ok(image) => (image.as_ref().map(|image| Arc::new(ImageFacts::from(image))), IMMUTABLE_TTL),
            Err(error) => {
                tracing::warn!(image = %id, %error, "the machine image is unknown; the node template goes without it");
                (self.images.get_aged(&key).flatten(), FAILED_TTL)
            }
        };
        self.images.put(key, facts.clone(), ttl);
        facts
    }

    async fn types_satisfying(
        &self,
        requirements: &InstanceRequirementsRequest,
        image: Option<&ImageFacts>,
    ) -> Result<Vec<String>, CloudError> {
        const OPERATION: &str = "GetInstanceTypesFromInstanceRequirements";
        let (architectures, virtualization) = match image {
            Some(image) => (vec![image.architecture.clone()], image.virtualization.clone()),
            None => (vec![ArchitectureType::Arm64, ArchitectureType::X8664], VirtualizationType::Hvm),
        };
        let key = format!("{architectures:?} {virtualization:?} {requirements:?}");
        if let Some(types) = self.satisfying.get(&key) {
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
            let answer = asked.await?;
            names.extend(answer.instance_types().iter().filter_map(|info| info.instance_type.clone()));
            token = answer.next_token.filter(|token| !token.is_empty());
            if token.is_none() {
                break;
            }
            if page >= PAGES_MAX || names.len() > TYPES_MAX {
                return Err(CloudError::unintelligible(
                    OPERATION,
                    "requirements",
                    format!("more than {} types", names.len()),
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
        // EC2's order means nothing.
        names.sort();
        names.dedup();
        self.satisfying.put(key, Arc::from(names.as_slice()), RESOLVED_TTL);
        Ok(names)
    }
}
