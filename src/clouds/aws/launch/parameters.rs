//! The parameters that a launch template or a launch configuration sets for new instances.

use aws_sdk_autoscaling::types::LaunchConfiguration;
use aws_sdk_ec2::types::{
    AmdSevSnpSpecification, InstanceRequirementsRequest, LaunchTemplateCpuOptions, MarketType,
    ResponseLaunchTemplateData,
};

use super::requirements;
use super::user_data::UserData;
use super::volumes::{self, Volume};

/// Types of network interfaces that have an EFA device.
const EFA_INTERFACES: [&str; 2] = ["efa", "efa-only"];

/// The parameters that a launch template or a launch configuration sets for new instances.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LaunchParameters {
    pub(super) instance_type: Option<String>,
    pub(super) requirements: Option<InstanceRequirementsRequest>,
    pub(super) image: Option<String>,
    pub(super) volumes: Vec<Volume>,
    pub(super) cpus_max: Option<u32>,
    /// Whether AMD SEV-SNP encrypts the instance's memory.
    pub(super) is_encrypted: bool,
    pub(super) efa_interfaces: u32,
    pub(super) is_spot: bool,
    pub(super) user_data: UserData,
}

impl From<&ResponseLaunchTemplateData> for LaunchParameters {
    fn from(data: &ResponseLaunchTemplateData) -> Self {
        let is_efa = |kind: Option<&str>| kind.is_some_and(|kind| EFA_INTERFACES.contains(&kind));
        let efa = data.network_interfaces().iter().filter(|interface| is_efa(interface.interface_type()));
        Self {
            instance_type: data.instance_type.as_ref().map(|name| name.as_str().to_owned()),
            requirements: data.instance_requirements.as_ref().map(requirements::of_template),
            image: data.image_id.clone(),
            volumes: volumes::of_template(data.block_device_mappings()),
            cpus_max: data.cpu_options.as_ref().and_then(cpus),
            is_encrypted: data
                .cpu_options
                .as_ref()
                .is_some_and(|options| options.amd_sev_snp == Some(AmdSevSnpSpecification::Enabled)),
            efa_interfaces: u32::try_from(efa.count()).unwrap_or(u32::MAX),
            is_spot: data
                .instance_market_options
                .as_ref()
                .is_some_and(|options| options.market_type == Some(MarketType::Spot)),
            user_data: UserData::read(data.user_data()),
        }
    }
}

impl From<&LaunchConfiguration> for LaunchParameters {
    fn from(described: &LaunchConfiguration) -> Self {
        Self {
            instance_type: described.instance_type.clone().filter(|name| !name.is_empty()),
            image: described.image_id.clone().filter(|id| !id.is_empty()),
            volumes: volumes::of_configuration(described.block_device_mappings()),
            is_spot: described.spot_price.as_ref().is_some_and(|price| !price.is_empty()),
            user_data: UserData::read(described.user_data()),
            ..Self::default()
        }
    }
}

/// The vCPUs that CPU options set. Needs both options: if one is missing, the instance type has its own default.
fn cpus(options: &LaunchTemplateCpuOptions) -> Option<u32> {
    let positive = |number: Option<i32>| u32::try_from(number?).ok().filter(|number| *number > 0);
    positive(options.core_count)?.checked_mul(positive(options.threads_per_core)?)
}
