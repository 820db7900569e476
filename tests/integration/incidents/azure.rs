//! Azure VM scale sets.

use std::sync::Arc;
use std::time::Duration;

use headcount::cloud::simulated::{
    Accounting, CallKind, DeleteOutcome, Distortion, GroupPlan, LaunchOutcome, Pick, PlannedFailure, Simulated, Span,
};
use tonic::Code;

use crate::faces::arm::{self, Arm};
use crate::faces::scene::Scene;
use crate::faces::{Answer, Face};
use crate::peers::headcount::{ConfigFile, Server, refused};

fn quick() -> Span {
    Duration::from_millis(200)..=Duration::from_millis(400)
}

fn pool(name: &str, (min, max, running): (u32, u32, u32)) -> GroupPlan {
    GroupPlan::azure(name).sized(min, max, running).launch_time(quick()).delete_time(quick())
}

fn arm(plans: impl IntoIterator<Item = GroupPlan>) -> Arm {
    Arm::start(Arc::new(Simulated::with_groups(3, plans)))
}

/// Every capacity that was written, in order; each write must follow a GET of its set and carry an If-Match.
fn capacities_written(arm: &Arm, name: &str) -> Vec<u64> {
    let requests = arm.requests();
    let path = format!("/virtualmachinescalesets/{}", name.to_lowercase());
    let mut written = Vec::new();
    for (position, request) in requests.iter().enumerate() {
        let of_set = |path_of: &str| path_of.to_lowercase().ends_with(&path);
        if matches!(request.method.as_str(), "PATCH" | "PUT") && of_set(&request.path) {
            let read = requests[..position].iter().any(|earlier| earlier.method == "GET" && of_set(&earlier.path));
            assert!(read, "a write without a reading before it");
            assert!(request.header("if-match").is_some(), "a write without If-Match");
            written.push(request.json()["sku"]["capacity"].as_u64().expect("a capacity"));
        }
    }
    written
}

#[tokio::test]
async fn a_set_grows_from_zero_and_loses_the_named_machine_only() {
    for habit in [Accounting::WhenGone, Accounting::OnAccept] {
        for flexible in [false, true] {
            let arm = arm([pool("pool", (0, 10, 0)).accounting(habit)]);
            arm.look("pool", |look| look.flexible = flexible);
            let mut scene = Scene::open(arm).await;
            let client = &mut scene.client;
            client.increase("pool", 3).await.expect("0 → 3");
            assert_eq!(client.target("pool").await, 3);
            client.until("three run", async |client| client.nodes_in("pool", 1).await.len() == 3).await;
            let running = client.nodes_in("pool", 1).await;
            assert!(running[0].contains("/resourceGroups/demo/"), "the kubelet's form: {}", running[0]);
            assert_eq!(client.group_of(&running[1].to_uppercase()).await.as_deref(), Some("pool"));
            client.delete("pool", &[&running[1]]).await.expect("deleted");
            assert_eq!(client.target("pool").await, 2, "{habit:?}, flexible: {flexible}");
            client.until("it is gone", async |client| client.nodes("pool").await.len() == 2).await;
            assert_eq!(client.nodes_in("pool", 1).await, [running[0].clone(), running[2].clone()]);
            assert_eq!(client.target("pool").await, 2);
            assert_eq!(capacities_written(&scene.face, "pool"), [3]);
            assert!(scene.face.simulated().killed_unnamed().is_empty());
        }
    }
}

#[tokio::test]
async fn vmss_86_believed_48() {
    let failure = PlannedFailure::other("CannotAllocateRemainingVMsInAvailabilitySet", "cannot");
    let plan = pool("pool", (1, 200, 86)).deletions(Pick::Always, DeleteOutcome::FailsLater(failure));
    let mut scene = Scene::open(arm([plan])).await;
    let client = &mut scene.client;
    let victims = client.nodes_in("pool", 1).await[..38].to_vec();
    let victims: Vec<&str> = victims.iter().map(String::as_str).collect();
    client.delete("pool", &victims).await.expect("accepted");
    assert_eq!(client.target("pool").await, 48);
    client.until("all run again", async |client| client.nodes_in("pool", 1).await.len() == 86).await;
    assert_eq!(client.target("pool").await, 86);
    client.increase("pool", 5).await.expect("accepted");
    assert_eq!(client.target("pool").await, 91);
    assert_eq!(capacities_written(&scene.face, "pool"), [91]);
}

#[tokio::test]
async fn vmss_capacity_reads_zero() {
    let mut scene = Scene::open(arm([pool("pool", (0, 200, 90))])).await;
    let client = &mut scene.client;
    assert_eq!(client.target("pool").await, 90);
    let once = |faults: &mut headcount::cloud::simulated::Faults| {
        faults.distort(Some(CallKind::Observe), "pool", 1, Distortion::Capacity(0));
    };
    scene.face.simulated().faults(once);
    client.increase("pool", 1).await.expect("after a second reading");
    assert_eq!(client.target("pool").await, 91);
    assert_eq!(capacities_written(&scene.face, "pool"), [91]);
}

#[tokio::test]
async fn vmss_throttled_at_start() {
    let arm = arm([pool("pool", (3, 300, 200))]);
    let throttled = arm::error(429, "TooManyRequests", "too many").header("retry-after", 120);
    arm.script("GET", "virtualMachineScaleSets", 1_000, throttled);
    let config = ConfigFile::new(&format!(
        "sources:\n  - name: eu\n    azure:\n{}\n      nodeGroups: [\"3:300:pool\"]\n",
        arm.settings().iter().map(|line| format!("      {line}")).collect::<Vec<_>>().join("\n")
    ));
    let server = Server::with_config(&config);
    server.logged("cannot be listed");
    let mut client = server.client().await;
    let (code, message) = refused(client.increase("pool", 1).await);
    assert_eq!(code, Code::Unavailable, "{message}");
    assert!(capacities_written(&arm, "pool").is_empty());
    assert_eq!(arm.requests().len(), 1, "no call on that bucket before Retry-After");
}

#[tokio::test]
async fn vmss_spot_eviction() {
    let arm = arm([pool("pool", (0, 20, 9))]);
    arm.look("pool", |look| look.spot = true);
    let mut scene = Scene::open(arm).await;
    assert_eq!(scene.client.target("pool").await, 9);
    scene.face.simulated().evict("pool", 2).expect("it exists");
    scene.client.until("seven", async |client| client.target("pool").await == 7).await;
}

#[tokio::test]
async fn vmss_allocation_fails_later() {
    let failure = PlannedFailure::out_of_resources("OverconstrainedAllocationRequest", "constraints cannot be met");
    for rolled_back in [false, true] {
        let outcome = LaunchOutcome::Fails { failure: failure.clone(), after: quick(), rollback: rolled_back };
        let mut scene = Scene::open(arm([pool("pool", (0, 10, 2)).launches(Pick::Always, outcome)])).await;
        let client = &mut scene.client;
        client.increase("pool", 3).await.expect("accepted");
        client
            .until("three have failed", async |client| {
                let nodes = client.nodes("pool").await.into_iter();
                let errors = nodes.filter_map(|node| node.status).filter(|status| status.instance_state == 2);
                let errors: Vec<_> = errors.filter_map(|status| status.error_info).collect();
                errors.len() == 3
                    && errors.iter().all(|error| {
                        error.instance_error_class == 1 && error.error_code == "OverconstrainedAllocationRequest"
                    })
            })
            .await;
        assert_eq!(client.target("pool").await, 5);
        let failed = client.nodes_in("pool", 2).await;
        let failed: Vec<&str> = failed.iter().map(String::as_str).collect();
        client.delete("pool", &failed).await.expect("accepted");
        assert_eq!(client.target("pool").await, 2);
        let capacity = |face: &Arm| face.simulated().world(|world, _| world.view("pool").map(|group| group.capacity()));
        client.until("the capacity is back at what lives", async |_| capacity(&scene.face) == Some(2)).await;
    }
}

#[tokio::test]
async fn vmss_gone() {
    let mut scene = Scene::open(arm([pool("pool", (0, 10, 2)), pool("other", (0, 10, 3))])).await;
    scene.face.simulated().remove_group("pool");
    scene.client.until("it is gone", async |client| client.node_groups().await.len() == 1).await;
    scene.client.increase("other", 1).await.expect("the others go on");
    assert_eq!(scene.client.target("other").await, 4);
}

#[tokio::test]
async fn vmss_twenty_single_deletes() {
    let mut scene = Scene::open(arm([pool("pool", (0, 100, 40))])).await;
    let victims: Vec<String> = scene.client.nodes_in("pool", 1).await[..20].to_vec();
    let mut calls = tokio::task::JoinSet::new();
    for victim in victims {
        let mut client = scene.client.clone();
        calls.spawn(async move { client.delete("pool", &[&victim]).await });
    }
    for outcome in calls.join_all().await {
        outcome.expect("deleted");
    }
    assert_eq!(scene.client.target("pool").await, 20);
    assert!(scene.face.requests_with("POST", "/delete").len() <= 2);
    scene.client.until("they are gone", async |client| client.nodes("pool").await.len() == 20).await;
    assert_eq!(scene.client.target("pool").await, 20);
}

#[tokio::test]
async fn vmss_etag_conflict() {
    let mut scene = Scene::open(arm([pool("pool", (0, 100, 4))])).await;
    let conflict = arm::error(412, "PreconditionFailed", "the etag is another one by now");
    scene.face.script("PATCH", "virtualMachineScaleSets/pool", 1, conflict);
    scene.face.simulated().set_desired_externally("pool", 9).expect("it exists");
    scene.client.increase("pool", 2).await.expect("read again, computed again");
    assert_eq!(scene.client.target("pool").await, 11);
    assert_eq!(capacities_written(&scene.face, "pool").last(), Some(&11));
}

#[tokio::test]
async fn vmss_restart_mid_delete() {
    for habit in [Accounting::WhenGone, Accounting::OnAccept] {
        let slow = Duration::from_secs(30)..=Duration::from_secs(30);
        let mut scene = Scene::open(arm([pool("pool", (0, 100, 40)).accounting(habit).delete_time(slow)])).await;
        let victims: Vec<String> = scene.client.nodes_in("pool", 1).await[..15].to_vec();
        let victims: Vec<&str> = victims.iter().map(String::as_str).collect();
        scene.client.delete("pool", &victims).await.expect("accepted");
        scene.restart().await;
        assert_eq!(scene.client.target("pool").await, 25, "{habit:?}");
        assert_eq!(scene.client.nodes_in("pool", 3).await.len(), 15, "{habit:?}");
    }
}

#[tokio::test]
async fn vmss_bad_item() {
    let arm = arm([pool("pool", (0, 10, 2)), pool("other", (0, 10, 3))]);
    let mut scene = Scene::open(arm).await;
    assert_eq!(scene.client.target("pool").await, 2);
    scene.face.look("pool", |look| look.undecodable = true);
    scene.client.increase("other", 1).await.expect("that group alone is concerned");
    assert_eq!((scene.client.target("other").await, scene.client.target("pool").await), (4, 2));
}

#[tokio::test]
async fn vmss_429_retry_after() {
    let mut scene = Scene::open(arm([pool("pool", (0, 10, 2))])).await;
    assert_eq!(scene.client.target("pool").await, 2);
    let throttled =
        Answer::json(429, &serde_json::json!({"error": {"code": "TooManyRequests", "message": "slow down"}}));
    scene.face.script("GET", "", 1_000, throttled.header("retry-after", 120));
    scene.server().logged("cannot be listed");
    scene.face.forget_requests();
    for _ in 0..3 {
        scene.client.refresh().await.expect("what was read last is fresh enough");
        assert_eq!(scene.client.target("pool").await, 2, "warm data is served");
    }
    let (code, message) = refused(scene.client.increase("pool", 1).await);
    assert_eq!(code, Code::Unavailable, "{message}");
    let listings = scene.face.requests();
    let listings = listings.iter().filter(|request| request.path.to_lowercase().ends_with("virtualmachinescalesets"));
    assert_eq!(listings.count(), 0, "no call on that bucket before Retry-After");
}
