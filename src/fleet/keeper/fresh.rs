//! Reading before writing (law 2). A write consumes a [`Fresh`]: there is no way to send one without having read the group.

use std::time::Duration;

use tokio::time::Instant;

use super::Keeper;
use super::attempts::Attempts;
use super::reader::ReadResult;
use crate::cloud::{CloudError, GroupReading};
use crate::fleet::error::FleetError;
use crate::fleet::limits::{CONFIRM_AFTER, READ_PATIENCE};
use crate::fleet::observation::Observation;

/// The capacity and the precondition, read for one write.
#[derive(Debug)]
pub(super) struct Fresh {
    /// What the write is conditional on, where the cloud has preconditions.
    pub basis: GroupReading,
}

/// The instances as well, which lowering a capacity needs.
#[derive(Debug)]
pub(super) struct FreshInstances(Fresh);

impl From<FreshInstances> for Fresh {
    fn from(fresh: FreshInstances) -> Self {
        fresh.0
    }
}

impl Keeper {
    /// Reads the capacity and the precondition for a write. The last known instances are enough for the rest, unless the two
    /// contradict each other, or a deletion has failed since they were read: which of them live again, only a new list shows.
    pub(super) async fn fresh(&mut self, attempts: &mut Attempts) -> Result<Fresh, FleetError> {
        if self.has_failed_deletion() {
            return Ok(self.fresh_instances(attempts).await?.into());
        }
        let ReadResult { reading, begun, at } = self.read_capacity(attempts).await?;
        let reading = reading.ok().flatten().map(|reading| self.with_policy(reading));
        let is_usable = |reading: &GroupReading| reading.instances.is_some() || !self.is_another(reading);
        let Some(reading) = reading.filter(is_usable) else { return Ok(self.fresh_instances(attempts).await?.into()) };
        let observation = if reading.instances.is_some() {
            Observation::new(reading, begun, at)
        } else {
            Some(self.state.observation().with_capacity_of(reading, begun, at))
        };
        match observation.filter(|observation| self.doubt_of(observation).is_none()) {
            Some(observation) => Ok(self.adopt_fresh(observation)),
            None => Ok(self.fresh_instances(attempts).await?.into()),
        }
    }

    /// Reads the group and its instances for a write, until the observation is not in doubt (law 5).
    pub(super) async fn fresh_instances(&mut self, attempts: &mut Attempts) -> Result<FreshInstances, FleetError> {
        let (mut is_gone, mut before) = (false, None);
        loop {
            let time = attempts.left();
            let ReadResult { reading, begun, at } = self.reader.instances_for_write(time).await;
            if reading.is_ok() {
                attempts.reached();
            }
            let reason = match reading {
                Ok(Some(reading)) => {
                    let Some(observation) = Observation::new(self.with_policy(reading), begun, at) else {
                        return Err(self.contended("the cloud returned no instances"));
                    };
                    let Some(why) = self.doubt_of(&observation) else {
                        return Ok(FreshInstances(self.adopt_fresh(observation)));
                    };
                    if self.confirms(&why, begun) {
                        tracing::warn!(group = %self.group_id(), %why, "a second observation confirms the first");
                        return Ok(FreshInstances(self.adopt_fresh(observation)));
                    }
                    tracing::warn!(group = %self.group_id(), %why, "observation is in doubt; waiting for a second one before writing");
                    let reason = format!("its observations contradict each other: {why}");
                    self.put_in_doubt(why, None);
                    reason
                }
                Ok(None) if is_gone => {
                    self.retire();
                    return Err(FleetError::UnknownGroup { id: self.group_id().to_string() });
                }
                // Once is not enough: see `GroupReader::instances_or_gone_twice`.
                Ok(None) => {
                    is_gone = true;
                    "the cloud reported once that it does not exist".to_owned()
                }
                Err(error) if error.may_pass() && attempts.again_after(&error).await => {
                    before = Some(error);
                    continue;
                }
                Err(error) => return Err(self.read_error(error, time, attempts, before)),
            };
            if attempts.left() <= CONFIRM_AFTER {
                return Err(self.contended(&reason));
            }
            tokio::time::sleep(CONFIRM_AFTER).await;
        }
    }

    async fn read_capacity(&self, attempts: &mut Attempts) -> Result<ReadResult, FleetError> {
        let mut before = None;
        loop {
            let time = attempts.left();
            let read = self.reader.capacity(time).await;
            match &read.reading {
                Err(error) if error.may_pass() => {
                    if !attempts.again_after(error).await {
                        return Err(self.read_error(error.clone(), time, attempts, before));
                    }
                    before = Some(error.clone());
                }
                Err(error) => return Err(self.cloud_error(error.clone())),
                Ok(_) => return Ok(read),
            }
        }
    }

    /// Why a read failed that had this much time: the cloud's reason, now or `before`, unless the caller had left it too
    /// little.
    fn read_error(
        &self,
        error: CloudError,
        time: Duration,
        attempts: &Attempts,
        before: Option<CloudError>,
    ) -> FleetError {
        if attempts.left().is_zero() && time < READ_PATIENCE && !attempts.is_lost() {
            return before
                .map_or_else(|| FleetError::NotSent { group: self.group_id() }, |before| self.cloud_error(before));
        }
        self.cloud_error(error)
    }

    /// The reading taken before, if no write has used it; a new one otherwise.
    pub(super) async fn fresh_or(
        &mut self,
        unused: Option<Fresh>,
        attempts: &mut Attempts,
    ) -> Result<Fresh, FleetError> {
        match unused {
            Some(fresh) => Ok(fresh),
            None => self.fresh(attempts).await,
        }
    }

    /// What is fresh of an observation that was just read beside the keeper: everything, if the read began after the last
    /// write. A listing is never fresh: it takes as long as all of its groups.
    pub(super) fn just_observed(&self) -> Option<FreshInstances> {
        let observation = self.state.observation();
        let is_fresh = self.read_beside == Some(observation.begun)
            && self.written.is_none_or(|written| written < observation.begun);
        is_fresh.then(|| FreshInstances(Fresh { basis: observation.reading.clone() }))
    }

    fn adopt_fresh(&mut self, observation: Observation) -> Fresh {
        self.doubted = None;
        let basis = observation.reading.clone();
        self.adopt(observation);
        Fresh { basis }
    }

    pub(super) fn contended(&self, reason: &str) -> FleetError {
        FleetError::Contended { group: self.group_id(), reason: reason.to_owned() }
    }

    pub(super) fn cloud_error(&self, error: CloudError) -> FleetError {
        FleetError::Cloud { group: self.group_id(), error }
    }

    /// Whether a read that began then may show less than is known already: responses arrive in any order.
    pub(super) fn is_outdated(&self, begun: Instant) -> bool {
        self.state.observation().begun > begun || self.written.is_some_and(|written| written >= begun)
    }
}
