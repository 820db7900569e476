//! Placeholders: one for each instance that should exist but does not.
//!
//! CA learns about a failed launch from an instance in state Creating with an error. Its ID must stay the same until
//! `DeleteNodes` names it, and must be new for every scale-up: CA backs off only for IDs that it has not seen failing
//! before (#6601). So each missing instance has a placeholder with an ID of its own. The number of placeholders is not
//! decided here: it is the shortfall that the census computes.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::time::Time;

use crate::cloud::{Failure, LaunchActivity, ProviderId, ZoneName};

/// One instance that should exist but does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Placeholder {
    /// The ID it is listed under.
    pub id: ProviderId,
    /// The zone that it is missing in; `None` where zones are not served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<ZoneName>,
    /// Since when it has been missing, by the cloud's clock. Earlier failures do not explain it.
    pub since: SystemTime,
    /// Whether a write of ours asked for it. Otherwise a read showed that an instance is missing.
    pub is_requested: bool,
    /// Whether the capacity and the target include it.
    pub state: PlaceholderState,
    /// Why the instance could not be created. Kept for as long as the placeholder.
    pub failure: Option<Arc<Failure>>,
}

/// Whether the capacity and the target include a placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PlaceholderState {
    /// In the capacity and in the target: listed as Creating.
    Pending,
    /// In the capacity, but not in the target: CA has deleted it, and the capacity could not be lowered yet (because of
    /// the group's minimum, or deletions under way), or is never lowered.
    Cancelled,
    /// Not in the capacity, because the cloud lowered it again after a failed scale-up. It stays in the target until CA
    /// deletes it. Otherwise, CA would treat the scale-up as a success and repeat it forever.
    RolledBack {
        /// When it is dropped if CA does not delete it.
        until: Time,
    },
}

impl Placeholder {
    /// Whether the capacity includes it.
    pub(crate) fn in_capacity(&self) -> bool {
        !matches!(self.state, PlaceholderState::RolledBack { .. })
    }

    /// Whether the target includes it.
    pub(crate) fn in_target(&self) -> bool {
        self.state != PlaceholderState::Cancelled
    }
}

/// Drops placeholders of a zone until there are as many as it lacks, the shortfall. `capacity_fell` of them are dropped
/// because the capacity was lowered: first those that CA has cancelled. The others are dropped because their instances
/// came up: first those that CA still wants, and of them those that a write of ours asked for, the oldest first. What
/// was missing before that write is still missing then: a scale set launches none of it.
pub(crate) fn shrink(
    placeholders: &mut Vec<Placeholder>,
    zone: Option<&ZoneName>,
    shortfall: usize,
    capacity_fell: usize,
) {
    let is_here = |placeholder: &Placeholder| placeholder.zone.as_ref() == zone;
    let held = placeholders.iter().filter(|placeholder| is_here(placeholder) && placeholder.in_capacity()).count();
    let surplus = held.saturating_sub(shortfall);
    let lowered = surplus.min(capacity_fell);
    for step in 0..surplus {
        let is = |state| move |placeholder: &Placeholder| is_here(placeholder) && placeholder.state == state;
        let (cancelled, wanted) = (is(PlaceholderState::Cancelled), is(PlaceholderState::Pending));
        let victim = if step < lowered {
            placeholders.iter().rposition(cancelled).or_else(|| placeholders.iter().rposition(wanted))
        } else {
            let requested = |placeholder: &Placeholder| wanted(placeholder) && placeholder.is_requested;
            let came_up = placeholders.iter().position(requested).or_else(|| placeholders.iter().position(wanted));
            came_up.or_else(|| placeholders.iter().position(cancelled))
        };
        if let Some(victim) = victim {
            placeholders.remove(victim);
        }
    }
}

/// Assigns each placeholder the failure that explains it, if there is one.
///
/// A failed launch explains every placeholder that was missing when it failed, except for the `to_come` placeholders
/// whose launches are still under way. Times are compared in whole seconds, because that is the resolution of the
/// cloud's times.
pub(crate) fn explain(placeholders: &mut [Placeholder], activity: &LaunchActivity, to_come: u32) {
    let to_come = usize::try_from(to_come).unwrap_or(usize::MAX);
    for placeholder in
        placeholders.iter_mut().filter(|placeholder| placeholder.state == PlaceholderState::Pending).skip(to_come)
    {
        if placeholder.failure.is_none() {
            let since = whole_seconds(placeholder.since);
            let failure = activity.failures.iter().find(|failure| whole_seconds(failure.at) >= since);
            placeholder.failure = failure.cloned().map(Arc::new);
        }
    }
}

/// Seconds since the epoch, rounded down.
pub(crate) fn whole_seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}
