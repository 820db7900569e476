//! Why launches failed, from a group's scaling activities. This file reads them page by page; `launch.rs` reads one
//! activity, `reason.rs` finds the reason in its text, and `outcome.rs` decides which failures are final.

mod launch;
mod outcome;
mod reason;

use std::sync::PoisonError;
use std::time::SystemTime;

use aws_sdk_autoscaling::types::Activity;

use self::launch::{failure, is_finished, is_launch, seconds, started};
use self::outcome::launches;
use super::Groups;
use crate::cloud::{CloudError, GroupName, LaunchActivity, ProviderId, Shortfall};
use crate::clouds::page_walk::PageWalk;

/// The most pages of activities that are read at a time.
const PAGES_MAX: usize = 10;

// The same activities twice would count a launch under way twice.
fn endless(group: &GroupName, reason: &str) -> CloudError {
    CloudError::unintelligible("DescribeScalingActivities", group.as_str(), reason)
}

impl Groups {
    /// Reads the activities of a group page by page, until they explain the shortfall or are older than it.
    pub(in crate::clouds::aws) async fn launch_activity(
        &self,
        group: &GroupName,
        shortfall: Shortfall,
        now: SystemTime,
    ) -> Result<LaunchActivity, CloudError> {
        let (mut activities, mut token, mut walk) = (Vec::new(), None, PageWalk::default());
        for _ in 0..PAGES_MAX {
            let page = self.scaling.describe_scaling_activities(group.as_str(), token).await?;
            activities.extend(page.activities.unwrap_or_default());
            token = walk.token(page.next_token).map_err(|reason| endless(group, reason))?;
            if token.is_none() || is_enough(&activities, shortfall) {
                break;
            }
        }
        // Those in progress come first: launches may be among the rest (law 5).
        let is_in_progress = |last: &Activity| !last.status_code().is_some_and(is_finished);
        if token.is_some() && activities.last().is_none_or(is_in_progress) {
            return Err(endless(
                group,
                &format!("{PAGES_MAX} pages of activities do not show every launch in progress"),
            ));
        }
        let known = self.launch_settings.lock().unwrap_or_else(PoisonError::into_inner).get(group).cloned();
        let zones = known.map(|settings| settings.zones().to_vec()).unwrap_or_default();
        Ok(launches(&activities, &zones, shortfall, now))
    }
}

impl Groups {
    /// The instances that no activity since this time names: they were launched or attached earlier. A group's listing
    /// has no launch times.
    pub(in crate::clouds::aws) async fn created_before(
        &self,
        group: &GroupName,
        instances: &[ProviderId],
        before: SystemTime,
    ) -> Result<Vec<ProviderId>, CloudError> {
        let (mut recent, mut token, mut walk) = (Vec::new(), None, PageWalk::default());
        for _ in 0..PAGES_MAX {
            let page = self.scaling.describe_scaling_activities(group.as_str(), token).await?;
            let is_complete = reaches_back(page.activities(), before);
            recent.extend(page.activities.unwrap_or_default());
            token = walk.token(page.next_token).map_err(|reason| endless(group, reason))?;
            if token.is_none() || is_complete {
                let is_recent = |activity: &&Activity| started(activity).is_none_or(|at| at >= before);
                let named: Vec<&str> =
                    recent.iter().filter(is_recent).filter_map(|activity| activity.description()).collect();
                let is_old = |id: &&ProviderId| {
                    let instance = id.as_str().rsplit('/').next().unwrap_or_default();
                    !named.iter().any(|description| description.contains(instance))
                };
                return Ok(instances.iter().filter(is_old).cloned().collect());
            }
        }
        // There are more activities than are read, so the age of no instance is known.
        Ok(Vec::new())
    }
}

/// Whether a page of activities ends before this time. Activities in progress come first, then the newest.
fn reaches_back(page: &[Activity], before: SystemTime) -> bool {
    let last = page.last().filter(|last| last.status_code().is_some_and(is_finished));
    last.and_then(started).is_some_and(|at| at < before)
}

/// Whether no further pages are needed. Activities in progress come first, then the newest.
fn is_enough(activities: &[Activity], shortfall: Shortfall) -> bool {
    let Some(last) = activities.last().filter(|last| last.status_code().is_some_and(is_finished)) else { return false };
    let is_older = started(last).is_some_and(|at| seconds(at) < seconds(shortfall.since));
    let failures = activities.iter().filter(|activity| is_launch(activity)).filter_map(failure);
    let explaining = failures.filter(|failure| seconds(failure.at) >= seconds(shortfall.since)).count();
    is_older || u32::try_from(explaining).is_ok_and(|explaining| explaining >= shortfall.missing)
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
