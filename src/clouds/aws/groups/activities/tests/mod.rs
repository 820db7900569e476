//! What the activities of a group show.

mod codes;

use std::time::Duration;

use aws_sdk_autoscaling::primitives::DateTime;
use aws_sdk_autoscaling::types::ScalingActivityStatusCode;

use super::reason::code_of;
use super::*;
use crate::cloud::FailureClass::{self, Other, OutOfResources};
use crate::cloud::text::MESSAGE_CHARS_MAX;

fn activity(status: &str, description: &str, message: &str, start: i64) -> Activity {
    Activity::builder()
        .activity_id("a")
        .auto_scaling_group_name("asg")
        .cause("At 2026-01-01T00:00:00Z an instance was started")
        .description(description)
        .status_code(ScalingActivityStatusCode::from(status))
        .set_status_message(Some(message.to_owned()).filter(|message| !message.is_empty()))
        .start_time(DateTime::from_secs(start))
        .build()
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// What the activities show at this second of a shortfall that began at second 1.
fn shown(activities: &[Activity], zones: &[&str], now: u64) -> LaunchActivity {
    let zones: Vec<String> = zones.iter().map(|zone| (*zone).to_owned()).collect();
    launches(activities, &zones, Shortfall { missing: 1, since: at(1) }, at(now))
}

#[test]
fn instances_of_recent_launches_are_known_before_a_list_shows_them() {
    let launch = |status: &str, id: &str, start| {
        activity(status, &format!("Launching a new EC2 instance: {id}"), "InsufficientInstanceCapacity - no", start)
    };
    let activities = [
        activity("InProgress", "Terminating EC2 instance: i-5", "", 95),
        launch("InProgress", "i-1", 90),
        launch("Successful", "i-2", 80),
        launch("Failed", "i-3", 80),
        launch("Successful", "i-4", 10),
        launch("Successful", "i-5", 80),
    ];
    let launched = shown(&activities, &[], 100).launched;
    assert_eq!(
        launched.iter().map(|one| one.instance.as_str()).collect::<Vec<_>>(),
        ["i-1", "i-2"],
        "not what failed, is old, or is being terminated"
    );
}

#[test]
fn an_instance_that_fails_to_start_is_a_failed_launch() {
    let message = |reason: &str| {
        format!(
            "Instance became unhealthy while waiting for instance to be in InService state. Termination Reason: \
                {reason}"
        )
    };
    let launching = "Launching a new EC2 instance: i-1";
    let failures = |reason: &str| shown(&[activity("Cancelled", launching, &message(reason), 1)], &[], 60).failures;
    let failure = |reason: &str| failures(reason).first().map(|failure| (failure.class, failure.code.clone()));
    let key = failure("Client.InternalError: Client error on launch");
    assert_eq!(key, Some((Other, "Client.InternalError".to_owned())));
    let volumes = failure("Client.VolumeLimitExceeded: Volume limit exceeded");
    assert_eq!(volumes, Some((OutOfResources, "Client.VolumeLimitExceeded".to_owned())));
    let capacity = failure("Server.InsufficientInstanceCapacity: Insufficient capacity to satisfy instance request");
    assert_eq!(capacity, Some((OutOfResources, "Server.InsufficientInstanceCapacity".to_owned())));
    let key = failure("Client.InvalidKMSKey.InvalidState: The KMS key provided is in an incorrect state");
    assert_eq!(key, Some((Other, "Client.InvalidKMSKey.InvalidState".to_owned())));
    let snapshot = failure("Client.InvalidSnapshot.NotFound: The snapshot does not exist.");
    assert_eq!(snapshot, Some((Other, "Client.InvalidSnapshot.NotFound".to_owned())));
    assert_eq!(failure("Client.UserInitiatedShutdown: User initiated shutdown"), None);
    assert_eq!(failure("none is known"), None);
    assert_eq!(code_of("it failed: Client.InvalidKMSKey.InvalidState"), "Client.InvalidKMSKey.InvalidState");
}

#[test]
fn a_launch_that_a_lifecycle_hook_abandons_fails_when_it_ends() {
    let text = "Instance failed to complete user's Lifecycle Action: Lifecycle Action with token 1 was abandoned: \
         Lifecycle Action Completed with ABANDON Result";
    let mut launch = activity("Cancelled", "Launching a new EC2 instance: i-1", text, 0);
    launch.end_time = Some(DateTime::from_secs(3000));
    let failures = shown(&[launch], &[], 4000).failures;
    let failed: Vec<_> = failures.iter().map(|failure| (failure.class, failure.code.as_str(), failure.at)).collect();
    assert_eq!(failed, [(Other, "LifecycleActionAbandoned", at(3000))]);
}

fn in_zone(zone: &str, mut launch: Activity, ended: i64) -> Activity {
    let details = format!(r#"{{"Subnet ID":"subnet-1","Availability Zone":"{zone}"}}"#);
    (launch.details, launch.end_time) = (Some(details), Some(DateTime::from_secs(ended)));
    launch
}

#[test]
fn a_failure_in_one_of_several_zones_is_final_after_10_s_without_another_launch() {
    const ZONES: [&str; 2] = ["us-east-1a", "us-east-1b"];
    let launching = "Launching a new EC2 instance";
    let failed = |zone: &str, start, end| in_zone(zone, activity("Failed", launching, "no capacity", start), end);
    let count = |activities: &[Activity], now| shown(activities, &ZONES, now).failures.len();
    let first = failed("us-east-1a", 10, 12);
    assert_eq!(shown(std::slice::from_ref(&first), &ZONES[..1], 12).failures.len(), 1, "a group of one zone");
    assert_eq!((count(std::slice::from_ref(&first), 21), count(std::slice::from_ref(&first), 22)), (0, 1));
    let again = failed("us-east-1a", 20, 21);
    assert_eq!(count(&[again.clone(), first.clone()], 22), 2, "counted from the first failure");
    let other = failed("us-east-1b", 13, 14);
    assert_eq!(count(&[other, first.clone()], 14), 2, "all zones have failed");
    let before = failed("us-east-1b", 0, 0);
    assert_eq!(count(&[first.clone(), before], 14), 0, "from before the shortfall");
    let under_way = activity("InProgress", launching, "", 13);
    assert_eq!(count(&[under_way, first.clone()], 40), 0, "a launch is under way");
    let done = activity("Successful", "Launching a new EC2 instance: i-1", "", 13);
    assert_eq!(count(&[done.clone(), first.clone()], 40), 0, "a launch in another zone succeeded");
    let anew = failed("us-east-1a", 30, 31);
    assert_eq!((count(&[anew.clone(), done.clone(), first.clone()], 40), count(&[anew, done, first], 41)), (0, 2));
}

#[test]
fn launches_from_a_warm_pool_count_and_those_into_it_do_not() {
    let from = activity("InProgress", "Launching a new EC2 instance from warm pool: i-0ea", "", 5);
    let into = activity("InProgress", "Launching a new EC2 instance into warm pool: i-018", "", 5);
    let failed = activity("Failed", "Launching a new EC2 instance", "no capacity", 6);
    let seen = shown(&[from, into.clone(), failed.clone()], &[], 60);
    assert_eq!((seen.under_way, seen.failures.len()), (0, 1), "the instance from the pool is listed with the group");
    let refill = activity("Failed", "Launching a new EC2 instance into warm pool.  Status Reason: no capacity", "", 5);
    assert!(shown(&[refill], &[], 60).failures.is_empty(), "the pool lacks an instance, and the group does not");
    const ZONES: [&str; 2] = ["us-east-1a", "us-east-1b"];
    assert_eq!(
        shown(&[into, in_zone("us-east-1a", failed, 7)], &ZONES, 60).failures.len(),
        1,
        "a refill delays nothing"
    );
}

#[test]
fn pages_are_read_until_the_shortfall_is_explained_or_its_start_is_passed() {
    let launching = "Launching a new EC2 instance";
    let shortfall = Shortfall { missing: 2, since: at(100) };
    let under_way = activity("InProgress", "Launching a new EC2 instance: i-1", "", 110);
    let failed = |start| activity("Failed", launching, "no capacity", start);
    let done = |start| activity("Successful", "Launching a new EC2 instance: i-2", "", start);
    assert!(!is_enough(&[], shortfall));
    assert!(!is_enough(std::slice::from_ref(&under_way), shortfall), "failures come after those in progress");
    assert!(!is_enough(&[under_way.clone(), failed(105)], shortfall), "one of two is explained");
    assert!(is_enough(&[under_way.clone(), failed(105), failed(104)], shortfall));
    assert!(!is_enough(&[done(105), done(100)], shortfall));
    assert!(is_enough(&[done(105), done(99)], shortfall));
    let nothing = Shortfall { missing: 0, since: at(200) };
    assert!(is_enough(&[under_way.clone(), done(105)], nothing) && !is_enough(&[under_way], nothing));
}

#[test]
fn only_launches_count_and_the_newest_failure_is_first() {
    let long = "x".repeat(1000);
    let launching = "Launching a new EC2 instance";
    let seen = shown(
        &[
            activity("InProgress", "Launching a new EC2 instance: i-1", "", 9),
            activity("PreInService", launching, "", 8),
            activity("WaitingForSpotInstanceId", launching, "", 7),
            activity("SomethingNew", launching, "", 7),
            activity(
                "Failed",
                "Launching a new EC2 instance.  Status Reason: The image id 'ami-1' does not exist",
                "",
                5,
            ),
            activity("Failed", launching, &long, 6),
            activity("Failed", "Terminating EC2 instance: i-2", "InsufficientInstanceCapacity - no", 4),
            activity("Successful", "Launching a new EC2 instance: i-3", "", 3),
            activity("Cancelled", launching, "", 2),
            Activity::builder().build(),
        ],
        &[],
        60,
    );
    assert_eq!(seen.under_way, 3);
    assert_eq!(seen.failures.iter().map(|failure| failure.at).collect::<Vec<_>>(), [at(6), at(5)]);
    assert_eq!(seen.failures[0].message.chars().count(), MESSAGE_CHARS_MAX);
    assert_eq!(seen.failures[1].code, "InvalidAMIID.NotFound");
    assert_eq!(seen.failures[1].message, "The image id 'ami-1' does not exist");
}

#[test]
fn launches_of_awss_own_are_distinguished_from_requested_ones() {
    let caused = |description: &str, cause: &str, start| {
        let activity = activity("Successful", description, "", start);
        let builder = Activity::builder().activity_id("a").auto_scaling_group_name("asg").cause(cause);
        let builder = builder.set_description(activity.description).set_status_code(activity.status_code);
        builder.set_start_time(activity.start_time).build()
    };
    let requested = "At 2026-01-01T00:00:00Z a user request explicitly set group desired capacity changing the desired capacity \
                     from 10 to 15. At 2026-01-01T00:00:05Z an instance was started in response to a difference between desired \
                     and actual capacity, increasing the capacity from 10 to 15.";
    let refresh = "At 2026-01-01T00:00:05Z an instance was launched in response to an instance refresh.";
    let zones = "At 2026-01-01T00:00:05Z an instance was launched to aid in balancing the group's zones.";
    let mut activities = vec![
        caused("Launching a new EC2 instance: i-requested", requested, 5),
        caused("Launching a new EC2 instance: i-unknown", "At 2026-01-01T00:00:05Z", 5),
        caused(
            "Launching a new EC2 instance: i-new",
            "At … an instance was started in response to an unknown request",
            5,
        ),
        caused("Launching a new EC2 instance: i-refresh", refresh, 5),
        caused("Launching a new EC2 instance: i-zones", zones, 1),
        caused("Launching a new EC2 instance: i-before", refresh, 0),
        caused(
            "Terminating EC2 instance: i-user",
            "At … an instance was taken out of service in response to a user request.",
            5,
        ),
    ];
    assert_eq!(shown(&activities, &[], 60).own.additional(), ["i-refresh", "i-zones"]);
    let replaced = "At … an instance was taken out of service in response to an instance refresh.";
    activities.push(caused("Terminating EC2 instance: i-old", replaced, 6));
    assert_eq!(shown(&activities, &[], 60).own.additional(), ["i-refresh"], "one took the place of another");
    let balanced = "At … instances were launched to balance instances in zones us-east-1a with other zones resulting in more than \
                    desired number of instances in the group. At … an instance was taken out of service in response to a \
                    difference between desired and actual capacity, shrinking the capacity from 3 to 2.";
    activities.push(caused("Terminating EC2 instance: i-older", balanced, 7));
    assert!(shown(&activities, &[], 60).own.additional().is_empty(), "and so did the other one");
    for (number, cause) in ["a user health-check.", "an EC2 instance status checks failure."].into_iter().enumerate() {
        let launched = format!("Launching a new EC2 instance: i-replacement{number}");
        let cause = format!("At … an instance was taken out of service in response to {cause}");
        let unhealthy = "At … an instance was started in response to an unhealthy instance needing to be replaced.";
        let replacement = [caused(&launched, unhealthy, 8), caused("Terminating EC2 instance: i-ill", &cause, 7)];
        assert!(shown(&replacement, &[], 60).own.additional().is_empty(), "{cause}");
    }
    let drained = caused("Terminating EC2 instance from warm pool: i-warm", replaced, 8);
    let launched = caused("Launching a new EC2 instance from warm pool: i-refresh", refresh, 8);
    assert_eq!(
        shown(&[launched, drained], &[], 60).own.additional(),
        ["i-refresh"],
        "the pool's instances are not the group's"
    );
}
