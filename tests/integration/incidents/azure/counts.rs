//! Reads of a scale set, and the capacities that are written to it.

use headcount::clouds::simulated::{Accounting, CallKind, DeleteOutcome, Pick, PlannedFailure, ReadFault};
use headcount::grpc::proto::{ExternalGrpcNode, NodeGroupForNodeRequest};
use serde_json::json;
use tonic::Code;

use super::{arm, capacities_written, endless, pool};
use crate::emulators::arm::Arm;
use crate::emulators::setup::Setup;
use crate::emulators::{Emulator, HoldPoint, HttpResponse};
use crate::peers::headcount::{AUTOSCALER_TIMEOUT, Client, ConfigFile, Server, eventually, refused_in_time};

#[tokio::test]
async fn a_set_grows_from_zero_and_loses_the_named_machine_only() {
    for habit in [Accounting::WhenGone, Accounting::OnAccept] {
        for flexible in [false, true] {
            let arm = arm([pool("pool", (0, 10, 0)).accounting(habit)]);
            arm.group_details("pool", |details| details.flexible = flexible);
            let mut setup = Setup::open(arm).await;
            let client = &mut setup.client;
            client.increase("pool", 3).await.expect("0 → 3");
            assert_eq!(client.target("pool").await, 3);
            client.until("three run", async |client| client.nodes_in("pool", 1).await.len() == 3).await;
            let running = client.nodes_in("pool", 1).await;
            assert!(running[0].contains("/resourceGroups/demo/"), "the form of the kubelet: {}", running[0]);
            assert_eq!(client.group_of(&running[1].to_uppercase()).await.as_deref(), Some("pool"));
            client.delete("pool", &[&running[1]]).await.expect("deleted");
            assert_eq!(client.target("pool").await, 2, "{habit:?}, flexible: {flexible}");
            client.until("it is gone", async |client| client.nodes("pool").await.len() == 2).await;
            assert_eq!(client.nodes_in("pool", 1).await, [running[0].clone(), running[2].clone()]);
            assert_eq!(client.target("pool").await, 2);
            assert_eq!(capacities_written(&setup.emulator, "pool"), [3]);
            assert!(setup.emulator.simulated().killed_unnamed().is_empty());
        }
    }
}

#[tokio::test]
async fn vmss_86_believed_48() {
    let failure = PlannedFailure::other("CannotAllocateRemainingVMsInAvailabilitySet", "cannot");
    let plan = pool("pool", (1, 200, 86)).delete_time(endless());
    let plan = plan.deletions(Pick::Always, DeleteOutcome::FailsLater(failure));
    let mut setup = Setup::open(arm([plan])).await;
    let client = &mut setup.client;
    let victims = client.nodes_in("pool", 1).await[..38].to_vec();
    let victims: Vec<&str> = victims.iter().map(String::as_str).collect();
    client.delete("pool", &victims).await.expect("accepted");
    assert_eq!(client.target("pool").await, 48);
    setup.emulator.simulated().end_deletions("pool").expect("it exists");
    client.until("all run again", async |client| client.nodes_in("pool", 1).await.len() == 86).await;
    assert_eq!(client.target("pool").await, 86);
    client.increase("pool", 5).await.expect("accepted");
    assert_eq!(client.target("pool").await, 91);
    assert_eq!(capacities_written(&setup.emulator, "pool"), [91]);
}

#[tokio::test]
async fn vmss_capacity_reads_zero() {
    let mut setup = Setup::open(arm([pool("pool", (0, 200, 90))])).await;
    let client = &mut setup.client;
    assert_eq!(client.target("pool").await, 90);
    let once = |faults: &mut headcount::clouds::simulated::Faults| {
        faults.script_read(Some(CallKind::Observe), "pool", 1, ReadFault::Capacity(0));
    };
    setup.emulator.simulated().faults(once);
    client.increase("pool", 1).await.expect("after a second reading");
    assert_eq!(client.target("pool").await, 91);
    assert_eq!(capacities_written(&setup.emulator, "pool"), [91]);
}

#[tokio::test]
async fn vmss_spot_eviction() {
    let arm = arm([pool("pool", (0, 20, 9))]);
    arm.group_details("pool", |details| details.spot = true);
    let mut setup = Setup::open(arm).await;
    assert_eq!(setup.client.target("pool").await, 9);
    setup.emulator.simulated().evict("pool", 2).expect("it exists");
    setup.client.until("seven", async |client| client.target("pool").await == 7).await;
}

#[tokio::test]
async fn vmss_gone() {
    let mut setup = Setup::open(arm([pool("pool", (0, 10, 2)), pool("other", (0, 10, 3))])).await;
    assert_eq!(setup.client.node_groups().await.len(), 2);
    setup.emulator.simulated().remove_group("pool");
    setup.client.until("it is gone", async |client| client.node_groups().await.len() == 1).await;
    setup.client.increase("other", 1).await.expect("other groups can still grow");
    assert_eq!(setup.client.target("other").await, 4);
}

#[tokio::test]
async fn vmss_etag_conflict() {
    let mut setup = Setup::open(arm([pool("pool", (0, 100, 4))])).await;
    setup.emulator.hold("PATCH", "virtualMachineScaleSets/pool", HoldPoint::BeforeEffect);
    let (mut client, emulator) = (setup.client.clone(), &setup.emulator);
    let somebody_else = async {
        let is_sent = || !emulator.requests_with("PATCH", "virtualMachineScaleSets/pool").is_empty();
        eventually("it is sent", is_sent).await;
        emulator.simulated().set_desired_externally("pool", 9).expect("it exists");
        emulator.release();
    };
    let (outcome, ()) = tokio::join!(client.increase("pool", 2), somebody_else);
    outcome.expect("read again and recomputed");
    assert_eq!(setup.client.target("pool").await, 11);
    assert_eq!(capacities_written(&setup.emulator, "pool"), [6, 11], "the first one met a 412");
    let first = setup.emulator.requests_with("PATCH", "virtualMachineScaleSets/pool").remove(0);
    assert_eq!((first.json()["sku"]["capacity"].as_u64(), first.status), (Some(6), Some(412)));
}

#[tokio::test]
async fn vmss_bad_item() {
    let arm = arm([pool("pool", (0, 10, 2)), pool("other", (0, 10, 3))]);
    arm.group_details("pool", |details| details.undecodable = true);
    let mut setup = Setup::open(arm).await;
    assert_eq!(setup.client.node_groups().await.len(), 1, "the other one is served from the start");
    setup.emulator.group_details("pool", |details| details.undecodable = false);
    setup.client.until("both are served", async |client| client.node_groups().await.len() == 2).await;
    assert_eq!(setup.client.target("pool").await, 2);
    setup.emulator.group_details("pool", |details| details.undecodable = true);
    setup.client.increase("other", 1).await.expect("only that group is affected");
    assert_eq!((setup.client.target("other").await, setup.client.target("pool").await), (4, 2));
}

#[tokio::test]
async fn vmss_machine_without_id() {
    let mut setup = Setup::open(arm([pool("pool", (0, 10, 2)), pool("other", (0, 10, 3))])).await;
    assert_eq!(setup.client.target("pool").await, 2);
    let nameless = json!({"value": [{"name": "pool_0"}, {"name": "pool_1"}]});
    setup.emulator.script(
        "GET",
        "virtualMachineScaleSets/pool/virtualMachines",
        1_000,
        HttpResponse::json(200, &nameless),
    );
    setup.client.increase("pool", 1).await.expect("the capacity is enough");
    assert_eq!(setup.client.target("pool").await, 3);
    setup.server().logged("Azure lists a VM without an ID");
    setup.client.increase("other", 1).await.expect("only that scale set is affected");
    assert_eq!((setup.client.target("other").await, setup.client.target("pool").await), (4, 3));
    assert_eq!(capacities_written(&setup.emulator, "pool"), [3]);
}

#[tokio::test]
async fn vmss_delete_while_a_list_is_in_doubt() {
    let mut setup = Setup::open(arm([pool("pool", (0, 20, 10))])).await;
    let victim = setup.client.nodes_in("pool", 1).await.remove(3);
    let empty = HttpResponse::json(200, &json!({"value": []}));
    setup.emulator.script("GET", "virtualMachineScaleSets/pool/virtualMachines", 1, empty);
    setup.emulator.simulated().set_desired_externally("pool", 11).expect("it exists");
    setup.server().logged("observation is in doubt");
    setup.client.delete("pool", &[&victim]).await.expect("deleted");
    assert_eq!(setup.emulator.requests_with("POST", "virtualMachineScaleSets/pool/delete").len(), 1, "it was sent");
    let gone = async |client: &mut Client| !client.nodes("pool").await.iter().any(|one| one.id == victim);
    setup.client.until("it is gone", gone).await;
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

#[tokio::test]
async fn vmss_scale_up_from_min() {
    let mut setup = Setup::open(arm([pool("pool", (3, 100, 40))])).await;
    assert_eq!(setup.client.target("pool").await, 40);

    // The size is missing. It must be taken neither as 0 nor as the minimum.
    setup.emulator.group_details("pool", |details| details.undecodable = true);
    setup.server().logged("cannot be understood");
    let mut caller = setup.server().untimed_client(AUTOSCALER_TIMEOUT).await;
    let (code, message) = refused_in_time(async || caller.increase("pool", 1).await).await;
    assert_eq!(code, Code::Unavailable, "{message}");
    assert_eq!(setup.client.target("pool").await, 40);
    setup.emulator.group_details("pool", |details| details.undecodable = false);

    // The size is stale after a refresh, and when the set itself is read. A second read must confirm it.
    setup.emulator.simulated().faults(|faults| {
        faults.script_read(Some(CallKind::List), "pool", 1, ReadFault::Capacity(3));
        faults.script_read(Some(CallKind::Observe), "pool", 1, ReadFault::Capacity(3));
    });
    setup.server().logged("is in doubt");
    setup.emulator.forget_requests();
    let read_again =
        async |_: &mut Client| !setup.emulator.requests_with("GET", "virtualMachineScaleSets/pool?").is_empty();
    setup.client.until("it is read again", read_again).await;
    assert_eq!(setup.client.target("pool").await, 40);

    // The same if the write's own read is stale.
    setup
        .emulator
        .simulated()
        .faults(|faults| faults.script_read(Some(CallKind::Observe), "pool", 1, ReadFault::Capacity(3)));
    setup.client.increase("pool", 1).await.expect("after a correct reading");
    assert_eq!(setup.client.target("pool").await, 41);
    assert_eq!(capacities_written(&setup.emulator, "pool"), [41]);
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

#[tokio::test]
async fn vmss_case_of_ids() {
    for flexible in [false, true] {
        let arm = arm([pool("AKS-Pool", (0, 10, 3))]);
        arm.group_details("AKS-Pool", |details| details.flexible = flexible);
        let mut setup = Setup::with(arm, |options| options.node_groups = vec!["0:10:aks-pool".to_owned()]).await;
        let client = &mut setup.client;
        let nodes = client.nodes_in("aks-pool", 1).await;
        assert_eq!(nodes.len(), 3, "the set is found in any case, and served by the name that is configured");
        let subscription = "azure:///subscriptions/00000000-0000-0000-0000-000000000000";
        let provider = "resourceGroups/demo/providers/Microsoft.Compute";
        let sets =
            if flexible { "virtualMachines/AKS-Pool_" } else { "virtualMachineScaleSets/AKS-Pool/virtualMachines/" };
        let kubelets = format!("{subscription}/{provider}/{sets}");
        for node in &nodes {
            assert!(
                node.starts_with(&kubelets),
                "lists have the resource group in capitals, kubelets in lower case: {node}"
            );
            for any_case in [node.clone(), node.to_ascii_uppercase(), node.to_ascii_lowercase()] {
                assert_eq!(client.group_of(&any_case).await.as_deref(), Some("aks-pool"), "{any_case}");
            }
        }
        client.delete("aks-pool", &[&nodes[1].to_ascii_uppercase()]).await.expect("deleted");
        client.until("it is gone", async |client| client.nodes("aks-pool").await.len() == 2).await;
        assert_eq!(client.nodes_in("aks-pool", 1).await, [nodes[0].clone(), nodes[2].clone()]);
    }
}

#[tokio::test]
async fn vmss_id_case_flips() {
    for flexible in [false, true] {
        let arm = arm([pool("AKS-Pool", (0, 10, 3))]);
        arm.group_details("AKS-Pool", |details| details.flexible = flexible);
        let mut setup = Setup::open(arm).await;
        let client = &mut setup.client;
        let mut nodes = client.nodes_in("AKS-Pool", 1).await;
        // What CA makes up from a listed ID says nothing about a node.
        let annotations = [("k8s.io/cluster-autoscaler/fake-node-reason".to_owned(), "unregistered".to_owned())].into();
        let made_up =
            ExternalGrpcNode { provider_id: nodes[1].to_ascii_uppercase(), annotations, ..Default::default() };
        let request = NodeGroupForNodeRequest { node: Some(made_up) };
        client.stub().node_group_for_node(request).await.expect("a response");
        assert_eq!(client.nodes_in("AKS-Pool", 1).await, nodes);
        nodes[0] = nodes[0].to_ascii_lowercase();
        assert_eq!(client.group_of(&nodes[0]).await.as_deref(), Some("AKS-Pool"));
        assert_eq!(client.nodes_in("AKS-Pool", 1).await, nodes, "as the node spells it");
        // Someone else asks in another spelling, once; about a node that was not asked about before, that one counts first.
        client.group_of(&nodes[0].to_ascii_uppercase()).await;
        assert_eq!(client.nodes_in("AKS-Pool", 1).await, nodes);
        client.group_of(&nodes[1].to_ascii_uppercase()).await;
        for _ in 0..2 {
            client.group_of(&nodes[1]).await;
        }
        assert_eq!(client.nodes_in("AKS-Pool", 1).await, nodes, "as the node spells it in every loop");

        setup.emulator.behavior(|behavior| behavior.id_spelling = str::to_ascii_uppercase);
        client.increase("AKS-Pool", 1).await.expect("accepted");
        client.until("four run", async |client| client.nodes_in("AKS-Pool", 1).await.len() == 4).await;
        assert_eq!(client.nodes_in("AKS-Pool", 1).await[..3], nodes, "flexible: {flexible}");
        client.delete("AKS-Pool", &[&nodes[0]]).await.expect("deleted");
        client.until("it is gone", async |client| client.nodes("AKS-Pool").await.len() == 3).await;
        assert_eq!(client.nodes_in("AKS-Pool", 1).await[..2], nodes[1..]);
        assert!(setup.emulator.simulated().killed_unnamed().is_empty());
    }
}

#[tokio::test]
async fn sources_of_one_cloud_are_separate_and_groups_are_found_by_their_tags() {
    let tagged = |name: &str, tags: &[(&str, &str)]| {
        let mut plan = pool(name, (0, 10, 2));
        plan.tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        plan
    };
    let prod = ("cluster", "prod");
    let first = arm([tagged("pool", &[prod, ("min", "1"), ("max", "5")]), tagged("other", &[("cluster", "test")])]);
    let second = arm([tagged("pool", &[prod]), tagged("named", &[("max", "3")])]);
    let source = |name: &str, arm: &Arm, groups: &str| {
        let settings: String = arm.settings().iter().map(|line| format!("      {line}\n")).collect();
        format!("  - name: {name}\n    azure:\n{settings}      {groups}\n")
    };
    let discovery = "autoDiscovery: [\"label:cluster=prod,min=0,max=9\"]";
    let config = ConfigFile::new(&format!(
        "refreshInterval: 1s\nsources:\n{}{}",
        source("first", &first, discovery),
        source("second", &second, &format!("{discovery}\n      nodeGroups: [\"0:10:named\"]"))
    ));
    let server = Server::with_config(&config);
    let mut client = server.client().await;
    assert_eq!(client.target("first/pool").await, 2);
    let mut served: Vec<_> =
        client.node_groups().await.into_iter().map(|group| (group.id, group.min_size, group.max_size)).collect();
    served.sort();
    let expected = [("first/pool", 1, 5), ("named", 0, 3), ("second/pool", 0, 9)];
    assert_eq!(served, expected.map(|(id, min, max)| (id.to_owned(), min, max)));
    server.logged("configured as 0:10, but the tags of the scale set say 0:3; 0:3 is used");
    client.increase("second/pool", 1).await.expect("accepted");
    assert_eq!((capacities_written(&first, "pool"), capacities_written(&second, "pool")), (vec![], vec![3]));
}
