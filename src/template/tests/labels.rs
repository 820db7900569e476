//! Labels, taints and names.

use super::*;

#[test]
fn a_plain_aws_group_has_the_generic_labels() {
    let group = mk_group(Family::Aws, &["c4.large"]);
    let zone = group.get("labels.topology.kubernetes.io/zone").unwrap();
    assert!(group.launch.zones.contains(&zone));
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
fn nodes_with_nvidia_gpus_are_labelled_where_their_image_does_so() {
    for (types, labels_gpus, expected) in [
        (&["g5.xlarge"][..], true, some("true")),
        (&["g5.xlarge", "g4dn.xlarge"], true, some("true")),
        (&["g5.xlarge", "m5.large"], true, None),
        (&["g4ad.xlarge"], true, None),
        (&["g5.xlarge"], false, None),
    ] {
        let mut group = mk_group(Family::Aws, types);
        group.launch.labels_gpus = labels_gpus;
        assert_eq!(group.get("labels.nvidia.com/gpu.present"), expected, "{types:?}");
    }
}

#[test]
fn names_fit_into_a_label() {
    let mut group = mk_group(Family::Aws, &["m5.large"]);
    for id in ["", "/", &"x".repeat(300), "Source/Group_1"] {
        group.hints = GroupHints::default();
        let Group { family, hints, launch, catalog, overrides } = &group;
        let input = Input { group: id, name: id, family: *family, hints, launch, catalog, overrides };
        let name = build(&input).unwrap().node.metadata.unwrap().name.unwrap();
        assert!(name.len() <= 63 && !name.starts_with('-') && !name.contains(['/', '_', 'S']), "{name}");
    }
}

#[test]
fn a_group_without_zones_is_an_error_on_aws_and_regional_on_azure() {
    let mut aws = mk_group(Family::Aws, &["m5.large"]);
    aws.launch.zones.clear();
    assert_eq!(aws.build(), Err(TemplateError::NoZone));
    let mut azure = mk_group(Family::Azure, &["Standard_DS2_v2"]);
    azure.launch.zones.clear();
    assert_eq!(azure.get("labels.topology.kubernetes.io/zone"), some("0"));
    assert_eq!(azure.get("labels.failure-domain.beta.kubernetes.io/zone"), some("0"));
    assert_eq!(azure.get("labels.topology.disk.csi.azure.com/zone"), some(""));
}

#[test]
fn a_tags_label_beats_an_override_beats_the_group() {
    let mut group = mk_group(Family::Aws, &["m5.large"]);
    group.launch.labels = strings(&[("a", "machine"), ("b", "machine"), ("c", "machine"), ("kubernetes.io/os", "bsd")]);
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

/// As in-tree: EKS sets these whatever the tags of the Auto Scaling group say.
#[test]
fn what_a_managed_node_group_gives_to_every_node_beats_tags() {
    let mut group = mk_group(Family::Aws, &["m5.large"]);
    group.launch.fixed_labels = strings(&[("team", "eks")]);
    group.overrides.labels = strings(&[("team", "override")]);
    group.hints.labels = strings(&[("team", "tag"), ("other", "tag")]);
    group.launch.fixed_taints = vec![taint("dedicated", "eks", TaintEffect::NoSchedule)];
    group.hints.taints =
        vec![taint("dedicated", "tag", TaintEffect::NoSchedule), taint("other", "tag", TaintEffect::NoSchedule)];
    assert_eq!((group.get("labels.team"), group.get("labels.other")), (some("eks"), some("tag")));
    assert_eq!(group.value("labels.team").unwrap().runner_up.unwrap().0, "tag");
    assert_eq!(group.get("taints.dedicated:NoSchedule"), some("eks"));
    assert_eq!(group.get("taints.other:NoSchedule"), some("tag"));
}

fn taint(key: &str, value: &str, effect: TaintEffect) -> Taint {
    Taint { key: key.into(), value: value.into(), effect }
}

#[test]
fn a_node_has_one_taint_per_key_and_effect() {
    let mut group = mk_group(Family::Aws, &["m5.large"]);
    group.hints.taints =
        vec![taint("dedicated", "foo", TaintEffect::NoSchedule), taint("group", "bar", TaintEffect::NoExecute)];
    group.overrides.taints = vec![taint("dedicated", "other", TaintEffect::NoSchedule)];
    group.launch.taints = vec![
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
fn aks_labels_nodes_with_what_their_size_is_sold_with() {
    let mut group = mk_group(Family::Azure, &["Standard_D4s_v5"]);
    let label = |group: &Group, name: &str| group.get(&format!("labels.kubernetes.azure.com/{name}"));
    assert_eq!((label(&group, "sku-cpu"), label(&group, "sku-memory")), (None, None));
    group.launch.has_size_labels = true;
    assert_eq!((label(&group, "sku-cpu"), label(&group, "sku-memory")), (some("4"), some("16384")));
    group.launch.types.push("Standard_D8s_v5".to_owned());
    assert_eq!(label(&group, "sku-cpu"), None, "nodes of several sizes differ");
}
