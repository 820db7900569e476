//! The AWS emulator, called by the real Headcount through the real SDK.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use headcount::cloud::Permit;
use headcount::clouds::simulated::{
    CallFault, CallKind, GroupPlan, LaunchOutcome, Pick, PlannedFailure, ReadFault, Simulated, Span,
};
use k8s_pb::api::core::v1::Node;
use prost::Message;
use tonic::Code;

use super::super::Emulator;
use super::super::setup::Setup;
use super::{Aws, Launch, Past, Requirements};
use crate::peers::headcount::{Client, refused};

fn quick() -> Span {
    Duration::from_millis(100)..=Duration::from_millis(200)
}

fn group(name: &str, running: u32) -> GroupPlan {
    GroupPlan::aws(name).sized(0, 20, running).launch_time(quick()).delete_time(quick())
}

fn aws(plans: impl IntoIterator<Item = GroupPlan>) -> Aws {
    Aws::start(Arc::new(Simulated::with_groups(1, plans)))
}

/// The codes of the errors that nodes are listed with, and their classes.
async fn errors(client: &mut Client, group: &str) -> Vec<(String, i32)> {
    let nodes = client.nodes(group).await.into_iter();
    let errors = nodes.filter_map(|node| node.status?.error_info);
    errors.map(|error| (error.error_code, error.instance_error_class)).filter(|(code, _)| !code.is_empty()).collect()
}

#[tokio::test]
async fn groups_are_listed_grown_and_their_nodes_deleted() {
    let aws = aws([group("web", 2), group("other", 1)]);
    aws.behavior(|behavior| behavior.page = 1);
    let mut setup = Setup::open(aws).await;
    let client = &mut setup.client;
    let mut ids: Vec<String> = client.node_groups().await.into_iter().map(|group| group.id).collect();
    ids.sort();
    assert_eq!(ids, ["other", "web"]);

    client.increase("web", 3).await.expect("2 → 5");
    assert_eq!(client.target("web").await, 5);
    client.until("five run", async |client| client.nodes_in("web", 1).await.len() == 5).await;
    let running = client.nodes_in("web", 1).await;
    let victims: Vec<&str> = running.iter().take(2).map(String::as_str).collect();
    client.delete("web", &victims).await.expect("accepted");
    assert_eq!(client.target("web").await, 3);
    client.until("they are gone", async |client| client.nodes("web").await.len() == 3).await;
    let left = client.nodes_in("web", 1).await;
    assert!(victims.iter().all(|victim| !left.iter().any(|id| id == victim)));
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
    let sent = setup.emulator.requests_with("POST", "Action=TerminateInstanceInAutoScalingGroup");
    assert_eq!((sent.len(), sent[0].fields("InstanceIds.member").len()), (1, 2));
    assert!(sent[0].header("authorization").is_some_and(|text| text.contains("us-east-1/autoscaling")));

    setup.emulator.behavior(|behavior| behavior.batch_terminate = false);
    let rest: Vec<&str> = left.iter().map(String::as_str).collect();
    setup.client.delete("web", &rest).await.expect("one by one");
    assert_eq!(setup.client.target("web").await, 0);
    assert_eq!(setup.emulator.requests_with("POST", "Action=TerminateInstanceInAutoScalingGroup").len(), 5);
    setup.restart().await;
    assert_eq!(setup.client.target("other").await, 1);
}

#[tokio::test]
async fn a_deletion_of_as_many_instances_as_were_just_added_shows_at_once() {
    let mut setup = Setup::open(aws([group("web", 2)])).await;
    let client = &mut setup.client;
    client.increase("web", 2).await.expect("2 → 4");
    client.until("four run", async |client| client.nodes_in("web", 1).await.len() == 4).await;
    let running = client.nodes_in("web", 1).await;
    let victims: Vec<&str> = running.iter().take(2).map(String::as_str).collect();
    client.delete("web", &victims).await.expect("accepted");
    assert_eq!(client.target("web").await, 2);
}

#[tokio::test]
async fn a_launch_that_fails_for_lack_of_capacity_is_class_1() {
    let failure = PlannedFailure::out_of_resources("InsufficientInstanceCapacity", "There is no capacity available.");
    let without = group("none", 1).launches(Pick::Always, LaunchOutcome::fails(failure, quick()));
    let mut setup = Setup::open(aws([without])).await;
    let client = &mut setup.client;
    client.increase("none", 2).await.expect("accepted");
    client.until("the failure shows", async |client| errors(client, "none").await.len() == 2).await;
    assert_eq!(errors(client, "none").await, vec![("InsufficientInstanceCapacity".to_owned(), 1); 2]);
    let missing = client.nodes_in("none", 2).await;
    let missing: Vec<&str> = missing.iter().map(String::as_str).collect();
    client.delete("none", &missing).await.expect("taken back");
    assert_eq!(client.target("none").await, 1);
    let capacity = setup.emulator.simulated().world(|world, _| world.group("none").map(|group| group.capacity()));
    assert_eq!(capacity, Some(1));
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

#[tokio::test]
async fn the_launch_settings_of_a_group_are_read() {
    let machines = ["m5.xlarge", "c5.large"];
    let aws = aws([
        group("mixed", 0).instance_types(&machines),
        group("plain", 0),
        group("configured", 0).instance_types(&["m5.xlarge"]),
        group("broken", 0),
        group("heavy", 2).instance_types(&["m5.large", "m5a.large"]).weighted(2),
    ]);
    aws.group_details("configured", |details| details.launch = Launch::Configuration);
    aws.group_details("broken", |details| details.launch = Launch::MissingTemplate);
    let mut setup = Setup::open(aws).await;
    for name in ["mixed", "plain", "configured", "heavy"] {
        setup.client.template(name).await.unwrap_or_else(|status| panic!("{name}: {status}"));
    }
    let (code, message) = refused(setup.client.template("broken").await);
    assert_eq!(code, Code::Unimplemented, "{message}");
    setup.client.increase("heavy", 1).await.expect("in nodes");
    let sent = setup.emulator.requests_with("POST", "Action=SetDesiredCapacity").remove(0);
    assert_eq!(sent.field("DesiredCapacity").as_deref(), Some("6"), "in units");
    assert_eq!(setup.client.target("heavy").await, 3);
}

#[tokio::test]
async fn details_that_the_simulated_cloud_lacks_are_shown() {
    let mut managed = group("managed", 1).label("team", "ml").standby(1);
    for (key, value) in [("eks:cluster-name", "prod"), ("eks:nodegroup-name", "ml"), ("found", "by-tag")] {
        managed.tags.insert(key.to_owned(), value.to_owned());
    }
    let mut suspended = group("suspended", 0);
    suspended.growth = Permit::Withheld("an evacuation".to_owned());
    let aws = aws([managed, suspended, group("by-need", 0), group("hidden", 0)]);
    aws.group_details("managed", |details| {
        details.others = vec![("i-0warm".to_owned(), "Warmed:Stopped".to_owned())];
        details.past = vec![Past {
            at: SystemTime::now() - Duration::from_secs(7 * 24 * 60 * 60),
            description: "Launching a new EC2 instance".to_owned(),
            status: "Failed".to_owned(),
            message: "InsufficientInstanceCapacity - last week".to_owned(),
        }];
    });
    aws.group_details("by-need", |details| {
        details.requirements = Some(Requirements { cpus_min: 8, cpus_max: 16, memory_mib_min: 1024 });
    });
    let setup = Setup::with(aws, |options| {
        options.node_groups = vec!["0:9:suspended".to_owned(), "0:9:by-need".to_owned()];
        options.auto_discovery = vec!["asg:tag=found".to_owned()];
    });
    let mut setup = setup.await;
    let client = &mut setup.client;
    let mut ids: Vec<String> = client.node_groups().await.into_iter().map(|group| group.id).collect();
    ids.sort();
    assert_eq!(ids, ["by-need", "managed", "suspended"]);
    assert_eq!((client.target("managed").await, client.nodes("managed").await.len()), (1, 2), "standby is listed");
    let (_, message) = refused(client.increase("suspended", 1).await);
    assert!(message.contains("an evacuation"), "{message}");

    let mut node = async |name: &str| {
        let built = client.template(name).await.expect("built");
        Node::decode(built.node_info).expect("a v1.Node")
    };
    let labels = node("managed").await.metadata.expect("metadata").labels;
    assert_eq!(labels.get("team").map(String::as_str), Some("ml"));
    assert_eq!(labels.get("eks.amazonaws.com/nodegroup").map(String::as_str), Some("ml"));
    let status = node("by-need").await.status.expect("a status");
    assert_eq!(status.capacity.get("cpu").map(|cpu| cpu.string().to_owned()).as_deref(), Some("8"), "m5.2xlarge");
}

#[tokio::test]
async fn faults_of_the_simulated_cloud_change_responses() {
    let mut setup = Setup::open(aws([group("web", 3), group("other", 1)])).await;
    assert_eq!(setup.client.target("web").await, 3);
    setup.emulator.simulated().faults(|faults| {
        faults.script(Some(CallKind::SetCapacity), Some("web"), 1, CallFault::Conflict);
        faults.script_read(None, "other", 1000, ReadFault::Broken);
    });
    setup.client.increase("web", 1).await.expect("computed again");
    let sent = setup.emulator.requests_with("POST", "Action=SetDesiredCapacity");
    assert_eq!(sent.iter().map(|request| request.status).collect::<Vec<_>>(), [Some(400), Some(200)]);
    setup.client.refresh().await.expect("refreshed");
    assert_eq!((setup.client.target("web").await, setup.client.target("other").await), (4, 1));
    let busy = super::error(403, "AccessDenied", "not you");
    setup.emulator.script("POST", "SetDesiredCapacity", 1, busy);
    let (_, message) = refused(setup.client.increase("web", 1).await);
    assert!(message.contains("AccessDenied"), "{message}");
    assert_eq!(setup.client.target("web").await, 4);
}
