//! Instances that are on their way out for another reason when CA names them. AWS lowers the desired capacity for the
//! deletion all the same, which then is too low for instances that nobody named.

use std::time::Duration;

use headcount::clouds::simulated::World;
use tonic::Status;

use super::{aws, capacity, desired_written, group, instance_id, terminations, texts};
use crate::emulators::aws::Aws;
use crate::emulators::setup::Setup;
use crate::emulators::{Emulator, HoldPoint};
use crate::peers::headcount::{Client, eventually};

/// How long the group tolerates more instances than desired: longer than Headcount takes to see it twice.
const TERMINATES_AFTER: Duration = Duration::from_secs(15);

fn live(aws: &Aws) -> Option<u32> {
    aws.simulated().world(|world, _| world.group("web").map(|group| group.live()))
}

async fn delete(mut client: Client, node: String) -> Result<(), Status> {
    client.delete("web", &texts(&[node])).await
}

/// CA names one of the running instances. While the call is on its way, `meanwhile` happens to that instance. Then
/// the call takes effect, and the desired capacity is `lowered` by it. Headcount raises it back to `room`, and no
/// instance dies that nobody named.
async fn named_just_after(running: u32, meanwhile: impl Fn(&mut World, Duration, &str), lowered: u32, room: u32) {
    let mut plan = group("web", (0, 20, running));
    plan.scale_in_lag = TERMINATES_AFTER..=TERMINATES_AFTER;
    let mut setup = Setup::with(aws([plan]), |options| options.refresh = "60s".to_owned()).await;
    let named = setup.client.nodes_in("web", 1).await[0].clone();
    let aws = &setup.emulator;
    aws.hold("POST", "Action=TerminateInstanceInAutoScalingGroup", HoldPoint::BeforeEffect);
    let call = tokio::spawn(delete(setup.client.clone(), named.clone()));
    eventually("it is on its way", || terminations(aws).len() == 1).await;
    aws.simulated().world(|world, now| meanwhile(world, now, instance_id(&named)));
    aws.release();
    call.await.expect("no panic").expect("accepted");
    eventually("the capacity fell", || capacity(aws, "web") <= lowered).await;
    eventually("it is raised back in time", || capacity(aws, "web") == room).await;
    assert_eq!(desired_written(aws, "web"), [room], "by one write");
    let raised = aws.simulated().elapsed();
    eventually("the group would have terminated one", || aws.simulated().elapsed() > raised + TERMINATES_AFTER).await;
    assert!(aws.simulated().killed_unnamed().is_empty());
    assert_eq!(live(aws), Some(room));
    let room = i32::try_from(room).expect("small");
    setup.client.until("it shows", async |client| client.target("web").await == room).await;
}

#[tokio::test]
async fn asg_terminates_itself_just_before() {
    let terminate = |world: &mut World, now, id: &str| {
        world.terminate(now, "web", id, true).expect("it is listed");
    };
    named_just_after(6, terminate, 4, 5).await;
}

#[tokio::test]
async fn asg_replaced_by_health_check() {
    let replace = |world: &mut World, now, id: &str| {
        world.terminate(now, "web", id, false).expect("it is listed");
        world.launch_replacement(now, "web").expect("it exists");
    };
    named_just_after(6, replace, 5, 6).await;
}

#[tokio::test]
async fn asg_standby_just_before() {
    let enter_standby = |world: &mut World, now, id: &str| {
        world.enter_standby(now, "web", id).expect("it is listed");
    };
    named_just_after(6, enter_standby, 4, 5).await;
}

#[tokio::test]
async fn asg_removed_just_before_named() {
    // Another client lowers the group, which picks the same instance.
    let lower = |world: &mut World, now, id: &str| {
        world.set_desired_externally(now, "web", 1).expect("it exists");
        world.terminate(now, "web", id, false).expect("it is listed");
    };
    named_just_after(2, lower, 0, 1).await;
}
