//! Auto Scaling groups of several zones, each zone served as a node group.

use std::collections::BTreeMap;
use std::time::Duration;

use headcount::clouds::simulated::{GroupPlan, PlannedFailure, Raise};
use k8s_pb::api::core::v1::Node;
use prost::Message;
use tonic::Code;

use super::{aws, capacity, group, instance_id, quick, terminations};
use crate::emulators::aws::Aws;
use crate::emulators::setup::Setup;
use crate::emulators::{Emulator, HoldPoint, HttpResponse};
use crate::peers::headcount::{eventually, refused, run};

/// How long the group tolerates more instances than desired: longer than Headcount takes to see it twice.
const TERMINATES_AFTER: Duration = Duration::from_secs(15);
const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];

fn over_zones(name: &str, sizes: (u32, u32, u32)) -> GroupPlan {
    let mut plan = group(name, sizes).launch_calls(quick(), Raise::BeforeResponse);
    plan.zones = ZONES.map(str::to_owned).to_vec();
    plan
}

async fn open(plan: GroupPlan) -> Setup<Aws> {
    let more = "groups: [{match: web, zones: separate, labels: {team: a}}]";
    Setup::with(aws([plan]), |options| options.more = more.to_owned()).await
}

async fn targets(setup: &mut Setup<Aws>) -> BTreeMap<String, i32> {
    let mut targets = BTreeMap::new();
    for zone in ZONES {
        targets.insert(zone.to_owned(), setup.client.target(&format!("web/{zone}")).await);
    }
    targets
}

fn of(numbers: [i32; 3]) -> BTreeMap<String, i32> {
    ZONES.map(str::to_owned).into_iter().zip(numbers).collect()
}

#[tokio::test]
async fn asg_zone_chosen_by_the_autoscaler() {
    let mut setup = open(over_zones("web", (0, 9, 3))).await;
    let mut groups: Vec<_> = setup.client.node_groups().await.into_iter().map(|group| group.id).collect();
    groups.sort();
    assert_eq!(groups, ZONES.map(|zone| format!("web/{zone}")));
    assert_eq!(targets(&mut setup).await, of([1, 1, 1]));
    for _ in 0..5 {
        setup.client.increase("web/us-east-1b", 1).await.expect("launched");
    }
    assert_eq!(targets(&mut setup).await, of([1, 6, 1]));
    let listed = setup.client.nodes_in("web/us-east-1b", 1).await;
    assert!(listed.iter().all(|id| id.starts_with("aws:///us-east-1b/")), "{listed:?}");
    eventually("all are launched", || capacity(&setup.emulator, "web") == 8).await;

    let template = setup.client.template("web/us-east-1b").await.expect("a template");
    let node = Node::decode(template.node_info).expect("a node");
    let labels = node.metadata.expect("metadata").labels;
    assert_eq!(labels.get("topology.kubernetes.io/zone").map(String::as_str), Some("us-east-1b"));
    assert_eq!(labels.get("team").map(String::as_str), Some("a"), "the group's own policies hold for its zones");

    // One is left for all zones together.
    let (code, message) = refused(setup.client.increase("web/us-east-1c", 2).await);
    assert_eq!(code, Code::FailedPrecondition, "{message}");
    assert!(message.contains("from 8 to 10 nodes, above its maximum of 9"), "{message}");
}

#[tokio::test]
async fn asg_zone_without_capacity_stops_no_other() {
    let failure = PlannedFailure::out_of_resources("InsufficientInstanceCapacity", "There is no capacity in the zone.");
    let mut setup = open(over_zones("web", (0, 9, 3)).fails_in("us-east-1a", failure)).await;
    let (code, message) = refused(setup.client.increase("web/us-east-1a", 1).await);
    assert_eq!(code, Code::ResourceExhausted, "{message}");
    setup.client.increase("web/us-east-1b", 2).await.expect("launched");
    setup.client.increase("web/us-east-1c", 1).await.expect("launched");
    assert_eq!(targets(&mut setup).await, of([1, 3, 2]));
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

fn in_one_zone(name: &str, sizes: (u32, u32, u32)) -> GroupPlan {
    let mut plan = group(name, sizes);
    plan.zones = vec![ZONES[0].to_owned()];
    plan
}

#[tokio::test]
async fn asg_zone_withdrawn_by_a_zonal_shift() {
    let aws = aws([over_zones("web", (0, 9, 3)), in_one_zone("single", (0, 9, 1))]);
    aws.group_details("web", |details| details.shifted = Some(vec!["us-east-1b".to_owned()]));
    aws.group_details("single", |details| details.shifted = Some(vec!["us-east-1a".to_owned()]));
    let more = "groups: [{match: web, zones: separate}]";
    let mut setup = Setup::with(aws, |options| options.more = more.to_owned()).await;
    for (id, zone) in [("single", "us-east-1a"), ("web/us-east-1b", "us-east-1b")] {
        let (code, message) = refused(setup.client.increase(id, 1).await);
        assert_eq!(code, Code::FailedPrecondition, "{message}");
        assert!(message.contains(&format!("a zonal shift moves the group away from {zone}")), "{message}");
        let groups = setup.client.node_groups().await;
        let served = groups.iter().find(|group| group.id == id).expect("served");
        assert_eq!(served.max_size, 1, "no room to grow: {id}");
    }
    setup.client.increase("web/us-east-1a", 1).await.expect("another zone grows");
    assert_eq!(setup.client.target("web/us-east-1a").await, 2);
    let victim = setup.client.nodes_in("single", 1).await.remove(0);
    setup.client.delete("single", &[&victim]).await.expect("it can still shrink");
}

#[tokio::test]
async fn asg_zonal_shift_without_the_permission() {
    let aws = aws([in_one_zone("single", (0, 9, 1))]);
    aws.group_details("single", |details| details.shifted = Some(vec!["us-east-1a".to_owned()]));
    let denied = HttpResponse::json(403, &serde_json::json!({"message": "User is not authorized"}));
    let denied = denied.header("x-amzn-errortype", "AccessDeniedException");
    aws.script("GET", "/managedresources/", 1_000, denied);
    let mut setup = Setup::open(aws).await;
    setup.client.increase("single", 1).await.expect("as if there were no shift");
    assert_eq!(setup.client.target("single").await, 2);
}

#[tokio::test]
async fn asg_zone_is_never_grown_elsewhere() {
    let mut setup = open(over_zones("web", (0, 9, 3))).await;
    let denied = crate::emulators::aws::error(403, "AccessDenied", "not authorized: autoscaling:LaunchInstances");
    setup.emulator.script("POST", "Action=LaunchInstances", 10, denied);
    let (_, message) = refused(setup.client.increase("web/us-east-1a", 1).await);
    assert!(message.contains("LaunchInstances"), "{message}");
    assert_eq!((targets(&mut setup).await, capacity(&setup.emulator, "web")), (of([1, 1, 1]), 3));
}

#[tokio::test]
async fn asg_zone_keeps_the_groups_minimum() {
    let mut setup = open(over_zones("web", (2, 9, 3))).await;
    let (mut named, zones) = (Vec::new(), ZONES.map(|zone| format!("web/{zone}")));
    for zone in &zones {
        named.push(setup.client.nodes_in(zone, 1).await[0].clone());
    }
    setup.client.delete(&zones[0], &[&named[0]]).await.expect("the group may lose one");
    let (code, message) = refused(setup.client.delete(&zones[1], &[&named[1]]).await);
    assert_eq!(code, Code::FailedPrecondition, "{message}");
    assert_eq!(terminations(&setup.emulator).len(), 1, "AWS is not asked for the other one");
    assert_eq!(targets(&mut setup).await, of([0, 1, 1]));
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

#[tokio::test]
async fn asg_zone_deletion_lowers_twice() {
    let mut plan = over_zones("web", (0, 20, 6));
    plan.scale_in_lag = TERMINATES_AFTER..=TERMINATES_AFTER;
    let mut setup = open(plan).await;
    let named = setup.client.nodes_in("web/us-east-1a", 1).await[0].clone();
    let aws = &setup.emulator;
    aws.hold("POST", "Action=TerminateInstanceInAutoScalingGroup", HoldPoint::BeforeEffect);
    let call = tokio::spawn({
        let (mut client, named) = (setup.client.clone(), named.clone());
        async move { client.delete("web/us-east-1a", &[&named]).await }
    });
    eventually("it is on its way", || terminations(aws).len() == 1).await;
    // Another client terminates the same instance, and AWS lowers the capacity for each call.
    aws.simulated().world(|world, now| world.terminate(now, "web", instance_id(&named), true)).expect("it is listed");
    aws.release();
    call.await.expect("no panic").expect("accepted");
    eventually("the capacity fell", || capacity(aws, "web") <= 4).await;
    eventually("the five that live have room in time", || capacity(aws, "web") == 5).await;
    let raised = aws.simulated().elapsed();
    eventually("the group would have terminated one", || aws.simulated().elapsed() > raised + TERMINATES_AFTER).await;
    assert!(aws.simulated().killed_unnamed().is_empty());
    assert_eq!(targets(&mut setup).await, of([1, 2, 2]));
}

#[tokio::test]
async fn asg_zone_that_is_rebalanced_is_found() {
    let setup = open(over_zones("web", (0, 9, 3))).await;
    let check = run(&["check", "--config", &setup.config()]);
    let table = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(table.contains("HC419") && table.contains("--scaling-processes AZRebalance"), "{table}");
    assert_eq!(check.status.code(), Some(1), "{table}");
}
