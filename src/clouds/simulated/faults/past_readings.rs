//! Past readings of groups, for stale reads.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::cloud::GroupReading;
use crate::clouds::simulated::Group;

/// Past readings of groups; none are kept until `keep_for` is called.
#[derive(Debug, Default)]
pub(in super::super) struct PastReadings {
    horizon: Option<Duration>,
    readings: BTreeMap<Arc<str>, VecDeque<(Duration, Option<GroupReading>)>>,
}

impl PastReadings {
    /// Keeps readings at least this long from now on.
    pub(super) fn keep_for(&mut self, horizon: Duration) {
        self.horizon = self.horizon.max(Some(horizon));
    }

    /// Records the current reading of a group.
    pub(in super::super) fn record(&mut self, now: Duration, group: &Group) {
        let Some(horizon) = self.horizon else { return };
        let readings = self.readings.entry(Arc::clone(&group.name)).or_default();
        readings.push_back((now, (!group.hidden).then(|| group.reading())));
        // The last reading at or before the horizon is the reading of that age.
        let past = now.saturating_sub(horizon);
        while readings.get(1).is_some_and(|(at, _)| *at <= past) {
            readings.pop_front();
        }
    }

    /// The reading at that time; the outer `None` if it is not kept.
    pub(super) fn at(&self, group: &str, then: Duration) -> Option<Option<GroupReading>> {
        let readings = self.readings.get(group)?;
        readings.iter().rev().find(|(at, _)| *at <= then).map(|(_, reading)| reading.clone())
    }
}
