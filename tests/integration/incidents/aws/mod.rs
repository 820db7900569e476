//! AWS Auto Scaling groups.

mod counts;
mod dated;
mod deletes;
mod failures;
mod going;
mod launches;
mod listing;
mod lost_writes;
mod machines;
mod protected;
mod recreated;
mod sizes;
mod surplus;
mod synchronous;
mod zones;

use std::sync::Arc;
use std::time::Duration;

use headcount::clouds::simulated::{GroupPlan, LaunchOutcome, Pick, PlannedFailure, Simulated, Span};

use crate::emulators::aws::Aws;
use crate::emulators::setup::Setup;
use crate::emulators::{Emulator, Request};
use crate::peers::headcount::Client;

/// Longer than any test: instances stay, and failed launches are not retried.
const FOREVER: Duration = Duration::from_secs(24 * 60 * 60);

/// A refresh interval longer than any test, so that Headcount knows only what it read for a write.
const SELDOM: &str = "10m";

fn quick() -> Span {
    Duration::from_millis(100)..=Duration::from_millis(200)
}

pub(super) fn group(name: &str, (min, max, running): (u32, u32, u32)) -> GroupPlan {
    GroupPlan::aws(name).sized(min, max, running).launch_time(quick()).delete_time(quick())
}

/// A group whose launches each fail once for lack of capacity.
fn exhausted(name: &str, sizes: (u32, u32, u32)) -> GroupPlan {
    let failure = PlannedFailure::out_of_resources(
        "InsufficientInstanceCapacity",
        "There is no capacity available that matches your request.",
    );
    failing(group(name, sizes), failure)
}

/// The group, with launches that each fail once.
fn failing(plan: GroupPlan, failure: PlannedFailure) -> GroupPlan {
    let mut plan = plan.launches(Pick::Always, LaunchOutcome::fails(failure, quick()));
    // In a group of several zones, a failure is final only after 10 s.
    plan.zones.truncate(1);
    plan.retry_every = FOREVER;
    plan
}

pub(super) fn aws(plans: impl IntoIterator<Item = GroupPlan>) -> Aws {
    Aws::start(Arc::new(Simulated::with_groups(1, plans)))
}

async fn open(plans: impl IntoIterator<Item = GroupPlan>) -> Setup<Aws> {
    Setup::open(aws(plans)).await
}

/// A setup that lists its groups only once.
pub(super) async fn open_sleepy(plans: impl IntoIterator<Item = GroupPlan>) -> Setup<Aws> {
    Setup::with(aws(plans), |options| options.refresh = SELDOM.to_owned()).await
}

/// Every desired capacity sent for a group, in order. Fails unless the group was read before each write.
pub(super) fn desired_written(aws: &Aws, name: &str) -> Vec<u32> {
    let (mut written, mut read) = (Vec::new(), false);
    for request in aws.requests() {
        let action = request.field("Action").unwrap_or_default();
        if action == "DescribeAutoScalingGroups" {
            read |= request.fields("AutoScalingGroupNames.member").iter().any(|read| read == name);
        }
        if action == "SetDesiredCapacity" && request.field("AutoScalingGroupName").as_deref() == Some(name) {
            assert!(std::mem::take(&mut read), "a write without a reading before it");
            written.push(request.field("DesiredCapacity").and_then(|text| text.parse().ok()).expect("a capacity"));
        }
    }
    written
}

/// The instances of each termination that was sent, in order. Fails unless each lowers the desired capacity too.
pub(super) fn terminations(aws: &Aws) -> Vec<Vec<String>> {
    let instances = |request: &Request| {
        assert_eq!(request.field("ShouldDecrementDesiredCapacity").as_deref(), Some("true"));
        let several = request.fields("InstanceIds.member");
        if several.is_empty() { request.field("InstanceId").into_iter().collect() } else { several }
    };
    aws.requests_with("POST", "Action=TerminateInstanceInAutoScalingGroup").iter().map(instances).collect()
}

/// The EC2 instance ID in a provider ID.
pub(super) fn instance_id(provider_id: &str) -> &str {
    provider_id.rsplit('/').next().expect("a provider ID")
}

pub(super) fn capacity(aws: &Aws, name: &str) -> u32 {
    aws.simulated().world(|world, _| world.group(name).expect("it exists").capacity())
}

/// The errors of a group's listed nodes: code, class and message.
async fn errors(client: &mut Client, group: &str) -> Vec<(String, i32, String)> {
    let nodes = client.nodes(group).await.into_iter();
    let errors = nodes.filter_map(|node| node.status.filter(|status| status.instance_state == 2)?.error_info);
    errors.map(|error| (error.error_code, error.instance_error_class, error.error_message)).collect()
}

fn texts(ids: &[String]) -> Vec<&str> {
    ids.iter().map(String::as_str).collect()
}
