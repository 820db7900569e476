//! Too many calls.

use std::time::Duration;

use headcount::clouds::simulated::{LaunchOutcome, Pick, PlannedFailure};
use serde_json::json;
use tonic::Code;

use super::{arm, capacities_written, deletions, errors, pool, quick, refs};
use crate::emulators::arm::{self as emulator, Arm};
use crate::emulators::setup::Setup;
use crate::emulators::{Emulator, HttpResponse, Request};
use crate::peers::headcount::{AUTOSCALER_TIMEOUT, Client, ConfigFile, Server, refused, refused_in_time};

#[tokio::test]
async fn vmss_throttled_at_start() {
    let arm = arm([pool("pool", (3, 300, 200))]);
    let throttled = emulator::error(429, "TooManyRequests", "too many").header("retry-after", 120);
    arm.script("GET", "virtualMachineScaleSets", 1_000, throttled);
    let config = ConfigFile::new(&format!(
        "sources:\n  - name: eu\n    azure:\n{}\n      nodeGroups: [\"3:300:pool\"]\n",
        arm.settings().iter().map(|line| format!("      {line}")).collect::<Vec<_>>().join("\n")
    ));
    let server = Server::with_config(&config);
    let shown = server.logged("cannot be listed");
    assert!(shown.contains("\"retry_in_seconds\":120"), "{shown}");
    let mut caller = server.untimed_client(AUTOSCALER_TIMEOUT).await;
    let (code, message) = refused_in_time(async || caller.increase("pool", 1).await).await;
    assert_eq!(code, Code::Unavailable, "{message}");
    assert!(capacities_written(&arm, "pool").is_empty());
    assert_eq!(arm.requests().len(), 1, "no call on that bucket before Retry-After");
}

#[tokio::test]
async fn vmss_429_retry_after() {
    let mut setup = Setup::open(arm([pool("pool", (0, 10, 2))])).await;
    assert_eq!(setup.client.target("pool").await, 2);
    let throttled = HttpResponse::json(429, &json!({"error": {"code": "TooManyRequests", "message": "slow down"}}));
    setup.emulator.script("GET", "", 1_000, throttled.header("retry-after", 120));
    setup.server().logged("cannot be listed");
    let shown = setup.server().logged("\"calls\":\"scale set lists\"");
    assert!(shown.contains("throttled by Azure") && shown.contains("\"seconds\":120"), "{shown}");
    assert!(shown.contains("GetVMScaleSetSubscriptionMaximum: 3999"), "what remains is shown: {shown}");
    setup.emulator.forget_requests();
    for _ in 0..3 {
        setup.client.refresh().await.expect("the last reading is fresh enough");
        assert_eq!(setup.client.target("pool").await, 2, "warm data is served");
    }
    let (code, message) = refused(setup.client.increase("pool", 1).await);
    assert_eq!(code, Code::Unavailable, "{message}");
    let listings = setup.emulator.requests();
    let listings = listings.iter().filter(|request| request.path.to_lowercase().ends_with("virtualmachinescalesets"));
    assert_eq!(listings.count(), 0, "no call on that bucket before Retry-After");
}

#[tokio::test]
async fn while_nothing_changes_a_refresh_is_one_call_for_any_number_of_sets() {
    let plans = ["a", "b", "c"].map(|name| pool(name, (0, 10, 2)));
    let mut setup = Setup::open(arm(plans)).await;
    setup.client.until("all are served", async |client| client.node_groups().await.len() == 3).await;
    let lists = |emulator: &Arm| {
        let paths = emulator.requests().into_iter().map(|request| request.path.to_ascii_lowercase());
        paths.filter(|path| !path.ends_with("/skus")).partition(|path| path.ends_with("/virtualmachinescalesets"))
    };
    // Reads that were under way when the last set was served may still arrive.
    let (before, _): (Vec<String>, Vec<String>) = lists(&setup.emulator);
    setup.client.until("a whole refresh", async |_| lists(&setup.emulator).0.len() > before.len() + 1).await;
    setup.emulator.forget_requests();
    setup.client.until("three more", async |_| lists(&setup.emulator).0.len() >= 3).await;
    assert_eq!(lists(&setup.emulator).1, Vec::<String>::new());

    setup.emulator.simulated().set_desired_externally("b", 3).expect("it exists");
    setup.client.until("it is seen", async |client| client.nodes_in("b", 1).await.len() == 3).await;
    let (_, others) = lists(&setup.emulator);
    assert!(!others.is_empty() && others.iter().all(|path| path.contains("/b")), "{others:?}");
}

/// The lists of machines so far.
fn machine_lists(arm: &Arm) -> Vec<Request> {
    let lists = arm.requests().into_iter().filter(|request| request.method == "GET");
    lists.filter(|request| request.path.to_ascii_lowercase().ends_with("/virtualmachines")).collect()
}

#[tokio::test]
async fn vmss_list_throttled_writes_free() {
    let mut setup = Setup::open(arm([pool("a", (0, 10, 3)), pool("b", (0, 10, 3))])).await;
    setup.client.until("both are served", async |client| client.node_groups().await.len() == 2).await;
    let throttled = emulator::throttled(Some(Duration::from_secs(1_800)));
    setup.emulator.script("GET", "virtualMachineScaleSets/a/virtualMachines", 1_000, throttled);
    setup.client.increase("a", 1).await.expect("the lists are not needed");
    setup.server().logged("throttled by Azure");
    setup.emulator.forget_requests();
    for group in ["a", "b"] {
        let nodes = setup.client.nodes_in(group, 1).await;
        setup.client.increase(group, 2).await.expect("writes continue");
        setup.client.delete(group, &refs(&nodes)[..1]).await.expect("writes continue");
    }
    assert_eq!((setup.client.target("a").await, setup.client.target("b").await), (5, 4));
    let listings = || setup.emulator.requests().iter().filter(|request| request.path.ends_with("Sets")).count();
    let before = listings();
    setup.client.clone().until("sources are listed again", async |_| listings() > before + 2).await;
    assert_eq!(machine_lists(&setup.emulator).len(), 0, "reads on that policy wait");
}

#[tokio::test]
async fn vmss_writes_throttled_for_long() {
    let mut setup = Setup::open(arm([pool("pool", (0, 10, 3))])).await;
    let throttled = emulator::throttled(Some(Duration::from_secs(1_800)));
    setup.emulator.script("PATCH", "virtualMachineScaleSets/pool", 1_000, throttled);
    assert_eq!(refused(setup.client.increase("pool", 1).await).0, Code::Unavailable);
    let max = async |client: &mut Client| client.node_groups().await.first().expect("it is served").max_size;
    setup.client.until("it is full for half an hour", async |client| max(client).await == 3).await;
    let paused = "headcount_node_group_paused{node_group=\"pool\",reason=\"growth\"} 1.0\n";
    assert!(setup.server().probe("/metrics").contains(paused));
    assert_eq!(refused(setup.client.increase("pool", 1).await).0, Code::Unavailable, "nothing is sent");
    assert_eq!(setup.emulator.requests_with("PATCH", "pool").len(), 1);
}

#[tokio::test]
async fn vmss_reads_throttled_for_long() {
    for spot in [true, false] {
        let arm = arm([pool("pool", (0, 10, 3))]);
        arm.group_details("pool", |details| details.spot = spot);
        let mut setup = Setup::open(arm).await;
        assert_eq!(setup.client.target("pool").await, 3);
        let throttled = emulator::throttled(Some(Duration::from_secs(1_800)));
        setup.emulator.script("GET", "virtualMachineScaleSets/pool", 1_000, throttled);
        // A spot set is read at each listing, any other for a call.
        if !spot {
            assert_eq!(refused(setup.client.increase("pool", 1).await).0, Code::Unavailable);
        }
        let max = async |client: &mut Client| client.node_groups().await.first().expect("it is served").max_size;
        setup.client.until("it is full for half an hour", async |client| max(client).await == 3).await;
        assert_eq!(setup.client.target("pool").await, 3);
    }
}

#[tokio::test]
async fn vmss_budget_low() {
    let failure = PlannedFailure::out_of_resources("AllocationFailed", "There is no capacity.");
    let plan = pool("pool", (0, 10, 2)).launches(Pick::Always, LaunchOutcome::fails(failure, quick()));
    let mut setup = Setup::open(arm([plan])).await;
    setup.client.increase("pool", 3).await.expect("accepted");
    setup.client.until("three failed", async |client| errors(client, "pool").await.len() == 3).await;
    setup.emulator.behavior(|behavior| {
        behavior.remaining.insert("HighCostGetVMScaleSetSubscriptionMaximum".to_owned(), 80);
    });
    setup.emulator.simulated().replan("pool", |_| {}).expect("it exists");
    let line = setup.server().logged("call budget is nearly used up");
    assert!(line.contains("\"remaining\":80") && line.contains("\"most\":899"), "{line}");
    setup.emulator.forget_requests();

    let failed = setup.client.nodes_in("pool", 2).await;
    setup.client.delete("pool", &refs(&failed)).await.expect("nothing to delete in the cloud");
    assert_eq!((setup.client.target("pool").await, machine_lists(&setup.emulator).len()), (2, 0));
    // A VM that is not known needs a fresh list.
    let nodes = setup.client.nodes_in("pool", 1).await;
    let unknown = nodes[0].rsplit_once('/').map(|(set, _)| format!("{set}/99")).expect("a VM");
    setup.client.delete("pool", &[&unknown]).await.expect("it is gone");
    assert_eq!(machine_lists(&setup.emulator).len(), 1, "for the call; other lists wait");
    let nodes = setup.client.nodes_in("pool", 1).await;
    setup.client.delete("pool", &refs(&nodes)[..1]).await.expect("accepted");
    assert_eq!(setup.client.target("pool").await, 1);
}

#[tokio::test]
async fn vmss_queued_operations_zero() {
    let mut setup = Setup::open(arm([pool("pool", (0, 10, 3))])).await;
    let nodes = setup.client.nodes_in("pool", 1).await;
    setup.client.increase("pool", 1).await.expect("accepted");
    setup.client.delete("pool", &refs(&nodes)[..1]).await.expect("accepted");
    setup.client.increase("pool", 1).await.expect("accepted");
    setup.client.until("four run", async |client| client.nodes_in("pool", 1).await.len() == 4).await;
    assert_eq!((capacities_written(&setup.emulator, "pool").len(), deletions(&setup.emulator).len()), (2, 1));
    assert_eq!(setup.server().lines_with("budget"), Vec::<String>::new());

    setup.emulator.behavior(|behavior| {
        behavior.remaining.insert("subscription-global-reads".to_owned(), 7);
    });
    let line = setup.server().logged("call budget is nearly used up");
    assert!(line.contains("subscription-global-reads") && line.contains("\"remaining\":7"), "{line}");
}

#[tokio::test]
async fn vmss_start_of_120_sets() {
    const SETS: usize = 120;
    let arm = arm((0..SETS).map(|number| pool(&format!("pool-{number}"), (0, 10, 2))));
    let mut setup = Setup::open(arm).await;
    setup.server().logged("\"ready\"");
    setup.client.until("all are served", async |client| client.node_groups().await.len() == SETS).await;
    let times: Vec<Duration> = machine_lists(&setup.emulator).iter().map(|list| list.at).collect();
    assert!(times.len() >= SETS, "{}", times.len());
    // Lists start 100 ms apart, but may arrive with a short delay.
    let second = times
        .iter()
        .map(|start| times.iter().filter(|time| *start <= **time && **time < *start + Duration::from_secs(1)).count());
    assert!(second.clone().max() < Some(20), "{:?} lists in one second", second.max());
    setup.client.increase("pool-7", 1).await.expect("accepted");
    assert_eq!(setup.client.target("pool-7").await, 3);
}

#[tokio::test]
async fn vmss_pages_in_a_circle() {
    let arm = arm([pool("loop", (0, 10, 4)), pool("other", (0, 10, 2))]);
    arm.behavior(|behavior| {
        (behavior.page, behavior.circles) = (2, vec!["virtualmachinescalesets/loop/virtualmachines"]);
    });
    let mut setup = Setup::open(arm).await;
    setup.server().logged("a page leads back to one that was read before");
    let sets = |arm: &Arm| {
        let lists = arm.requests().into_iter();
        lists.filter(|list| list.path.to_ascii_lowercase().ends_with("/virtualmachinescalesets")).count()
    };
    setup.emulator.forget_requests();
    setup.client.increase("other", 1).await.expect("only that scale set is affected");
    setup.client.until("a few refreshes", async |_| sets(&setup.emulator) > 3).await;
    assert_eq!(setup.client.target("other").await, 3);
    let of_loop = |list: &Request| list.path.contains("/loop/");
    let circle: Vec<Request> = machine_lists(&setup.emulator).into_iter().filter(of_loop).collect();
    assert!(circle.len() <= 2 * (sets(&setup.emulator) + 1), "two pages, then the walk ends: {}", circle.len());

    setup.emulator.behavior(|behavior| behavior.circles.clear());
    setup.client.until("it is served", async |client| client.node_groups().await.len() == 2).await;
    setup.emulator.behavior(|behavior| {
        (behavior.page, behavior.circles) = (1, vec!["/virtualmachinescalesets"]);
    });
    setup.server().logged("cannot be listed");
    setup.emulator.forget_requests();
    setup.client.increase("loop", 1).await.expect("a write reads its own set");
    assert_eq!((setup.client.target("loop").await, setup.client.target("other").await), (5, 3));
    setup.client.until("a few refreshes", async |_| sets(&setup.emulator) > 8).await;
    let later = |list: &Request| list.path.to_ascii_lowercase().ends_with("sets") && list.query.contains("skiptoken");
    let later = setup.emulator.requests().iter().filter(|list| later(list)).count();
    let pages = sets(&setup.emulator);
    assert!(later <= pages / 2 + 1, "two pages, then the walk ends: {later} of {pages} pages are not the first one");
}
