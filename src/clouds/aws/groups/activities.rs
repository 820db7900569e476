//! Why launches failed, from a group's scaling activities.

use std::cmp::Reverse;
use std::time::SystemTime;

use aws_sdk_autoscaling::types::{Activity, ScalingActivityStatusCode};

use super::super::sdk::errors::{class_of, is_known};
use crate::cloud::text::{MESSAGE_CHARS_MAX, shorten};
use crate::cloud::{Failure, LaunchActivity};

const LAUNCHING: &str = "Launching a new EC2 instance";

/// The code of a failed launch whose message gives no known reason.
const NO_CODE: &str = "LaunchFailed";

/// Messages without a code, each with EC2's code for it. A message must contain all of the words, compared in lower case.
const PROSE: [(&[&str], &str); 20] = [
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
    (&["lifecycle action", "abandoned"], "LifecycleActionAbandoned"),
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

/// Reads the newest activities of a group. Ignores failed terminations: they do not show why capacity is missing.
pub(in crate::clouds::aws) fn launches(activities: &[Activity]) -> LaunchActivity {
    let launches = activities.iter().filter(|candidate| candidate.description().is_some_and(is_launch));
    let mut activity = LaunchActivity::default();
    for launch in launches {
        match launch.status_code() {
            Some(status) if is_finished(status) => activity.failures.extend(failure(launch)),
            // An instance with an ID is listed with the group. Counting its launch too would count it twice.
            _ if names_instance(launch) => {}
            _ => activity.under_way += 1,
        }
        if launch.status_code() != Some(&ScalingActivityStatusCode::Failed) {
            activity.latest = activity.latest.max(launch.start_time().and_then(|at| SystemTime::try_from(*at).ok()));
        }
    }
    activity.failures.sort_by_key(|failure| Reverse(failure.at));
    activity
}

fn is_launch(description: &str) -> bool {
    description.starts_with(LAUNCHING)
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
    match status {
        ScalingActivityStatusCode::Failed => {}
        // A launch is cancelled if its instance fails to start, for example because of a KMS key or a volume limit. An
        // instance that somebody stopped is not a failed launch.
        ScalingActivityStatusCode::Cancelled if text.is_some_and(died_at_start) => {}
        _ => return None,
    }
    let text = text.unwrap_or("the launch failed and AWS gives no reason");
    let code = code_of(text);
    let at = launch.start_time().or_else(|| launch.end_time())?;
    let at = SystemTime::try_from(*at).ok()?;
    Some(Failure { class: class_of(&code), code, message: shorten(text, MESSAGE_CHARS_MAX), at, is_explained: true })
}

fn died_at_start(text: &str) -> bool {
    let reason = text.split_once("Termination Reason:").map(|(_, reason)| reason.trim_start());
    reason.is_some_and(|reason| {
        ["Server.", "Client.InternalError", "Client.VolumeLimitExceeded", "Client.InvalidSnapshot"]
            .iter()
            .any(|start| reason.starts_with(start))
    })
}

/// AWS's code for a failed launch: the one in the message, or EC2's code for the words of the message.
pub(super) fn code_of(message: &str) -> String {
    let is_inside = |letter: char| letter.is_ascii_alphanumeric() || letter == '.' || letter == '_';
    let tokens = || {
        message
            .split(|letter: char| !is_inside(letter))
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

// InvalidAMIID.NotFound, Client.InternalError; not ec2.amazonaws.com, nor the end of one sentence and start of the next.
fn is_dotted_code(token: &str) -> bool {
    let mut parts = token.split('.');
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
    use std::time::Duration;

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

    fn is_classified(class: FailureClass, cases: &[(&str, &str)]) {
        for (message, code) in cases {
            let answer = launches(&[activity("Failed", "Launching a new EC2 instance", message, 1)]);
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
        let failures = |reason: &str| launches(&[activity("Cancelled", launching, &message(reason), 1)]).failures;
        let failure = |reason: &str| failures(reason).first().map(|failure| (failure.class, failure.code.clone()));
        let key = failure("Client.InternalError: Client error on launch");
        assert_eq!(key, Some((Other, "Client.InternalError".to_owned())));
        let volumes = failure("Client.VolumeLimitExceeded: Volume limit exceeded");
        assert_eq!(volumes, Some((OutOfResources, "Client.VolumeLimitExceeded".to_owned())));
        let capacity =
            failure("Server.InsufficientInstanceCapacity: Insufficient capacity to satisfy instance request");
        assert_eq!(capacity, Some((OutOfResources, "Server.InsufficientInstanceCapacity".to_owned())));
        assert_eq!(failure("Client.UserInitiatedShutdown: User initiated shutdown"), None);
    }

    #[test]
    fn only_launches_count_and_the_newest_failure_is_first() {
        let long = "x".repeat(1000);
        let launching = "Launching a new EC2 instance";
        let answer = launches(&[
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
        ]);
        assert_eq!(answer.under_way, 3);
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(answer.failures.iter().map(|failure| failure.at).collect::<Vec<_>>(), [at(6), at(5)]);
        assert_eq!(answer.failures[0].message.chars().count(), 200);
        assert_eq!(answer.failures[1].code, "InvalidAMIID.NotFound");
        assert_eq!(answer.failures[1].message, "The image id 'ami-1' does not exist");
    }
}
