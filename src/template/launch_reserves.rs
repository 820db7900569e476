//! What the launch settings tell the kubelet to reserve, read from their texts.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::build::Input;
use super::overrides::Threshold;
use crate::cloud::ReserveFigures;
use crate::instance_types::Quantity;

/// What the launch settings tell the kubelet to reserve, by its own settings.
#[derive(Clone, Debug, Default)]
pub(super) struct LaunchReserves {
    pub(super) kube: BTreeMap<String, Figures<Quantity>>,
    pub(super) system: BTreeMap<String, Figures<Quantity>>,
    pub(super) eviction: BTreeMap<String, Figures<Threshold>>,
}

/// The figures that are set for one resource or signal.
#[derive(Clone, Debug)]
pub(super) struct Figures<T> {
    /// At least one.
    found: Vec<T>,
    /// Whether a node may have the profile's figure, or one that cannot be read.
    or_profile: bool,
}

impl LaunchReserves {
    /// Reads the reserves of a group, and logs those that cannot be read and that the configuration does not replace.
    pub(super) fn of(input: &Input<'_>) -> Self {
        let (reserves, rule) = (&input.launch.kubelet_reserves, &input.overrides.reserved);
        let warn = |setting: &str, name: &str, is_overridden: bool| {
            if !is_overridden {
                // Without the text, as user data may hold secrets.
                tracing::warn!(
                    group = input.group,
                    setting,
                    name,
                    "kubelet reserve in the user data cannot be read; the template reserves at least what the profile \
                        does"
                );
            }
        };
        let amount = |amount: &Quantity| !amount.is_negative();
        let threshold = |threshold: &Threshold| match threshold {
            Threshold::Amount(amount) => !amount.is_negative(),
            Threshold::Share(_) => true,
        };
        Self {
            kube: figures(&reserves.kube, amount, |name| {
                warn("kubeReserved", name, rule.kube_reserved.contains_key(name));
            }),
            system: figures(&reserves.system, amount, |name| {
                warn("systemReserved", name, rule.system_reserved.contains_key(name));
            }),
            eviction: figures(&reserves.eviction, threshold, |name| {
                warn("evictionHard", name, rule.eviction_hard.contains_key(name));
            }),
        }
    }
}

fn figures<T: FromStr>(
    written: &BTreeMap<String, ReserveFigures>,
    is_usable: impl Fn(&T) -> bool,
    warn: impl Fn(&str),
) -> BTreeMap<String, Figures<T>> {
    let mut read = BTreeMap::new();
    for (name, figures) in written {
        let found: Vec<T> = figures.written.iter().filter_map(|text| text.parse().ok().filter(&is_usable)).collect();
        let all = found.len() == figures.written.len();
        if !all {
            warn(name);
        }
        if !found.is_empty() {
            read.insert(name.clone(), Figures { found, or_profile: figures.or_profile || !all });
        }
    }
    read
}

impl<T: Copy> Figures<T> {
    /// The highest figure; `None` if that is the profile's.
    pub(super) fn highest(&self, of_profile: Option<T>, amount: impl Fn(T) -> Quantity) -> Option<T> {
        let highest = self.found.iter().copied().max_by_key(|figure| amount(*figure))?;
        let of_profile = of_profile.filter(|_| self.or_profile);
        Some(highest).filter(|highest| of_profile.is_none_or(|of_profile| amount(of_profile) < amount(*highest)))
    }
}
