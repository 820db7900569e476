//! Failed launches: which of them count, the reported reasons, and the IDs of their placeholders.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use headcount::clouds::simulated::{Activity, ActivityStatus, GroupPlan, PlannedFailure, ReadFault};

use super::{aws, desired_written, errors, exhausted, failing, group, instance_id, open, texts};
use crate::emulators::Emulator;
use crate::emulators::aws::{Aws, Past};
use crate::emulators::setup::Setup;
use crate::peers::headcount::eventually;

const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Raises the desired capacity by one instance that the cloud never launches.
fn miss_one(aws: &Aws, name: &str, desired: u32) {
    aws.simulated().faults(|faults| faults.script_read(None, name, u32::MAX, ReadFault::Capacity(desired)));
}

fn past(status: &str, description: &str, ago: Duration, message: &str) -> Past {
    let (description, message) = (description.to_owned(), message.to_owned());
    Past { at: SystemTime::now() - ago, description, status: status.to_owned(), message }
}

fn failed(description: &str, ago: Duration, message: &str) -> Past {
    past("Failed", description, ago, message)
}

fn activities_read(aws: &Aws) -> usize {
    aws.requests_with("POST", "Action=DescribeScalingActivities").len()
}

#[tokio::test]
async fn asg_stale_failed_activity() {
    let mut plan = group("web", (0, 10, 2));
    // In a group of several zones, a failure is final only after 10 s.
    plan.zones.truncate(1);
    let aws = aws([plan]);
    let message = "Could not launch Spot Instances. InsufficientInstanceCapacity - last week's.";
    aws.group_details("web", |details| details.past = vec![failed("Launching a new EC2 instance", WEEK, message)]);
    miss_one(&aws, "web", 3);
    let mut setup = Setup::open(aws).await;
    let client = &mut setup.client;
    client.until("the activities are read", async |_| activities_read(&setup.emulator) > 1).await;
    assert_eq!((client.target("web").await, client.nodes_in("web", 2).await.len()), (3, 1));
    assert_eq!(errors(client, "web").await, [], "a failure from before the shortfall");

    setup.restart().await;
    setup.emulator.forget_requests();
    let client = &mut setup.client;
    client.until("the activities are read", async |_| activities_read(&setup.emulator) > 1).await;
    assert_eq!((client.nodes_in("web", 2).await.len(), errors(client, "web").await), (1, Vec::new()));

    let message = "Could not launch Spot Instances. InsufficientInstanceCapacity - this one's.";
    let recent = failed("Launching a new EC2 instance", Duration::ZERO, message);
    setup.emulator.group_details("web", |details| details.past.insert(0, recent));
    client.until("a new failure counts", async |client| errors(client, "web").await.len() == 1).await;
    assert!(errors(client, "web").await[0].2.contains("this one's"));
}

#[tokio::test]
async fn asg_failed_terminate_activity() {
    // In a group of one zone, a failed launch is final at once.
    let mut plan = group("web", (0, 10, 3));
    plan.zones.truncate(1);
    let mut setup = open([plan]).await;
    let client = &mut setup.client;
    let instance = client.nodes_in("web", 1).await.remove(0);
    // A termination fails repeatedly while an instance is missing.
    let message = "InsufficientInstanceCapacity - as if it were. Terminating EC2 instance failed.";
    let past = failed(&format!("Terminating EC2 instance: {}", instance_id(&instance)), Duration::ZERO, message);
    setup.emulator.group_details("web", |details| details.past = vec![past]);
    setup.emulator.forget_requests();
    miss_one(&setup.emulator, "web", 4);
    client.until("one is missing", async |client| client.nodes_in("web", 2).await.len() == 1).await;
    let read = activities_read(&setup.emulator);
    client.until("the activities are read again", async |_| activities_read(&setup.emulator) > read + 1).await;
    assert_eq!(errors(client, "web").await, []);
}

#[tokio::test]
async fn asg_failure_reason() {
    // AWS's code, its message, and the class: 1 is out of resources, 99 is any other reason.
    let reasons = [
        ("InsufficientInstanceCapacity", "There is no Spot capacity available that matches your request.", 1),
        ("VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit of 32 allows.", 1),
        ("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded.", 1),
        ("InsufficientFreeAddressesInSubnet", "There are not enough free addresses in subnet 'subnet-1'.", 1),
        ("InvalidAMIID.NotFound", "The image id '[ami-1]' does not exist.", 99),
        ("UnauthorizedOperation", "You are not authorized to perform this operation.", 99),
        (
            "InvalidLaunchTemplateId.NotFound",
            "The specified launch template, with template ID lt-1, does not exist.",
            99,
        ),
    ];
    // Messages without a code, each with EC2's code for it.
    let untold = [
        (
            "You have requested more instances (7) than your current instance limit of 6 allows.",
            "InstanceLimitExceeded",
        ),
        (
            "We currently do not have sufficient p3.2xlarge capacity in the Availability Zone you requested.",
            "InsufficientInstanceCapacity",
        ),
    ];
    let plan = |name: String, code: &str, message: &str| {
        failing(group(&name, (0, 10, 1)), PlannedFailure::other(code, message))
    };
    let mut plans: Vec<GroupPlan> =
        reasons.iter().map(|(code, text, _)| plan(code.to_lowercase(), code, text)).collect();
    plans.extend(untold.iter().enumerate().map(|(number, (text, _))| plan(format!("untold-{number}"), "", text)));
    let names: Vec<String> = plans.iter().map(|plan| plan.name.clone()).collect();
    let told = reasons.map(|(code, text, class)| (code, text, class));
    let expected: Vec<(&str, &str, i32)> = told.into_iter().chain(untold.map(|(text, code)| (code, text, 1))).collect();

    let mut setup = open(plans).await;
    for name in &names {
        setup.client.increase(name, 1).await.expect("accepted");
    }
    for (name, (code, text, class)) in names.iter().zip(expected) {
        let client = &mut setup.client;
        client.until("it has failed", async |client| !errors(client, name).await.is_empty()).await;
        let [(seen, of, message)] = &errors(client, name).await[..] else { panic!("one error of {name}") };
        assert_eq!((seen.as_str(), *of), (code, class), "{message}");
        assert!(message.contains(text), "{message}");
        assert_eq!(client.target(name).await, 2, "still in the target");
    }
}

/// How many launches of a group have failed.
fn failures(aws: &Aws, name: &str) -> usize {
    let failed = |activity: &&Activity| matches!(activity.status, ActivityStatus::Failed(_));
    aws.simulated().world(|world, _| world.group(name).expect("it exists").activities().filter(failed).count())
}

#[tokio::test]
async fn asg_retry_backs_off_again() {
    let mut setup = open([exhausted("spot", (0, 10, 1))]).await;
    let client = &mut setup.client;
    let mut seen = BTreeSet::new();
    for round in 0..3 {
        client.increase("spot", 2).await.expect("accepted");
        eventually("both have failed", || failures(&setup.emulator, "spot") == 2 * (round + 1)).await;
        client.until("both are listed", async |client| errors(client, "spot").await.len() == 2).await;
        let asked = client.nodes_in("spot", 2).await;
        for _ in 0..3 {
            client.refresh().await.expect("refreshed");
            assert_eq!(client.nodes_in("spot", 2).await, asked, "the same IDs within one scale-up");
        }
        client.delete("spot", &texts(&asked)).await.expect("taken back");
        assert_eq!((client.target("spot").await, client.nodes("spot").await.len()), (1, 1));
        seen.extend(asked);
        assert_eq!(seen.len(), 2 * (round + 1), "new IDs for each scale-up");
    }
    assert_eq!(desired_written(&setup.emulator, "spot"), [3, 1, 3, 1, 3, 1]);
}
