//! Auto Scaling groups.

use std::sync::Arc;

use headcount::cloud::{Taint, TaintEffect};
use headcount::clouds::simulated::{GroupPlan, Simulated};

use super::assert_golden;
use crate::emulators::aws::{Aws, GroupDetails, Override, Requirements};
use crate::emulators::setup::Setup;

/// A corrected table, as a user would write it.
const TABLE: &str = "aws:\n  c5d.large: {memory: 16Gi}\n";

fn group(name: &str, types: &[&str]) -> GroupPlan {
    GroupPlan::aws(name).sized(0, 10, 0).instance_types(types)
}

fn tagged(mut plan: GroupPlan, tags: &[(&str, &str)]) -> GroupPlan {
    plan.tags.extend(tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    plan
}

/// A managed node group of EKS.
fn managed(name: &str, types: &[&str]) -> GroupPlan {
    tagged(group(name, types), &[("eks:cluster-name", "prod"), ("eks:nodegroup-name", name)])
}

/// A group that eksctl created and EKS does not manage.
fn by_eksctl(name: &str, types: &[&str]) -> GroupPlan {
    let tags = [("alpha.eksctl.io/cluster-name", "prod"), ("alpha.eksctl.io/nodegroup-name", name)];
    tagged(group(name, types), &tags)
}

async fn setup(plan: GroupPlan, look: impl FnOnce(&mut GroupDetails)) -> Setup<Aws> {
    let name = plan.name.clone();
    let aws = Aws::start(Arc::new(Simulated::with_groups(1, [plan])));
    aws.group_details(&name, look);
    Setup::with(aws, |options| {
        options.more = "instanceTypes: [my-table.yaml]".to_owned();
        options.files = vec![("my-table.yaml".to_owned(), TABLE.to_owned())];
    })
    .await
}

#[tokio::test]
async fn m5_large_in_a_managed_node_group() {
    let mut plan = managed("m5-large", &["m5.large"]).label("team", "web");
    plan.taints = vec![
        Taint { key: "dedicated".into(), value: String::new(), effect: TaintEffect::NoSchedule },
        Taint { key: "maintenance".into(), value: "soon".into(), effect: TaintEffect::PreferNoSchedule },
    ];
    let setup = setup(plan, |_| {}).await;
    assert_golden(&setup, "m5-large", "yaml");
    assert_golden(&setup, "m5-large", "table");
}

#[tokio::test]
async fn m6g_large_by_eksctl() {
    let setup = setup(by_eksctl("m6g-large", &["m6g.large"]), |details| details.disk_gib = 80).await;
    assert_golden(&setup, "m6g-large", "yaml");
}

#[tokio::test]
async fn g5_12xlarge_with_efa_in_a_managed_node_group() {
    let setup = setup(managed("g5-12xlarge", &["g5.12xlarge"]), |details| details.efa_interfaces = 1).await;
    assert_golden(&setup, "g5-12xlarge", "yaml");
}

#[tokio::test]
async fn inf2_xlarge_started_by_bootstrap_sh() {
    let setup = setup(group("inf2-xlarge", &["inf2.xlarge"]), |details| {
        details.user_data = "#!/bin/bash\n/etc/eks/bootstrap.sh prod --kubelet-extra-args \
                          '--node-labels=team=ml --register-with-taints=aws.amazon.com/neuron=true:NoSchedule'\n"
            .to_owned();
    });
    assert_golden(&setup.await, "inf2-xlarge", "yaml");
}

#[tokio::test]
async fn c5d_large_with_the_memory_of_the_users_table() {
    let setup = setup(managed("c5d-large-16gi", &["c5d.large"]), |_| {}).await;
    assert_golden(&setup, "c5d-large-16gi", "yaml");
    assert_golden(&setup, "c5d-large-16gi", "table");
}

#[tokio::test]
async fn m5d_large_with_joined_disks_and_prefix_delegation() {
    let setup = setup(group("m5d-large-raid0", &["m5d.large"]), |details| {
        details.user_data = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\n\
                          Content-Type: application/node.eks.aws\n\n\
                          apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  instance:\n    \
                          localStorage:\n      strategy: RAID0\n  kubelet:\n    config:\n      maxPods: 110\n--//--\n"
            .to_owned();
    });
    assert_golden(&setup.await, "m5d-large-raid0", "yaml");
}

#[tokio::test]
async fn m5_xlarge_with_reserves_in_its_node_config() {
    let setup = setup(by_eksctl("m5-xlarge-reserves", &["m5.xlarge"]), |details| {
        details.user_data =
            "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    config:\n      \
                          maxPods: 110\n      kubeReserved:\n        memory: 1Gi\n      evictionHard:\n        \
                          memory.available: 5%\n    flags:\n    - --system-reserved=cpu=100m,memory=512Mi\n    \
                          - --node-labels=team=ml\n    - --register-with-taints=gpu=true:NoSchedule\n"
                .to_owned();
    })
    .await;
    assert_golden(&setup, "m5-xlarge-reserves", "yaml");
    assert_golden(&setup, "m5-xlarge-reserves", "table");
}

#[tokio::test]
async fn m5_xlarge_and_m5_large_mixed() {
    let setup = setup(managed("mixed", &["m5.xlarge", "m5.large"]), |_| {}).await;
    assert_golden(&setup, "mixed", "yaml");
}

#[tokio::test]
async fn any_type_with_two_to_four_processors_and_16_gib() {
    let setup = setup(managed("attribute-based", &["m5.xlarge"]), |details| {
        let requirements = Some(Requirements { cpus_min: 2, cpus_max: 4, memory_mib_min: 16 * 1024 });
        details.overrides = vec![Override { requirements, ..Override::default() }];
    });
    assert_golden(&setup.await, "attribute-based", "yaml");
}

#[tokio::test]
async fn m5_2xlarge_with_half_its_processors_in_a_self_managed_cluster() {
    let plan = group("own-cluster", &["m5.2xlarge"]);
    let tags = [
        ("kubernetes.io/cluster/mine", "owned"),
        ("k8s.io/cluster-autoscaler/node-template/label/team", "web"),
        ("k8s.io/cluster-autoscaler/node-template/taint/dedicated", "web:NoExecute"),
        ("k8s.io/cluster-autoscaler/node-template/resources/hugepages-2Mi", "512Mi"),
    ];
    let setup = setup(tagged(plan, &tags), |details| details.cpu_options = Some((4, 1))).await;
    assert_golden(&setup, "own-cluster", "yaml");
}

#[tokio::test]
async fn m5_large_with_windows_in_a_managed_node_group() {
    let setup = setup(managed("eks-windows", &["m5.large"]), |details| {
        details.ami_type = "WINDOWS_CORE_2022_x86_64".to_owned();
        details.disk_gib = 50;
    });
    assert_golden(&setup.await, "eks-windows", "yaml");
}

#[tokio::test]
async fn a_group_of_very_different_types_is_a_warning() {
    let setup = setup(managed("uneven", &["m5.2xlarge", "m5.large"]), |_| {}).await;
    let line = setup.server().logged("node group mixes instance types of very different sizes");
    assert!(line.contains("cpu from 2 (m5.large) to 8 (m5.2xlarge)"), "{line}");
}
