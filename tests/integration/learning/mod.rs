//! Learning from real nodes: the real fleet and the real binary before a face of the Kubernetes API.

mod bed;
mod process;

use std::collections::BTreeSet;

use headcount::cloud::Family;
use headcount::cloud::simulated::{GroupPlan, Simulated};
use headcount::kubernetes::{CONFIG_MAP_CREATION_VERBS, CONFIG_MAP_VERBS, KubernetesApi, NODE_VERBS};

use crate::faces::kubernetes::{ApiServer, MkNode, mk_node};
use bed::{Bed, CONFIG_MAP, NAMESPACE, client};

const LOW: u64 = 7_700_000;
const HIGH: u64 = 7_900_000;

/// The source of memory that a node says.
fn seen(node: &str) -> String {
    format!("learned from node {node}, ")
}

#[tokio::test]
async fn a_node_that_appears_changes_its_groups_template_and_no_other() {
    let bed = Bed::new(ApiServer::plain()).await;
    let before = bed.memory("web").await;
    bed.api.set_nodes([mk_node("one", &bed.node("web", 0), HIGH)]);
    let after = bed.memory_from("web", &seen("one")).await;
    assert_eq!(after, format!("{HIGH}Ki"));
    assert_eq!(bed.allocatable("web").await, format!("{}Ki", HIGH - (1 << 20)));
    assert_eq!(bed.memory("other").await, before, "a group of the same type");
}

#[tokio::test]
async fn the_lowest_figure_wins_whichever_node_comes_first() {
    let bed = Bed::new(ApiServer::plain()).await;
    let (first, second) = (bed.node("web", 0), bed.node("web", 1));
    bed.api.set_nodes([mk_node("high", &first, HIGH)]);
    bed.memory_from("web", &seen("high")).await;
    bed.api.set_nodes([mk_node("high", &first, HIGH), mk_node("low", &second, LOW)]);
    assert_eq!(bed.memory_from("web", &seen("low")).await, format!("{LOW}Ki"));
    bed.api.set_nodes([mk_node("high", &first, HIGH)]);
    bed.looked_again().await;
    assert_eq!(bed.memory("web").await.0, format!("{LOW}Ki"), "gone, and not forgotten");
}

#[tokio::test]
async fn the_newest_nodes_image_counts_and_an_older_image_comes_back_with_its_own_figures() {
    let bed = Bed::new(ApiServer::plain()).await;
    let node = |name: &str, number, os: &str, created: &str, memory| MkNode {
        os: os.to_owned(),
        created: created.to_owned(),
        ..mk_node(name, &bed.node("web", number), memory)
    };
    let old = node("old", 0, "Amazon Linux 2", "2026-11-01T00:00:00Z", LOW);
    let new = node("new", 1, "Amazon Linux 2023", "2026-11-02T00:00:00Z", HIGH);
    bed.api.set_nodes([old.clone(), new.clone()]);
    bed.memory_from("web", &seen("new")).await;
    bed.api.set_nodes([old]);
    bed.looked_again().await;
    assert_eq!(bed.memory("web").await.0, format!("{HIGH}Ki"));
    bed.api.set_nodes([node("back", 0, "Amazon Linux 2", "2026-11-03T00:00:00Z", HIGH)]);
    assert_eq!(bed.memory_from("web", &seen("old")).await, format!("{LOW}Ki"));
}

#[tokio::test]
async fn nodes_that_are_not_ready_or_of_no_group_are_passed_over() {
    let bed = Bed::new(ApiServer::plain()).await;
    let before = bed.memory("web").await;
    let booting = MkNode { ready: false, ..mk_node("booting", &bed.node("web", 0), HIGH) };
    let nameless = mk_node("nameless", "", HIGH);
    let foreign = mk_node("foreign", "aws:///us-east-1a/i-0123456789abcdef0", HIGH);
    let typeless = MkNode { machine_type: String::new(), ..mk_node("typeless", &bed.node("web", 1), HIGH) };
    bed.api.set_nodes([booting, nameless, foreign, typeless, mk_node("good", &bed.node("other", 0), HIGH)]);
    bed.memory_from("other", &seen("good")).await;
    bed.looked_again().await;
    assert_eq!(bed.memory("web").await, before);
}

#[tokio::test]
async fn the_case_of_azures_names_does_not_matter() {
    let pool = GroupPlan::azure("pool").sized(0, 10, 1).machines(&["Standard_D2s_v5"]);
    let cloud = Simulated::with_groups(7, [pool]).of_family(Family::Azure);
    let bed = Bed::over(ApiServer::plain(), cloud).await;
    let id = bed.node("pool", 0).to_uppercase().replacen("AZURE://", "azure://", 1);
    let machine_type = "standard_d2S_V5".to_owned();
    bed.api.set_nodes([MkNode { machine_type, ..mk_node("one", &id, HIGH) }]);
    assert_eq!(bed.memory_from("pool", &seen("one")).await, format!("{HIGH}Ki"));
}

#[tokio::test]
async fn a_token_that_was_rotated_is_used_from_the_next_call_on() {
    let bed = Bed::new(ApiServer::with_token("first")).await;
    bed.api.set_nodes([mk_node("one", &bed.node("web", 0), HIGH)]);
    bed.memory_from("web", &seen("one")).await;
    bed.api.expect_token("second");
    std::fs::write(bed.folder.path().join("token"), "second\n").expect("written");
    bed.api.set_nodes([mk_node("two", &bed.node("web", 0), LOW)]);
    bed.memory_from("web", &seen("two")).await;
    let sent: BTreeSet<_> =
        bed.api.requests().iter().filter_map(|request| request.header("authorization").map(str::to_owned)).collect();
    assert_eq!(sent, BTreeSet::from(["Bearer first", "Bearer second"].map(str::to_owned)));
}

#[tokio::test]
async fn a_client_certificate_lets_in_and_a_server_of_another_ca_is_not_spoken_to() {
    let bed = Bed::new(ApiServer::with_certificates()).await;
    bed.api.set_nodes([mk_node("one", &bed.node("web", 0), HIGH)]);
    bed.memory_from("web", &seen("one")).await;

    let (server, stranger) = (ApiServer::with_token("t"), ApiServer::with_token("t"));
    let folder = tempfile::tempdir().expect("a folder");
    server.kubeconfig(folder.path());
    let path = folder.path().join("kubeconfig");
    std::fs::write(path, stranger.kubeconfig_text()).expect("written");
    let error = client(folder.path()).list_nodes(None).await.expect_err("another CA").to_string();
    assert!(error.contains("cannot connect to the API server") && error.contains("certificate"), "{error}");
    assert!(stranger.requests().is_empty(), "the token must not be sent");
}

#[tokio::test]
async fn while_the_api_server_is_down_everything_is_served_as_before() {
    let bed = Bed::new(ApiServer::plain()).await;
    bed.api.set_nodes([mk_node("one", &bed.node("web", 0), HIGH)]);
    bed.memory_from("web", &seen("one")).await;
    bed.api.set_down(true);
    bed.api.set_nodes([mk_node("two", &bed.node("web", 0), LOW)]);
    bed.looked_again().await;
    assert_eq!(bed.memory("web").await.0, format!("{HIGH}Ki"));
    bed.api.set_down(false);
    bed.memory_from("web", &seen("two")).await;
}

#[tokio::test]
async fn all_pages_of_nodes_are_read() {
    let bed = Bed::new(ApiServer::plain()).await;
    let crowd = (0..1100).map(|number| mk_node(&format!("n{number}"), &format!("aws:///z/i-{number:017x}"), HIGH));
    bed.api.set_nodes(crowd.chain([mk_node("last", &bed.node("web", 0), LOW)]));
    bed.memory_from("web", &seen("last")).await;
    let pages: BTreeSet<_> = bed.api.requests().iter().filter_map(|request| request.parameter("continue")).collect();
    assert_eq!(pages, BTreeSet::from(["from+/=1000", "from+/=500"].map(str::to_owned)));
}

#[tokio::test]
async fn what_was_learned_is_served_after_a_restart_without_nodes() {
    let mut bed = Bed::new(ApiServer::plain()).await;
    bed.api.set_nodes([mk_node("one", &bed.node("web", 0), HIGH)]);
    bed.kept("one").await;
    bed.api.set_nodes([]);
    bed.restart().await;
    assert_eq!(bed.memory_from("web", &seen("one")).await, format!("{HIGH}Ki"));
}

#[tokio::test]
async fn a_config_map_of_garbage_is_ignored_and_replaced_but_for_what_is_not_headcounts() {
    let api = ApiServer::plain();
    api.write_config_map(NAMESPACE, CONFIG_MAP, &[("learned.json", "garbage"), ("theirs", "kept")]);
    let bed = Bed::new(api).await;
    bed.api.set_nodes([mk_node("one", &bed.node("web", 0), HIGH)]);
    bed.memory_from("web", &seen("one")).await;
    bed.kept("one").await;
    assert_eq!(bed.api.config_map(NAMESPACE, CONFIG_MAP).expect("kept")["theirs"], "kept");
}

#[tokio::test]
async fn what_another_one_wrote_meanwhile_is_not_lost() {
    let bed = Bed::new(ApiServer::plain()).await;
    bed.api.set_nodes([mk_node("one", &bed.node("web", 0), HIGH)]);
    let text = bed.kept("one").await;
    let theirs = text.replace("sim/web", "elsewhere/web").replace("\"one\"", "\"theirs\"");
    bed.api.write_config_map(NAMESPACE, CONFIG_MAP, &[("learned.json", &theirs)]);
    bed.api.set_nodes([mk_node("two", &bed.node("web", 0), LOW)]);
    let text = bed.kept("two").await;
    assert!(text.contains("\"theirs\""), "{text}");
}

#[tokio::test]
async fn a_config_map_that_was_deleted_is_created_again() {
    let bed = Bed::new(ApiServer::plain()).await;
    bed.api.set_nodes([mk_node("one", &bed.node("web", 0), HIGH)]);
    bed.kept("one").await;
    bed.api.delete_config_map(NAMESPACE, CONFIG_MAP);
    bed.api.set_nodes([mk_node("two", &bed.node("web", 0), LOW)]);
    bed.kept("two").await;
}

#[tokio::test]
async fn no_call_is_made_but_those_that_the_manifest_allows() {
    let mut bed = Bed::new(ApiServer::plain()).await;
    bed.api.set_nodes([mk_node("one", &bed.node("web", 0), HIGH)]);
    bed.kept("one").await;
    bed.restart().await;
    bed.api.set_nodes([mk_node("two", &bed.node("web", 0), LOW)]);
    bed.kept("two").await;
    let config_map = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{CONFIG_MAP}");
    let verb = |request: &crate::faces::Request| match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/api/v1/nodes") => "list",
        ("GET", path) if path == config_map => "get",
        ("PATCH", path) if path == config_map => "patch",
        ("POST", path) if Some(path) == config_map.rsplit_once('/').map(|(maps, _)| maps) => "create",
        (method, path) => panic!("{method} {path}"),
    };
    let made: BTreeSet<_> = bed.api.requests().iter().map(verb).collect();
    let allowed = NODE_VERBS.into_iter().chain(CONFIG_MAP_VERBS).chain(CONFIG_MAP_CREATION_VERBS);
    assert_eq!(made, allowed.collect());
}
