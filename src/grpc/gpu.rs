//! The GPU label and types that CA asks for. CA asks once and keeps the response until it restarts.

use crate::cloud::Family;

/// The label of GPU nodes, and its known values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// The label's key.
    pub label: String,
    /// Its known values. CA uses them for its metrics and for `--gpu-total`.
    pub types: Vec<&'static str>,
}

/// The list of the in-tree AWS provider.
const AWS_TYPES: [&str; 8] = [
    "nvidia-tesla-k80",
    "nvidia-tesla-p100",
    "nvidia-tesla-v100",
    "nvidia-tesla-t4",
    "nvidia-tesla-a100",
    "nvidia-a10g",
    "nvidia-l4",
    "nvidia-l40s",
];
/// The list of the in-tree Azure provider.
const AZURE_TYPES: [&str; 4] = ["nvidia-tesla-a100", "nvidia-tesla-k80", "nvidia-tesla-p100", "nvidia-tesla-v100"];

impl Gpu {
    /// Uses the configured label, or else the default of the first source's cloud.
    pub fn new(configured: Option<String>, families: &[Family]) -> Self {
        let default = match families.first() {
            Some(Family::Azure) => "kubernetes.azure.com/accelerator",
            Some(Family::Aws) | None => "k8s.amazonaws.com/accelerator",
        };
        let mut types: Vec<&'static str> = families
            .iter()
            .flat_map(|family| match family {
                Family::Aws => AWS_TYPES.as_slice(),
                Family::Azure => AZURE_TYPES.as_slice(),
            })
            .copied()
            .collect();
        types.sort_unstable();
        types.dedup();
        Self { label: configured.unwrap_or_else(|| default.to_owned()), types }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_source_decides_the_label_unless_it_is_configured() {
        assert_eq!(Gpu::new(None, &[Family::Aws, Family::Azure]).label, "k8s.amazonaws.com/accelerator");
        assert_eq!(Gpu::new(None, &[Family::Azure, Family::Aws]).label, "kubernetes.azure.com/accelerator");
        assert_eq!(Gpu::new(Some("gpu".into()), &[Family::Azure]).label, "gpu");
    }

    #[test]
    fn types_of_both_clouds_are_listed_once() {
        let types = Gpu::new(None, &[Family::Aws, Family::Azure]).types;
        assert_eq!(types.iter().filter(|name| **name == "nvidia-tesla-a100").count(), 1);
        assert_eq!(types.len(), 8);
    }
}
