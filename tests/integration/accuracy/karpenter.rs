//! `memoryOverhead: 7.5%` compared with what Karpenter computes for every EC2 type.

use std::collections::BTreeMap;

use headcount::cloud::{Family, OperatingSystem, ReservedProfile};
use headcount::instance_types::{Catalog, Table};
use headcount::template::{GroupOverrides, ReservedRule};

use super::estimate::Group;
use super::observed::quantity;

const KARPENTER: &str = include_str!("../../data/karpenter-allocatable.tsv");

/// Types with two network cards. Karpenter's figures of 2026-08 count the interfaces of both; the VPC CNI uses those of
/// the default card only.
const TWO_CARDS: [&str; 4] = ["i7ie.48xlarge", "i7ie.metal-48xl", "i8ge.48xlarge", "i8ge.metal-48xl"];

/// cpu, memory and pods.
type Allocatable = [String; 3];

fn karpenter() -> BTreeMap<&'static str, Allocatable> {
    let types = KARPENTER.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let [name, _, cpu, memory, pods] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        (name, [cpu, memory, pods].map(str::to_owned))
    });
    types.collect()
}

fn ours(type_name: &str) -> Allocatable {
    let reserved = ReservedRule { profile: Some(ReservedProfile::Eks), ..ReservedRule::default() };
    let overrides = GroupOverrides { memory_overhead: "7.5%".parse().ok(), reserved, ..GroupOverrides::default() };
    let group = Group {
        family: Family::Aws,
        type_name,
        operating_system: OperatingSystem::Linux,
        image: None,
        catalog: Catalog::default(),
        overrides,
    };
    let estimate = group.estimate();
    ["cpu", "memory", "pods"].map(|name| estimate.allocatable[name].to_string())
}

#[test]
fn a_constant_overhead_gives_karpenters_figures() {
    for (name, cpu, memory, pods) in [
        ("t3.micro", "1930m", "548Mi", "4"),
        ("t3.medium", "1930m", "3246Mi", "17"),
        ("m5.large", "1930m", "6903Mi", "29"),
        ("m6g.large", "1930m", "6844Mi", "29"),
        ("c7g.xlarge", "3920m", "6525Mi", "58"),
        ("m5.24xlarge", "95690m", "355262Mi", "737"),
        ("m5.metal", "95690m", "355262Mi", "737"),
        ("r6a.12xlarge", "47810m", "360795Mi", "234"),
        ("g4dn.xlarge", "3920m", "14481Mi", "29"),
        ("g5.12xlarge", "47810m", "173400Mi", "737"),
        ("g4ad.xlarge", "3920m", "14712Mi", "8"),
        ("p4d.24xlarge", "95690m", "1082712Mi", "737"),
        ("p5.48xlarge", "191450m", "1938410Mi", "100"),
        ("inf1.xlarge", "3920m", "6804Mi", "38"),
        ("inf2.xlarge", "3920m", "14162Mi", "58"),
        ("trn1.32xlarge", "127610m", "481894Mi", "247"),
        ("trn2.48xlarge", "191450m", "1938410Mi", "100"),
    ] {
        assert_eq!(ours(name), [cpu, memory, pods], "{name}");
    }
}

#[test]
fn a_constant_overhead_gives_karpenters_figures_for_every_common_type() {
    let shipped = Table::shipped(Family::Aws).types(Family::Aws);
    let theirs = karpenter();
    let unknown: Vec<_> = theirs.keys().filter(|name| !shipped.contains_key(**name)).collect();
    let mut differing = Vec::new();
    let comparable = |name: &str| shipped.contains_key(name) && !TWO_CARDS.contains(&name);
    for (name, theirs) in theirs.iter().filter(|(name, _)| comparable(name)) {
        let ours = ours(name);
        let same = |(ours, theirs): (&String, &String)| quantity(ours) == quantity(theirs);
        if !ours.iter().zip(theirs).all(same) {
            differing.push(format!("{name}: {ours:?} for {theirs:?}"));
        }
    }
    assert!(
        unknown.is_empty() && differing.is_empty(),
        "unknown {unknown:?}\n{}\n{}",
        differing.len(),
        differing.join("\n")
    );
    assert_eq!(theirs.len(), 1363);
}
