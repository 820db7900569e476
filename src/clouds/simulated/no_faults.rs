//! Replaces the module `faults` in builds without the feature of that name: calls fail at the configured rate, or as
//! the demo says (`incident.rs`), and nothing else can be injected.

use std::time::Duration;

use fastrand::Rng;

use super::call::{CallFault, CallKind, CallPlan, FaultRates};
use super::group::Group;
use super::script::Script;
use super::source::Simulated;
use crate::cloud::{CloudError, GroupName, GroupReading};

/// The faults of one simulated cloud.
#[derive(Debug)]
pub(super) struct Faults {
    pub(super) rates: FaultRates,
    /// Whether the cloud is unreachable.
    pub(super) down: bool,
    rng: Rng,
    call_faults: Script<CallFault>,
}

impl Faults {
    /// No faults.
    pub(super) fn new(seed: u64) -> Self {
        Self { rates: FaultRates::default(), down: false, rng: Rng::with_seed(seed), call_faults: Script::default() }
    }

    /// Gives this fault to the next `times` calls that match; `None` matches all.
    pub(super) fn script(&mut self, kind: Option<CallKind>, group: Option<&str>, times: u32, what: CallFault) {
        self.call_faults.add(kind, group, times, what);
    }

    /// Decides how a call goes.
    pub(super) fn begin_call(&mut self, _: Duration, kind: CallKind, group: Option<&str>, _: String) -> CallPlan {
        let call_fault = if self.down {
            Some(CallFault::Unreachable)
        } else {
            self.call_faults.take(kind, group).or_else(|| self.rates.draw_fault(&mut self.rng, kind))
        };
        self.rates.plan(&mut self.rng, call_fault)
    }
}

/// Past readings of groups, which this build never needs.
#[derive(Debug, Default)]
pub(super) struct PastReadings {}

impl PastReadings {
    pub(super) fn record(&mut self, _: Duration, _: &Group) {}
}

impl Simulated {
    /// Every reading is as the world shows it.
    pub(super) fn apply_read_fault(
        &self,
        _: CallKind,
        _: &GroupName,
        reading: Option<GroupReading>,
    ) -> Result<Option<GroupReading>, CloudError> {
        Ok(reading)
    }
}
