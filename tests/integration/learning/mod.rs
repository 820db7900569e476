//! Learning from real nodes: the real fleet and the real binary before an emulator of the Kubernetes API.

mod devices;
mod exec;
mod failed;
mod fixture;
mod foreign;
mod hosts;
mod plausible;
mod process;
mod taints;
mod watch;

use std::collections::BTreeSet;

use headcount::cloud::Family;
use headcount::clouds::simulated::{GroupPlan, Simulated};
use headcount::kubernetes::{
    CONFIG_MAP_CREATION_VERBS, CONFIG_MAP_VERBS, KubernetesApi, NODE_VERBS, RESOURCE_SLICE_VERBS,
};

use crate::emulators::kubernetes::{ApiServer, MkNode, mk_node};
use fixture::{CONFIG_MAP, Fixture, NAMESPACE, client};

const LOW: u64 = 7_700_000;
const HIGH: u64 = 7_900_000;

/// The provenance of memory that was learned from a node.
fn seen(node: &str) -> String {
    format!("learned from node {node}, ")
}

#[tokio::test]
async fn a_node_that_appears_changes_its_groups_template_and_no_other() {
    let fixture = Fixture::new(ApiServer::plain()).await;
    let before = fixture.memory("web").await;
    fixture.api.set_nodes([mk_node("one", &fixture.node("web", 0), HIGH)]);
    let after = fixture.memory_from("web", &seen("one")).await;
    assert_eq!(after, format!("{HIGH}Ki"));
    assert_eq!(fixture.allocatable("web").await, format!("{}Ki", HIGH - (1 << 20)));
    assert_eq!(fixture.memory("other").await, before, "a group of the same type");
}

#[tokio::test]
async fn the_lowest_figure_wins_in_any_order_of_nodes() {
    let fixture = Fixture::new(ApiServer::plain()).await;
    let (first, second) = (fixture.node("web", 0), fixture.node("web", 1));
    fixture.api.set_nodes([mk_node("high", &first, HIGH)]);
    fixture.memory_from("web", &seen("high")).await;
    fixture.api.set_nodes([mk_node("high", &first, HIGH), mk_node("low", &second, LOW)]);
    assert_eq!(fixture.memory_from("web", &seen("low")).await, format!("{LOW}Ki"));
    fixture.api.set_nodes([mk_node("high", &first, HIGH)]);
    fixture.looked_again().await;
    assert_eq!(fixture.memory("web").await.0, format!("{LOW}Ki"), "the node is gone, but its figure is kept");
}

#[tokio::test]
async fn the_newest_nodes_image_decides_and_each_image_keeps_its_figures() {
    let fixture = Fixture::new(ApiServer::plain()).await;
    let node = |name: &str, number, os: &str, created: &str, memory| MkNode {
        os: os.to_owned(),
        created: created.to_owned(),
        ..mk_node(name, &fixture.node("web", number), memory)
    };
    // Both on one kind of host.
    let low = HIGH - 10_000;
    let old = node("old", 0, "Amazon Linux 2", "2026-11-01T00:00:00Z", low);
    let new = node("new", 1, "Amazon Linux 2023", "2026-11-02T00:00:00Z", HIGH);
    fixture.api.set_nodes([old.clone(), new.clone()]);
    fixture.memory_from("web", &seen("new")).await;
    fixture.api.set_nodes([old]);
    fixture.looked_again().await;
    assert_eq!(fixture.memory("web").await.0, format!("{HIGH}Ki"));
    fixture.api.set_nodes([node("back", 0, "Amazon Linux 2", "2026-11-03T00:00:00Z", HIGH)]);
    assert_eq!(fixture.memory_from("web", &seen("old")).await, format!("{low}Ki"));
}

#[tokio::test]
async fn nodes_that_are_not_ready_or_have_no_group_are_ignored() {
    let fixture = Fixture::new(ApiServer::plain()).await;
    let before = fixture.memory("web").await;
    let booting = MkNode { ready: false, ..mk_node("booting", &fixture.node("web", 0), HIGH) };
    let nameless = mk_node("nameless", "", HIGH);
    let foreign = mk_node("foreign", "aws:///us-east-1a/i-0123456789abcdef0", HIGH);
    let typeless = MkNode { instance_type: String::new(), ..mk_node("typeless", &fixture.node("web", 1), HIGH) };
    fixture.api.set_nodes([booting, nameless, foreign, typeless, mk_node("good", &fixture.node("other", 0), HIGH)]);
    fixture.memory_from("other", &seen("good")).await;
    fixture.looked_again().await;
    assert_eq!(fixture.memory("web").await, before);
}

#[tokio::test]
async fn the_case_of_azures_names_does_not_matter() {
    let pool = GroupPlan::azure("pool").sized(0, 10, 1).instance_types(&["Standard_D2s_v5"]);
    let cloud = Simulated::with_groups(7, [pool]).of_family(Family::Azure);
    let fixture = Fixture::over(ApiServer::plain(), cloud).await;
    let id = fixture.node("pool", 0).to_uppercase().replacen("AZURE://", "azure://", 1);
    let instance_type = "standard_d2S_V5".to_owned();
    fixture.api.set_nodes([MkNode { instance_type, ..mk_node("one", &id, HIGH) }]);
    assert_eq!(fixture.memory_from("pool", &seen("one")).await, format!("{HIGH}Ki"));
}

#[tokio::test]
async fn a_token_that_was_rotated_is_used_from_the_next_request_on() {
    let fixture = Fixture::new(ApiServer::with_token("first")).await;
    fixture.api.set_nodes([mk_node("one", &fixture.node("web", 0), HIGH)]);
    fixture.memory_from("web", &seen("one")).await;
    fixture.api.expect_token("second");
    std::fs::write(fixture.folder.path().join("token"), "second\n").expect("written");
    fixture.api.end_watches();
    fixture.api.set_nodes([mk_node("two", &fixture.node("web", 0), LOW)]);
    fixture.memory_from("web", &seen("two")).await;
    let sent: BTreeSet<_> = fixture
        .api
        .requests()
        .iter()
        .filter_map(|request| request.header("authorization").map(str::to_owned))
        .collect();
    assert_eq!(sent, BTreeSet::from(["Bearer first", "Bearer second"].map(str::to_owned)));
}

#[tokio::test]
async fn a_client_certificate_is_accepted_and_a_server_of_another_ca_is_not_called() {
    let fixture = Fixture::new(ApiServer::with_certificates()).await;
    fixture.api.set_nodes([mk_node("one", &fixture.node("web", 0), HIGH)]);
    fixture.memory_from("web", &seen("one")).await;

    let (server, stranger) = (ApiServer::with_token("t"), ApiServer::with_token("t"));
    let folder = tempfile::tempdir().expect("a folder");
    server.kubeconfig(folder.path());
    let path = folder.path().join("kubeconfig");
    std::fs::write(path, stranger.kubeconfig_text()).expect("written");
    let error = client(folder.path()).check_nodes().await.expect_err("another CA").to_string();
    assert!(error.contains("cannot connect to the API server") && error.contains("certificate"), "{error}");
    assert!(stranger.requests().is_empty(), "the token must not be sent");
}

#[tokio::test]
async fn while_the_api_server_is_down_everything_is_served_as_before() {
    let fixture = Fixture::new(ApiServer::plain()).await;
    fixture.api.set_nodes([mk_node("one", &fixture.node("web", 0), HIGH)]);
    fixture.memory_from("web", &seen("one")).await;
    fixture.api.set_down(true);
    fixture.api.set_nodes([mk_node("two", &fixture.node("web", 0), LOW)]);
    fixture.refused_again().await;
    assert_eq!(fixture.memory("web").await.0, format!("{HIGH}Ki"));
    fixture.api.set_down(false);
    fixture.memory_from("web", &seen("two")).await;
}

#[tokio::test]
async fn what_was_learned_is_served_after_a_restart_without_nodes() {
    let mut fixture = Fixture::new(ApiServer::plain()).await;
    fixture.api.set_nodes([mk_node("one", &fixture.node("web", 0), HIGH)]);
    fixture.kept("one").await;
    fixture.api.set_nodes([]);
    fixture.restart().await;
    assert_eq!(fixture.memory_from("web", &seen("one")).await, format!("{HIGH}Ki"));
}

#[tokio::test]
async fn an_invalid_config_map_is_replaced_except_for_keys_of_others() {
    let api = ApiServer::plain();
    api.write_config_map(NAMESPACE, CONFIG_MAP, &[("learned.json", "garbage"), ("theirs", "kept")]);
    let fixture = Fixture::new(api).await;
    fixture.api.set_nodes([mk_node("one", &fixture.node("web", 0), HIGH)]);
    fixture.memory_from("web", &seen("one")).await;
    fixture.kept("one").await;
    assert_eq!(fixture.api.config_map(NAMESPACE, CONFIG_MAP).expect("kept")["theirs"], "kept");
}

#[tokio::test]
async fn figures_that_another_replica_wrote_meanwhile_are_kept() {
    let fixture = Fixture::new(ApiServer::plain()).await;
    fixture.api.set_nodes([mk_node("one", &fixture.node("web", 0), HIGH)]);
    let text = fixture.kept("one").await;
    let theirs = text.replace("sim/web", "elsewhere/web").replace("\"one\"", "\"theirs\"");
    fixture.api.write_config_map(NAMESPACE, CONFIG_MAP, &[("learned.json", &theirs)]);
    fixture.api.set_nodes([mk_node("two", &fixture.node("web", 0), LOW)]);
    let text = fixture.kept("two").await;
    assert!(text.contains("\"theirs\""), "{text}");
}

#[tokio::test]
async fn a_config_map_that_was_deleted_is_created_again() {
    let fixture = Fixture::new(ApiServer::plain()).await;
    fixture.api.set_nodes([mk_node("one", &fixture.node("web", 0), HIGH)]);
    fixture.kept("one").await;
    fixture.api.delete_config_map(NAMESPACE, CONFIG_MAP);
    fixture.api.set_nodes([mk_node("two", &fixture.node("web", 0), LOW)]);
    fixture.kept("two").await;
}

#[tokio::test]
async fn only_calls_that_the_manifest_allows_are_made() {
    let mut fixture = Fixture::new(ApiServer::plain()).await;
    fixture.api.set_nodes([mk_node("one", &fixture.node("web", 0), HIGH)]);
    fixture.kept("one").await;
    fixture.restart().await;
    fixture.api.set_nodes([mk_node("two", &fixture.node("web", 0), LOW)]);
    fixture.kept("two").await;
    let config_map = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{CONFIG_MAP}");
    let verb = |request: &crate::emulators::Request| match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/api/v1/nodes") if request.parameter("watch").is_some() => "watch",
        ("GET", "/api/v1/nodes") => "list",
        ("GET", "/apis/resource.k8s.io/v1/resourceslices") if request.parameter("watch").is_some() => "watch",
        ("GET", "/apis/resource.k8s.io/v1/resourceslices") => "list",
        ("GET", path) if path == config_map => "get",
        ("PATCH", path) if path == config_map => "patch",
        ("POST", path) if Some(path) == config_map.rsplit_once('/').map(|(maps, _)| maps) => "create",
        (method, path) => panic!("{method} {path}"),
    };
    let made: BTreeSet<_> = fixture.api.requests().iter().map(verb).collect();
    assert_eq!(RESOURCE_SLICE_VERBS, NODE_VERBS);
    let allowed = NODE_VERBS.into_iter().chain(CONFIG_MAP_VERBS).chain(CONFIG_MAP_CREATION_VERBS);
    assert_eq!(made, allowed.collect());
}
