//! Groups that grow by LaunchInstances.

use std::collections::BTreeSet;
use std::time::Duration;

use headcount::clouds::simulated::{CallFault, CallKind, GroupPlan, LaunchOutcome, Pick, PlannedFailure, Raise};
use tonic::Code;

use super::{aws, capacity, desired_written, errors, group, quick};
use crate::emulators::aws::{Aws, error};
use crate::emulators::setup::Setup;
use crate::emulators::{Emulator, HoldPoint};
use crate::peers::headcount::{AUTOSCALER_TIMEOUT, eventually, refused};

/// A group in one zone.
fn zonal(name: &str, sizes: (u32, u32, u32)) -> GroupPlan {
    let mut plan = group(name, sizes).launch_calls(quick(), Raise::BeforeResponse);
    plan.zones.truncate(1);
    plan
}

async fn open(plans: impl IntoIterator<Item = GroupPlan>) -> Setup<Aws> {
    let more = "groups: [{match: \"*\", launch: synchronous}]";
    Setup::with(aws(plans), |options| options.more = more.to_owned()).await
}

fn shortage() -> PlannedFailure {
    PlannedFailure::out_of_resources("InsufficientInstanceCapacity", "There is no capacity that matches your request.")
}

/// The token of each launch that was sent for a group.
fn tokens(aws: &Aws, name: &str) -> Vec<String> {
    let sent = aws.requests_with("POST", "Action=LaunchInstances").into_iter();
    let sent = sent.filter(|request| request.field("AutoScalingGroupName").as_deref() == Some(name));
    sent.map(|request| request.field("ClientToken").expect("each has one")).collect()
}

fn live(aws: &Aws, name: &str) -> u32 {
    aws.simulated().world(|world, _| world.group(name).expect("it exists").live())
}

#[tokio::test]
async fn asg_shortage_known_at_once() {
    let plan = zonal("web", (0, 20, 2)).launches(Pick::Always, LaunchOutcome::fails(shortage(), quick()));
    let part = zonal("part", (0, 20, 2)).launches(Pick::Every(2), LaunchOutcome::fails(shortage(), quick()));
    let mut setup = open([plan, part]).await;
    let (code, message) = refused(setup.client.increase("web", 3).await);
    assert_eq!(code, Code::ResourceExhausted);
    assert!(message.contains("InsufficientInstanceCapacity") && message.contains("There is no capacity"), "{message}");
    assert_eq!((setup.client.target("web").await, capacity(&setup.emulator, "web")), (2, 2));

    setup.client.increase("part", 4).await.expect("part of it");
    assert_eq!((setup.client.target("part").await, live(&setup.emulator, "part")), (6, 4));
    let failed = errors(&mut setup.client, "part").await;
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert!(failed.iter().all(|(code, class, _)| code == "InsufficientInstanceCapacity" && *class == 1), "{failed:?}");
    assert_eq!(desired_written(&setup.emulator, "part"), [0; 0], "no capacity is written");
    // With any other strategy, AWS raises the desired capacity by what it could not launch, and goes on trying.
    let sent = setup.emulator.requests_with("POST", "Action=LaunchInstances");
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|request| request.field("RetryStrategy").as_deref() == Some("none")));
}

#[tokio::test]
async fn asg_launch_outlasts_its_caller() {
    let mut setup = open([zonal("web", (0, 20, 2))]).await;
    setup.emulator.hold("POST", "Action=LaunchInstances", HoldPoint::BeforeResponse);
    let mut caller = setup.server().untimed_client(AUTOSCALER_TIMEOUT).await;
    caller.increase("web", 3).await.expect("it goes on");
    assert_eq!(setup.client.target("web").await, 5);
    eventually("the instances are there", || live(&setup.emulator, "web") == 5).await;
    setup.client.until("a read shows them", async |client| client.nodes_in("web", 1).await.len() == 5).await;
    assert_eq!(setup.client.target("web").await, 5, "counted once");
    setup.emulator.release();
    assert_eq!(tokens(&setup.emulator, "web").len(), 1);
}

#[tokio::test]
async fn asg_launch_response_lost() {
    let plan = zonal("web", (0, 20, 2)).launch_calls(
        Duration::from_millis(500)..=Duration::from_millis(500),
        Raise::After(Duration::from_millis(500)),
    );
    let mut setup = open([plan]).await;
    let faults = |times: u32| {
        setup.emulator.simulated().faults(|faults| {
            faults.script(Some(CallKind::Launch), Some("web"), times, CallFault::LostResponse);
        });
    };
    faults(2);
    setup.client.increase("web", 3).await.expect("repeated until it is known");
    assert_eq!(setup.client.target("web").await, 5);
    let sent = tokens(&setup.emulator, "web");
    assert!(sent.len() > 1 && sent.iter().collect::<BTreeSet<_>>().len() == 1, "{sent:?}");
    eventually("they are launched once", || capacity(&setup.emulator, "web") == 5).await;
    assert_eq!((live(&setup.emulator, "web"), setup.client.target("web").await), (5, 5));
}

#[tokio::test]
async fn asg_launch_undoes_no_other_write() {
    let mut setup = open([zonal("web", (0, 20, 6))]).await;
    setup.emulator.hold("POST", "Action=LaunchInstances", HoldPoint::BeforeEffect);
    let caller = setup.server().untimed_client(AUTOSCALER_TIMEOUT).await;
    let call = tokio::spawn({
        let mut caller = caller.clone();
        async move { caller.increase("web", 2).await }
    });
    eventually("it is sent", || !tokens(&setup.emulator, "web").is_empty()).await;
    // Another client grows the group between the read and the write.
    setup.emulator.simulated().set_desired_externally("web", 9).expect("it exists");
    setup.emulator.release();
    call.await.expect("no panic").expect("launched");
    eventually("both are kept", || live(&setup.emulator, "web") == 11).await;
    assert_eq!(capacity(&setup.emulator, "web"), 11);
    setup.client.until("it shows", async |client| client.target("web").await == 11).await;
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

#[tokio::test]
async fn asg_launch_not_offered() {
    let mut several = group("several", (0, 20, 2));
    several.zones = vec!["us-east-1a".to_owned(), "us-east-1b".to_owned()];
    let mut setup = open([zonal("pool", (0, 20, 2)), zonal("denied", (0, 20, 2)), several]).await;
    let pool = error(400, "UnsupportedOperation", "The group has a warm pool.");
    setup.emulator.script("POST", "AutoScalingGroupName=pool&RequestedCapacity", 10, pool);
    let denied = error(403, "AccessDenied", "User is not authorized to perform: autoscaling:LaunchInstances");
    setup.emulator.script("POST", "AutoScalingGroupName=denied&RequestedCapacity", 10, denied);
    for (name, launches) in [("pool", 1), ("denied", 1), ("several", 0)] {
        setup.client.increase(name, 1).await.expect(name);
        setup.client.increase(name, 1).await.expect(name);
        assert_eq!((setup.client.target(name).await, capacity(&setup.emulator, name)), (4, 4), "{name}");
        assert_eq!(tokens(&setup.emulator, name).len(), launches, "{name}");
    }
    let warning = "the cloud does not launch instances in the node group on request";
    eventually("there is a warning for each group", || setup.server().lines_with(warning).len() == 2).await;
}
