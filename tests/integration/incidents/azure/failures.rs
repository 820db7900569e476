//! Machines that never become nodes, and refusals that differ only in their messages.

use headcount::clouds::simulated::{LaunchOutcome, Pick, PlannedFailure};
use serde_json::json;
use tonic::Code;

use super::{arm, capacities_written, capacity, deletions, errors, pool, quick, refs};
use crate::emulators::setup::Setup;
use crate::emulators::{Emulator, HttpResponse};
use crate::peers::headcount::refused;

#[tokio::test]
async fn vmss_allocation_fails_later() {
    let failure = PlannedFailure::out_of_resources("OverconstrainedAllocationRequest", "constraints cannot be met");
    for rolled_back in [false, true] {
        let outcome = LaunchOutcome::Fails { failure: failure.clone(), after: quick(), rollback: rolled_back };
        let mut setup = Setup::open(arm([pool("pool", (0, 10, 2)).launches(Pick::Always, outcome)])).await;
        let client = &mut setup.client;
        client.increase("pool", 3).await.expect("accepted");
        client.until("three have failed", async |client| errors(client, "pool").await.len() == 3).await;
        for (class, code, message) in errors(client, "pool").await {
            assert_eq!((class, code.as_str()), (1, "OverconstrainedAllocationRequest"), "{message}");
        }
        assert_eq!(client.target("pool").await, 5);
        let failed = client.nodes_in("pool", 2).await;
        client.delete("pool", &refs(&failed)).await.expect("accepted");
        assert_eq!(client.target("pool").await, 2);
        assert_eq!(client.nodes("pool").await.len(), 2);
        assert_eq!(capacities_written(&setup.emulator, "pool"), [5], "a scale set's capacity is not lowered");
    }
}

#[tokio::test]
async fn vmss_quota_message() {
    let quota = "Operation could not be completed as it results in exceeding approved standardDSv5Family Cores quota.";
    let failure = PlannedFailure::out_of_resources("OperationNotAllowed", quota);
    // Refused at once: the error is returned, and nothing is retried.
    let plan = pool("pool", (0, 10, 2)).launches(Pick::Always, LaunchOutcome::Refused(failure.clone()));
    let mut setup = Setup::open(arm([plan])).await;
    let (code, message) = refused(setup.client.increase("pool", 3).await);
    assert_eq!(code, Code::ResourceExhausted, "{message}");
    assert!(message.contains("standardDSv5Family Cores quota"), "{message}");
    assert_eq!((setup.client.target("pool").await, capacities_written(&setup.emulator, "pool")), (2, vec![5]));

    // Refused later: the missing nodes are listed as failed for lack of resources.
    let outcome = LaunchOutcome::fails(failure, quick());
    setup.emulator.simulated().replan("pool", |plan| plan.launches_now(Pick::Always, outcome)).expect("it exists");
    setup.client.increase("pool", 2).await.expect("accepted");
    setup.client.until("both have failed", async |client| errors(client, "pool").await.len() == 2).await;
    for (class, code, message) in errors(&mut setup.client, "pool").await {
        assert_eq!((class, code.as_str()), (1, "OperationNotAllowed"));
        assert!(message.contains("Cores quota"), "{message}");
    }

    // The same code for too many calls is throttling: nothing is sent until Retry-After.
    let throttled = json!({"error": {"code": "OperationNotAllowed", "message": "too many requests", "details": [
        {"code": "TooManyRequests", "target": "UpdateVMScaleSetResource", "message": "{}"},
    ]}});
    let throttled = HttpResponse::json(429, &throttled).header("retry-after", 60);
    setup.emulator.script("PATCH", "virtualMachineScaleSets/pool", 1_000, throttled);
    setup.emulator.forget_requests();
    for _ in 0..2 {
        let (code, message) = refused(setup.client.increase("pool", 1).await);
        assert_eq!(code, Code::Unavailable, "{message}");
    }
    assert_eq!(capacities_written(&setup.emulator, "pool").len(), 1);
}

#[tokio::test]
async fn a_refused_force_deletion_is_sent_without_force() {
    let arm = arm([pool("pool", (0, 10, 3))]);
    arm.group_details("pool", |details| details.force_refused = true);
    let mut setup = Setup::with(arm, |options| options.source = vec!["enableForceDelete: true".to_owned()]).await;
    let nodes = setup.client.nodes_in("pool", 1).await;
    setup.client.delete("pool", &refs(&nodes)[..1]).await.expect("deleted without force");
    setup.client.delete("pool", &refs(&nodes)[1..2]).await.expect("deleted without force");
    let forced: Vec<_> = setup
        .emulator
        .requests_with("POST", "/delete")
        .iter()
        .map(|request| request.parameter("forceDeletion"))
        .collect();
    assert_eq!(forced, ["true", "false", "false"].map(|force| Some(force.to_owned())));
    setup.client.until("they are gone", async |client| client.nodes("pool").await.len() == 1).await;
}

#[tokio::test]
async fn vmss_failed_nodes_at_min() {
    let failure = PlannedFailure::other("OSProvisioningTimedOut", "the machine did not report within 20 minutes");
    let outcome = LaunchOutcome::Breaks { failure, after: quick() };
    let mut setup = Setup::open(arm([pool("pool", (3, 10, 3)).launches(Pick::Always, outcome)])).await;
    let client = &mut setup.client;
    let healthy = client.nodes_in("pool", 1).await;
    client.increase("pool", 2).await.expect("accepted");
    client.until("both have failed", async |client| errors(client, "pool").await.len() == 2).await;
    let failed = client.nodes_in("pool", 2).await;
    // Healthy nodes are evicted. With those that failed, the set is at its minimum.
    setup.emulator.simulated().evict("pool", 2).expect("it exists");
    client.until("three are left", async |client| client.nodes("pool").await.len() == 3).await;
    let left = client.nodes_in("pool", 1).await;
    assert!(left.len() == 1 && healthy.contains(&left[0]) && client.target("pool").await == 3);
    let (code, message) = refused(client.delete("pool", &refs(&left)).await);
    assert_eq!(code, Code::FailedPrecondition, "a healthy one is still refused: {message}");
    client.delete("pool", &refs(&failed)).await.expect("failed nodes can always be removed");
    client.until("they are gone", async |client| client.nodes("pool").await.len() == 1).await;
    assert_eq!(client.nodes_in("pool", 1).await, left);
    assert_eq!((client.target("pool").await, capacity(&setup.emulator, "pool")), (1, Some(1)));
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

#[tokio::test]
async fn vmss_failed_flex_vm() {
    let failure = PlannedFailure::other("OSProvisioningTimedOut", "the machine did not report within 20 minutes");
    let outcome = LaunchOutcome::Breaks { failure, after: quick() };
    let arm = arm([pool("flex", (0, 10, 2)).launches(Pick::First(1), outcome)]);
    arm.group_details("flex", |details| details.flexible = true);
    let mut setup = Setup::open(arm).await;
    let client = &mut setup.client;
    client.increase("flex", 2).await.expect("accepted");
    client.until("one has failed", async |client| errors(client, "flex").await.len() == 1).await;
    client.until("the other runs", async |client| client.nodes_in("flex", 1).await.len() == 3).await;
    let [(class, code, message)] = &errors(client, "flex").await[..] else { panic!("one failed") };
    assert_eq!((*class, code.as_str()), (99, "OSProvisioningTimedOut"), "{message}");
    let failed = client.nodes_in("flex", 2).await;
    assert_eq!((failed.len(), client.target("flex").await), (1, 4));
    let lists = setup.emulator.requests_with("GET", "/virtualMachines?");
    assert!(lists.iter().all(|list| list.parameter("$expand").as_deref() == Some("instanceView")));
    assert!(lists.iter().all(|list| list.parameter("$filter").is_some_and(|filter| filter.contains("/flex'"))));
    client.delete("flex", &refs(&failed)).await.expect("deleted");
    client.until("it is gone", async |client| client.nodes("flex").await.len() == 3).await;
    assert_eq!((client.target("flex").await, deletions(&setup.emulator).concat().len()), (3, 1));
}
