//! Nodes that CA has tainted, and whose deletion failed: for CA they are gone.

use std::sync::Arc;
use std::time::Duration;

use headcount::cloud::Family;
use headcount::clouds::simulated::{DeleteOutcome, GroupPlan, Pick, PlannedFailure, Simulated};

use crate::emulators::Emulator as _;
use crate::emulators::arm::Arm;
use crate::emulators::kubernetes::{ApiServer, MkNode, mk_node};
use crate::emulators::setup::Setup;
use crate::peers::headcount::Client;

const TAINT: &str = "ToBeDeletedByClusterAutoscaler";
/// Longer than any test. `Simulated::end_deletions` ends the deletions.
const ENDLESS: Duration = Duration::from_secs(600);

fn nodes(ids: &[String], tainted: usize) -> Vec<MkNode> {
    let node = |(number, id): (usize, &String)| MkNode {
        taints: if number < tainted { vec![TAINT] } else { Vec::new() },
        ..mk_node(&format!("n{number}"), id, 7_900_000)
    };
    ids.iter().enumerate().map(node).collect()
}

async fn max(client: &mut Client) -> i32 {
    client.node_groups().await.iter().find(|group| group.id == "web").expect("it is served").max_size
}

#[tokio::test]
async fn taints_leave_no_livelock() {
    let api = ApiServer::plain();
    let failure = PlannedFailure::other("CannotDelete", "not now");
    let plan = GroupPlan::azure("web").sized(0, 10, 6).delete_time(ENDLESS..=ENDLESS);
    let plan = plan.deletions(Pick::Always, DeleteOutcome::FailsLater(failure));
    let cloud = Simulated::with_groups(7, [plan]).of_family(Family::Azure);
    let kubeconfig = api.kubeconfig_text();
    let mut setup = Setup::with(Arm::start(Arc::new(cloud)), move |options| {
        options.more = "kubernetes: {taints: true, kubeconfig: kubeconfig}\n".to_owned();
        options.files.push(("kubeconfig".to_owned(), kubeconfig));
    })
    .await;
    setup.client.until("served", async |client| client.nodes_in("web", 1).await.len() == 6).await;
    let ids = setup.client.nodes_in("web", 1).await;
    api.set_nodes(nodes(&ids, 4));
    let named: Vec<&str> = ids[..4].iter().map(String::as_str).collect();
    setup.client.delete("web", &named).await.expect("under way");
    setup.emulator.simulated().end_deletions("web").expect("it exists");
    setup.server().logged("the cloud accepted the operation, and it failed later");
    setup.client.until("the four take up room", async |client| max(client).await == 6).await;
    assert_eq!((setup.client.target("web").await, setup.client.nodes_in("web", 3).await.len()), (2, 4));
    setup.client.increase("web", 4).await.expect("as many as CA may ask for");
    setup.client.until("they are there", async |client| client.target("web").await == 6).await;

    api.set_nodes(nodes(&ids, 0));
    setup.client.until("all count", async |client| client.target("web").await == 10).await;
    assert_eq!(max(&mut setup.client).await, 10);
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}
