//! The findings about one group.

use super::code::Code;
use super::collected::CollectedGroup;
use super::finding::Finding;
use super::findings::remedy;
use crate::cloud::{CloudError, Family, Permit};
use crate::instance_types::Provenance;
use crate::template::spread;
use crate::template::{NodeTemplate, Value};

const MEMORY: &str = "capacity.memory";
/// Resources that are GPUs.
const GPUS: [&str; 2] = ["capacity.nvidia.com/gpu", "capacity.amd.com/gpu"];
/// The resources by which CA tells that the GPUs of a node are ready.
const CA_GPUS: [&str; 5] =
    ["nvidia.com/gpu", "habana.ai/gaudi", "gpu.intel.com/xe", "amd.com/gpu", "microsoft.com/directx"];

/// The findings of a group.
pub(super) fn findings(group: &CollectedGroup, family: Family) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(shared_name(group));
    findings.extend(matched_twice(group));
    findings.extend(tagged_twice(group));
    findings.extend(foreign(group));
    findings.extend(withheld(group));
    findings.extend(blocked(group));
    findings.extend(out_of_bounds(group));
    findings.extend(unfilled(group));
    findings.extend(short_quota(group));
    findings.extend(not_launched(group));
    findings.extend(launches_refused(group));
    findings.extend(zones(group));
    findings.extend(mixed_types(group));
    findings.push(template(group, family));
    findings
}

/// Whether its nodes have GPUs.
pub(super) fn has_gpus(group: &CollectedGroup) -> bool {
    GPUS.iter().any(|path| group.template.as_ref().is_ok_and(|template| value(template, path).is_some()))
}

fn shared_name(group: &CollectedGroup) -> Option<Finding> {
    group.shares_name.then(|| {
        let what =
            format!("another source also has a group named {}, so each is served as source/name", group.reading.name);
        Finding::warning(
            Code::SHARED_NAME,
            &group.id,
            what,
            "use this ID under groups and in the expander configuration",
        )
    })
}

fn matched_twice(group: &CollectedGroup) -> Option<Finding> {
    group.also_in.as_ref().map(|other| {
        let what = format!("the source {other} matches it, too; it is served once, by the source that lists it first");
        Finding::warning(Code::SHARED_NAME, &group.id, what, "remove it from one of the two")
    })
}

/// Autoscaler #8084: tags were copied from another cluster's group.
fn tagged_twice(group: &CollectedGroup) -> Option<Finding> {
    let clusters: Vec<&str> = group.reading.hints.clusters.iter().map(String::as_str).collect();
    (clusters.len() > 1).then(|| {
        let what = format!("is tagged for several clusters: {}", clusters.join(", "));
        let advice = "remove the tags of the others: each cluster's autoscaler would delete the nodes of the others";
        Finding::error(Code::FOREIGN_GROUP, &group.id, what, advice)
    })
}

fn foreign(group: &CollectedGroup) -> Option<Finding> {
    (group.foreign_instances > 0).then(|| {
        let what = format!(
            "seems to belong to another cluster: none of its {} instances older than 15 minutes is a node of this one",
            group.foreign_instances
        );
        let advice = "remove it from the configuration or from what autoDiscovery finds; if its nodes cannot join this \
                      cluster, find out why, or set foreign: allow so that they can be deleted";
        Finding::error(Code::FOREIGN_GROUP, &group.id, what, advice)
    })
}

fn withheld(group: &CollectedGroup) -> Vec<Finding> {
    let warning = |what: String| Finding::warning(Code::WITHHELD, &group.id, what, "");
    match (&group.reading.growth, &group.reading.removal) {
        (Permit::Withheld(growth), Permit::Withheld(removal)) if growth == removal => {
            vec![warning(format!("can neither grow nor shrink: {growth}"))]
        }
        (growth, removal) => [("grow", growth), ("shrink", removal)]
            .into_iter()
            .filter_map(|(what, permit)| match permit {
                Permit::Granted => None,
                Permit::Withheld(reason) => Some(warning(format!("cannot {what}: {reason}"))),
            })
            .collect(),
    }
}

/// A running server serves the group as one that cannot grow, for a reason that this reading does not show: it has
/// refused every scale-up for a minute (law 13), and seldom, its own reading is older.
fn blocked(group: &CollectedGroup) -> Option<Finding> {
    let reason = group.blocked.as_ref().filter(|_| group.reading.growth == Permit::Granted)?;
    let what = format!("is served as one that cannot grow: {reason}");
    Some(Finding::warning(Code::WITHHELD, &group.id, what, "compare the group with the cloud's console"))
}

fn unfilled(group: &CollectedGroup) -> Option<Finding> {
    let unfilled = group.unfilled.filter(|unfilled| *unfilled > 0)?;
    let capacity = group.reading.desired;
    let what =
        format!("its capacity of {capacity} counts {unfilled} VMs that do not exist; Headcount does not lower it");
    let advice = format!(
        "raise its maximum by {unfilled}, or replace the scale set; if Azure compares a new capacity with the live \
         VMs, set capacityIs: actual under groups"
    );
    Some(Finding::warning(Code::UNFILLED, &group.id, what, advice))
}

fn not_launched(group: &CollectedGroup) -> Option<Finding> {
    let reason = group.not_launched.as_ref()?;
    let what = format!("launch: synchronous is set for it, and its desired capacity is set instead: {reason}");
    Some(Finding::warning(Code::LAUNCH, &group.id, what, "see docs/aws-launch.md"))
}

/// A running server's launches were refused: for lack of a permission, or because the cloud does not offer them for the
/// group.
fn launches_refused(group: &CollectedGroup) -> Option<Finding> {
    let reason = group.launches_refused.as_ref().filter(|_| group.not_launched.is_none())?;
    let (instead, again) = if group.are_zones_wanted {
        ("this zone does not grow", "with the next scale-up")
    } else {
        ("its desired capacity is set instead", "after an hour, and at once after a restart")
    };
    let what = format!("AWS refused to launch instances in it, so {instead}: {reason}");
    let advice = format!(
        "allow autoscaling:LaunchInstances and ec2:CreateFleet, as HeadcountLaunches and HeadcountLaunchesFleets of \
         deploy/aws-iam-policy.json do, or see docs/aws-launch.md; Headcount tries again {again}"
    );
    Some(Finding::warning(Code::LAUNCH, &group.id, what, advice))
}

/// AWS: "sequential calls across different AZs may trigger additional asynchronous launches" where AZRebalance is on.
fn zones(group: &CollectedGroup) -> Option<Finding> {
    let reading = &group.reading;
    let is_separate = reading.has_separate_zones();
    if group.are_zones_wanted && !is_separate {
        let what = "zones: separate is set for it, and it is served as one node group: no launch can choose its zone";
        return Some(Finding::warning(Code::ZONES, &group.id, what.to_owned(), "see docs/aws-launch.md"));
    }
    let stop = reading.zones.stop_rebalancing.as_ref().filter(|_| is_separate)?;
    let what = "its group rebalances its zones (AZRebalance): it launches and terminates instances after a launch in \
                one zone";
    Some(Finding::error(Code::ZONES, &group.id, what.to_owned(), stop))
}

fn out_of_bounds(group: &CollectedGroup) -> Option<Finding> {
    let reading = &group.reading;
    let (min, max, desired) = (reading.min, reading.max, reading.desired);
    if (min..=max).contains(&desired) {
        return None;
    }
    let what = format!("the capacity of {desired} is outside of its bounds {min}:{max}");
    let advice =
        "the Cluster Autoscaler does not correct this by itself; below min, --enforce-node-group-min-size does";
    Some(Finding::warning(Code::OUT_OF_BOUNDS, &group.id, what, advice))
}

/// A group whose maximum is beyond what the quotas of the account leave.
fn short_quota(group: &CollectedGroup) -> Option<Finding> {
    let (name, quota, nodes) = group.quota.as_ref()?;
    let wanted = group.reading.max.saturating_sub(group.reading.desired);
    if wanted <= *nodes {
        return None;
    }
    let what = format!(
        "its maximum of {} is {wanted} more than it has, but the quota {name} has {} of {} vCPUs used and leaves room \
         for {nodes}: the Cluster Autoscaler is offered {}",
        group.reading.max,
        quota.used,
        quota.limit,
        group.reading.desired.saturating_add(*nodes)
    );
    let advice = "request a higher quota, or lower the maximum; quota: ignore under groups offers the whole maximum";
    Some(Finding::warning(Code::QUOTA, &group.id, what, advice))
}

/// A group whose instance types differ in size.
fn mixed_types(group: &CollectedGroup) -> Option<Finding> {
    let template = group.template.as_ref().ok()?;
    spread::warning(&template.spreads).map(|what| Finding::warning(Code::MIXED_TYPES, &group.id, what, ""))
}

/// A group whose nodes have the GPU label and none of the resources that CA looks for: its external gRPC client knows
/// no driver of Dynamic Resource Allocation, so CA treats such a node as one whose GPUs are not ready yet, for as long
/// as it lives.
pub(super) fn gpus_by_driver(group: &CollectedGroup, gpu_label: &str) -> Option<Finding> {
    let template = group.template.as_ref().ok()?;
    let label = value(template, &format!("labels.{gpu_label}"))?;
    if CA_GPUS.iter().any(|name| value(template, &format!("allocatable.{name}")).is_some()) {
        return None;
    }
    let label = format!("{gpu_label}={}", label.value);
    let advice = "name a label as gpuLabel that no node has, or remove this one from the nodes";
    Some(if template.resource_slices.is_empty() {
        let what = format!(
            "its nodes have the GPU label {label} and no GPUs in their template: if a driver of Dynamic Resource \
             Allocation publishes the GPUs, the Cluster Autoscaler never treats the nodes as ready"
        );
        Finding::warning(Code::GPUS_BY_DRIVER, &group.id, what, advice)
    } else {
        let what = format!(
            "its nodes have the GPU label {label}, and a driver of Dynamic Resource Allocation publishes their \
             devices: the Cluster Autoscaler never treats them as ready"
        );
        Finding::error(Code::GPUS_BY_DRIVER, &group.id, what, advice)
    })
}

/// A group without a template.
fn no_template(group: &CollectedGroup, family: Family, reason: &str) -> Finding {
    let (why, advice) = match &group.undescribed {
        Some(CloudError::NotFound(_) | CloudError::Refused(_)) => {
            (reason, "correct what the group launches from".to_owned())
        }
        Some(error) => (reason, remedy(error, family)),
        // `TemplateError` says after a semicolon what to do.
        None => reason.split_once("; ").map_or((reason, String::new()), |(why, advice)| (why, advice.to_owned())),
    };
    let what = format!("no template can be built, so it cannot grow from zero: {why}");
    Finding::error(Code::TEMPLATE, &group.id, what, advice)
}

fn template(group: &CollectedGroup, family: Family) -> Finding {
    let template = match &group.template {
        Err(reason) => return no_template(group, family, reason),
        Ok(template) => template,
    };
    if let Some(unread) = &template.unread {
        let what = format!("its template lacks the labels and taints of the {}: {}", unread.what, unread.reason);
        let advice = "allow eks:DescribeNodegroup, and let Headcount reach the EKS API: a private cluster needs a VPC \
                      endpoint for EKS; or state them with tags on the group";
        return Finding::warning(Code::TEMPLATE, &group.id, what, advice);
    }
    let reading = &group.reading;
    let shown = |path: &str| value(template, path).map_or("?", |value| value.value.as_str());
    let provenance = value(template, MEMORY).map(|memory| &memory.provenance);
    let (provenance, estimated) = match provenance {
        // `headcount template` says what the estimate consists of.
        Some(Provenance::Estimated { nominal, .. }) => (nominal.to_string(), true),
        Some(other) => (other.to_string(), false),
        None => (String::new(), false),
    };
    let (estimate, advice) = if estimated {
        (", an estimate", "to make it exact, set learn, memory in a table, or a tag")
    } else {
        ("", "")
    };
    let what = format!(
        "size {} in {}:{}; a new node has {} cpu and {} memory ({provenance}{estimate})",
        reading.desired,
        reading.min,
        reading.max,
        shown("capacity.cpu"),
        shown(MEMORY)
    );
    Finding::ok(Code::TEMPLATE, &group.id, what, advice)
}

fn value<'a>(template: &'a NodeTemplate, path: &str) -> Option<&'a Value> {
    template.values.iter().find(|value| value.path == path)
}
