//! Instances that Azure lists as failed although they are nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use headcount::clouds::simulated::{GroupPlan, Simulated};

use crate::emulators::arm::Arm;
use crate::emulators::kubernetes::{ApiServer, mk_node};
use crate::emulators::setup::Setup;
use crate::peers::headcount::Client;

const MEMORY: u64 = 7_900_000;

/// A scale set of four young VMs, as a process sees them that has just started: one stopped and registered, one stopped
/// and never registered, one evicted whose node is still there, and one that runs.
async fn setup(api: &ApiServer, configuration: &'static str) -> (Setup<Arm>, Vec<String>) {
    let cloud = Simulated::with_groups(7, [GroupPlan::azure("web").sized(0, 10, 4)]);
    let kubeconfig = api.kubeconfig_text();
    let mut setup = Setup::with(Arm::start(Arc::new(cloud)), move |options| {
        options.more = configuration.to_owned();
        options.files.push(("kubeconfig".to_owned(), kubeconfig));
    })
    .await;
    let ids = setup.client.nodes_in("web", 1).await;
    assert_eq!(ids.len(), 4);
    api.set_nodes([0, 2, 3].map(|number| mk_node(&format!("n{number}"), &ids[number], MEMORY)));
    setup.emulator.group_details("web", |details| {
        let shown = [("0", Some("stopped")), ("1", Some("stopped")), ("2", Some("deallocated"))];
        details.shown_as =
            BTreeMap::from(shown.map(|(id, power)| (id.to_owned(), ("Failed", power)))).into_iter().collect();
    });
    setup.restart().await;
    (setup, ids)
}

async fn running(client: &mut Client) -> Vec<String> {
    client.nodes_in("web", 1).await
}

#[tokio::test]
async fn a_vm_that_kubernetes_knows_as_a_node_is_not_listed_as_failed() {
    let api = ApiServer::plain();
    let (mut setup, ids) = setup(&api, "kubernetes: {taints: true, kubeconfig: kubeconfig}\n").await;
    let expected = [ids[0].clone(), ids[3].clone()];
    setup.client.until("the other two fail", async |client| running(client).await == expected).await;
    assert_eq!((setup.client.nodes_in("web", 2).await, setup.client.target("web").await), (ids[1..3].to_vec(), 4));
    // A VM may register late.
    api.set_nodes(ids.iter().enumerate().map(|(number, id)| mk_node(&format!("n{number}"), id, MEMORY)));
    let all_but_the_evicted = [&ids[..2], &ids[3..]].concat();
    setup.client.until("it runs", async |client| running(client).await == all_but_the_evicted).await;
}

#[tokio::test]
async fn without_access_a_young_vm_that_failed_is_listed_as_failed() {
    let api = ApiServer::plain();
    let (mut setup, ids) = setup(&api, "").await;
    assert_eq!(running(&mut setup.client).await, ids[3..]);
    api.set_down(true);
    let mut setup = Setup::with(setup.emulator, |options| {
        options.more = "kubernetes: {taints: true, kubeconfig: kubeconfig}\n".to_owned();
        options.files.push(("kubeconfig".to_owned(), api.kubeconfig_text()));
    })
    .await;
    setup.client.until("three fail", async |client| running(client).await == ids[3..]).await;
}
