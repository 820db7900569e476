//! Observing the group: what listings and reads beside the keeper show, and what of it is believed.

use tokio::time::Instant;

use super::Keeper;
use super::reader::ReadResult;
use crate::cloud::{CloudError, GroupReading, InstanceState, LaunchActivity};
use crate::fleet::limits::{DETAIL_LIFE, SETTLE};
use crate::fleet::mailbox::Adoption;
use crate::fleet::observation::Observation;

impl Keeper {
    /// Adopts a listed reading. Where it lacks the instances and there may be something new to see, they are read beside.
    pub(super) async fn see_listed(&mut self, reading: GroupReading, begun: Instant, adoption: Adoption) {
        if self.is_outdated(begun) {
            return;
        }
        let (reading, at) = (self.with_policy(reading), self.context.cloud.now());
        if reading.instances.is_none() && self.needs_detail(&reading) {
            self.side.read(&self.reader, Some(adoption));
            return;
        }
        let observation = if reading.instances.is_some() {
            Observation::new(reading, begun, at)
        } else {
            Some(self.state.observation().with_capacity_of(reading, begun, at))
        };
        if let Some(observation) = observation {
            self.consider(observation, Some(adoption)).await;
        }
    }

    fn needs_detail(&self, reading: &GroupReading) -> bool {
        let known = self.state.observation();
        self.is_another(reading)
            || known.reading.desired != reading.desired
            || known.reading.etag != reading.etag
            || reading.is_detail_outdated
            || !self.state.is_steady()
            || known.detailed.elapsed() > DETAIL_LIFE
            // A list that lags shows instances that are gone already.
            || (self.state.surplus().is_some() && known.detailed.elapsed() > SETTLE)
            || !self.state.in_flight().operations().is_empty()
            || self.state.is_settling_placeholders()
            || known.instances.iter().any(|instance| instance.state != InstanceState::Running)
    }

    /// A listing lacks the group. It is dropped only if a read by name does not find it either.
    pub(super) fn look_for(&mut self, begun: Instant, adoption: Adoption) {
        if !self.is_outdated(begun) {
            self.side.read(&self.reader, Some(adoption));
        }
    }

    /// A read beside the keeper has ended.
    pub(super) async fn see_read(&mut self, read: ReadResult, adoption: Option<Adoption>) {
        let ReadResult { reading, begun, at } = read;
        let is_outdated = self.is_outdated(begun);
        match reading {
            Ok(Some(reading)) if !is_outdated => {
                if let Some(observation) = Observation::new(self.with_policy(reading), begun, at) {
                    self.read_beside = Some(begun);
                    self.consider(observation, adoption).await;
                }
            }
            Ok(None) if !is_outdated => return self.retire(),
            Ok(_) => {}
            Err(error) => self.read_failed(&error),
        }
        if self.side.take_read_wanted() || is_outdated {
            self.look_soon();
        }
        self.plan_look();
    }

    fn read_failed(&mut self, error: &CloudError) {
        tracing::warn!(
            group = %self.group_id(), source = %self.key.source, %error,
            "node group cannot be read; serving the last observation"
        );
        self.postpone_confirmation();
    }

    /// Adopts an observation, or waits for a second one if it is in doubt (law 5).
    pub(super) async fn consider(&mut self, observation: Observation, adoption: Option<Adoption>) {
        if let Some(why) = self.doubt_of(&observation) {
            if !self.confirms(&why, observation.begun) {
                tracing::warn!(
                    group = %self.group_id(), source = %self.key.source, %why,
                    "observation is in doubt; not published until a second one confirms it"
                );
                self.put_in_doubt(why, adoption);
                self.plan_look();
                return;
            }
            tracing::warn!(group = %self.group_id(), source = %self.key.source, %why, "a second observation confirms the first");
        }
        self.doubted = None;
        self.adopt(observation);
        if self.state.census().shortfall > 0 {
            self.side.read_activity(&self.reader, self.state.unexplained_shortfall());
        }
        self.settle().await;
    }

    /// Launch activity was read beside the keeper.
    pub(super) async fn see_activity(&mut self, activity: Result<LaunchActivity, CloudError>) {
        match activity {
            Ok(activity) => {
                self.is_activity_denied = false;
                if self.state.census().shortfall > 0 {
                    self.state.learn_activity(activity);
                    self.publish();
                    self.settle().await;
                }
            }
            Err(error) => self.activity_failed(&error),
        }
    }

    /// Logs once that launch activity cannot be read, until it can be read again.
    pub(super) fn activity_failed(&mut self, error: &CloudError) {
        if !std::mem::replace(&mut self.is_activity_denied, true) {
            tracing::warn!(
                group = %self.group_id(), %error,
                "launch activity cannot be read; failed launches are listed without a reason"
            );
        }
    }
}
