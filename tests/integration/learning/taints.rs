//! Nodes that the Cluster Autoscaler has marked for deletion, and whose deletion failed.

use std::sync::Arc;
use std::time::Duration;

use headcount::cloud::Family;
use headcount::clouds::simulated::{DeleteOutcome, GroupPlan, Pick, PlannedFailure, Simulated};

use crate::emulators::Emulator as _;
use crate::emulators::arm::Arm;
use crate::emulators::kubernetes::{ApiServer, MkNode, mk_node};
use crate::emulators::setup::Setup;
use crate::peers::headcount::Client;

const MEMORY: u64 = 7_900_000;
const TAINT: &str = "ToBeDeletedByClusterAutoscaler";
/// Longer than any test. `Simulated::end_deletions` ends the deletions.
const ENDLESS: Duration = Duration::from_secs(600);

async fn setup(api: &ApiServer, configuration: &'static str) -> Setup<Arm> {
    let failure = PlannedFailure::other("CannotDelete", "not now");
    let plan = GroupPlan::azure("web").sized(0, 10, 3).delete_time(ENDLESS..=ENDLESS);
    let plan = plan.deletions(Pick::Always, DeleteOutcome::FailsLater(failure));
    let cloud = Simulated::with_groups(7, [plan]).of_family(Family::Azure);
    let kubeconfig = api.kubeconfig_text();
    let mut setup = Setup::with(Arm::start(Arc::new(cloud)), move |options| {
        options.more = configuration.to_owned();
        options.files.push(("kubeconfig".to_owned(), kubeconfig));
    })
    .await;
    setup.client.until("served", async |client| client.nodes_in("web", 1).await.len() == 3).await;
    setup
}

fn nodes(ids: &[String], tainted: Option<&String>) -> Vec<MkNode> {
    let node = |(number, id): (usize, &String)| {
        let taints = if tainted == Some(id) { vec![TAINT] } else { Vec::new() };
        MkNode { taints, ..mk_node(&format!("n{number}"), id, MEMORY) }
    };
    ids.iter().enumerate().map(node).collect()
}

#[tokio::test]
async fn a_tainted_node_whose_deletion_failed_leaves_the_target_until_the_taint_goes() {
    let api = ApiServer::plain();
    let mut setup = setup(&api, "kubernetes: {taints: true, kubeconfig: kubeconfig}\n").await;
    let ids = setup.client.nodes_in("web", 1).await;
    api.set_nodes(nodes(&ids, Some(&ids[0])));
    setup.client.delete("web", &[&ids[0]]).await.expect("under way");
    assert_eq!(setup.client.target("web").await, 2);
    setup.emulator.simulated().end_deletions("web").expect("it exists");
    setup.server().logged("the cloud accepted the operation, and it failed later");
    let before = setup.emulator.requests().len();
    let is_read_again = async |_: &mut Client| setup.emulator.requests().len() > before + 6;
    setup.client.clone().until("the group is read again", is_read_again).await;
    assert_eq!((setup.client.target("web").await, setup.client.nodes_in("web", 3).await.len()), (2, 1));
    api.set_nodes(nodes(&ids, None));
    setup.client.until("it is back", async |client| client.target("web").await == 3).await;
    assert_eq!(setup.client.nodes_in("web", 1).await.len(), 3);
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

#[tokio::test]
async fn a_server_that_stops_following_taints_at_sighup_follows_the_cloud() {
    let api = ApiServer::plain();
    let follows = "kubernetes: {taints: true, kubeconfig: kubeconfig}\n";
    let mut setup = setup(&api, follows).await;
    let ids = setup.client.nodes_in("web", 1).await;
    api.set_nodes(nodes(&ids, Some(&ids[0])));
    setup.client.delete("web", &[&ids[0]]).await.expect("under way");
    setup.emulator.simulated().end_deletions("web").expect("it exists");
    setup.server().logged("the cloud accepted the operation, and it failed later");
    setup.client.until("all are listed", async |client| client.nodes("web").await.len() == 3).await;
    assert_eq!(setup.client.target("web").await, 2);
    let config = std::fs::read_to_string(setup.config()).expect("readable");
    std::fs::write(setup.config(), config.replace(follows, "")).expect("written");
    setup.server().signal("HUP");
    setup.client.until("it is back", async |client| client.target("web").await == 3).await;
}

#[tokio::test]
async fn without_access_the_target_follows_the_cloud() {
    let api = ApiServer::plain();
    let mut setup =
        setup(&api, "kubernetes: {taints: false, kubeconfig: kubeconfig}\nlearn: {kubernetes: true}\n").await;
    let ids = setup.client.nodes_in("web", 1).await;
    api.set_nodes(nodes(&ids, Some(&ids[0])));
    setup.client.delete("web", &[&ids[0]]).await.expect("under way");
    setup.emulator.simulated().end_deletions("web").expect("it exists");
    setup.client.until("it is back", async |client| client.target("web").await == 3).await;
}
