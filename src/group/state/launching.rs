//! Launches: what they add to the group, and what becomes of those that fail.

use std::sync::Arc;
use std::time::SystemTime;

use super::placeholders::Missed;
use super::{GroupState, size};
use crate::cloud::{Failure, ZoneName};
use crate::group::Time;
use crate::group::limits::ROLLED_BACK_LIFE;
use crate::group::operation::OperationId;
use crate::group::placeholder::PlaceholderState;

impl GroupState {
    /// A launch is being sent: its placeholders come at once.
    pub(crate) fn start_launch(
        &mut self,
        id: OperationId,
        (number, zone): (u32, Option<ZoneName>),
        (now, sent): (Time, SystemTime),
    ) {
        self.in_flight.start_launch(id, number, zone, now, &self.observation);
        self.note_launch(number);
        self.fit_placeholders(0, Missed::Requested(sent), now);
    }

    /// A launch has ended with these instances. The placeholders of the others go. Returns how many they are.
    pub(crate) fn end_launch(&mut self, id: OperationId, instances: &[String], now: Time) -> u32 {
        let (zone, may_be_undone) = (self.in_flight.zone_of(id), self.in_flight.may_be_undone(id));
        let short = self.in_flight.end_launch(id, instances, now, &self.observation);
        self.note_not_launched(short, may_be_undone);
        for _ in 0..short {
            let is = |state: PlaceholderState| {
                self.placeholders.iter().rposition(|one| one.state == state && one.zone == zone)
            };
            let Some(last) = is(PlaceholderState::Pending).or_else(|| is(PlaceholderState::Cancelled)) else { break };
            self.placeholders.remove(last);
        }
        let since = self.observation.at;
        self.fit_placeholders(0, Missed::Requested(since), now);
        short
    }

    /// Lists as many instances that were not launched, with the reasons. They stay in the target until CA deletes them.
    pub(crate) fn list_failed(
        &mut self,
        (number, zone): (u32, Option<&ZoneName>),
        failures: &[Failure],
        (now, at): (Time, SystemTime),
    ) {
        let made = self.placeholders.len();
        self.add_placeholders(size(number), zone, Missed::Requested(at));
        let failures: Vec<Arc<Failure>> = failures.iter().cloned().map(Arc::new).collect();
        for (placeholder, failure) in self.placeholders[made..].iter_mut().zip(failures.iter().cycle()) {
            placeholder.failure = Some(Arc::clone(failure));
            placeholder.state = PlaceholderState::RolledBack { until: now + ROLLED_BACK_LIFE };
        }
    }
}
