//! A group that does what another one was seen to do.

use std::time::Duration;

use super::call::FaultRates;
use super::chance::{Pick, Span, seconds};
use super::launch_call::Raise;
use super::outcome::{LaunchOutcome, PlannedFailure};
use super::plan::{Accounting, GroupPlan, Sizing};
use super::source::Simulated;
use crate::cloud::{Behavior, CapacityIs, Consistency, Falls, Missing, Raises};

/// Longer times are cut to this.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// How long after its response a launch by a call raises the capacity, where it does so later.
const RAISE_AFTER: Duration = Duration::from_secs(2);
/// How long a failing launch takes.
const FAILS_AFTER: Span = Duration::from_secs(9)..=Duration::from_secs(9);
/// How long a request takes, and its response: nobody can abandon a write that takes no time.
pub(super) const LATENCY: Span = Duration::from_millis(5)..=Duration::from_millis(10);

fn after(time: f64) -> Span {
    let time = Duration::try_from_secs_f64(time).unwrap_or_default().min(LONGEST);
    time..=time
}

impl GroupPlan {
    /// A group of the kind that has this model, and that does what was seen. What was not seen is as in any such group.
    pub fn as_seen(name: &str, model: Consistency, behavior: &Behavior) -> Self {
        let mut plan = match model.missing {
            Missing::Retried => Self::aws(name),
            Missing::LeftOut => Self::azure(name),
        };
        match behavior.falls {
            Some(Falls::WhenAccepted) => plan.accounting = Accounting::OnAccept,
            Some(Falls::WhenGone) => plan.accounting = Accounting::WhenGone,
            None => {}
        }
        match behavior.capacity_is {
            Some(CapacityIs::Actual) => plan.sizing = Sizing::Actual,
            Some(CapacityIs::Nominal) => plan.sizing = Sizing::Nominal,
            Some(CapacityIs::Unknown) | None => {}
        }
        plan.is_protected = behavior.is_protected.unwrap_or(plan.is_protected);
        plan.scale_in_lag = behavior.scale_in_after.map_or(plan.scale_in_lag, after);
        plan.acts_after = behavior.launch_begins_after.map_or(plan.acts_after, after);
        // Part of the time that a launch takes is the time until it begins.
        let begins = behavior.launch_begins_after.unwrap_or_default();
        plan.launch_time = behavior.launch_takes.map_or(plan.launch_time, |takes| after(takes - begins));
        plan.delete_time = behavior.deletion_takes.map_or(plan.delete_time, after);
        let raise = match behavior.raises {
            Some(Raises::BeforeResponse) => Some(Raise::BeforeResponse),
            Some(Raises::AfterResponse) => Some(Raise::After(RAISE_AFTER)),
            None => None,
        };
        if let Some(raise) = raise {
            plan.zones.truncate(1);
            plan = plan.launch_calls(seconds(1, 1), raise);
        }
        match &behavior.launch_failure {
            Some(code) => {
                let failure = PlannedFailure::out_of_resources(code, "As in the report.");
                plan.launches(Pick::Always, LaunchOutcome::fails(failure, FAILS_AFTER))
            }
            None => plan,
        }
    }
}

impl Simulated {
    /// The name of the group of [`Self::as_seen`].
    pub const AS_SEEN: &str = "as-seen";

    /// One group that is set aside for `headcount verify` and does what was seen. Only builds for tests have reads that
    /// lag.
    pub fn as_seen(seed: u64, size: u32, model: Consistency, behavior: &Behavior) -> Self {
        let plan = GroupPlan::as_seen(Self::AS_SEEN, model, behavior).sized(0, 10, size).set_aside();
        let cloud = Self::with_groups(seed, [plan]);
        cloud.fail_at(FaultRates { latency: LATENCY, ..FaultRates::default() });
        #[cfg(feature = "faults")]
        cloud.faults(|faults| {
            let lag = behavior.read_lag.and_then(|lag| Duration::try_from_secs_f64(lag).ok());
            faults.read_lags.extend(lag.filter(|lag| !lag.is_zero()).map(|lag| (Self::AS_SEEN.to_owned(), lag)));
        });
        cloud
    }
}
