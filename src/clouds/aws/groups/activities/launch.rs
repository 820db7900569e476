//! One launch, as its activity shows it.

use std::time::SystemTime;

use aws_sdk_autoscaling::types::{Activity, ScalingActivityStatusCode};

use super::super::super::sdk::errors::class_of;
use super::reason::{code_of, died_at_start, termination_reason};
use crate::cloud::Failure;
use crate::cloud::text::{MESSAGE_CHARS_MAX, shorten};

pub(super) const LAUNCHING: &str = "Launching a new EC2 instance";
const TERMINATING: &str = "Terminating EC2 instance";
/// What follows where the instance goes into the group's warm pool, which the capacity does not count.
const INTO_WARM_POOL: &str = " into warm pool";
/// What follows where the instance comes from there: "Launching a new EC2 instance from warm pool: i-0ea", "Terminating
/// EC2 instance from warm pool: i-0ea".
const FROM_WARM_POOL: &str = " from warm pool";

/// Texts that appear only in the causes of launches and terminations that AWS decided on by itself: "At … an instance
/// was launched in response to an instance refresh", "… to aid in balancing the group's zones", "… instances were
/// launched to balance instances in zones us-east-1a with other zones resulting in more than desired number of
/// instances in the group", "… in response to an unhealthy instance needing to be replaced", "… was taken out of
/// service in response to an EC2 health check", "… in response to a user health-check", "… in response to an EC2
/// instance status checks failure". If a client requested the launch, the cause is "… a difference between desired and
/// actual capacity, increasing the capacity from 10 to 15".
const OWN: [&str; 8] = [
    "instance refresh",
    "rebalance recommendation",
    "to aid in balancing",
    "more than desired number of instances",
    "unhealthy instance",
    "health check",
    "health-check",
    "status check",
];

/// The zone of a launch: `{"Subnet ID":"subnet-1","Availability Zone":"us-east-1a"}`.
pub(super) fn zone(launch: &Activity) -> Option<String> {
    let details: serde_json::Value = serde_json::from_str(launch.details()?).ok()?;
    details.get("Availability Zone")?.as_str().map(str::to_owned)
}

pub(super) fn started(activity: &Activity) -> Option<SystemTime> {
    SystemTime::try_from(*activity.start_time()?).ok()
}

pub(super) fn ended(activity: &Activity) -> Option<SystemTime> {
    SystemTime::try_from(*activity.end_time().or_else(|| activity.start_time())?).ok()
}

/// Seconds since the epoch: AWS's times have this resolution.
pub(super) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Whether it is a launch that the capacity counts.
pub(super) fn is_launch(activity: &Activity) -> bool {
    launched(activity).is_some()
}

/// The text after that of a launch: nothing, a reason, or the instance.
fn launched(activity: &Activity) -> Option<&str> {
    let rest = activity.description()?.strip_prefix(LAUNCHING)?;
    if rest.starts_with(INTO_WARM_POOL) { None } else { Some(rest.strip_prefix(FROM_WARM_POOL).unwrap_or(rest)) }
}

pub(super) fn is_finished(status: &ScalingActivityStatusCode) -> bool {
    use ScalingActivityStatusCode::{Cancelled, Failed, Successful};
    matches!(status, Cancelled | Failed | Successful)
}

pub(super) fn names_instance(launch: &Activity) -> bool {
    instance(launch).is_some()
}

/// The ID of the launched instance, if the activity names it.
pub(super) fn instance(launch: &Activity) -> Option<String> {
    let rest = launched(launch)?.strip_prefix(": ")?;
    rest.split([' ', '.']).next().filter(|id| id.starts_with("i-")).map(str::to_owned)
}

/// Whether it is a termination of an instance that the capacity counts.
pub(super) fn is_termination(activity: &Activity) -> bool {
    let rest = activity.description().and_then(|description| description.strip_prefix(TERMINATING));
    rest.is_some_and(|rest| !rest.starts_with(FROM_WARM_POOL))
}

/// Whether AWS decided on this launch or termination by itself. An unknown cause counts as a client's request, because
/// an instance that a client asked for must not be terminated.
pub(super) fn is_own(activity: &Activity) -> bool {
    activity.cause().is_some_and(|cause| OWN.iter().any(|own| cause.contains(own)))
}

pub(super) fn failure(launch: &Activity) -> Option<Failure> {
    let status = launch.status_code()?;
    let text = launch.status_message().filter(|text| !text.trim().is_empty());
    // "Launching a new EC2 instance.  Status Reason: …"
    let text = text.or_else(|| launch.description()?.split_once("Status Reason:").map(|(_, reason)| reason));
    let at = match status {
        ScalingActivityStatusCode::Failed => started(launch).or_else(|| ended(launch))?,
        // A launch is cancelled if its instance fails to start, for example because of a KMS key or a lifecycle hook.
        // Its instance is missing from the end of the launch.
        ScalingActivityStatusCode::Cancelled if text.is_some_and(died_at_start) => ended(launch)?,
        _ => return None,
    };
    let text = text.unwrap_or("the launch failed and AWS gives no reason");
    let code = termination_reason(text).map_or_else(|| code_of(text), str::to_owned);
    Some(Failure {
        class: class_of(&code),
        code,
        message: shorten(text, MESSAGE_CHARS_MAX),
        at,
        is_explained: true,
        is_eviction: false,
    })
}
