//! Labels and taints of a group's nodes.

use std::collections::BTreeMap;

use super::build::Input;
use super::error::TemplateError;
use super::overrides::same_taint;
use crate::cloud::{Architecture, Family, Taint};
use crate::instance_types::{Source, Sourced};

pub(super) type Labels = BTreeMap<String, Sourced<String>>;

/// What Azure's nodes carry as their zone in a group without zones.
const AZURE_NO_ZONE: &str = "0";

/// Every label: a tag of the group before an override, that before what the cloud's node machinery sets, that before what
/// follows from the machine.
pub(super) fn labels(
    input: &Input<'_>,
    node_name: &str,
    architecture: Option<&Sourced<Architecture>>,
) -> Result<Labels, TemplateError> {
    let mut candidates: BTreeMap<String, Vec<(String, Source)>> = BTreeMap::new();
    let given = [
        (&input.hints.labels, Source::GroupTag),
        (&input.overrides.labels, Source::GroupOverride),
        (&input.launch.labels, Source::Group),
    ];
    for (labels, source) in given {
        for (key, value) in labels {
            candidates.entry(key.clone()).or_default().push((value.clone(), source.clone()));
        }
    }
    for (key, value, source) in generated(input, node_name, architecture)? {
        candidates.entry(key.to_owned()).or_default().push((value, source));
    }
    Ok(candidates.into_iter().filter_map(|(key, candidates)| Some((key, Sourced::first(candidates)?))).collect())
}

type Label = (&'static str, String, Source);

/// What follows from the machine. The `beta` names are deprecated, yet kubelets and cloud controllers still set them, and
/// pods still select by them.
fn generated(
    input: &Input<'_>,
    node_name: &str,
    architecture: Option<&Sourced<Architecture>>,
) -> Result<Vec<Label>, TemplateError> {
    let launch = input.launch;
    let mut labels: Vec<Label> = Vec::new();
    let mut add = |keys: &[&'static str], value: &str, source: Source| {
        labels.extend(keys.iter().map(|key| (*key, value.to_owned(), source.clone())));
    };
    let system = launch.operating_system.label();
    add(&["kubernetes.io/os", "beta.kubernetes.io/os"], system, Source::Group);
    add(&["kubernetes.io/hostname"], node_name, Source::Default);
    if let Some(Sourced { value, source, .. }) = architecture {
        add(&["kubernetes.io/arch", "beta.kubernetes.io/arch"], value.label(), source.clone());
    }
    if let [type_name] = launch.types.as_slice() {
        add(&["node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"], type_name, Source::Group);
    }
    let region = ["topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"];
    if !launch.region.is_empty() {
        add(&region, &launch.region, Source::Group);
    }
    let zone = zone(input)?;
    add(&["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"], zone, Source::Group);
    match input.family {
        Family::Aws => add(&["topology.ebs.csi.aws.com/zone"], zone, Source::Group),
        // A disk without a zone has an empty one.
        Family::Azure if zone == AZURE_NO_ZONE => add(&["topology.disk.csi.azure.com/zone"], "", Source::Group),
        Family::Azure => add(&["topology.disk.csi.azure.com/zone"], zone, Source::Group),
    }
    Ok(labels)
}

/// One of the group's zones, always the same one while the zones are: a template that wanders from zone to zone makes
/// pods with volumes schedulable at one moment and not at the next.
fn zone<'a>(input: &Input<'a>) -> Result<&'a str, TemplateError> {
    let mut zones: Vec<&str> = input.launch.zones.iter().map(String::as_str).collect();
    zones.sort_unstable();
    let count = u64::try_from(zones.len()).unwrap_or(u64::MAX);
    let Some(choice) = super::build::stable_hash(input.group).checked_rem(count) else {
        return match input.family {
            Family::Aws => Err(TemplateError::NoZone { group: input.group.to_owned() }),
            Family::Azure => Ok(AZURE_NO_ZONE),
        };
    };
    Ok(usize::try_from(choice).ok().and_then(|choice| zones.get(choice)).copied().unwrap_or(AZURE_NO_ZONE))
}

/// Every taint, one per key and effect: a tag's before an override's before the node machinery's.
pub(super) fn taints(input: &Input<'_>) -> Vec<Sourced<Taint>> {
    let mut taints: Vec<Sourced<Taint>> = Vec::new();
    let given = [
        (&input.hints.taints, Source::GroupTag),
        (&input.overrides.taints, Source::GroupOverride),
        (&input.launch.taints, Source::Group),
    ];
    for (candidates, source) in given {
        for taint in candidates {
            match taints.iter_mut().find(|before| same_taint(&before.value, taint)) {
                None => taints.push(Sourced::new(taint.clone(), source.clone())),
                Some(winner) if winner.runner_up.is_none() && winner.source != source => {
                    winner.runner_up = Some((taint.clone(), source.clone()));
                }
                Some(_) => {}
            }
        }
    }
    taints
}
