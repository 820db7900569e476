//! Deletions of instances that are already terminating or cannot be terminated, and in a group that is being deleted.

use headcount::clouds::simulated::{
    CallFault, CallKind, DeleteOutcome, Faults, GroupPlan, Phase, Pick, PlannedFailure,
};
use tonic::Code;

use super::{FOREVER, aws, capacity, desired_written, group, instance_id, open, open_sleepy, terminations, texts};
use crate::emulators::aws::Busy;
use crate::emulators::setup::Setup;
use crate::emulators::{Emulator, HoldPoint, aws as emulator};
use crate::peers::headcount::{eventually, refused};

const TERMINATE: &str = "Action=TerminateInstanceInAutoScalingGroup";

#[tokio::test]
async fn asg_double_terminate() {
    // A lifecycle hook keeps the instance for an hour.
    let aws = aws([group("web", (1, 10, 4)).delete_time(FOREVER..=FOREVER)]);
    aws.group_details("web", |details| details.lifecycles = vec![(Phase::Deleting, "Terminating:Wait".to_owned())]);
    let mut setup = Setup::open(aws).await;
    let victim = setup.client.nodes_in("web", 1).await.remove(1);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..5 {
        let (mut client, victim) = (setup.client.clone(), victim.clone());
        calls.spawn(async move { client.delete("web", &[&victim]).await });
    }
    for outcome in calls.join_all().await {
        outcome.expect("every call returns OK");
    }
    for _ in 0..3 {
        setup.client.refresh().await.expect("refreshed");
        setup.client.delete("web", &[&victim]).await.expect("a repeated deletion is a success");
    }
    setup.restart().await;
    setup.client.delete("web", &[&victim]).await.expect("also after a restart");
    assert_eq!(terminations(&setup.emulator), [[instance_id(&victim)]], "one call");
    assert_eq!((setup.client.target("web").await, capacity(&setup.emulator, "web")), (3, 3));
    assert_eq!(setup.client.nodes_in("web", 3).await, [victim]);
}

/// CA names two instances of a group at its minimum. AWS has the call that names several at once, or only the other.
async fn unregistered_at_min(batch: bool) {
    let mut setup = open([group("web", (3, 10, 3))]).await;
    setup.emulator.behavior(|behavior| behavior.batch_terminate = batch);
    let nodes = setup.client.nodes_in("web", 1).await;
    let (code, _) = refused(setup.client.delete("web", &texts(&nodes[..2])).await);
    assert_eq!(code, Code::FailedPrecondition, "nodes are not deleted at the minimum");
    setup.client.delete_unregistered("web", &texts(&nodes[..2])).await.expect("replaced");
    assert_eq!((setup.client.target("web").await, capacity(&setup.emulator, "web")), (3, 3));
    let kept = setup.emulator.requests_with("POST", "ShouldDecrementDesiredCapacity=false");
    let sent = setup.emulator.requests_with("POST", TERMINATE);
    assert_eq!((kept.len(), sent.len()), if batch { (1, 1) } else { (3, 3) }, "the capacity stays: {sent:?}");
    setup.client.until("others run", async |client| client.nodes_in("web", 1).await.len() == 3).await;
    let after = setup.client.nodes_in("web", 1).await;
    assert_eq!(after.iter().filter(|node| nodes[..2].contains(node)).count(), 0);
    assert!(after.contains(&nodes[2]), "{after:?}");
    assert_eq!(desired_written(&setup.emulator, "web"), Vec::<u32>::new());
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

#[tokio::test]
async fn asg_unregistered_at_min() {
    tokio::join!(unregistered_at_min(true), unregistered_at_min(false));
}

#[tokio::test]
async fn asg_standby_terminate() {
    for batch in [true, false] {
        let mut setup = open([group("web", (3, 10, 3)).standby(2)]).await;
        setup.emulator.behavior(|behavior| behavior.batch_terminate = batch);
        let nodes = setup.client.nodes_in("web", 1).await;
        assert_eq!((nodes.len(), setup.client.target("web").await), (5, 3), "standby is listed, and not in the target");
        // The group is at its minimum. If asked to, AWS lowers the capacity for an instance in standby, and then
        // terminates another.
        setup.client.delete("web", &texts(&nodes[3..])).await.expect("standby is not part of the minimum");
        assert_eq!((setup.client.target("web").await, capacity(&setup.emulator, "web")), (3, 3));
        setup.client.until("they are gone", async |client| client.nodes("web").await.len() == 3).await;
        assert_eq!(setup.client.nodes_in("web", 1).await, nodes[..3]);
        let (code, _) = refused(setup.client.delete("web", &texts(&nodes[..1])).await);
        assert_eq!((code, capacity(&setup.emulator, "web")), (Code::FailedPrecondition, 3));
        assert!(setup.emulator.simulated().killed_unnamed().is_empty());
    }
}

#[tokio::test]
async fn a_call_that_names_an_instance_in_standby_lowers_the_capacity_by_the_others_only() {
    for batch in [true, false] {
        let mut setup = open([group("web", (0, 10, 3)).standby(2)]).await;
        setup.emulator.behavior(|behavior| behavior.batch_terminate = batch);
        let nodes = setup.client.nodes_in("web", 1).await;
        setup.client.delete("web", &[&nodes[0], &nodes[3]]).await.expect("accepted");
        assert_eq!((setup.client.target("web").await, capacity(&setup.emulator, "web")), (2, 2));
        setup.client.until("they are gone", async |client| client.nodes("web").await.len() == 3).await;
        let left = [&nodes[1..3], &nodes[4..]].concat();
        assert_eq!(setup.client.nodes_in("web", 1).await, left);
        assert!(setup.emulator.simulated().killed_unnamed().is_empty());
    }
}

#[tokio::test]
async fn asg_gone_during_delete() {
    let mut setup = open_sleepy([group("web", (0, 10, 4)), group("old", (0, 10, 1)), group("other", (0, 10, 1))]).await;
    let victims = setup.client.nodes_in("web", 1).await[..2].to_vec();
    setup.emulator.hold("POST", TERMINATE, HoldPoint::BeforeEffect);
    let mut client = setup.client.clone();
    let named = victims.clone();
    let call = tokio::spawn(async move { client.delete("web", &texts(&named)).await });
    eventually("the deletion is sent", || !terminations(&setup.emulator).is_empty()).await;
    assert!(setup.emulator.simulated().remove_group("web"));
    setup.emulator.release();
    call.await.expect("no panic").expect("its instances are deleted with the group");
    setup.client.delete("web", &texts(&victims)).await.expect_err("it is gone");

    let victim = setup.client.nodes_in("old", 1).await.remove(0);
    assert!(setup.emulator.simulated().remove_group("old"));
    setup.emulator.forget_requests();
    let (code, message) = refused(setup.client.delete("old", &[&victim]).await);
    assert_eq!(
        (code, message.as_str()),
        (Code::NotFound, "there is no node group \"old\"; `headcount groups` lists those that are served")
    );
    assert!(terminations(&setup.emulator).is_empty(), "nothing is sent to a group that does not exist");
    let served: Vec<String> = setup.client.node_groups().await.into_iter().map(|group| group.id).collect();
    assert_eq!(served, ["other"]);
    setup.client.increase("other", 1).await.expect("other groups can still grow");
    assert_eq!(setup.client.target("other").await, 2);
}

#[tokio::test]
async fn asg_partial_terminate() {
    let refusal = emulator::error(400, "ValidationError", "The instance is not in a state that allows this.");
    let mut setup = open([group("web", (0, 30, 20))]).await;
    setup.emulator.behavior(|behavior| behavior.batch_terminate = false);
    let running = setup.client.nodes_in("web", 1).await;

    // There are more instances than single terminations at a time. The second is refused permanently.
    setup.emulator.script("POST", &format!("InstanceId={}", instance_id(&running[1])), 1, refusal);
    let (code, message) = refused(setup.client.delete("web", &texts(&running[..12])).await);
    assert_eq!(code, Code::FailedPrecondition);
    assert!(message.contains("1 of the named nodes cannot be deleted (any others are being deleted): "), "{message}");
    assert!(message.contains(&running[1]) && message.contains("not in a state that allows this"), "{message}");
    assert!(!message.contains(&running[0]) && !message.contains(&running[2]), "{message}");
    assert_eq!((setup.client.target("web").await, capacity(&setup.emulator, "web")), (9, 9));
    setup.client.until("the others are gone", async |client| client.nodes("web").await.len() == 9).await;
    assert!(setup.client.nodes_in("web", 1).await.contains(&running[1]));

    // Another activity of the group delays it for a short time.
    setup.emulator.behavior(|behavior| behavior.busy = Busy::ResourceContention);
    let conflict = |faults: &mut Faults| faults.script(Some(CallKind::DeleteInstances), None, 2, CallFault::Conflict);
    setup.emulator.simulated().faults(conflict);
    setup.client.delete("web", &texts(&[&running[1..2], &running[12..14]].concat())).await.expect("tried again");
    // One call in the batch form, which this region does not support, then one call each. Two met the other activity.
    assert_eq!(terminations(&setup.emulator).len(), 1 + 12 + 3 + 2);
    assert_eq!((setup.client.target("web").await, capacity(&setup.emulator, "web")), (6, 6));

    // The account is throttled for a moment, after some terminations were accepted.
    setup.emulator.forget_requests();
    let throttled = |faults: &mut Faults| {
        let throttled = CallFault::Throttled { retry_after: None };
        faults.script(Some(CallKind::DeleteInstances), Some("web"), 1, throttled);
    };
    setup.emulator.simulated().faults(throttled);
    setup.client.delete("web", &texts(&running[14..17])).await.expect("tried again");
    assert_eq!((setup.client.target("web").await, capacity(&setup.emulator, "web")), (3, 3));
    assert_eq!(terminations(&setup.emulator).len(), 3 + 1);

    // In one call for all, AWS starts an activity for each instance that it accepts.
    let mut setup = open([group("batch", (0, 10, 4))]).await;
    let failure = PlannedFailure::other("ScalingActivityInProgress", "busy");
    let second = |plan: &mut GroupPlan| plan.deletions_now(Pick::Every(2), DeleteOutcome::Refused(failure));
    setup.emulator.simulated().replan("batch", second).expect("it exists");
    let running = setup.client.nodes_in("batch", 1).await;
    let (_, message) = refused(setup.client.delete("batch", &texts(&running[..3])).await);
    assert_eq!(terminations(&setup.emulator).len(), 1);
    assert!(message.contains(&running[1]), "{message}");
    assert!(!message.contains(&running[0]) && !message.contains(&running[2]), "{message}");
    assert_eq!((setup.client.target("batch").await, capacity(&setup.emulator, "batch")), (2, 2));
    assert!(desired_written(&setup.emulator, "batch").is_empty());
}
