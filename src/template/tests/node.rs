//! The node as a whole, as Kubernetes reads it.

use super::*;

#[test]
fn the_same_group_always_makes_the_same_node() {
    let group = mk_group(Family::Aws, &["m5.large"]);
    let once = group.build().unwrap();
    assert_eq!(group.build().unwrap().bytes, once.bytes);
    let mut reversed = mk_group(Family::Aws, &["m5.large"]);
    reversed.launch.zones.reverse();
    assert_eq!(reversed.build().unwrap().bytes, once.bytes);
}

#[test]
fn kubernetes_decodes_the_bytes_as_the_node() {
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
fn a_node_is_printed_as_by_kubectl() {
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
    // Every string must stay a string, even for parsers that guess types.
    assert!(yaml.contains("odd: \"true\"") && yaml.contains("cpu: \"2\""), "{yaml}");
    assert_eq!(show::rows(&template).len(), template.values.len());
    group.launch.unread =
        Some(Unread { what: "managed node group w".into(), reason: "denied".into(), is_momentary: false });
    let template = group.build().unwrap();
    let rows = show::rows(&template);
    let unread = ["unread", "labels and taints of the managed node group w", "not read: denied", ""];
    assert_eq!(rows[0], unread.map(str::to_owned));
    let memory = rows.iter().find(|row| row[0] == "capacity.memory").unwrap();
    assert_eq!(memory[..3], ["capacity.memory", "16Gi", "user table my-table.yaml"].map(str::to_owned));
    assert!(memory[3].contains("(shipped table 2026-11-21 less host "), "{memory:?}");
}
