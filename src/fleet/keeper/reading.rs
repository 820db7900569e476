//! Reading the group: what a listing says, what is read anew, what is believed, and what a write is computed on.

use std::time::SystemTime;

use tokio::time::{Instant, sleep, timeout};

use super::{Doubted, Keeper, TakenIn};
use crate::cloud::{CloudError, GroupReading, InstanceState, LaunchActivity};
use crate::fleet::census::census;
use crate::fleet::doubt::{confirms, doubt};
use crate::fleet::error::FleetError;
use crate::fleet::limits::{CONFIRM_AFTER, CONFIRM_READS, DETAIL_LIFE, READ_LIMIT};
use crate::fleet::observation::Observation;

impl Keeper {
    /// Takes a reading of a listing in, with the instances read anew where there may be something new to see.
    pub(super) async fn take_in(&mut self, reading: GroupReading, begun: Instant, taken_in: TakenIn) {
        if self.is_outdated(begun) {
            return;
        }
        let at = self.around.cloud.now();
        let observation = if reading.instances.is_some() {
            self.observation_of(reading, begun, at)
        } else {
            match self.state.observation().filter(|known| !self.needs_detail(known, &reading)) {
                Some(known) => Some(known.with_capacity_of(reading, begun, at)),
                None => self.read_or_warn().await,
            }
        };
        if let Some(observation) = observation {
            self.consider(observation, Some(taken_in)).await;
        }
    }

    /// Whether a reading that began then says nothing of the last write, or less than is known: answers come in any order.
    fn is_outdated(&self, begun: Instant) -> bool {
        let known = self.state.observation().is_some_and(|known| known.begun > begun);
        known || self.written.is_some_and(|written| written >= begun)
    }

    fn needs_detail(&self, known: &Observation, reading: &GroupReading) -> bool {
        known.reading.desired != reading.desired
            || known.reading.etag != reading.etag
            || reading.is_detail_outdated
            || known.detailed.elapsed() > DETAIL_LIFE
            || !self.state.operations().is_empty()
            || !self.state.placeholders().is_empty()
            || known.instances.iter().any(|instance| instance.state != InstanceState::Running)
    }

    /// A listing lacks the group: it is let go of only if the cloud, asked for it by name, does not know it either.
    pub(super) async fn look_for(&mut self, begun: Instant, _taken_in: TakenIn) {
        if self.is_outdated(begun) {
            return;
        }
        match self.observe_or_let_go().await {
            Ok(Some(observation)) => self.consider(observation, None).await,
            Ok(None) => {}
            Err(error) => tracing::warn!(group = %self.group_id(), source = %self.key.source, %error, "cannot be read"),
        }
    }

    /// Publishes an observation, or, if it contradicts itself, waits for a second one (law 5).
    pub(super) async fn consider(&mut self, observation: Observation, taken_in: Option<TakenIn>) {
        if let Some(why) = doubt(&self.state, &observation) {
            let confirmed = self.doubted.as_ref().is_some_and(|doubted| confirms(&doubted.observation, &observation));
            if !confirmed {
                tracing::warn!(
                    group = %self.group_id(), source = %self.key.source, %why,
                    "the reading contradicts itself; not published until a second one confirms it"
                );
                let confirm_at = Instant::now() + CONFIRM_AFTER;
                self.doubted = Some(Doubted { observation, confirm_at, _taken_in: taken_in });
                return;
            }
            tracing::warn!(group = %self.group_id(), source = %self.key.source, %why, "confirmed by a second reading");
        }
        self.doubted = None;
        let observation = self.with_activity(observation).await;
        self.adopt(observation);
        self.settle().await;
    }

    pub(super) async fn confirm(&mut self) {
        match self.observe_or_let_go().await {
            Ok(Some(observation)) => self.consider(observation, None).await,
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(group = %self.group_id(), %error, "cannot be read a second time");
                if let Some(doubted) = &mut self.doubted {
                    doubted.confirm_at = Instant::now() + CONFIRM_AFTER * 5;
                    doubted._taken_in = None;
                }
            }
        }
    }

    /// Adds what the cloud says of recent launches, where instances are missing, or are more than they should be.
    async fn with_activity(&self, mut observation: Observation) -> Observation {
        let census = census(&observation, self.state.operations());
        let lowered_before_the_start = self.state.observation().is_none() && census.desired < census.live;
        if census.shortfall == 0 && !lowered_before_the_start {
            return observation;
        }
        if let Some(activity) = self.launch_activity().await {
            observation.activity = activity;
        }
        observation
    }

    /// What the cloud says of recent launches. Without it, nothing is known to have failed and nothing to be under way.
    pub(super) async fn launch_activity(&self) -> Option<LaunchActivity> {
        match timeout(READ_LIMIT, self.around.cloud.launch_activity(&self.key.name)).await {
            Ok(Ok(activity)) => return Some(activity),
            Ok(Err(error)) => tracing::warn!(group = %self.group_id(), %error, "launch activity cannot be read"),
            Err(_elapsed) => tracing::warn!(group = %self.group_id(), "launch activity cannot be read in time"),
        }
        None
    }

    /// Reads the group and its instances.
    pub(super) async fn observe(&self) -> Result<Option<Observation>, CloudError> {
        let (begun, at) = (Instant::now(), self.around.cloud.now());
        let reading = timeout(READ_LIMIT, self.around.cloud.observe(&self.key.name))
            .await
            .unwrap_or_else(|_elapsed| Err(self.timed_out("observe")))?;
        Ok(reading.and_then(|reading| self.observation_of(reading, begun, at)))
    }

    fn observation_of(&self, reading: GroupReading, begun: Instant, at: SystemTime) -> Option<Observation> {
        Observation::new(reading, begun, at).map(|observation| self.state.recall(observation))
    }

    /// The same; a group the cloud twice says it does not know is let go of, and with it all that is known of it. Once is
    /// not enough: a keeper that starts anew has forgotten which of its writes may still take effect.
    async fn observe_or_let_go(&mut self) -> Result<Option<Observation>, CloudError> {
        if let Some(observation) = self.observe().await? {
            return Ok(Some(observation));
        }
        sleep(CONFIRM_AFTER).await;
        let observation = self.observe().await?;
        if observation.is_none() {
            self.retire();
        }
        Ok(observation)
    }

    pub(super) async fn read_or_warn(&mut self) -> Option<Observation> {
        match self.observe().await {
            Ok(observation) => observation,
            Err(error) => {
                tracing::warn!(group = %self.group_id(), source = %self.key.source, %error, "instances cannot be read");
                None
            }
        }
    }

    /// Reads the group for a write (law 2).
    pub(super) async fn fresh(&mut self) -> Result<(), FleetError> {
        let observation = self.read_until_believed().await?;
        self.adopt_fresh(observation);
        Ok(())
    }

    /// Reads the group again and again, a few times, until the reading does not contradict itself (law 5).
    pub(super) async fn read_until_believed(&mut self) -> Result<Observation, FleetError> {
        let mut doubted: Option<Observation> = None;
        let mut reason = String::new();
        for _ in 0..CONFIRM_READS {
            let Some(observation) = self.observe_or_let_go().await.map_err(|error| self.cloud_error(error))? else {
                return Err(FleetError::UnknownGroup { id: self.group_id().to_string() });
            };
            let Some(why) = doubt(&self.state, &observation) else { return Ok(observation) };
            if doubted.as_ref().is_some_and(|doubted| confirms(doubted, &observation)) {
                return Ok(observation);
            }
            tracing::warn!(group = %self.group_id(), %why, "not written on until a second reading confirms it");
            reason = format!("its readings contradict each other ({why})");
            doubted = Some(observation);
            sleep(CONFIRM_AFTER).await;
        }
        Err(FleetError::Contended { group: self.group_id(), reason })
    }

    /// The same, unless the last reading is younger than the last write.
    pub(super) async fn fresh_since_the_last_write(&mut self) -> Result<(), FleetError> {
        let read = self.state.observation().map(|observation| observation.begun);
        if read.is_some_and(|begun| self.written.is_none_or(|written| written < begun)) {
            return Ok(());
        }
        self.fresh().await
    }

    fn adopt_fresh(&mut self, observation: Observation) {
        self.doubted = None;
        self.adopt(observation);
    }
}
