//! What one read of a group returned, and when.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::time::Time;

use crate::cloud::{Consistency, Counts, GroupReading, Instance, InstanceState, Launched};

/// A complete read of one group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Observation {
    /// The group as it was read; its instances are in `instances`.
    pub reading: GroupReading,
    /// Its instances.
    pub instances: Vec<Instance>,
    /// When the read of the capacity began. A read that began before a write was accepted does not show it.
    pub begun: Time,
    /// When the read of the instances began.
    pub detailed: Time,
    /// The same moment by the cloud's clock, to compare with its launch activities.
    pub at: SystemTime,
}

impl Observation {
    /// The observation that a reading with instances makes; `None` where it has none.
    pub(crate) fn new(mut reading: GroupReading, begun: Time, at: SystemTime) -> Option<Self> {
        let mut instances = reading.instances.take()?;
        instances.shrink_to_fit();
        Some(Self { reading, instances, begun, detailed: begun, at })
    }

    /// The instances read earlier, under a capacity read now.
    pub(crate) fn with_capacity_of(&self, mut reading: GroupReading, begun: Time, at: SystemTime) -> Self {
        reading.instances = None;
        reading.without_id = self.reading.without_id;
        Self { reading, begun, at, ..self.clone() }
    }

    /// The live instances that it lists and whose launch began after this moment, by the cloud's clock. If there are
    /// any, it is younger than what was written until then. That says nothing of later reads, which may lag again.
    pub(crate) fn launched_after<'a>(
        &'a self,
        sent: SystemTime,
        launches: &'a [Launched],
    ) -> impl Iterator<Item = &'a Instance> {
        let is_later = move |one: &&Launched| one.at > sent + Consistency::CLOCK_ERROR;
        let is_launched = move |id: &str| launches.iter().filter(is_later).any(|launched| launched.instance == id);
        let lives = |one: &&Instance| one.state != InstanceState::Deleting;
        self.instances.iter().filter(lives).filter(move |one| is_launched(one.id.instance()))
    }

    /// When the youngest launch began of a live instance that it lists, by the cloud's clock. That dates it only if it
    /// lacks no instance whose launch began at about that time or later: a warm pool returns an instance under its ID, and
    /// a read from before its deletion lists it, too.
    pub(crate) fn shown_until(&self, launches: &[Launched]) -> Option<SystemTime> {
        let lives = |launched: &&Launched| {
            let live = self.instances.iter().filter(|one| one.state != InstanceState::Deleting);
            live.map(|one| one.id.instance()).any(|listed| listed == launched.instance)
        };
        let (listed, missing): (Vec<_>, Vec<_>) = launches.iter().partition(lives);
        let youngest = listed.iter().map(|launched| launched.at).max()?;
        let is_certain = missing.iter().all(|launched| launched.at + Consistency::LAG <= youngest);
        is_certain.then_some(youngest)
    }

    /// The number of instances that the capacity may count. No write may go below it (law 1). It includes all listed
    /// instances, except those being deleted that the cloud documents as not counted (AWS: Terminating, even during a
    /// lifecycle hook).
    pub(crate) fn counted(&self) -> u32 {
        let is_released =
            |instance: &&Instance| instance.state == InstanceState::Deleting && instance.counts == Counts::No;
        count(self.instances.iter().filter(|instance| !is_released(instance)).count())
    }
}

/// Whether a number need not be in a recording.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A length as a size in nodes.
pub(crate) fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
