//! Too many calls.

use serde_json::json;
use tonic::Code;

use super::{arm, capacities_written, pool};
use crate::emulators::arm::{self as emulator, Arm};
use crate::emulators::setup::Setup;
use crate::emulators::{Emulator, HttpResponse};
use crate::peers::headcount::{ConfigFile, Server, refused};

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
    server.logged("cannot be listed");
    let mut client = server.client().await;
    let (code, message) = refused(client.increase("pool", 1).await);
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
    assert!(shown.contains("LowCostGetVMScaleSetSubscriptionMaximum: 2399"), "what remains is shown: {shown}");
    setup.emulator.forget_requests();
    for _ in 0..3 {
        setup.client.refresh().await.expect("what was read last is fresh enough");
        assert_eq!(setup.client.target("pool").await, 2, "warm data is served");
    }
    let (code, message) = refused(setup.client.increase("pool", 1).await);
    assert_eq!(code, Code::Unavailable, "{message}");
    let listings = setup.emulator.requests();
    let listings = listings.iter().filter(|request| request.path.to_lowercase().ends_with("virtualmachinescalesets"));
    assert_eq!(listings.count(), 0, "no call on that bucket before Retry-After");
}

#[tokio::test]
async fn while_nothing_changes_a_refresh_is_one_call_whatever_the_number_of_sets() {
    let plans = ["a", "b", "c"].map(|name| pool(name, (0, 10, 2)));
    let mut setup = Setup::open(arm(plans)).await;
    setup.client.until("all are served", async |client| client.node_groups().await.len() == 3).await;
    let lists = |emulator: &Arm| {
        let paths = emulator.requests().into_iter().map(|request| request.path.to_ascii_lowercase());
        paths.filter(|path| !path.ends_with("/skus")).partition(|path| path.ends_with("/virtualmachinescalesets"))
    };
    // What was under way when the last set was served may still come.
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
