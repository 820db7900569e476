//! `groups:`, the settings for single node groups.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_saphyr::Spanned;
use wildmatch::WildMatch;

use super::error::ConfigError;
use super::file::{self, Text};
use super::scalar;
use super::yaml::{checked, optional};
use crate::cloud::{CapacityIs, GrowsBy, ReservedProfile};
use crate::fleet::options::Options;
use crate::fleet::{ForeignPolicy, Policy, QuotaPolicy, ZonePolicy};
use crate::instance_types::memory_model::OverheadError;
use crate::instance_types::resource_slices::DeviceSlice;
use crate::instance_types::{Quantity, check_capacity};
use crate::template::{GroupOverrides, ReservedRule, Threshold, ThresholdError, parse_profile};

/// Checks the labels that nodes of a group have.
fn labels(written: BTreeMap<String, Text>, path: &Path) -> Result<BTreeMap<String, String>, ConfigError> {
    let of = |(key, text): (String, Text)| {
        let value = checked(&text, path, |value| scalar::label(&key, value).map(|()| value.clone()))?;
        Ok((key, value))
    };
    written.into_iter().map(of).collect()
}

/// Checks one entry of `groups:`.
pub(super) fn policy(group: file::Group, path: &Path) -> Result<Policy, ConfigError> {
    let matches = checked(&group.matches, path, |text: &String| match text.trim() {
        "" => Err("match is empty; write a group's ID, or a pattern such as gpu-*".to_owned()),
        pattern => Ok(WildMatch::new(pattern)),
    })?;
    let overrides = GroupOverrides {
        capacity: quantities(group.capacity, path, check_capacity)?,
        labels: labels(group.labels, path)?,
        taints: group
            .taints
            .iter()
            .map(|taint| checked(taint, path, |text| scalar::taint(text)))
            .collect::<Result<_, _>>()?,
        reserved: group.reserved.map(|reserved| self::reserved(reserved, path)).transpose()?.unwrap_or_default(),
        memory_overhead: optional(group.memory_overhead.as_ref(), path, |text| {
            text.parse().map_err(|error: OverheadError| error.to_string())
        })?,
        resource_slices: resource_slices(&group.resource_slices, path)?,
    };
    let foreign = optional(group.foreign.as_ref(), path, |text| match text.as_str() {
        "refuse" => Ok(ForeignPolicy::Refuse),
        "allow" => Ok(ForeignPolicy::Allow),
        other => Err(format!("{other:?} is not refuse or allow")),
    })?;
    let capacity_is = optional(group.capacity_is.as_ref(), path, |text| match text.as_str() {
        "actual" => Ok(CapacityIs::Actual),
        "nominal" => Ok(CapacityIs::Nominal),
        other => Err(format!("{other:?} is not actual or nominal")),
    })?;
    let quota = optional(group.quota.as_ref(), path, |text| match text.as_str() {
        "respect" => Ok(QuotaPolicy::Respect),
        "ignore" => Ok(QuotaPolicy::Ignore),
        other => Err(format!("{other:?} is not respect or ignore")),
    })?;
    let grows_by = optional(group.launch.as_ref(), path, |text| match text.as_str() {
        "synchronous" => Ok(GrowsBy::Launch),
        "desired-capacity" => Ok(GrowsBy::Capacity),
        other => Err(format!("{other:?} is not synchronous or desired-capacity")),
    })?;
    let zones = optional(group.zones.as_ref(), path, |text| match text.as_str() {
        "together" => Ok(ZonePolicy::Together),
        "separate" => Ok(ZonePolicy::Separate),
        other => Err(format!("{other:?} is not together or separate")),
    })?;
    Ok(Policy {
        matches,
        overrides,
        options: options(&group.options, path)?,
        foreign,
        capacity_is,
        grows_by,
        quota,
        zones,
    })
}

/// The most slices of one group.
const SLICES_MAX: usize = 64;

fn resource_slices(slices: &[Spanned<DeviceSlice>], path: &Path) -> Result<Vec<DeviceSlice>, ConfigError> {
    let slice = |(number, slice): (usize, &Spanned<DeviceSlice>)| {
        checked(slice, path, |slice: &DeviceSlice| match slice.objection() {
            Some(objection) => Err(objection),
            None if number >= SLICES_MAX => Err(format!("a group has at most {SLICES_MAX} resourceSlices")),
            None => Ok(slice.clone()),
        })
    };
    slices.iter().enumerate().map(slice).collect()
}

fn profile(name: &str) -> Result<ReservedProfile, String> {
    parse_profile(name)
        .ok_or_else(|| format!("{name:?} is not a profile; write one of eks, aks, aks-legacy, kubeadm, openshift"))
}

fn reserved(reserved: file::Reserved, path: &Path) -> Result<ReservedRule, ConfigError> {
    let max_pods = |value: &u32| match *value {
        0 => Err("a node needs room for a pod; write a maxPods of at least 1".to_owned()),
        pods => Ok(pods),
    };
    Ok(ReservedRule {
        profile: optional(reserved.profile.as_ref(), path, |name| profile(name))?,
        max_pods: optional(reserved.max_pods.as_ref(), path, max_pods)?,
        kube_reserved: quantities(reserved.kube_reserved, path, check_reserved)?,
        system_reserved: quantities(reserved.system_reserved, path, check_reserved)?,
        eviction_hard: thresholds(reserved.eviction_hard, path)?,
    })
}

fn options(options: &file::Options, path: &Path) -> Result<Options, ConfigError> {
    let share = |value: &Option<Spanned<f64>>| optional(value.as_ref(), path, |share| scalar::fraction(*share));
    let duration = |value: &Option<Text>| optional(value.as_ref(), path, |text| scalar::duration(text));
    Ok(Options {
        scale_down_utilization_threshold: share(&options.scale_down_utilization_threshold)?,
        scale_down_gpu_utilization_threshold: share(&options.scale_down_gpu_utilization_threshold)?,
        scale_down_unneeded_time: duration(&options.scale_down_unneeded_time)?,
        scale_down_unready_time: duration(&options.scale_down_unready_time)?,
        max_node_provision_time: optional(
            options.max_node_provision_time.as_ref(),
            path,
            |text| match scalar::duration(text)? {
                Duration::ZERO => Err(format!(
                    "with {text:?}, the Cluster Autoscaler would delete every new node at once; write, for example, 15m"
                )),
                time => Ok(time),
            },
        )?,
        zero_or_max_node_scaling: options.zero_or_max_node_scaling,
        ignore_daemonsets_utilization: options.ignore_daemon_sets_utilization,
    })
}

/// Reads quantities by the names of their resources.
fn quantities(
    map: BTreeMap<String, Text>,
    path: &Path,
    check: fn(&str, Quantity) -> Result<(), String>,
) -> Result<BTreeMap<String, Quantity>, ConfigError> {
    let of = |(name, text): (String, Text)| {
        let quantity = checked(&text, path, |text| {
            let quantity = scalar::quantity(text)?;
            check(&name, quantity).map(|()| quantity)
        })?;
        Ok((name, quantity))
    };
    map.into_iter().map(of).collect()
}

/// What a kubelet can reserve of a node.
const RESERVABLE: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];

fn check_reserved(name: &str, _: Quantity) -> Result<(), String> {
    match RESERVABLE.contains(&name) {
        true => Ok(()),
        false => Err(format!("a kubelet reserves no {name:?}; write one of {}", RESERVABLE.join(", "))),
    }
}

/// The eviction signals that reduce allocatable. The others reserve neither memory nor storage.
const SIGNALS: [&str; 2] = ["memory.available", "nodefs.available"];

fn thresholds(map: BTreeMap<String, Text>, path: &Path) -> Result<BTreeMap<String, Threshold>, ConfigError> {
    let threshold = |(signal, text): (String, Text)| {
        let value = checked(&text, path, |text| {
            if !SIGNALS.contains(&signal.as_str()) {
                return Err(format!(
                    "{signal:?} does not affect a node's allocatable; write one of {}",
                    SIGNALS.join(", ")
                ));
            }
            const ADVICE: &str = "write an amount or a percentage, such as 100Mi or 10%";
            match text.trim().parse() {
                // It would increase allocatable.
                Ok(Threshold::Amount(amount)) if amount.is_negative() => Err(format!("{text:?} is negative; {ADVICE}")),
                parsed => parsed.map_err(|error: ThresholdError| format!("{error}; {ADVICE}")),
            }
        })?;
        Ok((signal, value))
    };
    map.into_iter().map(threshold).collect()
}
