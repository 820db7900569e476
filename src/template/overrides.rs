//! What the configuration sets for a group's nodes.

use std::collections::BTreeMap;
use std::str::FromStr;

use thiserror::Error;

use crate::cloud::{ReservedProfile, Taint};
use crate::instance_types::memory_model::Overhead;
use crate::instance_types::resource_slices::DeviceSlice;
use crate::instance_types::{Quantity, QuantityError};

/// What the entries under `groups:` that match a group set for its nodes, merged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupOverrides {
    /// `capacity:` by resource.
    pub capacity: BTreeMap<String, Quantity>,
    /// `labels:`
    pub labels: BTreeMap<String, String>,
    /// `taints:`
    pub taints: Vec<Taint>,
    /// `reserved:`
    pub reserved: ReservedRule,
    /// `memoryOverhead:`; without it, what the hypervisor and the kernel keep is estimated.
    pub memory_overhead: Option<Overhead>,
    /// `resourceSlices:` They replace what was learned of the same driver.
    pub resource_slices: Vec<DeviceSlice>,
}

/// What a node reserves according to the configuration. The profile sets what is absent here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReservedRule {
    /// `profile:`; without it, the profile that the cloud recognises, or else its default.
    pub profile: Option<ReservedProfile>,
    /// `maxPods:`, the kubelet's own.
    pub max_pods: Option<u32>,
    /// `kubeReserved:` by resource, as the kubelet's.
    pub kube_reserved: BTreeMap<String, Quantity>,
    /// `systemReserved:` by resource, as the kubelet's.
    pub system_reserved: BTreeMap<String, Quantity>,
    /// `evictionHard:` by signal, as the kubelet's; only `memory.available` and `nodefs.available` affect a template.
    pub eviction_hard: BTreeMap<String, Threshold>,
}

/// A kubelet's eviction threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// This amount, in bytes.
    Amount(Quantity),
    /// This share of the capacity, from 0 to 1. In single precision, as in the kubelet: the rounding shows in what it
    /// reports.
    Share(f32),
}

/// Why a text is not an eviction threshold.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ThresholdError {
    /// Not a percentage.
    #[error("{0:?} is not a percentage from 0% to 100%")]
    Percentage(String),
    /// Not a quantity.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
}

impl FromStr for Threshold {
    type Err = ThresholdError;

    fn from_str(text: &str) -> Result<Self, ThresholdError> {
        let Some(percentage) = text.strip_suffix('%') else {
            return Ok(Self::Amount(text.parse()?));
        };
        match percentage.parse::<f32>() {
            Ok(percentage) if (0.0..=100.0).contains(&percentage) => Ok(Self::Share(percentage / 100.0)),
            _ => Err(ThresholdError::Percentage(text.to_owned())),
        }
    }
}

impl Threshold {
    /// The threshold in bytes for this `capacity`, rounded down as the kubelet does.
    pub fn of(self, capacity: Quantity) -> Quantity {
        let share = match self {
            Self::Amount(amount) => return amount,
            Self::Share(share) => share,
        };
        // A float is mantissa · 2^exponent, so the product can be computed in whole numbers.
        let bits = share.to_bits();
        let mantissa = u128::from(bits & 0x007f_ffff | 0x0080_0000);
        let exponent = bits >> 23 & 0xff;
        if exponent == 0 {
            return Quantity::ZERO;
        }
        // 150 = 127 (bias) + 23 (bits of mantissa); a share is at most 1, so the exponent is below that.
        let product = (u128::from(capacity.whole()) * mantissa).checked_shr(150_u32.saturating_sub(exponent));
        Quantity::bytes(product.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or_default())
    }
}

impl GroupOverrides {
    /// Adds a later entry, whose values win.
    pub fn merge(&mut self, later: Self) {
        let Self { capacity, labels, taints, reserved, memory_overhead, resource_slices } = later;
        self.capacity.extend(capacity);
        self.labels.extend(labels);
        self.taints.retain(|taint| !taints.iter().any(|later| same_taint(taint, later)));
        self.taints.extend(taints);
        let ReservedRule { profile, max_pods, kube_reserved, system_reserved, eviction_hard } = reserved;
        self.reserved.profile = profile.or(self.reserved.profile);
        self.reserved.max_pods = max_pods.or(self.reserved.max_pods);
        self.reserved.kube_reserved.extend(kube_reserved);
        self.reserved.system_reserved.extend(system_reserved);
        self.reserved.eviction_hard.extend(eviction_hard);
        self.memory_overhead = memory_overhead.or(self.memory_overhead);
        self.resource_slices.retain(|slice| !resource_slices.iter().any(|later| later.driver == slice.driver));
        self.resource_slices.extend(resource_slices);
    }
}

/// Whether one replaces the other: a node has one taint per key and effect.
pub(super) fn same_taint(one: &Taint, other: &Taint) -> bool {
    one.key == other.key && one.effect == other.effect
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::TaintEffect;

    #[test]
    fn later_entries_win_value_by_value() {
        let taint = |value: &str, effect| Taint { key: "gpu".into(), value: value.into(), effect };
        let mut overrides = GroupOverrides {
            capacity: [("cpu".into(), Quantity::units(1)), ("memory".into(), Quantity::bytes(1024))].into(),
            taints: vec![taint("a", TaintEffect::NoSchedule), taint("a", TaintEffect::NoExecute)],
            ..GroupOverrides::default()
        };
        overrides.reserved.max_pods = Some(58);
        overrides.memory_overhead = "7.5%".parse().ok();
        overrides.merge(GroupOverrides {
            capacity: [("cpu".into(), Quantity::units(2))].into(),
            taints: vec![taint("b", TaintEffect::NoSchedule)],
            ..GroupOverrides::default()
        });
        assert_eq!(overrides.capacity["cpu"], Quantity::units(2));
        assert_eq!(overrides.capacity["memory"], Quantity::bytes(1024));
        assert_eq!(overrides.taints, [taint("a", TaintEffect::NoExecute), taint("b", TaintEffect::NoSchedule)]);
        assert_eq!(overrides.reserved.max_pods, Some(58));
        let overhead = |text: &str| Some(text.parse::<Overhead>().unwrap());
        assert_eq!(overrides.memory_overhead, overhead("7.5%"));
        overrides.merge(GroupOverrides { memory_overhead: overhead("5%"), ..GroupOverrides::default() });
        assert_eq!(overrides.memory_overhead, overhead("5%"));
    }

    #[test]
    fn thresholds_are_amounts_or_shares() {
        let of = |text: &str, capacity: &str| text.parse::<Threshold>().unwrap().of(capacity.parse().unwrap()).whole();
        assert_eq!(of("100Mi", "8Gi"), 100 << 20);
        // A node with a 50 GiB disk: what its kubelet reserved of it, to the byte.
        assert_eq!(of("10%", "52416492Ki"), 52_416_492 * 1024 - (1 << 30) - 47_233_297_124);
        assert_eq!(of("100%", "7"), 7);
        assert_eq!(of("0%", "8Gi"), 0);
        assert_eq!(of("50%", "8Gi"), 4 << 30);
        for text in ["%", "101%", "-1%", "NaN%", "10 %", "abc", ""] {
            assert!(text.parse::<Threshold>().is_err(), "{text}");
        }
    }
}
