//! Templates of VM sizes.

use k8s_pb::api::core::v1::Node;
use prost::Message;

use super::{arm, pool};
use crate::emulators::setup::Setup;

#[tokio::test]
async fn aks_constrained_size_reserve() {
    // A constrained size offers some of the vCPUs of its machine, and AKS reserves for all of them.
    let sizes = [
        ("hb", "Standard_HB120-96rs_v3", "96", "94700m"),
        ("e", "Standard_E8-4ds_v5", "4", "3820m"),
        ("ds", "Standard_DS14-8_v2", "8", "7740m"),
        ("whole", "Standard_E4ds_v5", "4", "3860m"),
    ];
    let plans = sizes.map(|(name, size, ..)| {
        let mut plan = pool(name, (0, 10, 0)).instance_types(&[size]);
        plan.tags.insert("aks-managed-poolName".to_owned(), name.to_owned());
        plan
    });
    let mut setup = Setup::open(arm(plans)).await;
    for (name, size, cpus, allocatable) in sizes {
        setup.client.until("it is served", async |client| client.template(name).await.is_ok()).await;
        let built = setup.client.template(name).await.expect("built");
        let status = Node::decode(built.node_bytes).expect("a v1.Node").status.expect("a status");
        let found = (status.capacity["cpu"].string(), status.allocatable["cpu"].string());
        assert_eq!(found, (cpus, allocatable), "{size}");
    }
}
