//! Scale sets.

use std::sync::Arc;

use headcount::clouds::simulated::{GroupPlan, Simulated};
use serde_json::json;

use super::assert_golden;
use crate::emulators::arm::{Arm, GroupDetails};
use crate::emulators::setup::Setup;

const UBUNTU: &str = "AKSUbuntu/images/2204gen2containerd/versions/202509.23.0";

/// A scale set that AKS did not create.
fn set(name: &str, types: &[&str]) -> GroupPlan {
    GroupPlan::azure(name).sized(0, 10, 0).instance_types(types)
}

/// A pool of AKS of this version of Kubernetes.
fn pool(name: &str, size: &str, version: &str) -> GroupPlan {
    let mut plan = set(name, &[size]);
    let orchestrator = format!("Kubernetes:{version}");
    for (key, value) in [("aks-managed-poolName", "pool1"), ("aks-managed-orchestrator", &orchestrator)] {
        plan.tags.insert(key.to_owned(), value.to_owned());
    }
    plan
}

async fn setup(plan: GroupPlan, look: impl FnOnce(&mut GroupDetails)) -> Setup<Arm> {
    let name = plan.name.clone();
    let arm = Arm::start(Arc::new(Simulated::with_groups(1, [plan])));
    arm.group_details(&name, look);
    Setup::open(arm).await
}

#[tokio::test]
async fn standard_d4s_v5_with_an_address_for_each_pod() {
    let setup = setup(pool("d4s-v5", "Standard_D4s_v5", "1.33.3"), |details| {
        (details.image, details.os_disk_gb, details.addresses) = (Some(UBUNTU.to_owned()), Some(128), 31);
    })
    .await;
    assert_golden(&setup, "d4s-v5", "yaml");
    assert_golden(&setup, "d4s-v5", "table");
}

#[tokio::test]
async fn standard_nc24ads_a100_v4_at_spot_prices_with_an_overlay() {
    let mut plan = pool("nc24ads-a100-v4", "Standard_NC24ads_A100_v4", "1.33.3");
    plan.tags.insert("aks-managed-azure-cni-overlay".to_owned(), "true".to_owned());
    let taints = "k8s.io_cluster-autoscaler_node-template_taint_sku";
    plan.tags.insert(taints.to_owned(), "gpu:NoSchedule,gpu:NoExecute".to_owned());
    let setup = setup(plan, |details| {
        (details.image, details.os_disk_gb, details.spot) = (Some(UBUNTU.to_owned()), Some(256), true);
        details.ephemeral_os_disk = true;
    });
    assert_golden(&setup.await, "nc24ads-a100-v4", "yaml");
}

#[tokio::test]
async fn a_pool_with_labels_and_taints_of_its_own() {
    let mut plan = pool("own-labels", "Standard_D4s_v5", "1.33.3");
    for (key, value) in [("aks-managed-cluster-name", "prod"), ("aks-managed-cluster-rg", "apps")] {
        plan.tags.insert(key.to_owned(), value.to_owned());
    }
    let setup = setup(plan, |details| {
        (details.image, details.os_disk_gb) = (Some(UBUNTU.to_owned()), Some(128));
        let own =
            json!({"mode": "System", "maxPods": 60, "nodeLabels": {"team": "a"}, "nodeTaints": ["sku=gpu:NoSchedule"]});
        details.aks_pool = own.as_object().expect("an object").clone();
    });
    assert_golden(&setup.await, "own-labels", "yaml");
}

#[tokio::test]
async fn standard_d4ps_v5_before_kubernetes_1_29() {
    let setup = setup(pool("d4ps-v5", "Standard_D4ps_v5", "1.28.12"), |details| {
        (details.image, details.os_disk_gb) = (Some(UBUNTU.replace("2204gen2", "2204gen2arm64")), Some(128));
    });
    assert_golden(&setup.await, "d4ps-v5", "yaml");
}

#[tokio::test]
async fn a_pool_with_windows() {
    let setup = setup(pool("windows", "Standard_D4s_v5", "1.33.3"), |details| {
        (details.windows, details.os_disk_gb, details.addresses) = (true, Some(128), 31);
        details.image = Some("AKSWindows/images/windows-2022-containerd-gen2/versions/20348.2655.240814".to_owned());
    });
    assert_golden(&setup.await, "windows", "yaml");
}

#[tokio::test]
async fn a_flexible_set_with_a_mix_of_sizes() {
    let setup = setup(set("flex-mix", &["Standard_D4s_v5", "Standard_D2s_v5"]), |details| {
        (details.flexible, details.mix, details.os_disk_gb) = (true, true, Some(30));
    });
    assert_golden(&setup.await, "flex-mix", "yaml");
}

#[tokio::test]
async fn standard_e8_4ds_v5_has_four_processors() {
    let setup =
        setup(pool("e8-4ds-v5", "Standard_E8-4ds_v5", "1.33.3"), |details| details.os_disk_gb = Some(128)).await;
    assert_golden(&setup, "e8-4ds-v5", "yaml");
}
