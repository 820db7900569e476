//! Node groups whose instances are the nodes of another cluster (autoscaler #8084).

use std::sync::Arc;
use std::time::Duration;

use headcount::cloud::Family;
use headcount::clouds::simulated::{GroupPlan, Simulated};
use tonic::Code;

use crate::emulators::Emulator;
use crate::emulators::arm::Arm;
use crate::emulators::aws::Aws;
use crate::emulators::kubernetes::{ApiServer, mk_node};
use crate::emulators::setup::Setup;
use crate::peers::headcount::{refused, run};

const MEMORY: u64 = 7_900_000;
const REFUSING: &str = "node group seems to belong to another cluster";
const OURS: &str = "aws:///us-east-1a/i-0a1b2c3d4e5f60718";

/// A group of two instances that no activity of the last 15 minutes names, so they are older.
fn aws() -> Aws {
    Aws::start(Arc::new(Simulated::with_groups(7, [GroupPlan::aws("web").sized(0, 10, 2)])))
}

/// Groups of two VMs that were created this long ago.
fn arm(groups: [(&'static str, Duration); 2]) -> Arm {
    let plans = groups.map(|(name, _)| GroupPlan::azure(name).sized(0, 10, 2));
    let emulator = Arm::start(Arc::new(Simulated::with_groups(7, plans).of_family(Family::Azure)));
    for (name, created_ago) in groups {
        emulator.group_details(name, |details| details.created_ago = created_ago);
    }
    emulator
}

async fn setup<F: Emulator>(emulator: F, api: &ApiServer, groups: &str) -> Setup<F> {
    let (kubeconfig, groups) = (api.kubeconfig_text(), groups.to_owned());
    let mut setup = Setup::with(emulator, move |options| {
        options.more = format!("learn: {{kubernetes: true, kubeconfig: kubeconfig}}\n{groups}");
        options.files.push(("kubeconfig".to_owned(), kubeconfig));
    })
    .await;
    setup.client.until("served", async |client| client.nodes("web").await.len() == 2).await;
    setup
}

#[tokio::test]
async fn instances_of_another_cluster_are_not_deleted() {
    let api = ApiServer::plain();
    api.set_nodes([mk_node("ours", OURS, MEMORY)]);
    let mut setup = setup(aws(), &api, "").await;
    let line = setup.server().logged(REFUSING);
    assert!(line.contains("WARN") && line.contains("\"instances\":2"), "{line}");
    let nodes = setup.client.nodes("web").await;
    let (code, message) = refused(setup.client.delete("web", &[&nodes[0].id]).await);
    assert_eq!(code, Code::FailedPrecondition, "{message}");
    assert!(
        message.contains("none of its 2 instances older than 15 minutes") && message.contains("foreign: allow"),
        "{message}"
    );
    let terminations = setup.emulator.requests().into_iter().filter(|request| request.body.contains("Terminate"));
    assert_eq!(terminations.count(), 0);

    let check = run(&["check", "--config", &setup.config()]);
    let table = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(table.contains("HC202") && table.contains("seems to belong to another cluster"), "{table}");
    assert_eq!(check.status.code(), Some(1), "{table}");

    // A new instance may belong to the other cluster as well, whose autoscaler also launches instances in this group.
    setup.client.increase("web", 1).await.expect("there is room");
    setup.client.until("launched", async |client| client.nodes_in("web", 1).await.len() == 3).await;
    let all = setup.client.nodes("web").await;
    let launched = all.iter().find(|node| !nodes.iter().any(|before| before.id == node.id)).expect("a new one");
    let (code, _) = refused(setup.client.delete("web", &[&launched.id]).await);
    assert_eq!(code, Code::FailedPrecondition);
}

#[tokio::test]
async fn a_configuration_that_allows_it_deletes_what_is_named() {
    let api = ApiServer::plain();
    api.set_nodes([mk_node("ours", OURS, MEMORY)]);
    let mut setup = setup(aws(), &api, "groups: [{match: web, foreign: allow}]").await;
    setup.server().logged(REFUSING);
    let nodes = setup.client.nodes("web").await;
    setup.client.delete("web", &[&nodes[0].id]).await.expect("allowed");
}

#[tokio::test]
async fn a_group_with_one_node_of_this_cluster_belongs_to_it() {
    let api = ApiServer::plain();
    api.set_nodes([mk_node("ours", OURS, MEMORY)]);
    let emulator = aws();
    let ids = emulator.simulated().world(|world, _| {
        let group = world.group("web").expect("a group");
        group.members().map(|member| member.provider_id.to_string()).collect::<Vec<_>>()
    });
    api.set_nodes([mk_node("ours", OURS, MEMORY), mk_node("one", &ids[0], MEMORY)]);
    let mut setup = setup(emulator, &api, "").await;
    setup.client.until("nodes were seen", async |_| api.is_delivered()).await;
    setup.client.delete("web", &[&ids[1]]).await.expect("it may only have failed to join");
    assert_eq!(setup.server().lines_with(REFUSING).len(), 0);
}

#[tokio::test]
async fn a_zone_without_nodes_belongs_to_the_cluster_of_its_groups_other_zones() {
    let api = ApiServer::plain();
    let emulator = aws();
    let ids = emulator.simulated().world(|world, _| {
        let group = world.group("web").expect("a group");
        group.members().map(|member| member.provider_id.to_string()).collect::<Vec<_>>()
    });
    let zone = |id: &str| id.trim_start_matches("aws:///").split('/').next().map(|zone| format!("web/{zone}"));
    let [joined, never] = [zone(&ids[0]), zone(&ids[1])].map(|name| name.expect("a zone"));
    assert_ne!(joined, never);
    api.set_nodes([mk_node("one", &ids[0], MEMORY)]);
    let kubeconfig = api.kubeconfig_text();
    let mut setup = Setup::with(emulator, move |options| {
        options.more =
            "learn: {kubernetes: true, kubeconfig: kubeconfig}\ngroups: [{match: web, zones: separate}]".to_owned();
        options.files.push(("kubeconfig".to_owned(), kubeconfig));
    })
    .await;
    setup.client.until("served", async |client| client.node_groups().await.len() == 2).await;
    setup.client.until("nodes were seen", async |_| api.is_delivered()).await;
    setup.client.delete(&never, &[&ids[1]]).await.expect("it may only have failed to join");
    assert_eq!(setup.server().lines_with(REFUSING).len(), 0);
}

#[tokio::test]
async fn without_nodes_to_compare_nothing_is_refused() {
    for nodes in [vec![], vec![mk_node("elsewhere", "azure:///subscriptions/other", MEMORY)]] {
        let api = ApiServer::plain();
        api.set_nodes(nodes);
        let mut setup = setup(aws(), &api, "").await;
        setup.client.until("nodes were seen", async |_| api.is_delivered()).await;
        let id = setup.client.nodes("web").await[0].id.clone();
        setup.client.delete("web", &[&id]).await.expect("deleted");
    }
    let api = ApiServer::plain();
    let kubeconfig = api.kubeconfig_text();
    api.set_down(true);
    let mut setup = Setup::with(aws(), move |options| {
        options.more = "learn: {kubernetes: true, kubeconfig: kubeconfig}".to_owned();
        options.files.push(("kubeconfig".to_owned(), kubeconfig));
    })
    .await;
    setup.server().logged("nodes cannot be watched");
    let id = setup.client.nodes("web").await[0].id.clone();
    setup.client.delete("web", &[&id]).await.expect("deleted");
}

#[tokio::test]
async fn machines_of_another_cluster_are_not_deleted_but_young_ones_are() {
    const NODE: &str = "azure:///subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/rg/providers/\
                        Microsoft.Compute/virtualMachineScaleSets/other/virtualMachines/0";
    let api = ApiServer::plain();
    let emulator = arm([("web", Duration::from_secs(60)), ("old", Duration::from_secs(20 * 60))]);
    let of_this_source = emulator.simulated().world(|world, _| {
        let group = world.group("web").expect("a group");
        group.members().map(|member| member.provider_id.to_string()).next().expect("a machine")
    });
    let other = of_this_source.replace("/web/", "/other/").replace("/web_", "/other_");
    api.set_nodes([mk_node("ours", &other, MEMORY), mk_node("elsewhere", NODE, MEMORY)]);
    let mut setup = setup(emulator, &api, "").await;
    // From now on, the nodes are known.
    let line = setup.server().logged(REFUSING);
    assert!(line.contains("/old\""), "{line}");
    let id = setup.client.nodes("old").await[0].id.clone();
    let (code, message) = refused(setup.client.delete("old", &[&id]).await);
    assert_eq!(code, Code::FailedPrecondition, "{message}");

    let id = setup.client.nodes("web").await[0].id.clone();
    setup.client.delete("web", &[&id]).await.expect("it may still join");
}
