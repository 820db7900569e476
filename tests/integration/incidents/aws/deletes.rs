//! Deletions: of what is going already, of what cannot go, and from a group that goes itself.

use headcount::clouds::simulated::{CallKind, DeleteOutcome, Faults, GroupPlan, Mishap, Phase, Pick, PlannedFailure};
use tonic::Code;

use super::{FOR_EVER, aws, capacity, desired_written, group, instance_id, open, open_sleepy, terminations, texts};
use crate::emulators::aws::Busy;
use crate::emulators::scene::Scene;
use crate::emulators::{Emulator, Moment, aws as emulator};
use crate::peers::headcount::{eventually, refused};

const TERMINATE: &str = "Action=TerminateInstanceInAutoScalingGroup";

#[tokio::test]
async fn asg_double_terminate() {
    // A lifecycle hook keeps the instance for an hour.
    let aws = aws([group("web", (1, 10, 4)).delete_time(FOR_EVER..=FOR_EVER)]);
    aws.look("web", |look| look.lifecycles = vec![(Phase::Deleting, "Terminating:Wait".to_owned())]);
    let mut scene = Scene::open(aws).await;
    let victim = scene.client.nodes_in("web", 1).await.remove(1);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..5 {
        let (mut client, victim) = (scene.client.clone(), victim.clone());
        calls.spawn(async move { client.delete("web", &[&victim]).await });
    }
    for outcome in calls.join_all().await {
        outcome.expect("all of them are told that it goes");
    }
    for _ in 0..3 {
        scene.client.refresh().await.expect("refreshed");
        scene.client.delete("web", &[&victim]).await.expect("again is fine");
    }
    scene.restart().await;
    scene.client.delete("web", &[&victim]).await.expect("after a restart, too");
    assert_eq!(terminations(&scene.emulator), [[instance_id(&victim)]], "one call");
    assert_eq!((scene.client.target("web").await, capacity(&scene.emulator, "web")), (3, 3));
    assert_eq!(scene.client.nodes_in("web", 3).await, [victim]);
}

#[tokio::test]
async fn asg_gone_during_delete() {
    let mut scene = open_sleepy([group("web", (0, 10, 4)), group("old", (0, 10, 1)), group("other", (0, 10, 1))]).await;
    let victims = scene.client.nodes_in("web", 1).await[..2].to_vec();
    scene.emulator.hold("POST", TERMINATE, Moment::Arrived);
    let mut client = scene.client.clone();
    let named = victims.clone();
    let call = tokio::spawn(async move { client.delete("web", &texts(&named)).await });
    eventually("the deletion is sent", || !terminations(&scene.emulator).is_empty()).await;
    assert!(scene.emulator.simulated().remove_group("web"));
    scene.emulator.let_go();
    call.await.expect("no panic").expect("its instances go with it");
    scene.client.delete("web", &texts(&victims)).await.expect_err("it is gone");

    let victim = scene.client.nodes_in("old", 1).await.remove(0);
    assert!(scene.emulator.simulated().remove_group("old"));
    scene.emulator.forget_requests();
    let (code, message) = refused(scene.client.delete("old", &[&victim]).await);
    assert_eq!(
        (code, message.as_str()),
        (Code::NotFound, "there is no node group \"old\"; NodeGroups lists those that are served")
    );
    assert!(terminations(&scene.emulator).is_empty(), "nothing is sent to a group that is not there");
    let served: Vec<String> = scene.client.node_groups().await.into_iter().map(|group| group.id).collect();
    assert_eq!(served, ["other"]);
    scene.client.increase("other", 1).await.expect("the others go on");
    assert_eq!(scene.client.target("other").await, 2);
}

#[tokio::test]
async fn asg_partial_terminate() {
    let refusal = emulator::error(400, "ValidationError", "The instance is not in a state that allows this.");
    let mut scene = open([group("web", (0, 30, 20))]).await;
    scene.emulator.habits(|habits| habits.batch_terminate = false);
    let running = scene.client.nodes_in("web", 1).await;

    // The second of more than are sent at a time is refused for good.
    scene.emulator.script("POST", &format!("InstanceId={}", instance_id(&running[1])), 1, refusal);
    let (code, message) = refused(scene.client.delete("web", &texts(&running[..12])).await);
    assert_eq!(code, Code::FailedPrecondition);
    assert!(message.contains("1 of the named nodes cannot be deleted, the others are"), "{message}");
    assert!(message.contains(&running[1]) && message.contains("not in a state that allows this"), "{message}");
    assert!(!message.contains(&running[0]) && !message.contains(&running[2]), "{message}");
    assert_eq!((scene.client.target("web").await, capacity(&scene.emulator, "web")), (9, 9));
    scene.client.until("the others are gone", async |client| client.nodes("web").await.len() == 9).await;
    assert!(scene.client.nodes_in("web", 1).await.contains(&running[1]));

    // It meets another activity of the group, which is over soon.
    scene.emulator.habits(|habits| habits.busy = Busy::ResourceContention);
    let conflict = |faults: &mut Faults| faults.script(Some(CallKind::DeleteInstances), None, 2, Mishap::Conflict);
    scene.emulator.simulated().faults(conflict);
    scene.client.delete("web", &texts(&[&running[1..2], &running[12..14]].concat())).await.expect("tried again");
    // One in the form that this region does not know, then one by one; two met the other activity.
    assert_eq!(terminations(&scene.emulator).len(), 1 + 12 + 3 + 2);
    assert_eq!((scene.client.target("web").await, capacity(&scene.emulator, "web")), (6, 6));

    // In one call for all, AWS starts an activity for each that it takes.
    let mut scene = open([group("batch", (0, 10, 4))]).await;
    let failure = PlannedFailure::other("ScalingActivityInProgress", "busy");
    let second = |plan: &mut GroupPlan| plan.deletions_now(Pick::Every(2), DeleteOutcome::Refused(failure));
    scene.emulator.simulated().replan("batch", second).expect("it exists");
    let running = scene.client.nodes_in("batch", 1).await;
    let (_, message) = refused(scene.client.delete("batch", &texts(&running[..3])).await);
    assert_eq!(terminations(&scene.emulator).len(), 1);
    assert!(message.contains(&running[1]), "{message}");
    assert!(!message.contains(&running[0]) && !message.contains(&running[2]), "{message}");
    assert_eq!((scene.client.target("batch").await, capacity(&scene.emulator, "batch")), (2, 2));
    assert!(desired_written(&scene.emulator, "batch").is_empty());
}
