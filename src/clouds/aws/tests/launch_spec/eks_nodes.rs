//! What a group of EKS nodes launches.

use aws_sdk_ec2::types::AmdSevSnpSpecification;

use super::super::super::launch::NODEGROUP_PATIENCE;
use super::*;
use crate::cloud::{KubeletReserves, ReserveFigures};

fn managed(name: &str) -> AutoScalingGroup {
    group(name)
        .launch_template(template("lt", None))
        .tags(tag("eks:cluster-name", "prod"))
        .tags(tag("eks:nodegroup-name", "workers"))
        .build()
}

#[tokio::test(start_paused = true)]
async fn a_managed_node_group_adds_its_labels_and_taints() {
    let fake = Fake::with(vec![managed("eks-workers-1")]);
    let taint = eks::Taint::builder().key("k").effect(eks::TaintEffect::NoSchedule).build();
    let nodegroup = Nodegroup::builder().nodegroup_name("workers").labels("team", "a").taints(taint).disk_size(80);
    fake.state(|state| {
        state.templates.insert("lt@$Default".into(), of_type("m5.large"));
        state.nodegroups.insert("prod/workers".into(), nodegroup.build());
    });
    let aws = fake.aws(Settings::default());
    let reading = observed(&aws, "eks-workers-1").await;
    let first = aws.launch_spec(&reading).await.expect("a launch spec");
    assert_eq!(first.reserved, Some(ReservedProfile::Eks));
    assert_eq!(first.fixed_labels.get("eks.amazonaws.com/nodegroup").map(String::as_str), Some("workers"));
    assert!(!first.fixed_labels.contains_key("nodegroup-name"));
    assert_eq!((first.fixed_taints.len(), first.fixed_taints[0].value.as_str()), (1, ""));
    assert_eq!(first.ephemeral_storage_bytes, Some(80 << 30));
    assert_eq!(aws.launch_spec(&reading).await.expect("a launch spec"), first);
    assert_eq!(fake.calls("DescribeNodegroup").len(), 1);
    tokio::time::advance(cache::NODEGROUP_TTL).await;
    fake.fail("DescribeNodegroup", "ThrottlingException", "slow down", 429);
    assert_eq!(aws.launch_spec(&reading).await.expect("a launch spec"), first, "the last response stays in force");
}

/// Whether a template is to wait for the managed node group; `None` if it was read.
fn waits(spec: &LaunchSpec) -> Option<bool> {
    spec.unread.as_ref().map(|unread| unread.is_momentary)
}

#[tokio::test(start_paused = true)]
async fn a_template_waits_for_a_managed_node_group_that_cannot_be_read_for_a_moment() {
    let fake = Fake::with(vec![managed("eks-workers-1")]);
    let taint = eks::Taint::builder().key("k").effect(eks::TaintEffect::NoSchedule).build();
    fake.state(|state| {
        state.templates.insert("lt@$Default".into(), of_type("m5.large"));
        let nodegroup = Nodegroup::builder().nodegroup_name("workers").taints(taint).build();
        state.nodegroups.insert("prod/workers".into(), nodegroup);
    });
    let aws = fake.aws(Settings::default());
    let basis = observed(&aws, "eks-workers-1").await;
    fake.fail("DescribeNodegroup", "ThrottlingException", "later", 429);
    let spec = aws.launch_spec(&basis).await.expect("a launch spec");
    assert_eq!((waits(&spec), spec.is_provisional), (Some(true), true), "its taints are not known");
    tokio::time::advance(cache::FAILED_CALL_TTL).await;
    let spec = aws.launch_spec(&basis).await.expect("a launch spec");
    assert_eq!((waits(&spec), spec.is_provisional, spec.fixed_taints.len()), (None, false, 1));
}

/// A private cluster without a VPC endpoint for EKS.
#[tokio::test(start_paused = true)]
async fn an_eks_that_never_responds_keeps_no_template_away_for_good() {
    let other = group("eks-others-1")
        .launch_template(template("lt", None))
        .tags(tag("eks:cluster-name", "prod"))
        .tags(tag("eks:nodegroup-name", "others"))
        .build();
    let fake = Fake::with(vec![managed("eks-workers-1"), other]);
    fake.state(|state| state.templates.insert("lt@$Default".into(), of_type("m5.large")));
    let aws = fake.aws(Settings::default());
    let (basis, other) = (observed(&aws, "eks-workers-1").await, observed(&aws, "eks-others-1").await);
    let since = tokio::time::Instant::now();
    fake.fail("DescribeNodegroup", "", "connect timeout", 503);
    while waits(&aws.launch_spec(&basis).await.expect("a launch spec")) == Some(true) {
        assert!(since.elapsed() < NODEGROUP_PATIENCE, "{:?}", since.elapsed());
        fake.fail("DescribeNodegroup", "", "connect timeout", 503);
        tokio::time::advance(cache::FAILED_CALL_TTL).await;
    }
    assert!(since.elapsed() >= NODEGROUP_PATIENCE, "{:?}", since.elapsed());
    let spec = aws.launch_spec(&basis).await.expect("a launch spec");
    let unread = spec.unread.clone().expect("unread");
    assert!(unread.reason.contains("connect timeout") && unread.what.contains("workers"), "{unread:?}");
    assert_eq!(spec.fixed_labels.get("eks.amazonaws.com/nodegroup").map(String::as_str), Some("workers"));
    assert!(spec.is_provisional, "it is tried again");
    // Another group waits for no timeout of its own, and not for so long again.
    let calls = fake.calls("DescribeNodegroup").len();
    assert_eq!(waits(&aws.launch_spec(&other).await.expect("a launch spec")), Some(false));
    assert_eq!(fake.calls("DescribeNodegroup").len(), calls);
    // A failure of another kind is no reason to wait again.
    tokio::time::advance(cache::FAILED_TTL).await;
    fake.state(|state| state.failures.clear());
    fake.fail("DescribeNodegroup", "ThrottlingException", "later", 429);
    assert_eq!(waits(&aws.launch_spec(&basis).await.expect("a launch spec")), Some(false));
    let nodegroup = Nodegroup::builder().nodegroup_name("workers").labels("team", "a").build();
    fake.state(|state| state.nodegroups.insert("prod/workers".into(), nodegroup));
    tokio::time::advance(cache::FAILED_TTL).await;
    let spec = aws.launch_spec(&basis).await.expect("a launch spec");
    assert_eq!((waits(&spec), spec.fixed_labels.get("team").map(String::as_str)), (None, Some("a")));
}

#[tokio::test]
async fn a_managed_node_group_that_may_not_be_read_does_not_prevent_a_launch_spec() {
    let fake = Fake::with(vec![managed("eks-workers-1")]);
    fake.state(|state| state.templates.insert("lt@$Default".into(), of_type("m5.large")));
    fake.fail("DescribeNodegroup", "AccessDeniedException", "no", 403);
    let spec = launch_spec(&fake, "eks-workers-1").await.expect("a launch spec");
    assert_eq!((spec.reserved, waits(&spec)), (Some(ReservedProfile::Eks), Some(false)));
    assert_eq!((spec.labels.len(), spec.fixed_labels.len()), (0, 1));
    // One that is gone may be so for good.
    let gone = launch_spec(&fake, "eks-workers-1").await.expect("a launch spec");
    assert_eq!(waits(&gone), Some(false));
    // Other credentials may be there in a moment: without its taints, CA would grow it for pods that its nodes reject.
    for code in ["UnrecognizedClientException", "ExpiredTokenException"] {
        fake.fail("DescribeNodegroup", code, "no", 403);
        let spec = launch_spec(&fake, "eks-workers-1").await.expect("a launch spec");
        assert_eq!(waits(&spec), Some(true), "{code}");
    }
}

#[tokio::test]
async fn memory_is_encrypted_if_any_launch_template_says_so() {
    let own =
        |name: &str| LaunchTemplateOverrides::builder().launch_template_specification(template(name, None)).build();
    let fake = Fake::with(vec![
        group("encrypted").launch_template(template("snp", None)).build(),
        group("plain").launch_template(template("off", None)).build(),
        group("both").mixed_instances_policy(mixed(None, vec![own("off"), own("snp")])).build(),
    ]);
    fake.state(|state| {
        for (name, setting) in [("snp", AmdSevSnpSpecification::Enabled), ("off", AmdSevSnpSpecification::Disabled)] {
            let options = LaunchTemplateCpuOptions::builder().amd_sev_snp(setting).build();
            let data = ResponseLaunchTemplateData::builder().instance_type(Ec2Type::M6aLarge).cpu_options(options);
            state.templates.insert(format!("{name}@$Default"), version(data.build()));
        }
    });
    for (name, is_encrypted) in [("encrypted", true), ("plain", false), ("both", true)] {
        assert_eq!(launch_spec(&fake, name).await.expect(name).is_encrypted, is_encrypted, "{name}");
    }
}

#[tokio::test]
async fn tags_image_or_user_data_show_that_nodes_are_eks_nodes() {
    let tagged = |name: &str, key: &str| group(name).launch_template(template("lt", None)).tags(tag(key, "x")).build();
    let fake = Fake::with(vec![
        tagged("nodegroup", "eks:nodegroup-name"),
        tagged("cluster", "eks:cluster-name"),
        tagged("eksctl", "alpha.eksctl.io/cluster-name"),
        tagged("kops", "kubernetes.io/cluster/mine"),
        group("image").launch_template(template("image", None)).build(),
        group("configuration").launch_configuration_name("lc").build(),
    ]);
    fake.state(|state| {
        state.templates.insert("lt@$Default".into(), of_type("m5.large"));
        let data = ResponseLaunchTemplateData::builder().instance_type(Ec2Type::M5Large).image_id("ami-1").build();
        state.templates.insert("image@$Default".into(), version(data));
        let image = Image::builder().name("amazon-eks-node-al2023-x86_64-standard-1.31-v20250103").build();
        state.images.insert("ami-1".into(), image);
        let user_data = aws_smithy_types::base64::encode("#!/bin/bash\n/etc/eks/bootstrap.sh c\n");
        let configuration = LaunchConfiguration::builder().instance_type("m5.large").user_data(user_data);
        state.configurations.insert("lc".into(), configuration.build());
    });
    for (name, reserved) in [
        ("nodegroup", Some(ReservedProfile::Eks)),
        ("cluster", Some(ReservedProfile::Eks)),
        ("eksctl", Some(ReservedProfile::Eks)),
        ("kops", None),
        ("image", Some(ReservedProfile::Eks)),
        ("configuration", Some(ReservedProfile::Eks)),
    ] {
        let spec = launch_spec(&fake, name).await.expect(name);
        assert_eq!(spec.reserved, reserved, "{name}");
        let label = spec.labels.get("alpha.eksctl.io/cluster-name").map(String::as_str);
        assert_eq!(label, (name == "eksctl").then_some("x"), "{name}");
    }
}

#[tokio::test]
async fn eks_limits_the_pods_of_managed_node_groups_unless_the_image_is_the_users() {
    let fake = Fake::with(vec![managed("eks-workers-1")]);
    fake.state(|state| state.templates.insert("lt@$Default".into(), of_type("m5.large")));
    let with_image = |ami: &str| {
        let nodegroup = Nodegroup::builder().nodegroup_name("workers").ami_type(ami.into()).build();
        fake.state(|state| state.nodegroups.insert("prod/workers".into(), nodegroup));
    };
    for (ami, caps) in [("AL2023_x86_64_STANDARD", true), ("CUSTOM", false)] {
        with_image(ami);
        assert_eq!(launch_spec(&fake, "eks-workers-1").await.expect("a launch spec").caps_pods, caps, "{ami}");
    }
    fake.fail("DescribeNodegroup", "AccessDeniedException", "no", 403);
    let unread = launch_spec(&fake, "eks-workers-1").await.expect("a launch spec");
    assert!(unread.caps_pods, "the lower figure, if EKS cannot be read");
}

#[tokio::test]
async fn the_kubelets_reserves_come_from_the_user_data_of_every_launch_option() {
    let own =
        |name: &str| LaunchTemplateOverrides::builder().launch_template_specification(template(name, None)).build();
    let fake = Fake::with(vec![
        group("one").launch_template(template("config", None)).build(),
        group("both").mixed_instances_policy(mixed(None, vec![own("config"), own("flags")])).build(),
        group("configuration").launch_configuration_name("lc").build(),
    ]);
    let config = aws_smithy_types::base64::encode(
        "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    config:\n      \
         kubeReserved:\n        memory: 1Gi\n        cpu: 200m\n",
    );
    let flags = aws_smithy_types::base64::encode(
        "/etc/eks/bootstrap.sh c --kubelet-extra-args '--kube-reserved=memory=2Gi --eviction-hard=memory.available<5%'",
    );
    fake.state(|state| {
        for (name, user_data) in [("config", config), ("flags", flags.clone())] {
            let data = ResponseLaunchTemplateData::builder().instance_type(Ec2Type::M5Large).user_data(user_data);
            state.templates.insert(format!("{name}@$Default"), version(data.build()));
        }
        let configuration = LaunchConfiguration::builder().instance_type("m5.large").user_data(flags);
        state.configurations.insert("lc".into(), configuration.build());
    });
    let shown = async |name: &str| {
        let KubeletReserves { kube, system, eviction } = launch_spec(&fake, name).await.expect(name).kubelet_reserves;
        let line = |(name, figures): (String, ReserveFigures)| {
            let written: Vec<_> = figures.written.into_iter().collect();
            format!("{name} {}{}", written.join(" "), if figures.or_profile { " or profile" } else { "" })
        };
        [kube, system, eviction].into_iter().flatten().map(line).collect::<Vec<_>>()
    };
    assert_eq!(shown("one").await, ["cpu 200m", "memory 1Gi"]);
    assert_eq!(shown("both").await, ["cpu 200m or profile", "memory 1Gi 2Gi", "memory.available 5% or profile"]);
    assert_eq!(shown("configuration").await, ["memory 2Gi", "memory.available 5%"]);
}
