//! Deletions by name.

use std::time::Duration;

use headcount::clouds::simulated::{Accounting, DeleteOutcome, GroupPlan, Overlap, Pick, PlannedFailure};
use serde_json::json;
use tonic::Code;

use super::{arm, capacities_written, capacity, deletions, endless, pool, quick, refs};
use crate::emulators::arm::{Arm, MissingInstance};
use crate::emulators::setup::Setup;
use crate::emulators::{Emulator, HttpResponse, Request};
use crate::peers::headcount::{Client, refused};

#[tokio::test]
async fn vmss_twenty_single_deletes() {
    let mut setup = Setup::open(arm([pool("pool", (0, 100, 40))])).await;
    let victims: Vec<String> = setup.client.nodes_in("pool", 1).await[..20].to_vec();
    let mut calls = tokio::task::JoinSet::new();
    for victim in victims {
        let mut client = setup.client.clone();
        calls.spawn(async move { client.delete("pool", &[&victim]).await });
    }
    for outcome in calls.join_all().await {
        outcome.expect("deleted");
    }
    assert_eq!(setup.client.target("pool").await, 20);
    assert!(setup.emulator.requests_with("POST", "/delete").len() <= 2);
    setup.client.until("they are gone", async |client| client.nodes("pool").await.len() == 20).await;
    assert_eq!(setup.client.target("pool").await, 20);
}

/// Each orchestration mode, with each way to count instances being deleted.
fn modes_and_habits() -> impl Iterator<Item = (bool, Accounting)> {
    [false, true]
        .into_iter()
        .flat_map(|flexible| [Accounting::WhenGone, Accounting::OnAccept].map(|accounting| (flexible, accounting)))
}

/// A scale set at its minimum of three, with this maximum, and its nodes.
async fn three_at_min(max: u32, flexible: bool, habit: Accounting) -> (Setup<Arm>, Vec<String>) {
    let arm = arm([pool("pool", (3, max, 3)).accounting(habit)]);
    arm.group_details("pool", |details| details.flexible = flexible);
    let mut setup = Setup::open(arm).await;
    let nodes = setup.client.nodes_in("pool", 1).await;
    (setup, nodes)
}

/// The writes to a scale set, in order: the path's last segment.
fn writes(arm: &Arm) -> Vec<String> {
    let requests = arm.requests();
    let sent = requests.iter().filter(|request| request.method != "GET");
    sent.filter_map(|request| request.path.rsplit('/').next().map(str::to_owned)).collect()
}

#[tokio::test]
async fn vmss_unregistered_at_min() {
    for (flexible, habit) in modes_and_habits() {
        let (mut setup, nodes) = three_at_min(10, flexible, habit).await;
        let (code, _) = refused(setup.client.delete("pool", &refs(&nodes[..2])).await);
        assert_eq!(code, Code::FailedPrecondition, "nodes are not deleted at the minimum");
        setup.emulator.forget_requests();
        setup.client.delete_unregistered("pool", &refs(&nodes[..2])).await.expect("replaced");
        assert_eq!(setup.client.target("pool").await, 3, "flexible: {flexible}, {habit:?}");
        assert_eq!(capacities_written(&setup.emulator, "pool"), [5], "room is made first");
        assert_eq!(writes(&setup.emulator), ["pool", "delete"], "flexible: {flexible}, {habit:?}");
        setup.client.until("others run", async |client| client.nodes_in("pool", 1).await.len() == 3).await;
        let after = setup.client.nodes_in("pool", 1).await;
        assert!(after.contains(&nodes[2]) && !after.iter().any(|node| nodes[..2].contains(node)), "{after:?}");
        setup.client.until("they are gone", async |client| client.nodes("pool").await.len() == 3).await;
        assert_eq!((setup.client.target("pool").await, capacity(&setup.emulator, "pool")), (3, Some(3)));
        assert!(setup.emulator.simulated().killed_unnamed().is_empty());
    }
}

#[tokio::test]
async fn vmss_unregistered_at_max() {
    for (flexible, habit) in modes_and_habits() {
        let (mut setup, nodes) = three_at_min(3, flexible, habit).await;
        setup.client.delete_unregistered("pool", &refs(&nodes[..1])).await.expect("replaced");
        assert_eq!(setup.client.target("pool").await, 3, "flexible: {flexible}, {habit:?}");
        let another_runs = async |client: &mut Client| {
            assert_eq!(client.target("pool").await, 3, "it never falls, and never exceeds the maximum");
            let running = client.nodes_in("pool", 1).await;
            running.len() == 3 && !running.contains(&nodes[0])
        };
        setup.client.until("another one runs", another_runs).await;
        // The end of the deletion changes the etag: the capacity may have to be written a second time.
        let writes = writes(&setup.emulator);
        assert!(writes[0] == "delete" && writes[1..].iter().all(|write| write == "pool"), "{flexible} {habit:?}");
        setup.client.until("it is gone", async |client| client.nodes("pool").await.len() == 3).await;
        assert_eq!((setup.client.target("pool").await, capacity(&setup.emulator, "pool")), (3, Some(3)));
        assert!(setup.emulator.simulated().killed_unnamed().is_empty());
    }
}

/// Room cannot be made, or another client makes it impossible.
#[tokio::test]
async fn vmss_unregistered_without_quota() {
    let mut setup = Setup::open(arm([pool("pool", (3, 10, 3))])).await;
    let nodes = setup.client.nodes_in("pool", 1).await;
    let message = "Operation could not be completed as it results in exceeding approved Total Regional Cores quota.";
    let full = json!({"error": {"code": "OperationNotAllowed", "message": message}});
    setup.emulator.script("PATCH", "virtualMachineScaleSets/pool", 1, HttpResponse::json(409, &full));
    setup.client.delete_unregistered("pool", &refs(&nodes[..1])).await.expect_err("no room for another one");
    assert_eq!((setup.client.target("pool").await, deletions(&setup.emulator).len()), (3, 0), "nothing is deleted");
    setup.client.delete_unregistered("pool", &refs(&nodes[..1])).await.expect("replaced");
    assert_eq!((setup.client.target("pool").await, deletions(&setup.emulator).len()), (3, 1));
}

#[tokio::test]
async fn vmss_restart_mid_delete() {
    for habit in [Accounting::WhenGone, Accounting::OnAccept] {
        let mut setup = Setup::open(arm([pool("pool", (0, 100, 40)).accounting(habit).delete_time(endless())])).await;
        let victims: Vec<String> = setup.client.nodes_in("pool", 1).await[..15].to_vec();
        let victims: Vec<&str> = victims.iter().map(String::as_str).collect();
        setup.client.delete("pool", &victims).await.expect("accepted");
        setup.restart().await;
        assert_eq!(setup.client.target("pool").await, 25, "{habit:?}");
        assert_eq!(setup.client.nodes_in("pool", 3).await.len(), 15, "{habit:?}");
    }
}

#[tokio::test]
async fn vmss_delete_already_gone() {
    for (flexible, habit) in
        [(false, MissingInstance::Invalid), (true, MissingInstance::NotFound), (false, MissingInstance::Tolerated)]
    {
        let arm = arm([pool("pool", (0, 10, 5))]);
        arm.group_details("pool", |details| details.flexible = flexible);
        arm.behavior(|behavior| behavior.missing_instance = habit);
        // There is no read in between.
        let mut setup = Setup::with(arm, |options| options.refresh = "10m".to_owned()).await;
        let client = &mut setup.client;
        let before = client.nodes_in("pool", 1).await;
        // The capacity read before the deletion is older than the eviction. The list read after the refusal is not.
        setup.emulator.repeat_itself(&["/virtualMachineScaleSets/pool"]).await;
        setup.emulator.simulated().evict("pool", 1).expect("it exists");
        setup.emulator.forget_requests();
        client.delete("pool", &refs(&before)[..4]).await.expect("one is gone already, which is a success");
        client.until("four are gone", async |client| client.nodes("pool").await.len() == 1).await;
        assert_eq!(client.nodes_in("pool", 1).await, before[4..]);
        let named: Vec<usize> = deletions(&setup.emulator).iter().map(Vec::len).collect();
        let expected = if habit == MissingInstance::Tolerated { vec![4] } else { vec![4, 3] };
        assert_eq!(named, expected, "{habit:?}");
        assert_eq!((client.target("pool").await, capacity(&setup.emulator, "pool")), (1, Some(1)), "{habit:?}");
        assert!(setup.emulator.simulated().killed_unnamed().is_empty());
        let again = deletions(&setup.emulator).len();
        client.delete("pool", &refs(&before)[..4]).await.expect("deleting instances that are gone succeeds at once");
        assert_eq!(deletions(&setup.emulator).len(), again);
    }
}

#[tokio::test]
async fn vmss_delete_of_unknown_id() {
    let mut setup = Setup::with(arm([pool("pool", (0, 10, 5))]), |options| options.refresh = "10m".to_owned()).await;
    let nodes = setup.client.nodes_in("pool", 1).await;
    setup.emulator.repeat_itself(&["/virtualMachineScaleSets/pool"]).await;
    setup.emulator.simulated().evict("pool", 1).expect("it exists");
    setup.emulator.forget_requests();
    setup.client.delete("pool", &refs(&nodes)).await.expect("an instance that is gone does not fail the others");
    // Quotas are read beside it.
    let is_of_set = |request: &Request| request.path.contains("/virtualMachineScaleSets/");
    let requests: Vec<_> = setup.emulator.requests().into_iter().filter(is_of_set).collect();
    let steps = requests.iter().map(|request| (request.method.as_str(), request.status));
    let steps: Vec<_> = steps.take(5).collect();
    let read = ("GET", Some(200));
    let expected = [read, ("POST", Some(400)), read, read, ("POST", Some(202))];
    assert_eq!(steps, expected, "refused, listed, read again and sent once more");
    assert!(requests[2].path.ends_with("/virtualMachines"), "{}", requests[2].path);
    let [first, second] = &deletions(&setup.emulator)[..] else { panic!("{:?}", deletions(&setup.emulator)) };
    assert_eq!((first.len(), second.len()), (5, 4), "{first:?}, {second:?}");
    assert!(second.iter().all(|id| first.contains(id)), "{first:?}, {second:?}");
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

#[tokio::test]
async fn vmss_batch_breaks_min() {
    let mut setup = Setup::open(arm([pool("pool", (3, 10, 4))])).await;
    let nodes = setup.client.nodes_in("pool", 1).await;
    let (code, message) = refused(setup.client.delete("pool", &refs(&nodes)[..3]).await);
    assert_eq!(code, Code::FailedPrecondition, "{message}");
    assert_eq!((deletions(&setup.emulator).len(), setup.client.target("pool").await), (0, 4), "refused whole");

    // Concurrent calls are judged one by one, while there is room.
    let mut calls = tokio::task::JoinSet::new();
    for node in &nodes[..3] {
        let (mut client, node) = (setup.client.clone(), node.clone());
        calls.spawn(async move { client.delete("pool", &[&node]).await });
    }
    let outcomes = calls.join_all().await;
    let done = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    let refusals = outcomes.into_iter().filter_map(Result::err);
    assert!(refusals.map(|status| status.code()).all(|code| code == Code::FailedPrecondition));
    assert_eq!(done, 1);
    assert_eq!(deletions(&setup.emulator).concat().len(), 1);
    assert_eq!(setup.client.target("pool").await, 3);
    setup.client.until("it is gone", async |client| client.nodes("pool").await.len() == 3).await;
    assert_eq!(capacity(&setup.emulator, "pool"), Some(3));
}

#[tokio::test]
async fn vmss_partial_delete() {
    for habit in [Accounting::WhenGone, Accounting::OnAccept] {
        let failure = PlannedFailure::other("CannotAllocateRemainingVMsInAvailabilitySet", "cannot");
        let plan = pool("pool", (0, 20, 10)).accounting(habit);
        let plan = plan.delete_time(endless()).deletions(Pick::After(3), DeleteOutcome::FailsLater(failure));
        let mut setup = Setup::open(arm([plan])).await;
        let client = &mut setup.client;
        let nodes = client.nodes_in("pool", 1).await;
        client.delete("pool", &refs(&nodes)[..5]).await.expect("accepted");
        assert_eq!(client.target("pool").await, 5, "{habit:?}: all five are being deleted");
        setup.emulator.simulated().end_deletions("pool").expect("it exists");
        client.until("two run again", async |client| client.nodes_in("pool", 1).await.len() == 7).await;
        assert_eq!(client.nodes_in("pool", 1).await, nodes[3..], "{habit:?}");
        assert_eq!((client.nodes("pool").await.len(), client.target("pool").await), (7, 7), "{habit:?}");
        let fine = |plan: &mut GroupPlan| {
            plan.deletions_fine();
            plan.delete_time = quick();
        };
        setup.emulator.simulated().replan("pool", fine).expect("it exists");
        client.delete("pool", &refs(&nodes)[3..5]).await.expect("the deletion is retried");
        client.until("they are gone", async |client| client.nodes("pool").await.len() == 5).await;
        assert_eq!((client.target("pool").await, capacity(&setup.emulator, "pool")), (5, Some(5)), "{habit:?}");
        assert!(capacities_written(&setup.emulator, "pool").is_empty());
    }
}

#[tokio::test]
async fn a_deletion_that_a_newer_operation_preempted_is_sent_again_once() {
    let plan = pool("pool", (0, 20, 6)).overlap(Overlap::Preempt).delete_time(endless());
    let mut setup = Setup::open(arm([plan])).await;
    let client = &mut setup.client;
    let nodes = client.nodes_in("pool", 1).await;
    client.delete("pool", &refs(&nodes)[..2]).await.expect("accepted");
    assert_eq!(client.target("pool").await, 4);
    setup.emulator.simulated().replan("pool", |plan| plan.delete_time = quick()).expect("it exists");
    setup.emulator.simulated().set_desired_externally("pool", 7).expect("it exists");
    client.until("they are gone", async |client| client.nodes("pool").await.len() == 5).await;
    assert_eq!(client.nodes_in("pool", 1).await[..4], nodes[2..]);
    let [first, second] = &deletions(&setup.emulator)[..] else { panic!("{:?}", deletions(&setup.emulator)) };
    assert_eq!(first, second);
    assert_eq!((client.target("pool").await, capacity(&setup.emulator, "pool")), (5, Some(5)));
}

#[tokio::test]
async fn protection_from_scale_in_does_not_protect_from_a_deletion_by_name() {
    let arm = arm([pool("pool", (0, 10, 2))]);
    arm.group_details("pool", |details| details.protected = ["0".to_owned()].into());
    let mut setup = Setup::open(arm).await;
    let node = setup.client.nodes_in("pool", 1).await.remove(0);
    assert!(node.ends_with("/virtualMachines/0"), "{node}");
    setup.client.delete("pool", &[&node]).await.expect("deleted, as in-tree");
    setup.client.until("it is gone", async |client| client.nodes("pool").await.len() == 1).await;
    assert_eq!(setup.client.target("pool").await, 1);
}

/// Two of five VMs are deleted. The operation succeeds, the capacity falls, and lists show both for minutes.
async fn stay_listed(flexible: bool) {
    let arm = arm([pool("pool", (0, 10, 5))]);
    arm.group_details("pool", |details| details.flexible = flexible);
    let mut setup = Setup::open(arm).await;
    let nodes = setup.client.nodes_in("pool", 1).await;
    setup.emulator.group_details("pool", |details| {
        details.still_listed = ["0", "1"].map(str::to_owned).into();
    });
    setup.client.delete("pool", &refs(&nodes)[..2]).await.expect("accepted");
    let deleted = setup.emulator.simulated().elapsed();
    let fallen = || capacity(&setup.emulator, "pool") == Some(3);
    setup.client.clone().until("the capacity fell", async |_| fallen()).await;
    // Longer than any read lags, as is assumed of all other reads.
    let is_shown = async |client: &mut Client| {
        assert_eq!(client.target("pool").await, 3);
        assert_eq!(client.nodes_in("pool", 1).await, nodes[2..], "flexible: {flexible}");
        setup.emulator.simulated().elapsed() - deleted > Duration::from_secs(36)
    };
    setup.client.clone().until_within(Duration::from_secs(400), "it is shown for long", is_shown).await;
    setup.client.increase("pool", 1).await.expect("nothing contradicts it");
    assert_eq!((capacities_written(&setup.emulator, "pool"), setup.client.target("pool").await), (vec![4], 4));
    setup.emulator.group_details("pool", |details| details.still_listed.clear());
    setup.client.until("four run", async |client| client.nodes("pool").await.len() == 4).await;
}

#[tokio::test]
async fn vmss_deleted_vms_stay_listed() {
    stay_listed(false).await;
}

#[tokio::test]
async fn vmss_deleted_vms_stay_listed_flex() {
    stay_listed(true).await;
}
