//! Labels and taints of a group's nodes.

use std::collections::BTreeMap;

use super::build::Input;
use super::capacity::NVIDIA;
use super::error::TemplateError;
use super::overrides::same_taint;
use crate::cloud::{Architecture, Family, Taint};
use crate::instance_types::{Provenance, WithProvenance};

pub(super) type Labels = BTreeMap<String, WithProvenance<String>>;

/// The zone label of Azure's nodes in a group without zones.
const AZURE_NO_ZONE: &str = "0";

/// All labels. What the cloud service gives to every node wins over tags of the group: in the in-tree provider, too, the
/// labels of an EKS managed node group replace those of tags. A tag wins over an override, an override over the labels
/// of the launch settings, and these over the labels that follow from the instance.
pub(super) fn labels(
    input: &Input<'_>,
    node_name: &str,
    architecture: Option<&WithProvenance<Architecture>>,
) -> Result<Labels, TemplateError> {
    let mut candidates: BTreeMap<String, Vec<(String, Provenance)>> = BTreeMap::new();
    let given = [
        (&input.launch.fixed_labels, Provenance::Group),
        (&input.hints.labels, Provenance::GroupTag),
        (&input.overrides.labels, Provenance::GroupOverride),
        (&input.launch.labels, Provenance::Group),
    ];
    for (labels, provenance) in given {
        for (key, value) in labels {
            candidates.entry(key.clone()).or_default().push((value.clone(), provenance.clone()));
        }
    }
    for (key, value, provenance) in generated(input, node_name, architecture)? {
        candidates.entry(key.to_owned()).or_default().push((value, provenance));
    }
    Ok(candidates.into_iter().filter_map(|(key, candidates)| Some((key, WithProvenance::first(candidates)?))).collect())
}

type Label = (&'static str, String, Provenance);

/// The labels that follow from the instance. The `beta` names are deprecated, but kubelets and cloud controllers still
/// set them, and pods still select by them.
fn generated(
    input: &Input<'_>,
    node_name: &str,
    architecture: Option<&WithProvenance<Architecture>>,
) -> Result<Vec<Label>, TemplateError> {
    let launch = input.launch;
    let mut labels: Vec<Label> = Vec::new();
    let mut add = |keys: &[&'static str], value: &str, provenance: Provenance| {
        labels.extend(keys.iter().map(|key| (*key, value.to_owned(), provenance.clone())));
    };
    let system = launch.operating_system.label();
    add(&["kubernetes.io/os", "beta.kubernetes.io/os"], system, Provenance::Group);
    add(&["kubernetes.io/hostname"], node_name, Provenance::Default);
    if let Some(WithProvenance { value, provenance, .. }) = architecture {
        add(&["kubernetes.io/arch", "beta.kubernetes.io/arch"], value.label(), provenance.clone());
    }
    if let [type_name] = launch.types.as_slice() {
        add(&["node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"], type_name, Provenance::Group);
        let sold = Some(input.catalog.sold(type_name)).filter(|_| launch.has_size_labels).unwrap_or_default();
        if let Some(cpu) = sold.cpu {
            add(&["kubernetes.azure.com/sku-cpu"], &cpu.whole().to_string(), Provenance::Group);
        }
        if let Some(memory) = sold.memory {
            add(&["kubernetes.azure.com/sku-memory"], &(memory.whole() >> 20).to_string(), Provenance::Group);
        }
    }
    let has_gpus = |name: &String| {
        let known = input.catalog.resolve(input.family, name);
        known.and_then(|known| known.resources.get(NVIDIA).map(|gpus| gpus.value)).is_some_and(|gpus| !gpus.is_zero())
    };
    if launch.labels_gpus && !launch.types.is_empty() && launch.types.iter().all(has_gpus) {
        add(&["nvidia.com/gpu.present"], "true", Provenance::Group);
    }
    let region = ["topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"];
    if !launch.region.is_empty() {
        add(&region, &launch.region, Provenance::Group);
    }
    let zone = zone(input)?;
    add(&["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"], zone, Provenance::Group);
    match input.family {
        Family::Aws => add(&["topology.ebs.csi.aws.com/zone"], zone, Provenance::Group),
        // A disk without a zone has an empty one.
        Family::Azure if zone == AZURE_NO_ZONE => add(&["topology.disk.csi.azure.com/zone"], "", Provenance::Group),
        Family::Azure => add(&["topology.disk.csi.azure.com/zone"], zone, Provenance::Group),
    }
    Ok(labels)
}

/// One of the group's zones, the same one as long as the zones do not change: if the zone of a template changed, pods
/// with volumes would be schedulable at one moment and not at the next.
fn zone<'a>(input: &Input<'a>) -> Result<&'a str, TemplateError> {
    let mut zones: Vec<&str> = input.launch.zones.iter().map(String::as_str).collect();
    zones.sort_unstable();
    let count = u64::try_from(zones.len()).unwrap_or(u64::MAX);
    let Some(choice) = super::build::stable_hash(input.name).checked_rem(count) else {
        return match input.family {
            Family::Aws => Err(TemplateError::NoZone),
            Family::Azure => Ok(AZURE_NO_ZONE),
        };
    };
    Ok(usize::try_from(choice).ok().and_then(|choice| zones.get(choice)).copied().unwrap_or(AZURE_NO_ZONE))
}

/// All taints, one per key and effect, in the same order.
pub(super) fn taints(input: &Input<'_>) -> Vec<WithProvenance<Taint>> {
    let mut taints: Vec<WithProvenance<Taint>> = Vec::new();
    let given = [
        (&input.launch.fixed_taints, Provenance::Group),
        (&input.hints.taints, Provenance::GroupTag),
        (&input.overrides.taints, Provenance::GroupOverride),
        (&input.launch.taints, Provenance::Group),
    ];
    for (candidates, provenance) in given {
        for taint in candidates {
            match taints.iter_mut().find(|before| same_taint(&before.value, taint)) {
                None => taints.push(WithProvenance::new(taint.clone(), provenance.clone())),
                Some(winner) if winner.runner_up.is_none() && winner.provenance != provenance => {
                    winner.runner_up = Some((taint.clone(), provenance.clone()));
                }
                Some(_) => {}
            }
        }
    }
    taints
}
