//! Until when the Cluster Autoscaler does not scale up a group.

use std::time::Duration;

use humantime::{format_rfc3339_seconds, parse_rfc3339_weak};

use crate::kubernetes::{AutoscalerGroup, AutoscalerStatus};

/// Until when the Cluster Autoscaler does not scale up the group, and why. Its status says since when; the time doubles
/// with each failure soon after the last one, so the end is the first one that has not passed.
pub(super) fn backs_off(
    group: &AutoscalerGroup,
    status: &AutoscalerStatus,
    (initial, most): (Duration, Duration),
) -> Option<String> {
    let scale_up = &group.scale_up;
    if scale_up.status != "Backoff" {
        return None;
    }
    let code = match scale_up.backoff_info.error_code.as_str() {
        "" => "instances did not become nodes in time, or this release does not report the reason",
        code => code,
    };
    let since = scale_up.last_transition_time.as_deref().and_then(|since| parse_rfc3339_weak(since).ok());
    let Some(since) = since else { return Some(format!("the Cluster Autoscaler backs off: {code}")) };
    // `2026-11-22 12:05:01.2 +0000 UTC`
    let written = status.time.split(" +0000").next().and_then(|time| parse_rfc3339_weak(time).ok()).unwrap_or(since);
    let longer = |wait: &Duration| (!wait.is_zero() && *wait < most).then(|| (*wait * 2).min(most));
    let ends = std::iter::successors(Some(initial), longer);
    let end = ends.map(|wait| since + wait).find(|end| *end > written).unwrap_or(since + most);
    let end = format_rfc3339_seconds(end);
    Some(format!("the Cluster Autoscaler backs off until {end} at the earliest: {code}"))
}
