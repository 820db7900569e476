mod launch;

use std::collections::BTreeMap;

use k8s_pb::api::core::v1 as oracle;
use prost::Message as _;

use super::*;
use crate::cloud::{Architecture, Family, GroupHints, InstanceType, Machine, ReservedProfile, Taint, TaintEffect};
use crate::instance_types::{Catalog, Quantity, Table};

struct Group {
    family: Family,
    hints: GroupHints,
    machine: Machine,
    catalog: Catalog,
    overrides: GroupOverrides,
}

fn mk_group(family: Family, types: &[&str]) -> Group {
    let (region, zones) = match family {
        Family::Aws => ("us-east-1", vec!["us-east-1a", "us-east-1c"]),
        Family::Azure => ("westus", vec!["westus-1", "westus-2", "westus-3"]),
    };
    Group {
        family,
        hints: GroupHints::default(),
        machine: Machine {
            types: types.iter().map(|name| (*name).to_owned()).collect(),
            region: region.into(),
            zones: zones.into_iter().map(str::to_owned).collect(),
            reserved: Some(match family {
                Family::Aws => ReservedProfile::Eks,
                Family::Azure => ReservedProfile::Aks,
            }),
            ..Machine::default()
        },
        catalog: Catalog::default(),
        overrides: GroupOverrides::default(),
    }
}

impl Group {
    fn build(&self) -> Result<NodeTemplate, TemplateError> {
        let Self { family, hints, machine, catalog, overrides } = self;
        build(&Input { group: "my-group", family: *family, hints, machine, catalog, overrides })
    }

    fn value(&self, path: &str) -> Option<Value> {
        self.build().unwrap().values.into_iter().find(|value| value.path == path)
    }

    fn get(&self, path: &str) -> Option<String> {
        self.value(path).map(|value| value.value)
    }

    fn table(mut self, text: &str) -> Self {
        self.catalog = Catalog::new(vec![Table::parse(text, "my-table.yaml").unwrap()]);
        self
    }
}

fn map<V>(entries: &[(&str, V)]) -> BTreeMap<String, V>
where
    V: Clone,
{
    entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
}

fn strings(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn a_plain_aws_group_has_the_generic_labels() {
    let group = mk_group(Family::Aws, &["c4.large"]);
    let zone = group.get("labels.topology.kubernetes.io/zone").unwrap();
    assert!(group.machine.zones.contains(&zone));
    let name = group.build().unwrap().node.metadata.unwrap().name.unwrap();
    assert!(name.starts_with("my-group-template-"), "{name}");
    for (label, expected) in [
        ("kubernetes.io/arch", "amd64"),
        ("beta.kubernetes.io/arch", "amd64"),
        ("kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/os", "linux"),
        ("node.kubernetes.io/instance-type", "c4.large"),
        ("beta.kubernetes.io/instance-type", "c4.large"),
        ("topology.kubernetes.io/region", "us-east-1"),
        ("failure-domain.beta.kubernetes.io/region", "us-east-1"),
        ("failure-domain.beta.kubernetes.io/zone", &zone),
        ("topology.ebs.csi.aws.com/zone", &zone),
        ("kubernetes.io/hostname", &name),
    ] {
        assert_eq!(group.get(&format!("labels.{label}")).as_deref(), Some(expected), "{label}");
    }
    assert_eq!(group.get("labels.topology.disk.csi.azure.com/zone"), None);
    assert_eq!(group.get("capacity.nvidia.com/gpu"), None);
}

#[test]
fn the_same_group_always_makes_the_same_node() {
    let group = mk_group(Family::Aws, &["m5.large"]);
    let once = group.build().unwrap();
    assert_eq!(group.build().unwrap().bytes, once.bytes);
    let mut reversed = mk_group(Family::Aws, &["m5.large"]);
    reversed.machine.zones.reverse();
    assert_eq!(reversed.build().unwrap().bytes, once.bytes);
}

#[test]
fn names_fit_into_a_label() {
    let mut group = mk_group(Family::Aws, &["m5.large"]);
    for id in ["", "/", &"x".repeat(300), "Source/Group_1"] {
        group.hints = GroupHints::default();
        let Group { family, hints, machine, catalog, overrides } = &group;
        let input = Input { group: id, family: *family, hints, machine, catalog, overrides };
        let name = build(&input).unwrap().node.metadata.unwrap().name.unwrap();
        assert!(name.len() <= 63 && !name.starts_with('-') && !name.contains(['/', '_', 'S']), "{name}");
    }
}

#[test]
fn a_group_without_zones_is_an_error_on_aws_and_regional_on_azure() {
    let mut aws = mk_group(Family::Aws, &["m5.large"]);
    aws.machine.zones.clear();
    assert_eq!(aws.build(), Err(TemplateError::NoZone { group: "my-group".into() }));
    let mut azure = mk_group(Family::Azure, &["Standard_DS2_v2"]);
    azure.machine.zones.clear();
    assert_eq!(azure.get("labels.topology.kubernetes.io/zone"), some("0"));
    assert_eq!(azure.get("labels.failure-domain.beta.kubernetes.io/zone"), some("0"));
    assert_eq!(azure.get("labels.topology.disk.csi.azure.com/zone"), some(""));
}

#[test]
fn tags_say_what_a_node_holds_and_unusable_ones_are_ignored() {
    let mut group = mk_group(Family::Aws, &["m5.large"]);
    group.hints.resources = strings(&[
        ("cpu", "100m"),
        ("memory", "100M"),
        ("ephemeral-storage", "20G"),
        ("custom-resource", "5"),
        ("error-resource", "GG"),
        ("negative-resource", "-1"),
    ]);
    group.machine.resources = strings(&[("memory", "200M"), ("nodegroup-resource", "80Gi")]);
    group.machine.ephemeral_storage_bytes = Some(1 << 30);
    for (path, expected) in [
        ("capacity.cpu", some("100m")),
        ("capacity.memory", some("100M")),
        ("capacity.ephemeral-storage", some("20G")),
        ("capacity.custom-resource", some("5")),
        ("allocatable.custom-resource", some("5")),
        ("capacity.nodegroup-resource", some("80Gi")),
        ("capacity.error-resource", None),
        ("capacity.negative-resource", None),
        ("allocatable.memory", some("0")),
    ] {
        assert_eq!(group.get(path), expected, "{path}");
    }
    let memory = group.value("capacity.memory").unwrap();
    assert_eq!(memory.source.to_string(), "tag");
    assert_eq!(memory.runner_up.unwrap().0, "200M");
}

#[test]
fn a_tags_label_beats_an_override_beats_the_group() {
    let mut group = mk_group(Family::Aws, &["m5.large"]);
    group.machine.labels =
        strings(&[("a", "machine"), ("b", "machine"), ("c", "machine"), ("kubernetes.io/os", "bsd")]);
    group.overrides.labels = strings(&[("a", "override"), ("b", "override")]);
    group.hints.labels = strings(&[("a", "tag"), ("foo", "bar")]);
    for (key, expected) in
        [("a", "tag"), ("b", "override"), ("c", "machine"), ("foo", "bar"), ("kubernetes.io/os", "bsd")]
    {
        assert_eq!(group.get(&format!("labels.{key}")).as_deref(), Some(expected), "{key}");
    }
    let runner_up = group.value("labels.a").unwrap().runner_up.unwrap();
    assert_eq!((runner_up.0.as_str(), runner_up.1.to_string()), ("override", "group override".to_owned()));
}

#[test]
fn a_node_has_one_taint_per_key_and_effect() {
    let taint = |key: &str, value: &str, effect| Taint { key: key.into(), value: value.into(), effect };
    let mut group = mk_group(Family::Aws, &["m5.large"]);
    group.hints.taints =
        vec![taint("dedicated", "foo", TaintEffect::NoSchedule), taint("group", "bar", TaintEffect::NoExecute)];
    group.overrides.taints = vec![taint("dedicated", "other", TaintEffect::NoSchedule)];
    group.machine.taints = vec![
        taint("app", "fizz", TaintEffect::PreferNoSchedule),
        taint("group", "bar", TaintEffect::NoExecute),
        taint("group", "bar", TaintEffect::NoSchedule),
        taint("k", "", TaintEffect::NoSchedule),
    ];
    let taints = group.build().unwrap().node.spec.unwrap().taints;
    let shown: Vec<_> = taints
        .iter()
        .map(|taint| (taint.key.as_deref().unwrap(), taint.value.as_deref().unwrap(), taint.effect.as_deref().unwrap()))
        .collect();
    assert_eq!(
        shown,
        [
            ("dedicated", "foo", "NoSchedule"),
            ("group", "bar", "NoExecute"),
            ("app", "fizz", "PreferNoSchedule"),
            ("group", "bar", "NoSchedule"),
            ("k", "", "NoSchedule"),
        ]
    );
    let dedicated = group.value("taints.dedicated:NoSchedule").unwrap();
    assert_eq!(dedicated.runner_up.unwrap().0, "other");
}

#[test]
fn a_users_table_is_taken_as_it_is() {
    let group = mk_group(Family::Aws, &["c5d.large"]).table("aws: {c5d.large: {memory: 16Gi}}");
    let memory = group.value("capacity.memory").unwrap();
    assert_eq!((memory.value.as_str(), memory.source.to_string()), ("16Gi", "user table my-table.yaml".to_owned()));
    let (value, source) = memory.runner_up.unwrap();
    assert_eq!(source.to_string(), "shipped table 2026-11-21");
    assert!(value.parse::<Quantity>().unwrap() < "4Gi".parse().unwrap(), "{value}");
    assert_eq!(group.get("capacity.cpu"), some("2"));
    // 16 GiB less what EKS keeps: 255 + 11 · 29 pods, and 100 for eviction.
    assert_eq!(group.get("allocatable.memory"), some("15710Mi"));
    assert_eq!(group.get("allocatable.cpu"), some("1930m"));
    assert_eq!(group.get("capacity.pods"), some("29"));
}

#[test]
fn a_share_that_is_said_to_be_kept_stands_in_for_the_estimate() {
    let mut group = mk_group(Family::Aws, &["m6g.large"]);
    let estimate = group.get("capacity.memory").unwrap();
    group.overrides.memory_overhead = "7.5%".parse().ok();
    let memory = group.value("capacity.memory").unwrap();
    assert_eq!((memory.value.as_str(), memory.source.to_string()), ("7518Mi", "group override".to_owned()));
    assert_eq!(memory.runner_up.unwrap().0, estimate);
    // What a kubelet reports, it reports.
    let mut given = mk_group(Family::Aws, &["m6g.large"]).table("aws: {m6g.large: {memory: 7900Mi}}");
    given.overrides.memory_overhead = group.overrides.memory_overhead;
    assert_eq!(given.get("capacity.memory"), some("7900Mi"));
}

#[test]
fn a_real_nodes_allocatable_follows_from_its_capacity() {
    // inf1.xlarge with EKS's AMI and a 50 GiB disk, as its kubelet reported it.
    let mut group = mk_group(Family::Aws, &["inf1.xlarge"]);
    group.overrides.capacity = map(&[
        ("memory", "7847964Ki".parse().unwrap()),
        ("hugepages-2Mi", "256Mi".parse().unwrap()),
        ("ephemeral-storage", "52416492Ki".parse().unwrap()),
    ]);
    for (path, expected) in [
        ("allocatable.memory", "6794268Ki"),
        ("allocatable.cpu", "3920m"),
        ("allocatable.pods", "38"),
        ("allocatable.ephemeral-storage", "47233297124"),
        ("allocatable.hugepages-2Mi", "256Mi"),
        ("capacity.aws.amazon.com/neuron", "1"),
    ] {
        assert_eq!(group.get(path).as_deref(), Some(expected), "{path}");
    }
    assert_eq!(group.value("allocatable.memory").unwrap().source.to_string(), "eks profile");
}

#[test]
fn gpus_go_by_their_vendors_key() {
    for (family, name, key, count) in [
        (Family::Aws, "g4dn.xlarge", "nvidia.com/gpu", "1"),
        (Family::Aws, "g4ad.xlarge", "amd.com/gpu", "1"),
        (Family::Aws, "p4d.24xlarge", "nvidia.com/gpu", "8"),
        (Family::Azure, "Standard_NC24ads_A100_v4", "nvidia.com/gpu", "1"),
        (Family::Azure, "Standard_ND96isr_MI300X_v5", "amd.com/gpu", "8"),
    ] {
        let group = mk_group(family, &[name]);
        assert_eq!(group.get(&format!("capacity.{key}")).as_deref(), Some(count), "{name}");
        assert_eq!(group.get(&format!("allocatable.{key}")).as_deref(), Some(count), "{name}");
    }
    assert_eq!(mk_group(Family::Azure, &["Standard_NP10s"]).get("capacity.nvidia.com/gpu"), None);
    let mut taken = mk_group(Family::Aws, &["g4dn.xlarge"]);
    taken.overrides.capacity = map(&[("nvidia.com/gpu", Quantity::ZERO)]);
    assert_eq!(taken.get("capacity.nvidia.com/gpu"), None);
}

#[test]
fn a_heterogeneous_group_promises_the_least_of_its_types() {
    let small = mk_group(Family::Aws, &["m5.large"]);
    let both = mk_group(Family::Aws, &["m5.xlarge", "m5.large"]);
    for path in ["capacity.cpu", "capacity.memory", "capacity.pods", "allocatable.cpu", "allocatable.memory"] {
        assert_eq!(both.get(path), small.get(path), "{path}");
    }
    assert_eq!(both.get("labels.kubernetes.io/arch"), some("amd64"));
    assert_eq!(both.get("labels.node.kubernetes.io/instance-type"), None);

    let mixed = mk_group(Family::Aws, &["g4dn.xlarge", "m6g.large", "m5.large"]);
    assert_eq!(mixed.get("labels.kubernetes.io/arch"), None);
    assert_eq!(mixed.get("capacity.nvidia.com/gpu"), None);
    // The types with more pods keep more memory: the least allocatable is not that of the least capacity.
    let group = mk_group(Family::Aws, &["a.large", "b.large"])
        .table("aws: {a.large: {cpu: 2, memory: 8000Mi, pods: 10}, b.large: {cpu: 2, memory: 8100Mi, pods: 100}}");
    assert_eq!(group.get("capacity.memory"), some("8000Mi"));
    assert_eq!(group.get("allocatable.memory"), some("6645Mi"));
    assert_eq!(group.get("capacity.pods"), some("10"));
}

#[test]
fn an_unknown_type_is_an_error_that_says_what_to_do() {
    for types in [&["x9.large"][..], &["m5.large", "x9.large"]] {
        let error = mk_group(Family::Aws, types).build().unwrap_err().to_string();
        assert!(error.contains("x9.large; add it to a table under instanceTypes: (aws: {x9.large:"), "{error}");
    }
    assert_eq!(mk_group(Family::Aws, &[]).build(), Err(TemplateError::NoType { group: "my-group".into() }));
    let half = mk_group(Family::Azure, &["Standard_New"]).table("azure: {Standard_New: {cpu: 2}}");
    let error = half.build().unwrap_err().to_string();
    assert!(error.starts_with("group my-group: the memory of machine type Standard_New is not known;"), "{error}");

    let mut given = mk_group(Family::Aws, &["x9.large"]);
    given.overrides.capacity = map(&[("cpu", Quantity::units(2)), ("memory", "8Gi".parse().unwrap())]);
    assert_eq!(given.get("capacity.memory"), some("8Gi"));
    assert_eq!(given.get("labels.kubernetes.io/arch"), None);
}

#[test]
fn live_discovery_serves_types_that_no_table_knows() {
    let group = mk_group(Family::Aws, &["x9.large"]);
    let x9 = InstanceType {
        name: "x9.large".into(),
        cpus: 2,
        memory_mib: 8192,
        architecture: Architecture::Arm64,
        accelerators: Vec::new(),
        network_pods: Some(20),
        local_disk_bytes: Some(0),
    };
    group.catalog.insert_live(Family::Aws, &[x9]);
    assert_eq!(group.value("capacity.cpu").unwrap().source.to_string(), "live discovery");
    assert_eq!(group.get("capacity.pods"), some("20"));
    assert_eq!(group.get("labels.kubernetes.io/arch"), some("arm64"));
}

#[test]
fn an_azure_group_reserves_as_aks_does() {
    let mut group = mk_group(Family::Azure, &["standard_ds2_v2"]);
    group.machine.ephemeral_storage_bytes = Some(128 << 30);
    assert_eq!(group.get("capacity.pods"), some("110"));
    assert_eq!(group.get("allocatable.cpu"), some("1900m"));
    let capacity = group.value("capacity.memory").unwrap();
    let memory: Quantity = capacity.value.parse().unwrap();
    // min(20 · 110 + 50, a quarter of 7168) + 100
    assert_eq!(group.get("allocatable.memory").unwrap().parse(), Ok(memory.less("1892Mi".parse().unwrap())));
    // An AKS node with this disk reports 129886128Ki.
    let disk: Quantity = group.get("capacity.ephemeral-storage").unwrap().parse().unwrap();
    assert!(disk < "129886128Ki".parse().unwrap() && disk > "128000000Ki".parse().unwrap(), "{disk}");
    group.overrides.reserved.profile = Some(ReservedProfile::AksLegacy);
    assert_eq!(group.get("allocatable.memory").unwrap().parse(), Ok(memory.less("2388Mi".parse().unwrap())));
}

#[test]
fn the_bytes_are_a_node_to_kubernetes() {
    let mut group = mk_group(Family::Aws, &["g4dn.xlarge"]);
    group.hints.labels = strings(&[("team", "ml")]);
    group.hints.taints = vec![Taint { key: "gpu".into(), value: String::new(), effect: TaintEffect::NoSchedule }];
    let template = group.build().unwrap();
    let theirs = oracle::Node::decode(template.bytes.clone()).unwrap();
    let ours = template.node;
    let (metadata, their_metadata) = (ours.metadata.unwrap(), theirs.metadata.unwrap());
    assert_eq!(metadata.name, their_metadata.name);
    assert_eq!(metadata.labels, their_metadata.labels.into_iter().collect::<BTreeMap<_, _>>());
    let (spec, their_spec) = (ours.spec.unwrap(), theirs.spec.unwrap());
    assert_eq!(their_spec.provider_id, None);
    assert_eq!(spec.taints.len(), 1);
    for (taint, theirs) in spec.taints.into_iter().zip(their_spec.taints) {
        assert_eq!((taint.key, taint.value, taint.effect), (theirs.key, theirs.value, theirs.effect));
    }
    let (status, their_status) = (ours.status.unwrap(), theirs.status.unwrap());
    for (resources, theirs) in
        [(status.capacity, their_status.capacity), (status.allocatable, their_status.allocatable)]
    {
        let plain: BTreeMap<_, _> = resources.into_iter().map(|(name, quantity)| (name, quantity.string)).collect();
        assert!(plain.contains_key("nvidia.com/gpu") && plain.contains_key("pods"));
        assert_eq!(plain, theirs.into_iter().map(|(name, quantity)| (name, quantity.string)).collect());
    }
    assert_eq!(status.conditions.len(), their_status.conditions.len());
    for (condition, theirs) in status.conditions.into_iter().zip(their_status.conditions) {
        assert_eq!(
            (condition.r#type, condition.status, condition.reason),
            (theirs.r#type, theirs.status, theirs.reason)
        );
    }
}

#[test]
fn a_node_is_shown_as_kubectl_shows_it() {
    let mut group = mk_group(Family::Aws, &["c5d.large"]).table("aws: {c5d.large: {memory: 16Gi}}");
    group.hints.taints = vec![Taint { key: "gpu".into(), value: "true".into(), effect: TaintEffect::NoSchedule }];
    group.hints.labels = strings(&[("odd", "true"), ("number", "1e3")]);
    let template = group.build().unwrap();
    let json = show::to_json(&template.node);
    assert_eq!(json["kind"], "Node");
    assert_eq!(json["status"]["capacity"]["memory"], "16Gi");
    assert_eq!(json["status"]["allocatable"]["cpu"], "1930m");
    assert_eq!(json["status"]["conditions"][4]["type"], "Ready");
    assert_eq!(json["spec"]["taints"][0], serde_json::json!({"key": "gpu", "value": "true", "effect": "NoSchedule"}));
    let yaml = show::to_yaml(&template.node).unwrap();
    assert_eq!(serde_saphyr::from_str::<serde_json::Value>(&yaml).unwrap(), json, "{yaml}");
    // Every string is to stay one for readers that guess types.
    assert!(yaml.contains("odd: \"true\"") && yaml.contains("cpu: \"2\""), "{yaml}");
    let rows = show::rows(&template);
    let memory = rows.iter().find(|row| row[0] == "capacity.memory").unwrap();
    assert_eq!(memory[..3], ["capacity.memory", "16Gi", "user table my-table.yaml"].map(str::to_owned));
    assert!(memory[3].ends_with("(shipped table 2026-11-21)"), "{memory:?}");
}
