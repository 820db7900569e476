//! The instance types that simulated groups launch.

use crate::cloud::{Accelerator, Architecture, InstanceType};

/// All instance types.
pub(super) fn all() -> Vec<InstanceType> {
    use Architecture::{Amd64, Arm64};
    vec![
        instance_type("m5.large", 2, 8, Amd64, 0, Some(29)),
        instance_type("m5.xlarge", 4, 16, Amd64, 0, Some(58)),
        instance_type("m5a.large", 2, 8, Amd64, 0, Some(29)),
        instance_type("c5.large", 2, 4, Amd64, 0, Some(29)),
        instance_type("c5d.large", 2, 4, Amd64, 0, Some(29)),
        instance_type("g4dn.xlarge", 4, 16, Amd64, 1, Some(29)),
        instance_type("p4d.24xlarge", 96, 1152, Amd64, 8, Some(737)),
        instance_type("m6g.large", 2, 8, Arm64, 0, Some(29)),
        instance_type("Standard_D2s_v5", 2, 8, Amd64, 0, None),
        instance_type("Standard_D4s_v5", 4, 16, Amd64, 0, None),
        instance_type("Standard_D4ps_v5", 4, 16, Arm64, 0, None),
        instance_type("Standard_NC24ads_A100_v4", 24, 220, Amd64, 1, None),
    ]
}

fn instance_type(
    name: &str,
    cpus: u32,
    memory_gib: u64,
    architecture: Architecture,
    gpus: u32,
    network_pods: Option<u32>,
) -> InstanceType {
    let gpus = (gpus > 0).then(|| Accelerator { resource: "nvidia.com/gpu".to_owned(), count: gpus });
    InstanceType {
        name: name.to_owned(),
        cpus,
        memory_mib: memory_gib * 1024,
        architecture,
        accelerators: gpus.into_iter().collect(),
        network_pods,
        local_disk_bytes: None,
    }
}
