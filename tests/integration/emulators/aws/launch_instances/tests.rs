//! What LaunchInstances refuses, and what its tokens do, by AWS's own SDK.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_autoscaling::Client;
use aws_sdk_autoscaling::config::{Credentials, Region, retry::RetryConfig};
use aws_sdk_autoscaling::error::ProvideErrorMetadata;
use headcount::clouds::simulated::{GroupPlan, Raise, Simulated};

use super::super::{Aws, Launch};
use crate::emulators::Emulator;
use crate::peers::headcount::eventually;

const ZONE: &str = "us-east-1a";

fn client(aws: &Aws) -> Client {
    let config = aws_sdk_autoscaling::Config::builder()
        .behavior_version(aws_sdk_autoscaling::config::BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .endpoint_url(aws.url())
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .retry_config(RetryConfig::disabled());
    Client::from_conf(config.build())
}

/// The IDs that a launch returns, or the code of its error.
async fn launch(client: &Client, group: &str, number: i32, zone: Option<&str>, token: &str) -> Result<usize, String> {
    let call = client.launch_instances().auto_scaling_group_name(group).requested_capacity(number).client_token(token);
    let call = call.set_availability_zones(zone.map(|zone| vec![zone.to_owned()]));
    match call.send().await {
        Ok(answer) => Ok(answer.instances().iter().map(|one| one.instance_ids().len()).sum()),
        Err(error) => Err(error.code().unwrap_or("no code").to_owned()),
    }
}

fn plan(name: &str) -> GroupPlan {
    let quick = Duration::from_millis(1)..=Duration::from_millis(1);
    GroupPlan::aws(name).sized(0, 200, 1).launch_calls(quick, Raise::BeforeResponse)
}

#[tokio::test]
async fn a_group_that_it_does_not_take_is_refused_with_the_documented_code() {
    let names = ["template", "configuration", "pool", "mixed"];
    let aws = Aws::start(Arc::new(Simulated::with_groups(1, names.map(plan))));
    aws.group_details("configuration", |details| details.launch = Launch::Configuration);
    aws.group_details("pool", |details| {
        details.settings = "<WarmPoolConfiguration><MinSize>0</MinSize></WarmPoolConfiguration>".to_owned();
    });
    aws.group_details("mixed", |details| details.on_demand = Some(50));
    let client = client(&aws);
    let refused = |code: &str| Err(code.to_owned());
    for (group, expected) in [
        ("template", Ok(2)),
        ("configuration", refused("ValidationError")),
        ("pool", refused("UnsupportedOperation")),
        ("mixed", refused("ValidationError")),
        ("none", refused("ValidationError")),
    ] {
        assert_eq!(launch(&client, group, 2, Some(ZONE), "token").await, expected, "{group}");
    }
    aws.group_details("mixed", |details| details.on_demand = Some(0));
    assert_eq!(launch(&client, "mixed", 2, Some(ZONE), "token").await, Ok(2), "all of them are Spot Instances");
}

#[tokio::test]
async fn the_zone_the_number_and_the_maximum_are_checked() {
    let aws = Aws::start(Arc::new(Simulated::with_groups(1, [plan("web")])));
    let client = client(&aws);
    for (number, zone, what) in [
        (1, None, "the group has several zones"),
        (1, Some("us-east-1z"), "it is none of the group's"),
        (0, Some(ZONE), "none"),
        (101, Some(ZONE), "more than a hundred"),
    ] {
        assert_eq!(launch(&client, "web", number, zone, what).await, Err("ValidationError".to_owned()), "{what}");
    }
    assert_eq!(launch(&client, "web", 100, Some(ZONE), "a").await, Ok(100));
    assert_eq!(
        launch(&client, "web", 100, Some(ZONE), "b").await,
        Err("ValidationError".to_owned()),
        "above the maximum"
    );
    assert_eq!(launch(&client, "web", 99, Some(ZONE), "c").await, Ok(99));
}

#[tokio::test]
async fn a_token_is_in_progress_until_its_launch_ends_and_then_returns_the_same() {
    let slow = Duration::from_secs(3_600)..=Duration::from_secs(3_600);
    let slow = plan("slow").launch_calls(slow, Raise::BeforeResponse);
    let aws = Aws::start(Arc::new(Simulated::with_groups(1, [plan("web"), slow])));
    let client = client(&aws);
    let first = tokio::spawn({
        let client = client.clone();
        async move { launch(&client, "slow", 3, Some(ZONE), "a").await }
    });
    eventually("it has begun", || aws.simulated().world(|world, _| world.is_launching("slow", "a"))).await;
    let busy = Err("IdempotentCallInProgress".to_owned());
    assert_eq!(launch(&client, "slow", 3, Some(ZONE), "a").await, busy);
    first.abort();

    for attempt in ["first", "again"] {
        assert_eq!(launch(&client, "web", 3, Some(ZONE), "a").await, Ok(3), "{attempt}");
    }
    let other = Err("IdempotentParameterMismatch".to_owned());
    assert_eq!(launch(&client, "web", 4, Some(ZONE), "a").await, other);
    let live = || aws.simulated().world(|world, _| world.group("web").expect("it exists").live());
    assert_eq!(live(), 4);
    let hours = |number: u64| Duration::from_secs(number * 3_600);
    aws.simulated().skip(hours(7));
    assert_eq!((launch(&client, "web", 3, Some(ZONE), "a").await, live()), (Ok(3), 4), "it is known for 8 hours");
    aws.simulated().skip(hours(1));
    assert_eq!((launch(&client, "web", 3, Some(ZONE), "a").await, live()), (Ok(3), 7), "then it is another launch");
}
