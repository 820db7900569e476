//! The size a group is grown to, and groups that cannot grow.

use headcount::cloud::Permit;
use tonic::Code;

use super::{aws, capacity, desired_written, group, open, open_sleepy, terminations};
use crate::emulators::aws::{Aws, Override};
use crate::emulators::setup::Setup;
use crate::emulators::{Emulator, HoldPoint};
use crate::peers::headcount::{Client, eventually, refused};

async fn bounds(client: &mut Client, name: &str) -> (i32, i32) {
    let groups = client.node_groups().await;
    let group = groups.iter().find(|group| group.id == name).expect("it is served");
    (group.min_size, group.max_size)
}

#[tokio::test]
async fn asg_external_growth() {
    let mut setup = open_sleepy([group("web", (0, 20, 4))]).await;
    assert_eq!(setup.client.target("web").await, 4);
    setup.emulator.simulated().set_desired_externally("web", 9).expect("it exists");
    assert_eq!(setup.client.target("web").await, 4, "not read again yet");
    setup.client.increase("web", 2).await.expect("computed from a fresh reading");
    assert_eq!(desired_written(&setup.emulator, "web"), [11]);
    assert_eq!((setup.client.target("web").await, capacity(&setup.emulator, "web")), (11, 11));
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

#[tokio::test]
async fn asg_launch_suspended() {
    let mut plan = group("web", (1, 10, 3));
    plan.growth = Permit::Withheld("User suspended at 2026-01-01T00:00:00Z".to_owned());
    let mut setup = open([plan]).await;
    let client = &mut setup.client;
    assert_eq!(bounds(client, "web").await, (1, 3), "no room to grow");
    let (code, message) = refused(client.increase("web", 1).await);
    assert_eq!(code, Code::FailedPrecondition);
    assert_eq!(
        message,
        "node group web: it cannot grow: the group's Launch process is suspended (User suspended at \
         2026-01-01T00:00:00Z); resume it with: aws autoscaling resume-processes --auto-scaling-group-name web \
         --scaling-processes Launch"
    );
    assert!(desired_written(&setup.emulator, "web").is_empty());
    let victim = client.nodes_in("web", 1).await.remove(0);
    client.delete("web", &[&victim]).await.expect("it can still shrink");
    assert_eq!((client.target("web").await, terminations(&setup.emulator).len()), (2, 1));

    setup.emulator.simulated().replan("web", |plan| plan.growth = Permit::Granted).expect("it exists");
    client.until("it is offered again", async |client| bounds(client, "web").await == (1, 10)).await;
    client.increase("web", 1).await.expect("resumed");
    assert_eq!(client.target("web").await, 3);
}

#[tokio::test]
async fn asg_terminate_suspended() {
    let mut plan = group("web", (1, 10, 3));
    plan.removal = Permit::Withheld("User suspended at 2026-01-01T00:00:00Z".to_owned());
    let mut setup = open([plan]).await;
    let client = &mut setup.client;
    assert_eq!(bounds(client, "web").await, (3, 10), "no node is drained in vain");
    let victim = client.nodes_in("web", 1).await.remove(0);
    let (code, message) = refused(client.delete("web", &[&victim]).await);
    assert_eq!(code, Code::FailedPrecondition);
    assert!(message.contains("Terminate process is suspended"), "{message}");
    client.increase("web", 1).await.expect("it can still grow");
    client.until("the minimum follows", async |client| bounds(client, "web").await == (4, 10)).await;
    assert!(terminations(&setup.emulator).is_empty());

    setup.emulator.simulated().replan("web", |plan| plan.removal = Permit::Granted).expect("it exists");
    client.until("it can shrink again", async |client| bounds(client, "web").await == (1, 10)).await;
    client.delete("web", &[&victim]).await.expect("resumed");
    assert_eq!((client.target("web").await, terminations(&setup.emulator).len()), (3, 1));
}

fn weigh(aws: &Aws, name: &str, weights: &[&str]) {
    let types = ["m5.large", "m5a.large", "r5.large"];
    let weighing = |(name, weight): (&&str, &&str)| Override {
        instance_type: Some((*name).to_owned()),
        weight: Some((*weight).to_owned()),
        requirements: None,
    };
    aws.group_details(name, |details| details.overrides = types.iter().zip(weights).map(weighing).collect());
}

#[tokio::test]
async fn asg_weighted_capacity() {
    let aws = aws([
        group("heavy", (1, 10, 2)).instance_types(&["m5.large", "m5a.large"]).weighted(4),
        group("uneven", (1, 10, 2)),
    ]);
    weigh(&aws, "uneven", &["1", "2", "4"]);
    let mut setup = Setup::open(aws).await;
    let client = &mut setup.client;
    // 8 units of at most 40 are 2 nodes of at most 10.
    assert_eq!((bounds(client, "heavy").await, client.target("heavy").await), ((1, 10), 2));
    client.increase("heavy", 3).await.expect("in nodes");
    assert_eq!(desired_written(&setup.emulator, "heavy"), [20], "in units");
    assert_eq!(client.target("heavy").await, 5);
    client.until("they run", async |client| client.nodes_in("heavy", 1).await.len() == 5).await;
    let victim = client.nodes_in("heavy", 1).await.remove(0);
    client.delete("heavy", &[&victim]).await.expect("one node");
    assert_eq!((client.target("heavy").await, capacity(&setup.emulator, "heavy")), (4, 4));
    let (code, _) = refused(client.increase("heavy", 7).await);
    assert_eq!(code, Code::FailedPrecondition, "the maximum is in nodes");

    assert_eq!(
        (client.target("uneven").await, client.nodes("uneven").await.len()),
        (2, 2),
        "the number of live \
    instances"
    );
    assert_eq!(bounds(client, "uneven").await, (1, 2), "no room to grow");
    let (code, message) = refused(client.increase("uneven", 1).await);
    assert_eq!(code, Code::FailedPrecondition);
    assert!(message.contains("instances have different weights") && message.contains("the same weight"), "{message}");
    assert!(desired_written(&setup.emulator, "uneven").is_empty());
}

#[tokio::test]
async fn asg_equal_weights_race() {
    let plan = group("heavy", (0, 20, 4)).instance_types(&["m5.large", "m5a.large"]).weighted(2);
    let mut setup = open_sleepy([plan]).await;
    let (aws, mut client) = (&setup.emulator, setup.client.clone());
    aws.hold("POST", "Action=SetDesiredCapacity", HoldPoint::BeforeEffect);
    let scale_up = tokio::spawn(async move { client.increase("heavy", 2).await });
    eventually("it is sent", || desired_written(aws, "heavy") == [12]).await;
    // Another client raises the capacity from 4 to 9 between the read and the write. No read shows it.
    aws.simulated().set_desired_externally("heavy", 9).expect("it exists");
    aws.release();
    scale_up.await.expect("no panic").expect("accepted");
    let live = || aws.simulated().world(|world, _| world.group("heavy").map(|group| group.live()));
    eventually("what was requested is live", || live() == Some(6)).await;
    setup.client.until("it shows", async |client| client.target("heavy").await == 6).await;
    assert_eq!(desired_written(aws, "heavy"), [12], "in units, and nothing is raised back that no read showed");
    assert!(terminations(&setup.emulator).is_empty());
}
