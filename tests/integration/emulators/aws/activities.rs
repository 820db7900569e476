//! DescribeScalingActivities.

use headcount::clouds::simulated::{Activity, ActivityKind, ActivityStatus, CallKind, Group};

use super::super::http_messages::{HandlerResult, HttpResponse, Request};
use super::behavior::{GroupDetails, Past};
use super::errors;
use super::router::{AwsApi, Service};
use super::xml::{members, perhaps, scaling_answer, text};

impl AwsApi {
    /// Activities in progress first, then the newest.
    pub(super) async fn describe_activities(&self, request: &Request) -> HandlerResult {
        let name = request.field("AutoScalingGroupName").unwrap_or_default();
        let kind = CallKind::LaunchActivity;
        let known = self.call(Service::AutoScaling, kind, Some(&name), String::new(), |world, _| {
            let group = world.group(&name)?;
            Some((group.activities().cloned().collect::<Vec<_>>(), zones(group)))
        });
        let Some((mut activities, zones)) = known.await? else { return Ok(errors::no_group(&name)) };
        activities.sort_by_key(|activity| activity.ended.is_some());
        let details = self.group_details(&name);
        let in_progress = details.past.iter().filter(|past| past.is_in_progress()).map(|past| self.past(&name, past));
        let shown = activities.iter().map(|activity| self.activity(&name, activity, &zones, &details));
        let over = details.past.iter().filter(|past| !past.is_in_progress()).map(|past| self.past(&name, past));
        let all = in_progress.chain(shown).chain(over).collect();
        let (page, next) = self.page(request, "MaxRecords", 100, all);
        let result = members("Activities", page) + &perhaps("NextToken", next);
        Ok(HttpResponse::xml(200, scaling_answer("DescribeScalingActivities", result)))
    }

    pub(super) fn activity(
        &self,
        group: &str,
        activity: &Activity,
        zones: &[String],
        details: &GroupDetails,
    ) -> String {
        // After a failed launch, AWS tries the next zone. A launch takes two numbers: the activity's and the
        // instance's.
        let turn = usize::try_from(activity.number / 2).unwrap_or_default();
        let zone = zones.get(turn % zones.len().max(1)).map_or("", String::as_str);
        let failed = matches!(activity.status, ActivityStatus::Failed(_));
        let instance = activity.instance.as_deref().filter(|_| !failed || activity.kind == ActivityKind::Terminate);
        let subject = instance.map(|id| format!(": {id}")).unwrap_or_default();
        let (description, cause) = match activity.kind {
            ActivityKind::Launch if activity.is_own => (
                format!("Launching a new EC2 instance{subject}"),
                "an instance was launched in response to an instance refresh.",
            ),
            ActivityKind::Terminate if activity.is_own => (
                format!("Terminating EC2 instance{subject}"),
                "an instance was taken out of service in response to an instance refresh.",
            ),
            ActivityKind::Launch => (
                format!("Launching a new EC2 instance{subject}"),
                "an instance was started in response to a difference between desired and actual capacity, increasing \
                 the capacity.",
            ),
            ActivityKind::Terminate => (
                format!("Terminating EC2 instance{subject}"),
                "an instance was taken out of service in response to a user request.",
            ),
        };
        let started = self.timestamp(activity.started);
        let cause = format!("At {started} {cause}");
        [
            text("ActivityId", format!("00000000-0000-4000-a000-{:012x}", activity.number)),
            text("AutoScalingGroupName", group),
            text("Description", description),
            text("Cause", cause),
            text("StartTime", started),
            perhaps("EndTime", activity.ended.map(|at| self.timestamp(at))),
            text("StatusCode", status(&activity.status)),
            perhaps("StatusMessage", message(activity, details)),
            text("Progress", if activity.ended.is_some() { 100 } else { 30 }),
            text("Details", format!(r#"{{"Subnet ID":"subnet-1","Availability Zone":"{zone}"}}"#)),
        ]
        .concat()
    }

    fn past(&self, group: &str, past: &Past) -> String {
        let at = humantime::format_rfc3339_seconds(past.at - self.behavior().clock_behind);
        let id = past.at.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros();
        [
            text("ActivityId", format!("00000000-0000-4000-b000-{id:012x}")),
            text("AutoScalingGroupName", group),
            text("Description", &past.description),
            text("Cause", "An instance was started in response to a difference between desired and actual capacity."),
            text("StartTime", &at),
            perhaps("EndTime", Some(&at).filter(|_| !past.is_in_progress())),
            text("StatusCode", &past.status),
            perhaps("StatusMessage", Some(&past.message).filter(|text| !text.is_empty())),
            text("Progress", if past.is_in_progress() { 50 } else { 100 }),
        ]
        .concat()
    }
}

/// The zones that a group's activities show, in turn.
pub(super) fn zones(group: &Group) -> Vec<String> {
    group.plan().zones.clone()
}

fn status(status: &ActivityStatus) -> &'static str {
    match status {
        ActivityStatus::InProgress => "InProgress",
        ActivityStatus::Successful => "Successful",
        ActivityStatus::Cancelled => "Cancelled",
        ActivityStatus::Failed(_) => "Failed",
    }
}

/// The status message of a failure. A planned failure without a code shows its message alone, as many real ones do.
fn message(activity: &Activity, details: &GroupDetails) -> Option<String> {
    if let ActivityStatus::Failed(failure) = &activity.status
        && failure.code.is_empty()
    {
        return Some(format!("{} Launching EC2 instance failed.", failure.message));
    }
    let usual = activity.status_message()?;
    Some(if details.spot { usual.replace("On-Demand Instances", "Spot Instances") } else { usual })
}
