//! Slots: the instances that should be and are not, one by one.
//!
//! CA learns of a failed launch through an instance in state Creating with an error, listed under an ID that stays the
//! same until `DeleteNodes` names it, and that is new for every scale-up (CA backs off only for IDs that it has not seen
//! failing before, #6601). So each missing instance has a placeholder with an identity of its own. How many placeholders there are is
//! never decided here: it is the census' shortfall.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::cloud::{Failure, LaunchActivity, ProviderId};

/// One instance that should be and is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placeholder {
    /// The ID it is listed under.
    pub id: ProviderId,
    /// When it came to be missing, by the cloud's clock: failures before that are somebody else's.
    pub since: SystemTime,
    /// What it is to the target.
    pub state: PlaceholderState,
    /// Why the instance could not be created. Stays until the placeholder goes.
    pub failure: Option<Failure>,
}

/// What a placeholder is to the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlaceholderState {
    /// In the capacity and in the target: listed as Creating.
    Pending,
    /// In the capacity, no longer in the target: CA has taken it back, and the capacity could not be lowered yet (the
    /// group's minimum, deletions under way).
    Cancelled,
    /// No longer in the capacity, since the cloud took it back after a failed scale-up, but in the target until CA deletes
    /// its placeholder: otherwise CA would take the scale-up for a success and try it again for ever.
    RolledBack {
        /// When it is dropped if CA never does.
        until: Instant,
    },
}

impl Placeholder {
    /// Whether the capacity includes it.
    pub(super) fn in_capacity(&self) -> bool {
        !matches!(self.state, PlaceholderState::RolledBack { .. })
    }

    /// Whether the target includes it.
    pub(super) fn in_target(&self) -> bool {
        self.state != PlaceholderState::Cancelled
    }
}

/// Drops as many placeholders as the shortfall has shrunk by. `capacity_fell` of that is because the capacity was lowered: that
/// takes what CA has cancelled first. The rest is because instances came: they fill what CA wants, the oldest first.
pub(super) fn shrink(placeholders: &mut Vec<Placeholder>, shortfall: usize, capacity_fell: usize) {
    let surplus = placeholders.iter().filter(|placeholder| placeholder.in_capacity()).count().saturating_sub(shortfall);
    let lowered = surplus.min(capacity_fell);
    for step in 0..surplus {
        let cancelled = |placeholder: &Placeholder| placeholder.state == PlaceholderState::Cancelled;
        let wanted = |placeholder: &Placeholder| placeholder.state == PlaceholderState::Pending;
        let victim = if step < lowered {
            placeholders.iter().rposition(cancelled).or_else(|| placeholders.iter().rposition(wanted))
        } else {
            placeholders.iter().position(wanted).or_else(|| placeholders.iter().position(cancelled))
        };
        if let Some(victim) = victim {
            placeholders.remove(victim);
        }
    }
}

/// Gives each placeholder the failure that explains it, if there is one.
///
/// A failed launch explains every placeholder that was missing when it failed, but for as many as launches will still end in (`to_come`).
/// The cloud's clock has a resolution of one second in its answers.
pub(super) fn explain(placeholders: &mut [Placeholder], activity: &LaunchActivity, to_come: u32) {
    let to_come = usize::try_from(to_come).unwrap_or(usize::MAX);
    for placeholder in
        placeholders.iter_mut().filter(|placeholder| placeholder.state == PlaceholderState::Pending).skip(to_come)
    {
        if placeholder.failure.is_none() {
            let since = whole_seconds(placeholder.since);
            placeholder.failure = activity.failures.iter().find(|failure| whole_seconds(failure.at) >= since).cloned();
        }
    }
}

/// Seconds since the epoch, rounded down.
pub(super) fn whole_seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}
