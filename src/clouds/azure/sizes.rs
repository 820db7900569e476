//! VM sizes: their capabilities, and what their names say.

use super::arm::Size;
use crate::cloud::{Accelerator, Architecture, InstanceType};

const NVIDIA: &str = "nvidia.com/gpu";
const AMD: &str = "amd.com/gpu";

/// Sizes with a dedicated host, which are not force-deleted: the list of the in-tree provider.
const ISOLATED: [&str; 12] = [
    "Standard_E80ids_v4",
    "Standard_E80is_v4",
    "Standard_E104i_v5",
    "Standard_E104id_v5",
    "Standard_E104ids_v5",
    "Standard_E104is_v5",
    "Standard_F72s_v2",
    "Standard_M128ms",
    "Standard_M192idms_v2",
    "Standard_M192ids_v2",
    "Standard_M192ims_v2",
    "Standard_M192is_v2",
];

/// Whether VMs of this size have a dedicated host.
pub(super) fn is_isolated(size: &str) -> bool {
    ISOLATED.iter().any(|isolated| isolated.eq_ignore_ascii_case(size))
}

/// The key of a size: its name in lower case, without the suffix for promotional prices. The VM is the same.
pub(super) fn size_key(size: &str) -> String {
    let folded = size.to_ascii_lowercase();
    match folded.strip_suffix("_promo") {
        Some(plain) => plain.to_owned(),
        None => folded,
    }
}

/// Whether VMs of this size have NVIDIA GPUs.
pub(super) fn is_nvidia(size: &str) -> bool {
    let folded = size_key(size);
    let series = folded.strip_prefix("standard_").and_then(|name| name.get(..2));
    series.is_some_and(|series| ["nc", "nd", "nv"].contains(&series)) && gpu(&folded) == Some(NVIDIA)
}

/// The resource name of the GPUs of a size. Only the name of the size shows the vendor.
fn gpu(size: &str) -> Option<&'static str> {
    let folded = size_key(size);
    let name = folded.strip_prefix("standard_").unwrap_or(&folded);
    // Azure counts FPGAs and transcoders as GPUs.
    if name.starts_with("np") || name.starts_with("nm") {
        return None;
    }
    let is_nvv4 = name.starts_with("nv") && name.ends_with("as_v4");
    let is_amd =
        is_nvv4 || name.starts_with("ng") || ["_mi", "_v620", "_v710"].iter().any(|model| name.contains(model));
    Some(if is_amd { AMD } else { NVIDIA })
}

/// The vCPUs of quota that a VM of this size takes. For a size with constrained CPUs, that is all of the size that it is
/// made of (`numberOfCores` of `VirtualMachineSize` in the reference of the compute API).
pub(super) fn quota_cpus(size: &Size) -> Option<u32> {
    size.capabilities.get("vCPUs").and_then(|value| value.trim().parse().ok()).filter(|cpus| *cpus > 0)
}

/// Reads a size; `None` if its CPUs or memory are missing.
pub(super) fn instance_type(size: &Size) -> Option<InstanceType> {
    let capability = |name: &str| size.capabilities.get(name).map(|value| value.trim());
    let number = |name: &str| capability(name).and_then(|value| value.parse::<u32>().ok()).filter(|number| *number > 0);
    // Constrained sizes offer fewer CPUs: E8-4ds_v5 has 4. Some, such as HB120-96rs_v3, say so in their name alone.
    let cpus = number("vCPUs").map(|cpus| constrained_cpus(&size.name).map_or(cpus, |available| available.min(cpus)));
    let cpus = number("vCPUsAvailable").or(cpus)?;
    let memory_mib = capability("MemoryGB").and_then(mebibytes).filter(|memory| *memory > 0)?;
    let is_arm = capability("CpuArchitectureType").is_some_and(|name| name.eq_ignore_ascii_case("Arm64"));
    let accelerator = |count| Some(Accelerator { resource: gpu(&size.name)?.to_owned(), count });
    Some(InstanceType {
        name: size.name.clone(),
        cpus,
        memory_mib,
        architecture: if is_arm { Architecture::Arm64 } else { Architecture::Amd64 },
        accelerators: number("GPUs").and_then(accelerator).into_iter().collect(),
        // The node pool limits the pods of a node, not the VM size.
        network_pods: None,
        local_disk_bytes: None,
    })
}

/// The CPUs that the name of a constrained size states: 96 for `Standard_HB120-96rs_v3`.
fn constrained_cpus(name: &str) -> Option<u32> {
    let (size, rest) = name.split_once('-')?;
    let digits = rest.split(|character: char| !character.is_ascii_digit()).next()?;
    digits.parse().ok().filter(|cpus| *cpus > 0 && size.ends_with(|character: char| character.is_ascii_digit()))
}

/// `MemoryGB` is in GiB and may have a fraction: B1ls has 0.5, which the in-tree provider rounds to 0.
fn mebibytes(text: &str) -> Option<u64> {
    const DIGITS: u32 = 6;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: u64 = whole.parse().ok()?;
    let fraction: String = fraction.chars().chain(std::iter::repeat('0')).take(usize::try_from(DIGITS).ok()?).collect();
    let fraction: u64 = fraction.parse().ok()?;
    whole.checked_mul(1024)?.checked_add(fraction * 1024 / 10_u64.pow(DIGITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(name: &str, capabilities: &[(&str, &str)]) -> Size {
        let capabilities = capabilities.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Size { name: name.to_owned(), family: None, capabilities: capabilities.collect() }
    }

    #[test]
    fn processors_are_those_available_and_memory_may_have_a_fraction() {
        let read = |name: &str, capabilities: &[(&str, &str)]| {
            instance_type(&size(name, capabilities)).map(|read| (read.cpus, read.memory_mib, read.architecture))
        };
        let constrained = [("vCPUs", "8"), ("vCPUsAvailable", "4"), ("MemoryGB", "64")];
        assert_eq!(read("Standard_E8-4ds_v5", &constrained), Some((4, 65_536, Architecture::Amd64)));
        for (name, cpus) in
            [("Standard_HB120-96rs_v3", 96), ("Standard_HB120-16rs_v3", 16), ("Standard_HB120rs_v3", 120)]
        {
            let read = read(name, &[("vCPUs", "120"), ("MemoryGB", "448")]);
            assert_eq!(read.map(|(cpus, ..)| cpus), Some(cpus), "{name}");
        }
        assert_eq!(quota_cpus(&size("Standard_E8-4ds_v5", &constrained)), Some(8));
        let small = [("vCPUs", "1"), ("MemoryGB", "0.5"), ("CpuArchitectureType", "x64")];
        assert_eq!(read("Standard_B1ls", &small), Some((1, 512, Architecture::Amd64)));
        let arm = [("vCPUs", "32"), ("MemoryGB", "128"), ("CpuArchitectureType", "Arm64")];
        assert_eq!(read("Standard_D32ps_v5", &arm), Some((32, 131_072, Architecture::Arm64)));
        assert_eq!(mebibytes("3.75"), Some(3840));
        for missing in [&[("vCPUs", "1")][..], &[("MemoryGB", "1")], &[("vCPUs", "x"), ("MemoryGB", "1")]] {
            assert_eq!(read("Standard_X", missing), None);
        }
        assert_eq!((mebibytes(""), mebibytes("1.x"), mebibytes("-1")), (None, None, None));
    }

    #[test]
    fn gpus_have_the_resource_name_of_their_vendor_and_fpgas_do_not_count() {
        for (name, resource) in [
            ("Standard_NC24ads_A100_v4", Some(NVIDIA)),
            ("Standard_NC4as_T4_v3", Some(NVIDIA)),
            ("Standard_NV6ads_A10_v5", Some(NVIDIA)),
            ("Standard_NV12s_v3", Some(NVIDIA)),
            ("Standard_NC6_Promo", Some(NVIDIA)),
            ("Standard_ND96isr_H100_v5", Some(NVIDIA)),
            ("Standard_NV4as_v4", Some(AMD)),
            ("Standard_ND96isr_MI300X_v5", Some(AMD)),
            ("Standard_NG32ads_V620_v1", Some(AMD)),
            ("Standard_NV8ads_V710_v5", Some(AMD)),
            ("Standard_NP10s", None),
        ] {
            let read =
                instance_type(&size(name, &[("vCPUs", "4"), ("MemoryGB", "1"), ("GPUs", "2")])).expect("complete");
            let found = read.accelerators.first().map(|found| (found.resource.as_str(), found.count));
            assert_eq!(found, resource.map(|resource| (resource, 2)), "{name}");
            assert_eq!(is_nvidia(name), resource == Some(NVIDIA), "{name}");
        }
        let none = instance_type(&size("Standard_D2_v2", &[("vCPUs", "2"), ("MemoryGB", "7"), ("GPUs", "0")]));
        assert!(none.expect("complete").accelerators.is_empty());
        assert!(!is_nvidia("Standard_D2_v2") && is_isolated("standard_f72S_v2") && !is_isolated("Standard_F64s_v2"));
    }
}
