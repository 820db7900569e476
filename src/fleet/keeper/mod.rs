//! The keeper: the task that owns one group. It alone reads the group for writing, writes to it, and publishes it, one
//! thing after another, which is the group's lock.
//!
//! `mod.rs` takes observations in, `write.rs` carries requests out, `follow.rs` sees operations to their end.

mod follow;
mod write;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use super::doubt::{confirms, doubt};
use super::error::FleetError;
use super::limits::{CONFIRM_AFTER, CONFIRM_READS, DETAIL_LIFE, READ_LIMIT, TEMPLATE_LIFE, TEMPLATE_RETRY};
use super::observation::Observation;
use super::operation::OperationId;
use super::options::Options;
use super::policy::Policies;
use super::request::Request;
use super::snapshot::{GroupKey, GroupView, Store, TemplateState};
use super::state::GroupState;
use super::template_builder::TemplateJob;
use crate::cloud::{
    CloudError, Fault, GroupHints, GroupReading, InstanceState, LaunchActivity, Permit, ProviderId, SharedCloud,
};
use crate::instance_types::{Catalog, LearnedTypes};
use crate::template::NodeTemplate;
use crate::template::spread::complaint;

/// What a keeper is told.
#[derive(Debug)]
pub enum Message {
    /// A request of CA's.
    Mutate(Request),
    /// A listing has this to say of the group.
    Sighted {
        /// The reading.
        reading: Box<GroupReading>,
        /// When the listing began.
        begun: Instant,
        /// Dropped once the reading has been taken in.
        taken_in: TakenIn,
    },
    /// A listing that began then does not have the group.
    Missing {
        /// When the listing began.
        begun: Instant,
        /// Dropped once that has been looked into.
        taken_in: TakenIn,
    },
    /// The template was built, or could not be.
    Template(TemplateState),
    /// Answer once everything before this is done.
    Drain(oneshot::Sender<()>),
}

/// Held while a reading is being taken in; the listing counts as done when the last one is dropped.
pub(super) type TakenIn = mpsc::Sender<()>;

/// What a keeper needs from its surroundings.
#[derive(Clone)]
pub(super) struct Surroundings {
    /// The group's cloud.
    pub cloud: SharedCloud,
    /// Where to publish.
    pub store: Arc<Store>,
    /// The configuration's say on groups.
    pub policies: Arc<Policies>,
    /// Names operations.
    pub operation_ids: Arc<AtomicU64>,
    /// Where templates are built.
    pub templates: mpsc::Sender<TemplateJob>,
    /// Machine types, and what nodes were seen to hold.
    pub catalog: Arc<Catalog>,
}

/// The owner of one group.
pub(super) struct Keeper {
    key: GroupKey,
    around: Surroundings,
    inbox: mpsc::Receiver<Message>,
    mailbox: mpsc::WeakSender<Message>,
    backlog: VecDeque<Message>,
    state: GroupState,
    doubted: Option<Doubted>,
    /// A read that began before this says nothing of the last write.
    written: Option<Instant>,
    follow_at: Option<Instant>,
    /// What the group's tags say, read once for each time they change.
    hinted: Option<(Arc<GroupHints>, Options)>,
    template: TemplateState,
    template_asked: Option<TemplateAsked>,
    gone: bool,
}

/// What the template was asked to be built from, and when.
struct TemplateAsked {
    recipe: u64,
    learned: Option<Arc<LearnedTypes>>,
    at: Instant,
}

/// A reading that waits for a second one to confirm it.
struct Doubted {
    observation: Observation,
    confirm_at: Instant,
    _taken_in: Option<TakenIn>,
}

impl Keeper {
    /// Starts the keeper of a group, which lives as long as the answered sender does, or until the group is gone.
    pub(super) fn start(key: GroupKey, around: Surroundings) -> mpsc::Sender<Message> {
        let (mailbox, inbox) = mpsc::channel(super::limits::MAILBOX);
        let keeper = Self {
            key,
            around,
            inbox,
            mailbox: mailbox.downgrade(),
            backlog: VecDeque::new(),
            state: GroupState::default(),
            doubted: None,
            written: None,
            follow_at: None,
            hinted: None,
            template: TemplateState::Pending,
            template_asked: None,
            gone: false,
        };
        tokio::spawn(keeper.run());
        mailbox
    }

    async fn run(mut self) {
        while !self.gone {
            if let Some(message) = self.backlog.pop_front() {
                self.take(message).await;
                continue;
            }
            let wake = [self.doubted.as_ref().map(|doubted| doubted.confirm_at), self.follow_at];
            let wake = wake.into_iter().flatten().min();
            tokio::select! {
                biased; // so that a seed decides what a simulation does; waking plans the next time, so nobody starves
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => self.wake().await,
                message = self.inbox.recv() => match message {
                    Some(message) => self.take(message).await,
                    None => break,
                },
            }
        }
    }

    async fn take(&mut self, message: Message) {
        match message {
            Message::Mutate(request) => self.serve(request).await,
            Message::Sighted { reading, begun, taken_in } => self.take_in(*reading, begun, taken_in).await,
            Message::Missing { begun, taken_in } => self.look_for(begun, taken_in).await,
            Message::Template(template) => self.adopt_template(template),
            Message::Drain(done) => {
                let _nobody_waits = done.send(());
            }
        }
    }

    async fn wake(&mut self) {
        let now = Instant::now();
        if self.doubted.as_ref().is_some_and(|doubted| doubted.confirm_at <= now) {
            self.confirm().await;
        }
        if self.follow_at.is_some_and(|at| at <= now) {
            self.follow().await;
        }
    }

    /// Takes a reading of a listing in, with the instances read anew where there may be something new to see.
    async fn take_in(&mut self, reading: GroupReading, begun: Instant, taken_in: TakenIn) {
        if self.is_outdated(begun) {
            return;
        }
        let at = self.around.cloud.now();
        let observation = if reading.instances.is_some() {
            Observation::new(reading, begun, at)
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
            || known.reading.version != reading.version
            || known.detailed.elapsed() > DETAIL_LIFE
            || !self.state.operations().is_empty()
            || !self.state.slots().is_empty()
            || known.instances.iter().any(|instance| instance.state != InstanceState::Running)
    }

    /// A listing lacks the group: it is let go of only if the cloud, asked for it by name, does not know it either.
    async fn look_for(&mut self, begun: Instant, _taken_in: TakenIn) {
        if self.is_outdated(begun) {
            return;
        }
        match self.observe().await {
            Ok(Some(observation)) => self.consider(observation, None).await,
            Ok(None) => self.retire(),
            Err(error) => tracing::warn!(group = %self.key.name, source = %self.key.source, %error, "cannot be read"),
        }
    }

    fn retire(&mut self) {
        tracing::warn!(group = %self.key.name, source = %self.key.source, "the group is gone; no longer served");
        self.around.store.retire(&self.key);
        self.gone = true;
    }

    /// Publishes an observation, or, if it contradicts itself, waits for a second one (law 5).
    async fn consider(&mut self, observation: Observation, taken_in: Option<TakenIn>) {
        if let Some(why) = doubt(&self.state, &observation) {
            let confirmed = self.doubted.as_ref().is_some_and(|doubted| confirms(&doubted.observation, &observation));
            if !confirmed {
                tracing::warn!(
                    group = %self.key.name, source = %self.key.source, %why,
                    "the reading contradicts itself; not published until a second one confirms it"
                );
                let confirm_at = Instant::now() + CONFIRM_AFTER;
                self.doubted = Some(Doubted { observation, confirm_at, _taken_in: taken_in });
                return;
            }
            tracing::warn!(group = %self.key.name, source = %self.key.source, %why, "confirmed by a second reading");
        }
        self.doubted = None;
        let observation = self.with_activity(observation).await;
        self.adopt(observation);
        self.settle().await;
    }

    async fn confirm(&mut self) {
        match self.observe().await {
            Ok(Some(observation)) => self.consider(observation, None).await,
            Ok(None) => self.retire(),
            Err(error) => {
                tracing::warn!(group = %self.key.name, %error, "cannot be read a second time");
                if let Some(doubted) = &mut self.doubted {
                    doubted.confirm_at = Instant::now() + CONFIRM_AFTER * 5;
                    doubted._taken_in = None;
                }
            }
        }
    }

    /// Adds what the cloud says of recent launches, where instances are missing, or are more than they should be.
    async fn with_activity(&self, mut observation: Observation) -> Observation {
        let census = super::census::census(&observation, self.state.operations());
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
    async fn launch_activity(&self) -> Option<LaunchActivity> {
        match timeout(READ_LIMIT, self.around.cloud.launch_activity(&self.key.name)).await {
            Ok(Ok(activity)) => return Some(activity),
            Ok(Err(error)) => tracing::warn!(group = %self.key.name, %error, "launch activity cannot be read"),
            Err(_elapsed) => tracing::warn!(group = %self.key.name, "launch activity cannot be read in time"),
        }
        None
    }

    fn adopt(&mut self, observation: Observation) {
        let reading = observation.reading.clone();
        let cloud = Arc::clone(&self.around.cloud);
        self.state.observe(observation, &|label| cloud.placeholder(&reading, label));
        if self.hinted.as_ref().is_none_or(|(hints, _)| *hints != reading.hints) {
            self.hinted = Some((Arc::clone(&reading.hints), Options::from_tags(&reading.hints.options)));
        }
        self.ask_for_template(&reading);
        self.publish();
    }

    /// Reads the group and its instances.
    async fn observe(&self) -> Result<Option<Observation>, CloudError> {
        let (begun, at) = (Instant::now(), self.around.cloud.now());
        let reading = timeout(READ_LIMIT, self.around.cloud.observe(&self.key.name))
            .await
            .unwrap_or_else(|_elapsed| Err(self.timed_out("observe")))?;
        Ok(reading.and_then(|reading| Observation::new(reading, begun, at)))
    }

    async fn read_or_warn(&mut self) -> Option<Observation> {
        match self.observe().await {
            Ok(observation) => observation,
            Err(error) => {
                tracing::warn!(group = %self.key.name, source = %self.key.source, %error, "instances cannot be read");
                None
            }
        }
    }

    /// Reads the group for a write (law 2).
    async fn fresh(&mut self) -> Result<(), FleetError> {
        let observation = self.read_until_believed().await?;
        self.adopt_fresh(observation);
        Ok(())
    }

    /// Reads the group again and again, a few times, until the reading does not contradict itself (law 5).
    async fn read_until_believed(&mut self) -> Result<Observation, FleetError> {
        let mut doubted: Option<Observation> = None;
        let mut reason = String::new();
        for _ in 0..CONFIRM_READS {
            let Some(observation) = self.observe().await.map_err(|error| self.cloud_error(error))? else {
                self.retire();
                return Err(FleetError::UnknownGroup { id: self.key.name.to_string() });
            };
            let Some(why) = doubt(&self.state, &observation) else { return Ok(observation) };
            if doubted.as_ref().is_some_and(|doubted| confirms(doubted, &observation)) {
                return Ok(observation);
            }
            tracing::warn!(group = %self.key.name, %why, "not written on until a second reading confirms it");
            reason = format!("its readings contradict each other ({why})");
            doubted = Some(observation);
            tokio::time::sleep(CONFIRM_AFTER).await;
        }
        Err(FleetError::Contended { group: self.group_id(), reason })
    }

    /// The same, unless the last reading is younger than the last write.
    async fn fresh_since_the_last_write(&mut self) -> Result<(), FleetError> {
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

    fn ask_for_template(&mut self, reading: &GroupReading) {
        let learned = self.around.catalog.learned(&self.key.to_string());
        let due = self.template_asked.as_ref().is_none_or(|asked| {
            let life = if matches!(self.template, TemplateState::Ready(_)) { TEMPLATE_LIFE } else { TEMPLATE_RETRY };
            asked.recipe != reading.recipe || asked.learned != learned || asked.at.elapsed() > life
        });
        if !due {
            return;
        }
        let job = TemplateJob { reading: reading.clone(), id: self.group_id(), reply: self.mailbox.clone() };
        if self.around.templates.try_send(job).is_ok() {
            self.template_asked = Some(TemplateAsked { recipe: reading.recipe, learned, at: Instant::now() });
        }
    }

    fn adopt_template(&mut self, template: TemplateState) {
        if let TemplateState::Unavailable(reason) = &template {
            tracing::warn!(group = %self.key.name, source = %self.key.source, %reason, "no template can be built");
            // The last good one still describes the nodes better than none would.
            if matches!(self.template, TemplateState::Ready(_)) {
                return;
            }
        }
        if let TemplateState::Ready(template) = &template {
            self.tell_of_spread(template);
        }
        self.template = template;
        self.publish();
    }

    /// Warns of machine types that are far apart, once until it is something else that is wrong.
    fn tell_of_spread(&self, template: &NodeTemplate) {
        let before = match &self.template {
            TemplateState::Ready(template) => complaint(&template.spreads),
            _ => None,
        };
        if let Some(problem) = complaint(&template.spreads).filter(|problem| before.as_ref() != Some(problem)) {
            tracing::warn!(group = %self.key.name, source = %self.key.source, %problem, "an uneven node group");
        }
    }

    fn publish(&self) {
        let (Some(observation), Some(tally)) = (self.state.observation(), self.state.tally()) else { return };
        let reading = &observation.reading;
        let max = match reading.growth {
            Permit::Granted => reading.max,
            // CA chooses no group that is at its maximum.
            Permit::Withheld(_) => tally.target.max(reading.min),
        };
        let policy = self.around.policies.of(&self.group_id());
        let tagged = self.hinted.as_ref().map(|(_, options)| *options).unwrap_or_default();
        self.around.store.publish(GroupView {
            key: self.key.clone(),
            family: self.around.cloud.family(),
            min: reading.min,
            max,
            tally: Arc::new(tally),
            template: self.template.clone(),
            options: tagged.merge(&policy.options),
            observed: observation.begun,
            mailbox: self.mailbox.clone(),
        });
    }

    fn next_operation(&self) -> OperationId {
        OperationId(self.around.operation_ids.fetch_add(1, Ordering::Relaxed))
    }

    /// Names placeholders in the form of the group's instances.
    fn placeholder_names(&self) -> impl Fn(&str) -> ProviderId + Send + Sync + use<> {
        let cloud = Arc::clone(&self.around.cloud);
        let reading = self.state.observation().map(|observation| observation.reading.clone());
        move |label| match &reading {
            Some(reading) => cloud.placeholder(reading, label),
            None => ProviderId::from(label),
        }
    }

    /// The ID the group is served under.
    fn group_id(&self) -> Arc<str> {
        self.around.store.served_id(&self.key)
    }

    fn cloud_error(&self, error: CloudError) -> FleetError {
        FleetError::Cloud { group: self.group_id(), error: Arc::new(error) }
    }

    fn timed_out(&self, operation: &'static str) -> CloudError {
        CloudError::Unreachable(Box::new(Fault {
            operation,
            subject: self.key.name.to_string(),
            code: None,
            message: "no answer in time".to_owned(),
            source: None,
        }))
    }
}
