//! Operations that fail, are preempted, or cannot be polled.

use std::time::Duration;

use headcount::clouds::simulated::{
    Accounting, CallKind, DeleteOutcome, LaunchOutcome, Pick, PlannedFailure, ReadFault,
};

use tonic::Code;

use super::{arm, capacities_written, endless, errors, pool, quick, refs};
use crate::emulators::arm::{denied, error};
use crate::emulators::setup::Setup;
use crate::emulators::{Emulator, HoldPoint};
use crate::peers::headcount::{eventually, refused, run};

/// Deletions that cannot be polled count for as long as reads may lag.
const READS_LAG: Duration = Duration::from_secs(30);
const POLLS: &str = "/operations/";
const PERMISSION: &str = "Microsoft.Compute/locations/operations/read";

#[tokio::test]
async fn vmss_polls_forbidden() {
    let not_deleted = PlannedFailure::other("CannotAllocateRemainingVMsInAvailabilitySet", "cannot");
    let not_launched = PlannedFailure::out_of_resources("AllocationFailed", "There is no capacity.");
    let plan = pool("pool", (0, 10, 4)).deletions(Pick::Always, DeleteOutcome::FailsLater(not_deleted));
    let shrinking = pool("other", (0, 10, 2)).launches(Pick::Always, LaunchOutcome::fails(not_launched, quick()));
    let mut setup = Setup::open(arm([plan, shrinking])).await;
    setup.emulator.script("GET", POLLS, 10_000, denied(PERMISSION));
    let nodes = setup.client.nodes_in("pool", 1).await;
    setup.client.delete("pool", &refs(&nodes)[..1]).await.expect("accepted");
    setup.client.increase("other", 3).await.expect("accepted");
    assert_eq!((setup.client.target("pool").await, setup.client.target("other").await), (3, 5));
    let line = setup.server().logged("not permitted to poll operations");
    assert!(line.contains(PERMISSION), "{line}");

    // Observations show what the polls cannot.
    setup.client.until("three failed", async |client| errors(client, "other").await.len() == 3).await;
    let still_runs = async |client: &mut crate::peers::headcount::Client| client.nodes_in("pool", 1).await == nodes;
    setup.client.until_within(READS_LAG * 2, "it still runs", still_runs).await;
    assert_eq!((setup.client.target("pool").await, setup.client.target("other").await), (4, 5));

    let check = run(&["check", "--config", &setup.config()]);
    let found = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(found.contains(PERMISSION), "{found}");
}

#[tokio::test]
async fn an_operation_that_azure_does_not_know_any_more_is_judged_by_observations() {
    let failure = PlannedFailure::other("CannotAllocateRemainingVMsInAvailabilitySet", "cannot");
    let plan = pool("pool", (0, 10, 4)).deletions(Pick::Always, DeleteOutcome::FailsLater(failure));
    let mut setup = Setup::open(arm([plan])).await;
    setup.emulator.script("GET", POLLS, 10_000, error(404, "NotFound", "The operation was not found."));
    let nodes = setup.client.nodes_in("pool", 1).await;
    setup.client.delete("pool", &refs(&nodes)[..1]).await.expect("accepted");
    assert_eq!(setup.client.target("pool").await, 3);
    setup.server().logged("the cloud does not know the operation any more");
    assert_eq!(setup.emulator.requests_with("GET", POLLS).len(), 2, "a second poll confirms the first");
    let still_runs = async |client: &mut crate::peers::headcount::Client| client.nodes_in("pool", 1).await == nodes;
    setup.client.until_within(READS_LAG * 2, "it still runs", still_runs).await;
    assert_eq!(setup.client.target("pool").await, 4);
}

#[tokio::test]
async fn vmss_polls_hang() {
    let mut setup = Setup::open(arm([pool("pool", (0, 10, 2))])).await;
    setup.emulator.hold("GET", POLLS, HoldPoint::BeforeResponse);
    for target in 3..=6 {
        setup.client.increase("pool", 1).await.expect("accepted");
        assert_eq!(setup.client.target("pool").await, target);
        let polls = setup.emulator.requests_with("GET", POLLS).len();
        let polled =
            async |_: &mut crate::peers::headcount::Client| setup.emulator.requests_with("GET", POLLS).len() > polls;
        setup.client.until("it is polled", polled).await;
    }
    assert_eq!(capacities_written(&setup.emulator, "pool"), [3, 4, 5, 6]);
    setup.client.until("six run", async |client| client.nodes_in("pool", 1).await.len() == 6).await;
    setup.emulator.release();
}

/// A scale-up between the moment when deletions fail and the poll that tells, while something else runs in the set.
#[tokio::test]
async fn vmss_scale_up_before_failed_deletes_are_polled() {
    let failure = PlannedFailure::other("CannotAllocateRemainingVMsInAvailabilitySet", "cannot");
    let plan = pool("pool", (0, 20, 10)).accounting(Accounting::OnAccept).launch_time(endless());
    let plan = plan.delete_time(endless()).deletions(Pick::Always, DeleteOutcome::FailsLater(failure));
    let mut setup = Setup::open(arm([plan])).await;
    let nodes = setup.client.nodes_in("pool", 1).await;
    setup.client.increase("pool", 1).await.expect("it runs until the end");
    setup.client.delete("pool", &refs(&nodes)[..6]).await.expect("accepted");
    assert_eq!(setup.client.target("pool").await, 5);
    setup.emulator.hold("GET", POLLS, HoldPoint::BeforeEffect);
    setup.emulator.simulated().faults(|faults| {
        for kind in [CallKind::List, CallKind::Observe] {
            faults.script_read(Some(kind), "pool", 10_000, ReadFault::Capacity(5));
        }
    });
    setup.emulator.simulated().end_deletions("pool").expect("it exists");
    let listed = setup.emulator.requests_with("GET", "pool/virtualMachines").len();
    let (mut client, emulator) = (setup.client.clone(), &setup.emulator);
    let release = async {
        let is_listed = || emulator.requests_with("GET", "pool/virtualMachines").len() > listed + 1;
        eventually("the list decides where no poll tells", is_listed).await;
        assert_eq!(capacities_written(emulator, "pool"), [11], "6 would delete live VMs");
        emulator.release();
    };
    let (outcome, ()) = tokio::join!(client.increase("pool", 1), release);
    outcome.expect("the polls tell that the deletions have failed");
    assert_eq!(capacities_written(&setup.emulator, "pool"), [11, 12]);
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

/// What a deletion that failed has left, as a process that starts finds it.
#[tokio::test]
async fn vmss_failed_deletes_before_a_start() {
    let arm = arm([pool("pool", (0, 200, 86))]);
    arm.simulated().faults(|faults| {
        for kind in [CallKind::List, CallKind::Observe] {
            faults.script_read(Some(kind), "pool", 10_000, ReadFault::Capacity(48));
        }
    });
    let mut setup = Setup::open(arm).await;
    assert_eq!(setup.client.target("pool").await, 86, "nothing runs that would delete any");
    assert_eq!(capacities_written(&setup.emulator, "pool"), [0; 0], "a start writes nothing");
    setup.client.increase("pool", 5).await.expect("accepted");
    assert_eq!(capacities_written(&setup.emulator, "pool"), [91], "53 would delete 33 live VMs");
    assert_eq!(setup.client.target("pool").await, 91);
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

/// The same while a deletion of the process before still runs.
#[tokio::test]
async fn vmss_failed_deletes_before_a_start_beside_one_that_runs() {
    let plan = pool("pool", (0, 20, 10)).accounting(Accounting::OnAccept).delete_time(endless());
    let mut setup = Setup::open(arm([plan])).await;
    let nodes = setup.client.nodes_in("pool", 1).await;
    setup.client.delete("pool", &refs(&nodes)[..1]).await.expect("accepted");
    setup.kill();
    setup.emulator.simulated().faults(|faults| {
        for kind in [CallKind::List, CallKind::Observe] {
            faults.script_read(Some(kind), "pool", 10_000, ReadFault::Capacity(7));
        }
    });
    setup.start().await;
    let (code, message) = refused(setup.client.increase("pool", 1).await);
    assert!(matches!(code, Code::Aborted | Code::DeadlineExceeded), "8 would delete one of 9 live VMs: {message}");
    assert_eq!(capacities_written(&setup.emulator, "pool"), [0; 0]);
    setup.emulator.simulated().end_deletions("pool").expect("it exists");
    setup.client.until("the target has them", async |client| client.target("pool").await == 9).await;
    setup.client.increase("pool", 1).await.expect("accepted");
    assert_eq!(capacities_written(&setup.emulator, "pool"), [10]);
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

/// The same while a scale-up of the process before still runs, and every deletion has failed.
#[tokio::test]
async fn vmss_failed_deletes_before_a_start_beside_a_scale_up() {
    let mut setup = Setup::open(arm([pool("pool", (0, 20, 12)).launch_time(endless())])).await;
    setup.client.increase("pool", 1).await.expect("accepted");
    setup.client.until("it is being created", async |client| client.nodes("pool").await.len() == 13).await;
    setup.kill();
    setup.emulator.simulated().faults(|faults| {
        for kind in [CallKind::List, CallKind::Observe] {
            faults.script_read(Some(kind), "pool", 10_000, ReadFault::Capacity(10));
        }
    });
    setup.start().await;
    setup.emulator.forget_requests();
    let (code, message) = refused(setup.client.increase("pool", 1).await);
    assert!(matches!(code, Code::Aborted | Code::DeadlineExceeded), "11 would delete two of 13 VMs: {message}");
    assert_eq!(capacities_written(&setup.emulator, "pool"), [0; 0]);
    setup.client.increase("pool", 3).await.expect("room for all that live");
    assert_eq!(capacities_written(&setup.emulator, "pool"), [13]);
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

#[tokio::test]
async fn vmss_preempted_deletes_revived() {
    let failure = PlannedFailure::other("CannotAllocateRemainingVMsInAvailabilitySet", "cannot");
    let plan = pool("pool", (0, 20, 6)).accounting(Accounting::OnAccept);
    let plan = plan.delete_time(endless()).deletions(Pick::Always, DeleteOutcome::FailsLater(failure));
    let mut setup = Setup::open(arm([plan])).await;
    let nodes = setup.client.nodes_in("pool", 1).await;
    setup.client.delete("pool", &refs(&nodes)[..2]).await.expect("accepted");
    assert_eq!(setup.client.target("pool").await, 4);
    setup.emulator.simulated().end_deletions("pool").expect("it exists");
    // The machines are live again, but the capacity stays as the deletion left it.
    setup.emulator.simulated().faults(|faults| {
        for kind in [CallKind::List, CallKind::Observe] {
            faults.script_read(Some(kind), "pool", 10_000, ReadFault::Capacity(4));
        }
    });
    setup.client.until("all run", async |client| client.nodes_in("pool", 1).await == nodes).await;
    setup.client.until("the target has them", async |client| client.target("pool").await == 6).await;
    assert_eq!(capacities_written(&setup.emulator, "pool"), [0; 0], "nothing is raised back");
    setup.client.increase("pool", 1).await.expect("accepted");
    assert_eq!(capacities_written(&setup.emulator, "pool"), [7], "a lower capacity would delete live VMs");
    setup.emulator.simulated().faults(|faults| faults.clear());
    setup.client.until("seven run", async |client| client.nodes_in("pool", 1).await.len() == 7).await;
    assert_eq!(setup.client.target("pool").await, 7);
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}
