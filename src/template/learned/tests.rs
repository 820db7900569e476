use std::collections::BTreeMap;

use crate::cloud::{Family, GroupHints, ImageEvidence, ImageFamily, LaunchSpec, NodeImage, ReservedProfile};
use crate::instance_types::{Catalog, Day, Learned, NodeIdentity, NodeReport, Quantity, Table};
use crate::template::{self, GroupOverrides, Input, Value};

fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

/// A group of g4dn.xlarge, one of whose nodes was seen on the first day of 1970.
struct Group {
    launch: LaunchSpec,
    hints: GroupHints,
    overrides: GroupOverrides,
    tables: Vec<Table>,
    id: &'static str,
    image: &'static str,
    seen: Vec<(&'static str, &'static str, &'static str)>,
}

/// What a g4dn.xlarge with AL2023 shows, with a disk of 20 GiB.
fn mk_group() -> Group {
    let launch = LaunchSpec {
        types: vec!["g4dn.xlarge".to_owned()],
        region: "us-east-1".to_owned(),
        zones: vec!["us-east-1a".to_owned()],
        ephemeral_storage_bytes: Some(20 << 30),
        reserved: Some(ReservedProfile::Eks),
        ..LaunchSpec::default()
    };
    let seen = vec![
        ("cpu", "4", "3920m"),
        ("memory", "16157768Ki", "15000000Ki"),
        ("pods", "58", "58"),
        ("ephemeral-storage", "20893676Ki", "18181869946"),
        ("nvidia.com/gpu", "4", "4"),
    ];
    let (hints, overrides) = (GroupHints::default(), GroupOverrides::default());
    Group { launch, hints, overrides, tables: Vec::new(), id: "us/gpu", image: "AL2023", seen }
}

impl Group {
    fn show(mut self, name: &'static str, capacity: &'static str, allocatable: &'static str) -> Self {
        self.seen.retain(|(known, ..)| *known != name);
        self.seen.push((name, capacity, allocatable));
        self
    }

    fn values(&self) -> Vec<Value> {
        let capacity: Vec<_> = self.seen.iter().map(|(name, capacity, _)| (*name, *capacity)).collect();
        let allocatable: Vec<_> = self.seen.iter().map(|(name, _, allocatable)| (*name, *allocatable)).collect();
        let origin = NodeIdentity {
            group: "us/gpu",
            family: Family::Aws,
            type_name: "g4dn.xlarge",
            image: self.image,
            node: "ip-1",
            created: "2026-11-01T00:00:00Z",
        };
        let node_report = NodeReport::of(origin, &pairs(&capacity), &pairs(&allocatable)).unwrap();
        let mut learned = Learned::default();
        let catalog = Catalog::new(self.tables.clone());
        let sold = |type_name: &str| catalog.sold(type_name);
        learned.learn(&[node_report], &|_| false, &sold, Day::of(std::time::SystemTime::UNIX_EPOCH));
        catalog.learn(&learned);
        let template = template::build(&Input {
            group: "gpu",
            name: "gpu",
            family: Family::Aws,
            hints: &self.hints,
            launch: &self.launch,
            catalog: &catalog.for_group(self.id),
            overrides: &self.overrides,
        });
        template.unwrap().values
    }

    fn get(&self, path: &str) -> (String, String) {
        let value = self.values().into_iter().find(|value| value.path == path).unwrap();
        (value.value, value.provenance.to_string())
    }

    #[track_caller]
    fn assert(&self, path: &str, value: &str, provenance: &str) {
        assert_eq!(self.get(path), (value.to_owned(), provenance.to_owned()), "{path}");
    }
}

const SEEN: &str = "learned from node ip-1, 1970-01-01";

#[test]
fn a_configured_overhead_is_trusted_more_than_what_a_node_reported() {
    let mut group = mk_group();
    group.overrides.memory_overhead = "15%".parse().ok();
    let (memory, provenance) = group.get("capacity.memory");
    assert_eq!(provenance, "group override");
    assert!(memory.parse::<Quantity>().unwrap() < "14Gi".parse().unwrap(), "{memory}");
}

#[test]
fn a_learned_type_has_the_capacity_and_the_allocatable_of_the_node() {
    let group = mk_group();
    for (path, value) in [
        ("capacity.cpu", "4"),
        ("capacity.memory", "16157768Ki"),
        ("capacity.pods", "58"),
        ("capacity.ephemeral-storage", "20893676Ki"),
        ("capacity.nvidia.com/gpu", "4"),
        ("allocatable.cpu", "3920m"),
        ("allocatable.memory", "15000000Ki"),
        ("allocatable.nvidia.com/gpu", "4"),
        ("allocatable.pods", "58"),
    ] {
        group.assert(path, value, SEEN);
    }
    let storage: Quantity = group.get("allocatable.ephemeral-storage").0.parse().unwrap();
    assert_eq!(storage.whole(), 18_181_869_946);
    let memory = group.values().into_iter().find(|value| value.path == "capacity.memory").unwrap();
    let estimated = memory.runner_up.unwrap().1.to_string();
    assert!(estimated.starts_with("shipped table 2026-11-21 less host ("), "{estimated}");
    let memory = group.values().into_iter().find(|value| value.path == "allocatable.memory").unwrap();
    assert_eq!(memory.runner_up.unwrap().1.to_string(), "eks profile");
}

#[test]
fn another_group_of_the_same_type_learns_only_about_the_hosts() {
    let mut group = mk_group().show("memory", "15900000Ki", "15000000Ki");
    group.image = "Ubuntu 22.04.5 LTS, kernel 6.8.0-1021-aws";
    group.id = "us/other";
    let (_, provenance) = group.get("capacity.memory");
    let expected = "less host (learned from node ip-1, 1970-01-01) and kernel (image unknown)";
    assert!(provenance.ends_with(expected), "{provenance}");
    assert_ne!(group.get("capacity.pods").1, SEEN);
}

#[test]
fn a_figure_of_an_earlier_image_is_set_aside_if_the_kernel_keeps_more_now() {
    let by_name = |family| Some(NodeImage { family, evidence: ImageEvidence::Name });
    let mut group = mk_group().show("memory", "16000000Ki", "15000000Ki");
    group.image = "Amazon Linux 2, kernel 5.10.230-223.885.amzn2.x86_64";
    for image in [None, by_name(ImageFamily::AmazonLinux2), by_name(ImageFamily::Ubuntu18)] {
        group.launch.image = image;
        group.assert("capacity.memory", "15625Mi", SEEN);
    }
    group.launch.image = by_name(ImageFamily::AmazonLinux2023);
    let (memory, provenance) = group.get("capacity.memory");
    assert!(provenance.contains("Amazon Linux 2023 by image name"), "{provenance}");
    let memory = memory.parse::<Quantity>().unwrap().whole() >> 10;
    // Linux 6 keeps 43 MiB more than Linux 5.10, and 16 MiB are the margin.
    assert!((15_900_000..16_000_000 - 43 * 1024).contains(&memory), "{memory}");
}

#[test]
fn tags_overrides_and_tables_win_over_learned_figures() {
    let mut group = mk_group();
    group.tables = vec![Table::parse("aws: {g4dn.xlarge: {memory: 15Gi, nvidia.com/gpu: 2}}", "t.yaml").unwrap()];
    group.assert("capacity.memory", "15Gi", "user table t.yaml");
    group.assert("capacity.nvidia.com/gpu", "2", "user table t.yaml");
    group.assert("capacity.cpu", "4", SEEN);
    group.overrides.capacity = [("memory".to_owned(), "14Gi".parse().unwrap())].into();
    group.assert("capacity.memory", "14Gi", "group override");
    group.hints.resources = pairs(&[("memory", "13Gi")]);
    group.assert("capacity.memory", "13Gi", "tag");
    // The learned reserve is subtracted from that.
    let kept = 16_157_768 - 15_000_000;
    group.assert("allocatable.memory", &format!("{}Ki", 13 * 1024 * 1024 - kept), SEEN);
}

#[test]
fn learned_reserves_are_not_used_if_the_configuration_sets_any() {
    let mut group = mk_group();
    group.overrides.reserved.system_reserved = [("memory".to_owned(), "1Gi".parse().unwrap())].into();
    let (_, provenance) = group.get("allocatable.memory");
    assert_eq!(provenance, "group override");
    let (_, provenance) = group.get("allocatable.cpu");
    assert_eq!(provenance, "eks profile");
    group.overrides.reserved = template::ReservedRule { max_pods: Some(30), ..Default::default() };
    group.assert("capacity.pods", "30", "group override");
    assert_eq!(group.get("allocatable.memory").1, "eks profile");
}

#[test]
fn huge_pages_are_subtracted_from_memory_once() {
    let group = mk_group().show("hugepages-2Mi", "1Gi", "1Gi").show("memory", "16157768Ki", "14000000Ki");
    group.assert("allocatable.memory", "14000000Ki", SEEN);
    group.assert("capacity.hugepages-2Mi", "1Gi", SEEN);
}

#[test]
fn a_node_without_a_reserve_is_learned_as_it_is() {
    let group = mk_group().show("cpu", "4", "4");
    group.assert("allocatable.cpu", "4", SEEN);
}

#[test]
fn a_disk_that_has_grown_since_is_used() {
    let mut group = mk_group();
    group.launch.ephemeral_storage_bytes = Some(100 << 30);
    let (storage, provenance) = group.get("capacity.ephemeral-storage");
    assert_eq!(provenance, "group");
    assert!(storage.parse::<Quantity>().unwrap().whole() > 90 << 30, "{storage}");
    assert_eq!(group.get("allocatable.ephemeral-storage").1, "eks profile");
    group.launch.ephemeral_storage_bytes = None;
    group.assert("capacity.ephemeral-storage", "20893676Ki", SEEN);
}
