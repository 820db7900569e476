//! How groups were a while ago, so that a read can be stale.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::group::Group;
use crate::cloud::GroupReading;

/// Earlier readings of groups.
#[derive(Debug, Default)]
pub(super) struct Memory {
    horizon: Duration,
    readings: BTreeMap<Arc<str>, VecDeque<(Duration, Option<GroupReading>)>>,
}

impl Memory {
    /// Remembers at least for as long as this from now on.
    pub(super) fn reach_back(&mut self, horizon: Duration) {
        self.horizon = self.horizon.max(horizon);
    }

    /// Notes how a group is now.
    pub(super) fn note(&mut self, now: Duration, group: &Group) {
        let readings = self.readings.entry(Arc::clone(&group.name)).or_default();
        readings.push_back((now, (!group.hidden).then(|| group.reading())));
        // The last reading at or before the horizon is what a read of that age would have said.
        let past = now.saturating_sub(self.horizon);
        while readings.get(1).is_some_and(|(at, _)| *at <= past) {
            readings.pop_front();
        }
    }

    /// What a read at that time would have said; the outer `None` where that is not remembered.
    pub(super) fn recall(&self, group: &str, then: Duration) -> Option<Option<GroupReading>> {
        let readings = self.readings.get(group)?;
        readings.iter().rev().find(|(at, _)| *at <= then).map(|(_, reading)| reading.clone())
    }
}
