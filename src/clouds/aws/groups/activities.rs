//! Why launches failed, from a group's scaling activities.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::time::{Duration, SystemTime};

use aws_sdk_autoscaling::types::{Activity, ScalingActivityStatusCode};

use super::super::sdk::errors::{class_of, is_known};
use super::Groups;
use crate::cloud::text::{MESSAGE_CHARS_MAX, shorten};
use crate::cloud::{CloudError, Failure, GroupName, LaunchActivity, Shortfall};

const LAUNCHING: &str = "Launching a new EC2 instance";

/// The code of a failed launch whose message gives no known reason.
const NO_CODE: &str = "LaunchFailed";

/// The words of a launch that a lifecycle hook abandoned.
const ABANDONED: [&str; 2] = ["lifecycle action", "abandon"];

/// Messages without a code, each with EC2's code for it. A message must contain all of the words, compared in lower case.
const PROSE: [(&[&str], &str); 22] = [
    (&["do not have sufficient", "capacity"], "InsufficientInstanceCapacity"),
    (&["no spot capacity"], "InsufficientInstanceCapacity"),
    (&["insufficient capacity"], "InsufficientInstanceCapacity"),
    (&["max spot instance count exceeded"], "MaxSpotInstanceCountExceeded"),
    (&["vcpu limit"], "VcpuLimitExceeded"),
    (&["instance limit"], "InstanceLimitExceeded"),
    (&["free addresses"], "InsufficientFreeAddressesInSubnet"),
    (&["volume limit exceeded"], "VolumeLimitExceeded"),
    (&["spot", "price", "lower than the minimum"], "SpotMaxPriceTooLow"),
    (&["capacity reservation"], "ReservationCapacityExceeded"),
    (&["reservation", "sufficient compatible and available capacity"], "ReservationCapacityExceeded"),
    (&["quota for maximum fleet requests"], "MaxFleetCountExceeded"),
    (&ABANDONED, "LifecycleActionAbandoned"),
    (&["not authorized"], "UnauthorizedOperation"),
    (&["launch template", "does not exist"], "InvalidLaunchTemplateId.NotFound"),
    (&["image id", "does not exist"], "InvalidAMIID.NotFound"),
    (&["ami", "invalid"], "InvalidAMIID.Unavailable"),
    (&["security group", "does not exist"], "InvalidGroup.NotFound"),
    (&["key pair", "does not exist"], "InvalidKeyPair.NotFound"),
    (&["subnet id", "does not exist"], "InvalidSubnetID.NotFound"),
    (&["not supported in your requested availability zone"], "Unsupported"),
    (&["request limit exceeded"], "RequestLimitExceeded"),
];

/// In a group of several zones, AWS tries the next zone after a launch failed. A failure of some zones is final this long after
/// the first one, if no launch is under way or done since (#5829).
const ZONE_RETRY: Duration = Duration::from_secs(10);

/// Most pages of activities read at a time.
const PAGES_MAX: usize = 10;

impl Groups {
    /// Reads the activities of a group page by page, until they explain the shortfall or are older than it.
    pub(in crate::clouds::aws) async fn launch_activity(
        &self,
        group: &GroupName,
        shortfall: Shortfall,
        now: SystemTime,
    ) -> Result<LaunchActivity, CloudError> {
        let (mut activities, mut token) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let page = self.scaling.describe_scaling_activities(group.as_str(), token).await?;
            activities.extend(page.activities.unwrap_or_default());
            token = page.next_token.filter(|token| !token.is_empty());
            if token.is_none() || is_enough(&activities, shortfall) {
                break;
            }
        }
        let known = self.launch_settings.lock().unwrap_or_else(PoisonError::into_inner).get(group).cloned();
        let zones = known.map(|settings| settings.zones().to_vec()).unwrap_or_default();
        Ok(launches(&activities, &zones, shortfall, now))
    }
}

/// Whether further pages are not needed. Activities in progress come first, then the newest.
fn is_enough(activities: &[Activity], shortfall: Shortfall) -> bool {
    let Some(last) = activities.last().filter(|last| last.status_code().is_some_and(is_finished)) else { return false };
    let is_older = started(last).is_some_and(|at| seconds(at) < seconds(shortfall.since));
    let failures = activities.iter().filter(|activity| is_launch(activity)).filter_map(failure);
    let explaining = failures.filter(|failure| seconds(failure.at) >= seconds(shortfall.since)).count();
    is_older || u32::try_from(explaining).is_ok_and(|explaining| explaining >= shortfall.missing)
}

/// What the newest activities of a group in these zones show. Ignores failed terminations: they do not show why capacity is
/// missing.
pub(in crate::clouds::aws) fn launches(
    activities: &[Activity],
    zones: &[String],
    shortfall: Shortfall,
    now: SystemTime,
) -> LaunchActivity {
    let mut activity = LaunchActivity::default();
    for launch in activities.iter().filter(|candidate| is_launch(candidate)) {
        match launch.status_code() {
            Some(status) if is_finished(status) => activity.failures.extend(failure(launch)),
            // An instance with an ID is listed with the group. Counting its launch too would count it twice.
            _ if names_instance(launch) => {}
            _ => activity.under_way += 1,
        }
    }
    if !is_final(activities, zones, shortfall.since, now) {
        activity.failures.clear();
    }
    activity.failures.sort_by_key(|failure| Reverse(failure.at));
    activity
}

/// Whether AWS has tried all that it tries in place of the launches that failed since the shortfall began.
fn is_final(activities: &[Activity], zones: &[String], since: SystemTime, now: SystemTime) -> bool {
    if zones.len() < 2 {
        return true;
    }
    let since = seconds(since);
    let launches = || activities.iter().filter(|activity| is_launch(activity));
    let recent = || launches().filter(|launch| failure(launch).is_some_and(|failure| seconds(failure.at) >= since));
    let failed: BTreeSet<String> = recent().filter_map(zone).collect();
    if zones.iter().all(|zone| failed.contains(zone)) {
        return true;
    }
    let is_under_way = |launch: &Activity| !launch.status_code().is_some_and(is_finished) && !names_instance(launch);
    if launches().any(is_under_way) {
        return false;
    }
    let succeeded = launches().filter(|launch| names_instance(launch) && failure(launch).is_none());
    let succeeded = succeeded.filter_map(started).max();
    let first = recent().filter_map(ended).filter(|at| succeeded.is_none_or(|succeeded| *at > succeeded)).min();
    first.is_some_and(|first| first + ZONE_RETRY <= now)
}

/// The zone of a launch: `{"Subnet ID":"subnet-1","Availability Zone":"us-east-1a"}`.
fn zone(launch: &Activity) -> Option<String> {
    let details: serde_json::Value = serde_json::from_str(launch.details()?).ok()?;
    details.get("Availability Zone")?.as_str().map(str::to_owned)
}

fn started(activity: &Activity) -> Option<SystemTime> {
    SystemTime::try_from(*activity.start_time()?).ok()
}

fn ended(activity: &Activity) -> Option<SystemTime> {
    SystemTime::try_from(*activity.end_time().or_else(|| activity.start_time())?).ok()
}

/// Seconds since the epoch: AWS's times have this resolution.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn is_launch(activity: &Activity) -> bool {
    activity.description().is_some_and(|description| description.starts_with(LAUNCHING))
}

fn is_finished(status: &ScalingActivityStatusCode) -> bool {
    use ScalingActivityStatusCode::{Cancelled, Failed, Successful};
    matches!(status, Cancelled | Failed | Successful)
}

fn names_instance(launch: &Activity) -> bool {
    launch.description().and_then(|text| text.strip_prefix(LAUNCHING)).is_some_and(|rest| rest.starts_with(": i-"))
}

fn failure(launch: &Activity) -> Option<Failure> {
    let status = launch.status_code()?;
    let text = launch.status_message().filter(|text| !text.trim().is_empty());
    // "Launching a new EC2 instance.  Status Reason: …"
    let text = text.or_else(|| launch.description()?.split_once("Status Reason:").map(|(_, reason)| reason));
    let at = match status {
        ScalingActivityStatusCode::Failed => started(launch).or_else(|| ended(launch))?,
        // A launch is cancelled if its instance fails to start, for example because of a KMS key or a lifecycle hook. Its
        // instance is missing from the end of the launch on.
        ScalingActivityStatusCode::Cancelled if text.is_some_and(died_at_start) => ended(launch)?,
        _ => return None,
    };
    let text = text.unwrap_or("the launch failed and AWS gives no reason");
    let code = termination_reason(text).map_or_else(|| code_of(text), str::to_owned);
    Some(Failure { class: class_of(&code), code, message: shorten(text, MESSAGE_CHARS_MAX), at, is_explained: true })
}

/// An instance that somebody stopped is not a failed launch.
const STOPPED: [&str; 3] =
    ["Client.UserInitiatedShutdown", "Client.UserInitiatedHibernate", "Client.InstanceInitiatedShutdown"];

fn died_at_start(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    termination_reason(text).is_some_and(|code| !STOPPED.contains(&code))
        || ABANDONED.iter().all(|word| lower.contains(word))
}

/// EC2's code for why it terminated the instance: "… Termination Reason: Client.InvalidKMSKey.InvalidState: The KMS key …".
fn termination_reason(text: &str) -> Option<&str> {
    let (_, reason) = text.split_once("Termination Reason:")?;
    let code = reason.trim_start().split(|letter: char| !is_of_code(letter)).next()?.trim_end_matches('.');
    let (side, name) = code.split_once('.')?;
    (matches!(side, "Client" | "Server") && !name.is_empty()).then_some(code)
}

fn is_of_code(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '.' || letter == '_'
}

/// AWS's code for a failed launch: the one in the message, or EC2's code for the words of the message.
pub(super) fn code_of(message: &str) -> String {
    let tokens = || {
        message
            .split(|letter: char| !is_of_code(letter))
            .map(|token| token.trim_matches(|letter| letter == '.' || letter == '_'))
            .filter(|token| !token.is_empty())
    };
    if let Some(known) = tokens().find(|token| is_known(token)) {
        return known.to_owned();
    }
    if let Some(dotted) = tokens().find(|token| is_dotted_code(token)) {
        return dotted.to_owned();
    }
    let text = message.to_ascii_lowercase();
    if let Some((_, code)) = PROSE.iter().find(|(words, _)| words.iter().all(|word| text.contains(word))) {
        return (*code).to_owned();
    }
    // "SomeNewCode - what it means"
    let before_dash = message.split(" - ").next().filter(|_| message.contains(" - "));
    let candidate = before_dash.and_then(|text| text.split_whitespace().next_back());
    candidate.filter(|token| is_camel_case(token)).unwrap_or(NO_CODE).to_owned()
}

// InvalidAMIID.NotFound, Client.InternalError, Client.InvalidKMSKey.InvalidState; not ec2.amazonaws.com, nor the end of one sentence and start of the next.
fn is_dotted_code(whole: &str) -> bool {
    let token =
        whole.strip_prefix("Client.").or_else(|| whole.strip_prefix("Server.")).filter(|rest| rest.contains('.'));
    let mut parts = token.unwrap_or(whole).split('.');
    let (Some(first), Some(second), None) = (parts.next(), parts.next(), parts.next()) else { return false };
    is_camel_case(second) && (is_camel_case(first) || matches!(first, "Client" | "Server"))
        || (is_camel_case(first) && matches!(second, "Malformed" | "Unavailable" | "Duplicate"))
}

fn is_camel_case(token: &str) -> bool {
    token.starts_with(|letter: char| letter.is_ascii_uppercase())
        && token.chars().all(|letter| letter.is_ascii_alphanumeric())
        && token.chars().any(|letter| letter.is_ascii_lowercase())
        && token.chars().filter(char::is_ascii_uppercase).count() > 1
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests {
    use aws_sdk_autoscaling::primitives::DateTime;

    use super::*;
    use crate::cloud::FailureClass::{self, Other, OutOfResources};

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

    fn is_classified(class: FailureClass, cases: &[(&str, &str)]) {
        for (message, code) in cases {
            let answer = shown(&[activity("Failed", "Launching a new EC2 instance", message, 1)], &[], 60);
            let failure = answer.failures.first().expect(message);
            assert_eq!((failure.class, failure.code.as_str()), (class, *code), "{message}");
        }
    }

    #[test]
    fn failures_for_lack_of_capacity_or_quota_have_aws_codes() {
        is_classified(
            OutOfResources,
            &[
                (
                    "Could not launch Spot Instances. InsufficientInstanceCapacity - There is no Spot capacity available that \
                 matches your request. Launching EC2 instance failed.",
                    "InsufficientInstanceCapacity",
                ),
                (
                    "We currently do not have sufficient p3.2xlarge capacity in the Availability Zone you requested \
                 (us-east-1a). Our system will be working on provisioning additional capacity. Launching EC2 instance failed.",
                    "InsufficientInstanceCapacity",
                ),
                (
                    "You have requested more instances (7) than your current instance limit of 6 allows for the specified \
                 instance type. Launching EC2 instance failed.",
                    "InstanceLimitExceeded",
                ),
                (
                    "You have requested more vCPU capacity than your current vCPU limit of 32 allows for the instance bucket \
                 that the specified instance type belongs to. Launching EC2 instance failed.",
                    "VcpuLimitExceeded",
                ),
                ("VcpuLimitExceeded - You have requested more.", "VcpuLimitExceeded"),
                ("Max spot instance count exceeded. Launching EC2 instance failed.", "MaxSpotInstanceCountExceeded"),
                (
                    "There are not enough free addresses in subnet 'subnet-1' to satisfy the requested number of instances. \
                 Launching EC2 instance failed.",
                    "InsufficientFreeAddressesInSubnet",
                ),
                (
                    "Your Spot request price of 0.01 is lower than the minimum required Spot request fulfillment price of 0.2.",
                    "SpotMaxPriceTooLow",
                ),
                ("UnfulfillableCapacity - x", "UnfulfillableCapacity"),
                (
                    "The requested reservation does not have sufficient compatible and available capacity for this request. \
                 Launching EC2 instance failed.",
                    "ReservationCapacityExceeded",
                ),
                (
                    "You've reached your quota for maximum Fleet Requests for this account. Launching EC2 instance failed.",
                    "MaxFleetCountExceeded",
                ),
            ],
        );
    }

    #[test]
    fn other_failures_have_aws_codes() {
        is_classified(
            Other,
            &[
                ("The image id '[ami-1]' does not exist. Launching EC2 instance failed.", "InvalidAMIID.NotFound"),
                ("InvalidAMIID.NotFound - The image id does not exist", "InvalidAMIID.NotFound"),
                (
                    "You are not authorized to perform this operation. Encoded authorization failure message: abc. Launching \
                 EC2 instance failed.",
                    "UnauthorizedOperation",
                ),
                (
                    "You are not authorized to use launch template: lt-1 (Service: Ec2, Code: UnauthorizedOperation)",
                    "UnauthorizedOperation",
                ),
                ("The security group 'sg-1' does not exist. Launching EC2 instance failed.", "InvalidGroup.NotFound"),
                (
                    "The specified launch template, with template ID lt-1, does not exist.",
                    "InvalidLaunchTemplateId.NotFound",
                ),
                (
                    "Your requested instance type (m8g.large) is not supported in your requested Availability Zone (us-east-1e).",
                    "Unsupported",
                ),
                ("SomethingBrandNew - nobody has seen it yet.", "SomethingBrandNew"),
                (
                    "Instance failed to complete user's Lifecycle Action: Lifecycle Action with token 1 was abandoned: \
                 Heartbeat Timeout",
                    "LifecycleActionAbandoned",
                ),
                ("Something went wrong in InService state. Launching EC2 instance failed.", "LaunchFailed"),
                ("", "LaunchFailed"),
            ],
        );
    }

    #[test]
    fn an_instance_that_fails_to_start_is_a_failed_launch() {
        let message = |reason: &str| {
            format!(
                "Instance became unhealthy while waiting for instance to be in InService state. Termination Reason: {reason}"
            )
        };
        let launching = "Launching a new EC2 instance: i-1";
        let failures = |reason: &str| shown(&[activity("Cancelled", launching, &message(reason), 1)], &[], 60).failures;
        let failure = |reason: &str| failures(reason).first().map(|failure| (failure.class, failure.code.clone()));
        let key = failure("Client.InternalError: Client error on launch");
        assert_eq!(key, Some((Other, "Client.InternalError".to_owned())));
        let volumes = failure("Client.VolumeLimitExceeded: Volume limit exceeded");
        assert_eq!(volumes, Some((OutOfResources, "Client.VolumeLimitExceeded".to_owned())));
        let capacity =
            failure("Server.InsufficientInstanceCapacity: Insufficient capacity to satisfy instance request");
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
        let failed: Vec<_> =
            failures.iter().map(|failure| (failure.class, failure.code.as_str(), failure.at)).collect();
        assert_eq!(failed, [(Other, "LifecycleActionAbandoned", at(3000))]);
    }

    fn in_zone(zone: &str, mut launch: Activity, ended: i64) -> Activity {
        let details = format!(r#"{{"Subnet ID":"subnet-1","Availability Zone":"{zone}"}}"#);
        (launch.details, launch.end_time) = (Some(details), Some(DateTime::from_secs(ended)));
        launch
    }

    #[test]
    fn a_failure_of_one_of_several_zones_is_final_when_aws_has_not_made_up_for_it_in_10_s() {
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
        assert_eq!(count(&[done.clone(), first.clone()], 40), 0, "made up for in another zone");
        let anew = failed("us-east-1a", 30, 31);
        assert_eq!((count(&[anew.clone(), done.clone(), first.clone()], 40), count(&[anew, done, first], 41)), (0, 2));
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
        let answer = shown(
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
        assert_eq!(answer.under_way, 3);
        assert_eq!(answer.failures.iter().map(|failure| failure.at).collect::<Vec<_>>(), [at(6), at(5)]);
        assert_eq!(answer.failures[0].message.chars().count(), 200);
        assert_eq!(answer.failures[1].code, "InvalidAMIID.NotFound");
        assert_eq!(answer.failures[1].message, "The image id 'ami-1' does not exist");
    }
}
