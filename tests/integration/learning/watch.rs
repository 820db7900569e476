//! The watch of the nodes: how it starts, resumes and starts over.

use std::collections::BTreeSet;
use std::time::Duration;

use headcount::kubernetes::KubernetesApi;
use headcount::tasks::Tasks;

use super::fixture::{Fixture, client};
use super::{HIGH, LOW, seen};
use crate::emulators::Request;
use crate::emulators::kubernetes::{ApiServer, mk_node};
use crate::peers::headcount::eventually;

/// How many lists and watches of nodes were started.
fn begun(api: &ApiServer) -> (usize, usize) {
    let requests = api.requests();
    let nodes: Vec<_> = requests.iter().filter(|request| request.path == "/api/v1/nodes").collect();
    let watches = nodes.iter().filter(|request| request.parameter("watch").is_some()).count();
    let pages = nodes.iter().filter(|request| request.parameter("continue").is_some()).count();
    (nodes.len() - watches - pages, watches)
}

#[tokio::test]
async fn nodes_are_listed_once_in_pages_and_watched_from_then_on() {
    let api = ApiServer::plain();
    let crowd = || (0..250).map(|number| mk_node(&format!("n{number:03}"), &format!("aws:///z/i-{number:017x}"), HIGH));
    api.set_nodes(crowd());
    let fixture = Fixture::new(api).await;
    fixture.api.set_nodes(crowd().chain([mk_node("zz", &fixture.node("web", 0), LOW)]));
    fixture.memory_from("web", &seen("zz")).await;
    fixture.looked_again().await;
    assert_eq!(begun(&fixture.api), (1, 1));
    let requests = fixture.api.requests();
    let pages: BTreeSet<_> = requests.iter().filter_map(|request| request.parameter("continue")).collect();
    assert_eq!(pages, BTreeSet::from(["from+/=100", "from+/=200"].map(str::to_owned)));
}

#[tokio::test]
async fn a_watch_whose_connection_ends_resumes_where_it_was() {
    let fixture = Fixture::new(ApiServer::plain()).await;
    fixture.api.set_nodes([mk_node("one", &fixture.node("web", 0), HIGH)]);
    fixture.memory_from("web", &seen("one")).await;
    // The node may have been listed, before there was a watch that can end.
    fixture.watched().await;
    fixture.api.end_watches();
    fixture.api.set_nodes([mk_node("two", &fixture.node("web", 0), LOW)]);
    fixture.memory_from("web", &seen("two")).await;
    let (lists, watches) = begun(&fixture.api);
    assert!(lists == 1 && watches >= 2, "{lists} lists, {watches} watches");
}

#[tokio::test]
async fn a_watch_that_cannot_be_resumed_starts_over_with_a_list() {
    let fixture = Fixture::new(ApiServer::plain()).await;
    fixture.api.set_nodes([mk_node("one", &fixture.node("web", 0), HIGH)]);
    fixture.memory_from("web", &seen("one")).await;
    fixture.api.compact();
    fixture.api.set_nodes([mk_node("two", &fixture.node("web", 0), LOW)]);
    fixture.memory_from("web", &seen("two")).await;
    let (lists, watches) = begun(&fixture.api);
    assert!(lists == 2 && watches >= 1, "{lists} lists, {watches} watches");
}

#[tokio::test]
async fn a_watch_of_resource_slices_does_not_hide_that_nodes_cannot_be_watched() {
    let api = ApiServer::plain();
    api.forbid_nodes();
    api.set_resource_slices(Some(Vec::new()));
    let folder = tempfile::tempdir().expect("a folder");
    api.kubeconfig(folder.path());
    let (client, tasks) = (client(folder.path()), Tasks::default());
    let mut nodes = client.watch_nodes(&tasks);
    nodes.settled().await;
    let _slices = client.watch_resource_slices(&tasks);
    let is_watch =
        |request: &Request| request.path.ends_with("/resourceslices") && request.parameter("watch").is_some();
    eventually("ResourceSlices are watched", || api.requests().iter().any(is_watch)).await;
    let error = nodes.nodes().expect_err("nobody may read them").to_string();
    assert!(error.contains("forbidden"), "{error}");
}

#[tokio::test]
async fn nodes_that_change_all_the_time_do_not_keep_others_from_being_learned() {
    let fixture = Fixture::new(ApiServer::plain()).await;
    let (busy, new) = (fixture.node("other", 0), fixture.node("web", 0));
    fixture.api.set_nodes([mk_node("busy", &busy, HIGH)]);
    fixture.memory_from("other", &seen("busy")).await;
    let change = async {
        for memory in [LOW, HIGH].into_iter().cycle() {
            fixture.api.set_nodes([mk_node("busy", &busy, memory), mk_node("new", &new, LOW)]);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let source = seen("new");
    tokio::select! {
        () = change => {}
        _memory = fixture.memory_from("web", &source) => {}
    }
}
