//! What a group's activities show of its launches, and which failures are final.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use aws_sdk_autoscaling::types::Activity;

use super::launch::{
    ended, failure, instance, is_finished, is_launch, is_own, is_termination, names_instance, seconds, started, zone,
};
use crate::cloud::{LaunchActivity, Launched, OwnLaunches, Shortfall};

/// In a group of several zones, AWS tries the next zone after a launch failed. Failures in some of the zones are final
/// this long after the first one if no launch is under way and none has succeeded since (#5829).
const ZONE_RETRY: Duration = Duration::from_secs(10);

/// An instance is listed within this time of the beginning of its launch: reads lag by seconds.
const LISTED_WITHIN: Duration = Duration::from_secs(60);

/// What the newest activities of a group in these zones show. Ignores failed terminations: they do not show why
/// capacity is missing.
pub(super) fn launches(
    activities: &[Activity],
    zones: &[String],
    shortfall: Shortfall,
    now: SystemTime,
) -> LaunchActivity {
    let mut activity = LaunchActivity::default();
    for launch in activities.iter().filter(|candidate| is_launch(candidate)) {
        match launch.status_code() {
            Some(status) if is_finished(status) => activity.failures.extend(failure(launch)),
            // An instance with an ID is listed with the group, or will be. Counting its launch too would count it
            // twice.
            _ if names_instance(launch) => {}
            _ => activity.under_way += 1,
        }
    }
    activity.launched = just_launched(activities, now);
    activity.own = own_launches(activities, shortfall.since);
    if !is_final(activities, zones, shortfall.since, now) {
        activity.failures.clear();
    }
    activity.failures.sort_by_key(|failure| Reverse(failure.at));
    activity
}

/// The instances of the last minute's launches that have not failed, unless a later activity names them too: they are
/// being terminated then, or detached.
fn just_launched(activities: &[Activity], now: SystemTime) -> Vec<Launched> {
    let is_recent = |launch: &Activity| started(launch).is_some_and(|at| at + LISTED_WITHIN >= now);
    let launches = activities.iter().filter(|one| is_launch(one) && failure(one).is_none() && is_recent(one));
    // A warm pool returns an instance under the ID that an earlier activity names.
    let is_gone = |launched: &Launched| {
        let others = activities.iter().filter(|one| !is_launch(one) && started(one) > Some(launched.at));
        others.filter_map(Activity::description).any(|description| description.contains(&launched.instance))
    };
    let launched = launches.filter_map(|one| Some(Launched { instance: instance(one)?, at: started(one)? }));
    launched.filter(|one| !is_gone(one)).collect()
}

/// The instances that AWS has launched by itself since then, and how many it has terminated by itself. Activities come
/// newest first.
fn own_launches(activities: &[Activity], since: SystemTime) -> OwnLaunches {
    let is_recent = |activity: &&Activity| started(activity).is_some_and(|at| seconds(at) >= seconds(since));
    let own = || activities.iter().filter(is_recent).filter(|activity| is_own(activity));
    OwnLaunches {
        instances: own().filter(|activity| is_launch(activity)).filter_map(instance).collect(),
        replacing: own().filter(|activity| is_termination(activity)).count(),
    }
}

/// Whether AWS has finished retrying the launches that failed since the shortfall began.
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
