//! What the user data tells the kubelet to reserve.

use super::*;
use crate::cloud::{KubeletReserves, ReserveFigures};

const MIB: u64 = 1 << 20;

/// Figures by name; several are separated by spaces.
fn figures(entries: &[(&str, &str)]) -> BTreeMap<String, ReserveFigures> {
    let written = |text: &str| text.split(' ').map(|text| text.trim_matches('?').to_owned()).collect();
    let entry = |(name, text): &(&str, &str)| {
        ((*name).to_owned(), ReserveFigures { written: written(text), or_profile: false })
    };
    entries.iter().map(entry).collect()
}

/// A node of an EKS group that reports 8000 MiB of memory and has a disk of 50000 MiB.
fn node(kubelet_reserves: KubeletReserves) -> Group {
    let mut group = mk_group(Family::Aws, &["m5.large"]).table("aws: {m5.large: {memory: 8000Mi}}");
    group.overrides.capacity = map(&[("ephemeral-storage", "50000Mi".parse().unwrap())]);
    group.launch.kubelet_reserves = kubelet_reserves;
    group
}

impl Group {
    /// What the node reserves of a resource, in MiB or thousandths of a core; whose figure that is, and whose it
    /// replaces.
    fn reserved(&self, resource: &str) -> (u64, String, Option<String>) {
        let of = |path: &str| self.get(path).unwrap().parse::<Quantity>().unwrap();
        let kept = of(&format!("capacity.{resource}")).less(of(&format!("allocatable.{resource}")));
        let kept = if resource == "cpu" { kept.whole_millis() } else { kept.whole() / MIB };
        let value = self.value(&format!("allocatable.{resource}")).unwrap();
        (kept, value.provenance.to_string(), value.runner_up.map(|(_, provenance)| provenance.to_string()))
    }
}

fn by_user_data(amount: u64) -> (u64, String, Option<String>) {
    (amount, "user data".to_owned(), some("eks profile"))
}

fn by_profile(amount: u64) -> (u64, String, Option<String>) {
    (amount, "eks profile".to_owned(), None)
}

/// 11 MiB for each of 29 pods, and 100 for eviction.
const PROFILE_MIB: u64 = 255 + 11 * 29 + 100;

#[test]
fn each_figure_of_the_user_data_replaces_that_of_the_profile() {
    let group = node(KubeletReserves { kube: figures(&[("memory", "2Gi")]), ..KubeletReserves::default() });
    assert_eq!(group.reserved("memory"), by_user_data(2048 + 100));
    assert_eq!((group.reserved("cpu"), group.reserved("ephemeral-storage")), (by_profile(70), by_profile(5000 + 1024)));

    let group = node(KubeletReserves {
        kube: figures(&[("cpu", "250m"), ("memory", "300Mi"), ("ephemeral-storage", "3Gi")]),
        system: figures(&[("cpu", "0.5"), ("memory", "500Mi")]),
        eviction: figures(&[("memory.available", "5%"), ("nodefs.available", "15%")]),
    });
    assert_eq!(group.reserved("memory"), by_user_data(300 + 500 + 400));
    assert_eq!(group.reserved("cpu"), by_user_data(750));
    assert_eq!(group.reserved("ephemeral-storage"), by_user_data(7500 + 3072));
}

#[test]
fn the_configuration_wins_over_the_user_data() {
    let mut group = node(KubeletReserves {
        kube: figures(&[("memory", "2Gi"), ("cpu", "250m")]),
        eviction: figures(&[("memory.available", "500Mi")]),
        ..KubeletReserves::default()
    });
    group.overrides.reserved.kube_reserved = map(&[("memory", "1Gi".parse().unwrap())]);
    let expected = (1024 + 500, "group override".to_owned(), some("user data"));
    assert_eq!((group.reserved("memory"), group.reserved("cpu")), (expected, by_user_data(250)));
    // A profile is not a figure.
    group.overrides.reserved = ReservedRule { profile: Some(ReservedProfile::Kubeadm), ..ReservedRule::default() };
    let expected = (2048 + 500, "user data".to_owned(), some("kubeadm profile"));
    assert_eq!(group.reserved("memory"), expected);
}

#[test]
fn of_several_figures_the_highest_counts() {
    let group = node(KubeletReserves {
        kube: figures(&[("memory", "1Gi 2Gi 1500Mi")]),
        // 5 % of the memory are 400 MiB, 10 % of the disk 5000.
        eviction: figures(&[("memory.available", "300Mi 5% 350Mi"), ("nodefs.available", "6Gi 10%")]),
        ..KubeletReserves::default()
    });
    assert_eq!(group.reserved("memory"), by_user_data(2048 + 400));
    assert_eq!(group.reserved("ephemeral-storage"), by_user_data(6144 + 1024));
}

#[test]
fn a_figure_that_cannot_be_read_never_lowers_the_reserve() {
    for unreadable in ["?", "? 100Mi", "100Mi x", "-1Gi", "5%", "100Mi -1Gi"] {
        let kube = figures(&[("memory", unreadable), ("cpu", unreadable)]);
        let group = node(KubeletReserves { kube, ..KubeletReserves::default() });
        assert_eq!(group.reserved("memory"), by_profile(PROFILE_MIB), "{unreadable}");
    }
    let kube = figures(&[("memory", "? 2Gi")]);
    let eviction = figures(&[("memory.available", "? 1%"), ("nodefs.available", "-1Gi")]);
    let group = node(KubeletReserves { kube, eviction, ..KubeletReserves::default() });
    assert_eq!(group.reserved("memory"), by_user_data(2048 + 100));
    assert_eq!(group.reserved("ephemeral-storage"), by_profile(5000 + 1024));
}

#[test]
fn a_figure_that_only_some_nodes_have_never_lowers_the_reserve() {
    let only = |memory: &str| {
        let some = KubeletReserves { kube: figures(&[("memory", memory)]), ..KubeletReserves::default() };
        node(some.either(KubeletReserves::default())).reserved("memory")
    };
    assert_eq!(only("300Mi"), by_profile(PROFILE_MIB));
    assert_eq!(only("600Mi"), by_user_data(700));
}
