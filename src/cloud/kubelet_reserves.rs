//! What launch settings tell the kubelet to reserve.

use std::collections::{BTreeMap, BTreeSet};

/// What launch settings tell the kubelet to reserve, by the kubelet's own settings. A figure replaces that of the
/// profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeletReserves {
    /// `kubeReserved` by resource.
    pub kube: BTreeMap<String, ReserveFigures>,
    /// `systemReserved` by resource.
    pub system: BTreeMap<String, ReserveFigures>,
    /// `evictionHard` by signal.
    pub eviction: BTreeMap<String, ReserveFigures>,
}

/// What launch settings say about one reserve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReserveFigures {
    /// Each figure that is set, as written; empty where it is set to something that is not a literal. The highest one
    /// counts, because which of them wins depends on the tool.
    pub written: BTreeSet<String>,
    /// Whether some of the nodes may have the profile's figure, because not every launch option sets one.
    pub or_profile: bool,
}

impl KubeletReserves {
    /// The reserves of a group of which some nodes have these and others those.
    #[must_use]
    pub fn either(self, other: Self) -> Self {
        Self {
            kube: either(self.kube, other.kube),
            system: either(self.system, other.system),
            eviction: either(self.eviction, other.eviction),
        }
    }
}

fn either(
    mut one: BTreeMap<String, ReserveFigures>,
    other: BTreeMap<String, ReserveFigures>,
) -> BTreeMap<String, ReserveFigures> {
    for (name, figures) in &mut one {
        figures.or_profile |= !other.contains_key(name);
    }
    for (name, figures) in other {
        match one.get_mut(&name) {
            Some(known) => {
                known.written.extend(figures.written);
                known.or_profile |= figures.or_profile;
            }
            None => {
                one.insert(name, ReserveFigures { or_profile: true, ..figures });
            }
        }
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(written: &[&str]) -> KubeletReserves {
        let written = written.iter().map(|written| (*written).to_owned()).collect();
        let figures = ReserveFigures { written, or_profile: false };
        KubeletReserves { kube: [("memory".to_owned(), figures)].into(), ..KubeletReserves::default() }
    }

    #[test]
    fn the_profiles_figure_counts_too_unless_every_launch_option_sets_one() {
        let shown = |reserves: KubeletReserves| {
            let figures = reserves.kube.into_iter().next().map(|(_, figures)| figures).unwrap_or_default();
            (figures.written.into_iter().collect::<Vec<_>>().join(" "), figures.or_profile)
        };
        let (one, other, none) = (memory(&["1Gi"]), memory(&["2Gi", "3Gi"]), KubeletReserves::default());
        assert_eq!(shown(one.clone().either(other.clone())), ("1Gi 2Gi 3Gi".to_owned(), false));
        assert_eq!(shown(one.clone().either(none.clone())), ("1Gi".to_owned(), true));
        assert_eq!(shown(none.clone().either(one.clone())), ("1Gi".to_owned(), true));
        assert_eq!(shown(one.clone().either(none.clone()).either(other.clone())), ("1Gi 2Gi 3Gi".to_owned(), true));
        assert_eq!(shown(other.either(one.either(none))), ("1Gi 2Gi 3Gi".to_owned(), true));
    }
}
