//! Replaces the module `faults` in builds without the feature of that name: calls fail at the configured rate, and nothing else
//! can be injected.

use std::time::Duration;

use fastrand::Rng;

use super::call::{CallKind, CallPlan, FaultRates};
use super::group::Group;
use super::source::Simulated;
use crate::cloud::{CloudError, GroupName, GroupReading};

/// The faults of one simulated cloud: random ones.
#[derive(Debug)]
pub(super) struct Faults {
    pub(super) rates: FaultRates,
    rng: Rng,
}

impl Faults {
    /// No faults.
    pub(super) fn new(seed: u64) -> Self {
        Self { rates: FaultRates::default(), rng: Rng::with_seed(seed) }
    }

    /// Decides how a call goes.
    pub(super) fn begin_call(&mut self, _: Duration, kind: CallKind, _: Option<&str>, _: String) -> CallPlan {
        let call_fault = self.rates.draw_fault(&mut self.rng, kind);
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
