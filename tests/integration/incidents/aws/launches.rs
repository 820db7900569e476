//! Launch activity: how far back it is read, what it explains, and what happens if it cannot be read.

use std::time::{Duration, SystemTime};

use headcount::clouds::simulated::{
    CallFault, CallKind, Faults, LaunchOutcome, Phase, Pick, PlannedFailure, ReadFault,
};

use super::{FOREVER, SELDOM, aws, capacity, desired_written, errors, exhausted, group, open, quick, texts};
use crate::emulators::aws::{Aws, Past};
use crate::emulators::setup::Setup;
use crate::emulators::{Emulator, HoldPoint, Request};
use crate::peers::headcount::{Client, eventually};

/// Reads of a group's activities.
fn activities_read(aws: &Aws, name: &str) -> usize {
    let reads = aws.requests_with("POST", "Action=DescribeScalingActivities").into_iter();
    reads.filter(|request| request.field("AutoScalingGroupName").as_deref() == Some(name)).count()
}

fn activity(status: &str, description: &str, message: &str) -> Past {
    let (status, description, message) = (status.to_owned(), description.to_owned(), message.to_owned());
    Past { at: SystemTime::now(), description, status, message }
}

/// The code and class that a missing instance of each group is listed with once AWS has such an activity.
async fn explained(cases: &[(&str, Past)]) -> Vec<(String, i32)> {
    let name = |number: usize| format!("web-{number}");
    let mut setup = open((0..cases.len()).map(|number| group(&name(number), (0, 10, 2)))).await;
    // The desired capacity is higher by one instance, which the cloud never launches.
    let missing = ReadFault::Capacity(3);
    let script = |faults: &mut Faults, number| faults.script_read(None, &name(number), u32::MAX, missing.clone());
    setup.emulator.simulated().faults(|faults| (0..cases.len()).for_each(|number| script(faults, number)));
    let client = &mut setup.client;
    for (number, (_, past)) in cases.iter().enumerate() {
        let name = name(number);
        client.until("one is missing", async |client| client.nodes_in(&name, 2).await.len() == 1).await;
        let past = Past { at: SystemTime::now(), ..past.clone() };
        setup.emulator.group_details(&name, |details| details.past = vec![past]);
    }
    let mut found = Vec::new();
    for (number, (text, _)) in cases.iter().enumerate() {
        let name = name(number);
        // A group of several zones waits 10 s for AWS to make up for it.
        client.until("it has a reason", async |client| !errors(client, &name).await.is_empty()).await;
        let (code, class, message) = errors(client, &name).await.remove(0);
        assert!(message.contains(text), "{message}");
        found.push((code, class));
    }
    found
}

#[tokio::test]
async fn asg_many_activities() {
    let mut setup = open([exhausted("web", (0, 100, 1))]).await;
    // Lifecycle hooks keep terminations in progress. AWS lists these first, and they fill more than a page.
    let kept = |number: usize| activity("InProgress", &format!("Terminating EC2 instance: i-0{number:04}"), "");
    setup.emulator.group_details("web", |details| details.past = (0..120).map(kept).collect());
    let client = &mut setup.client;
    client.increase("web", 30).await.expect("accepted");
    client.until("all have a reason", async |client| errors(client, "web").await.len() == 30).await;
    assert_eq!(client.target("web").await, 31);
    let failed = setup.server().logged("an instance failed to launch");
    assert!(failed.contains("\"code\":\"InsufficientInstanceCapacity\""), "{failed}");
    let client = &mut setup.client;
    // Once all of them are explained, no further pages are read.
    let errors = errors(client, "web").await;
    assert!(errors.iter().all(|(code, class, _)| code == "InsufficientInstanceCapacity" && *class == 1), "{errors:?}");
}

#[tokio::test]
async fn asg_activities_denied() {
    let mut setup = open([exhausted("web", (0, 20, 4))]).await;
    let denied = CallFault::Denied;
    setup.emulator.simulated().faults(|faults| faults.script(Some(CallKind::LaunchActivity), None, u32::MAX, denied));
    let client = &mut setup.client;
    client.increase("web", 3).await.expect("accepted");
    client.until("they are missing", async |client| client.nodes_in("web", 2).await.len() == 3).await;
    setup.server().logged("launch activity cannot be read; failed launches are listed without a reason");
    let client = &mut setup.client;
    assert_eq!(errors(client, "web").await, []);
    client.decrease("web", -2).await.expect("taken back");
    assert_eq!(client.target("web").await, 5);
    client.until("it is written", async |_| capacity(&setup.emulator, "web") == 5).await;
    assert_eq!(desired_written(&setup.emulator, "web"), [7, 5], "lowered by what the list shows");
    assert_eq!((client.target("web").await, client.nodes_in("web", 1).await.len()), (5, 4));
}

#[tokio::test]
async fn asg_slow_activities() {
    let mut setup = open([exhausted("web", (0, 50, 2))]).await;
    setup.emulator.hold("POST", "Action=DescribeScalingActivities", HoldPoint::BeforeEffect);
    let client = &mut setup.client;
    for round in 1..=4 {
        client.increase("web", 1).await.expect("nothing waits for the activities");
        assert_eq!(client.target("web").await, 2 + round);
        client
            .until("it is missing", async |client| {
                client.nodes_in("web", 2).await.len() == usize::try_from(round).expect("small")
            })
            .await;
        eventually("the activities are requested", || activities_read(&setup.emulator, "web") > 0).await;
    }
    assert_eq!(desired_written(&setup.emulator, "web"), [3, 4, 5, 6]);
    assert_eq!(errors(client, "web").await, []);
    setup.emulator.release();
    client.until("the reasons are known", async |client| errors(client, "web").await.len() == 4).await;
}

#[tokio::test]
async fn asg_one_zone_fails() {
    let no_capacity = || PlannedFailure::out_of_resources("InsufficientInstanceCapacity", "none in this zone");
    // The first launch fails. AWS then launches in the other zone.
    let mut next = group("next", (0, 20, 2)).launches(Pick::First(1), LaunchOutcome::fails(no_capacity(), quick()));
    next.retry_every = Duration::from_secs(3);
    let mut both = group("both", (0, 20, 2)).launches(Pick::Always, LaunchOutcome::fails(no_capacity(), quick()));
    both.retry_every = Duration::from_secs(2);
    // It does not try again.
    let mut one = group("one", (0, 20, 2)).launches(Pick::Always, LaunchOutcome::fails(no_capacity(), quick()));
    one.retry_every = FOREVER;
    let mut setup = open([next, both, one]).await;
    for name in ["next", "both", "one"] {
        setup.client.increase(name, 1).await.expect("accepted");
    }
    let client = &mut setup.client;
    let both_failed = client.until("both zones have failed", async |client| {
        assert_eq!(errors(client, "next").await, [], "one zone's failure is not the group's");
        errors(client, "both").await.len() == 1
    });
    both_failed.await;
    assert_eq!(errors(client, "one").await, [], "AWS may still try the other zone");
    client.until("no other launch succeeds", async |client| errors(client, "one").await.len() == 1).await;
    let in_next = client.until("it is launched in the other zone", async |client| {
        assert_eq!(errors(client, "next").await, [], "one zone's failure is not the group's");
        client.nodes_in("next", 1).await.len() == 3
    });
    in_next.await;
    assert_eq!((client.target("next").await, client.target("one").await), (3, 3));
}

#[tokio::test]
async fn asg_clock_skew() {
    let aws = aws([exhausted("web", (0, 20, 2))]);
    // The local clock is 20 s ahead of AWS's.
    aws.behavior(|behavior| behavior.clock_behind = Duration::from_secs(20));
    let mut setup = Setup::open(aws).await;
    let client = &mut setup.client;
    client.increase("web", 2).await.expect("accepted");
    client.until("both have failed", async |client| errors(client, "web").await.len() == 2).await;
    setup.server().logged("the local clock differs from AWS's; using AWS's");
}

#[tokio::test]
async fn asg_clock_one_second_ahead() {
    const BEHIND: Duration = Duration::from_millis(990);
    /// Waits until AWS's clock is within this part of a second, in milliseconds.
    async fn within(part: std::ops::Range<u32>) {
        eventually("that part of a second", || {
            let time = (SystemTime::now() - BEHIND).duration_since(SystemTime::UNIX_EPOCH).expect("this century");
            part.contains(&time.subsec_millis())
        })
        .await;
    }
    let aws = aws([exhausted("web", (0, 20, 2))]);
    aws.behavior(|behavior| behavior.clock_behind = BEHIND);
    // AWS's Date headers have whole seconds. The first one arrives early in a second and says little about it; the
    // scale-up comes late in one. No others narrow it down.
    within(50..150).await;
    let mut setup = Setup::with(aws, |options| options.refresh = SELDOM.to_owned()).await;
    let client = &mut setup.client;
    within(800..900).await;
    client.increase("web", 2).await.expect("accepted");
    client.until("both have failed", async |client| errors(client, "web").await.len() == 2).await;
}

/// How far the time that a request is signed with is from the local clock.
fn signed_off_by(request: &Request) -> Duration {
    let signed = request.header("x-amz-date").expect("a signed request");
    let (date, time) = signed.trim_end_matches('Z').split_once('T').expect("a date and a time");
    let text = format!("{}-{}-{}T{}:{}:{}Z", &date[..4], &date[4..6], &date[6..], &time[..2], &time[2..4], &time[4..]);
    let signed = humantime::parse_rfc3339(&text).expect("a time");
    SystemTime::now().duration_since(signed).unwrap_or_else(|later| later.duration())
}

#[tokio::test]
async fn asg_date_header_outlier() {
    let year_9999 = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    for outlier in [SystemTime::now() + Duration::from_secs(600), year_9999] {
        let mut setup = open([exhausted("web", (0, 20, 2))]).await;
        let client = &mut setup.client;
        let reads = |aws: &Aws| aws.requests_with("POST", "Action=DescribeAutoScalingGroups").len();
        client.until("it is read twice", async |_| reads(&setup.emulator) > 1).await;
        setup.emulator.behavior(|behavior| behavior.dates = vec![outlier]);
        client.until("one response is off", async |_| setup.emulator.dates_left() == 0).await;
        setup.emulator.forget_requests();
        client.increase("web", 2).await.expect("accepted");
        client.until("both have failed", async |client| errors(client, "web").await.len() == 2).await;
        let worst = setup.emulator.requests().iter().map(signed_off_by).max().expect("requests");
        assert!(worst < Duration::from_secs(90), "AWS refuses requests that are signed 5 minutes off: {worst:?}");
        assert_eq!(setup.server().lines_with("panicked"), Vec::<String>::new());
    }
}

/// Instances in a lifecycle hook for as long as the test lasts.
async fn in_hook(client: &mut Client, aws: &Aws, name: &str, number: usize) -> Vec<String> {
    let wait = vec![(Phase::Deleting, "Terminating:Wait".to_owned())];
    aws.group_details(name, |details| details.lifecycles = wait);
    let victims = client.nodes_in(name, 1).await[..number].to_vec();
    client.delete(name, &texts(&victims)).await.expect("deleted");
    victims
}

#[tokio::test]
async fn asg_terminating_wait_and_shortfall() {
    let mut setup = open([exhausted("web", (0, 20, 6)).delete_time(FOREVER..=FOREVER)]).await;
    let client = &mut setup.client;
    let victims = in_hook(client, &setup.emulator, "web", 3).await;
    client.increase("web", 3).await.expect("accepted");
    client.until("all have failed", async |client| errors(client, "web").await.len() == 3).await;
    assert_eq!(client.target("web").await, 6);
    let missing = client.nodes_in("web", 2).await;
    client.delete("web", &texts(&missing)).await.expect("taken back");
    assert_eq!(client.target("web").await, 3);
    client.until("it is lowered", async |_| capacity(&setup.emulator, "web") == 3).await;
    let mut waiting = client.nodes_in("web", 3).await;
    waiting.sort();
    let mut expected = victims;
    expected.sort();
    assert_eq!(waiting, expected, "long before the hooks end");
    assert_eq!(desired_written(&setup.emulator, "web"), [6, 3]);
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

const UNHEALTHY: &str =
    "Instance became unhealthy while waiting for instance to be in InService state. Termination Reason: ";

#[tokio::test]
async fn asg_kms_disabled() {
    let launching = "Launching a new EC2 instance: i-0123456789abcdef0";
    let key = "Client.InvalidKMSKey.InvalidState: The KMS key provided is in an incorrect state";
    let volumes = "Client.VolumeLimitExceeded: Volume limit exceeded";
    let cancelled = |reason: &str| activity("Cancelled", launching, &format!("{UNHEALTHY}{reason}"));
    let found = explained(&[("KMS key", cancelled(key)), ("Volume limit", cancelled(volumes))]).await;
    let codes = [("Client.InvalidKMSKey.InvalidState", 99), ("Client.VolumeLimitExceeded", 1)];
    assert_eq!(found, codes.map(|(code, class)| (code.to_owned(), class)));
}

#[tokio::test]
async fn asg_hook_abandons() {
    let launching = "Launching a new EC2 instance: i-0123456789abcdef0";
    let text = "Instance failed to complete user's Lifecycle Action: Lifecycle Action with token 00000000-0000-4000-a000-000000000001 \
                was abandoned: Lifecycle Action Completed with ABANDON Result";
    let found = explained(&[("ABANDON", activity("Cancelled", launching, text))]).await;
    assert_eq!(found, [("LifecycleActionAbandoned".to_owned(), 99)]);
}

#[tokio::test]
async fn asg_reservation_and_fleet_quota() {
    let failed = |text: &str| {
        activity("Failed", "Launching a new EC2 instance", &format!("{text} Launching EC2 instance failed."))
    };
    let reservation =
        "The requested reservation does not have sufficient compatible and available capacity for this request.";
    let fleet = "You've reached your quota for maximum Fleet Requests for this account.";
    let found = explained(&[("reservation", failed(reservation)), ("Fleet Requests", failed(fleet))]).await;
    let codes = ["ReservationCapacityExceeded", "MaxFleetCountExceeded"];
    assert_eq!(found, codes.map(|code| (code.to_owned(), 1)));
}

#[tokio::test]
async fn asg_contention() {
    // The group is busy, or the account is throttled, until [`ATTEMPTS`] attempts have arrived, which takes about 2 s.
    const ATTEMPTS: usize = 5;
    let names = ["busy", "throttled", "deleted"];
    let mut setup = open(names.map(|name| group(name, (0, 20, 4)))).await;
    setup.emulator.simulated().faults(|faults| {
        let (set, delete) = (Some(CallKind::SetCapacity), Some(CallKind::DeleteInstances));
        faults.script(set, Some("busy"), u32::MAX, CallFault::Conflict);
        faults.script(set, Some("throttled"), u32::MAX, CallFault::Throttled { retry_after: None });
        faults.script(delete, Some("deleted"), u32::MAX, CallFault::Conflict);
    });
    let victim = setup.client.nodes_in("deleted", 1).await.remove(0);
    let mut calls = tokio::task::JoinSet::new();
    for name in ["busy", "throttled"] {
        let mut client = setup.client.clone();
        calls.spawn(async move { client.increase(name, 2).await });
    }
    let (mut client, named) = (setup.client.clone(), victim.clone());
    calls.spawn(async move { client.delete("deleted", &[&named]).await });
    let sent = |action: &str, part: &str| {
        let of = setup.emulator.requests_with("POST", &format!("Action={action}")).into_iter();
        of.filter(|request| request.matches("POST", part)).count()
    };
    for name in ["busy", "throttled"] {
        eventually("it is retried", || sent("SetDesiredCapacity", name) >= ATTEMPTS).await;
    }
    setup.emulator.simulated().faults(Faults::clear);
    for outcome in calls.join_all().await {
        outcome.expect("retried until it is accepted, within the caller's time");
    }
    let client = &mut setup.client;
    assert_eq!(
        (client.target("busy").await, client.target("throttled").await, client.target("deleted").await),
        (6, 6, 3)
    );
    assert_eq!((capacity(&setup.emulator, "busy"), capacity(&setup.emulator, "deleted")), (6, 3));
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}
