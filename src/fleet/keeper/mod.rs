//! The keeper: the task that owns one group. It alone reads the group for writing, writes to it, and publishes it, one
//! thing after another, which is the group's lock.
//!
//! `reading.rs` takes observations in; `batch.rs` carries requests out, with `remove.rs`, `grow.rs` and `capacity.rs`;
//! `follow.rs` sees operations to their end; `templates.rs` keeps the node template.

mod batch;
mod capacity;
mod follow;
mod grow;
mod reading;
mod remove;
mod templates;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::error::FleetError;
use super::observation::Observation;
use super::operation::OperationId;
use super::options::Options;
use super::policy::Policies;
use super::request::Request;
use super::snapshot::{GroupKey, GroupView, Store, TemplateState};
use super::state::GroupState;
use super::template_builder::{Built, TemplateJob};
use crate::cloud::{CloudError, GroupHints, GroupReading, Permit, ProviderId, SharedCloud};
use crate::instance_types::{Catalog, LearnedTypes};

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
    Template(Built),
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
    /// LaunchSpec types, and what nodes were seen to hold.
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
    launch_fingerprint: u64,
    learned: Option<Arc<LearnedTypes>>,
    at: Instant,
    /// Whether the answer was that the cloud could not be asked.
    hindered: bool,
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
            Message::Template(built) => self.adopt_template(built),
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

    fn retire(&mut self) {
        tracing::warn!(group = %self.group_id(), source = %self.key.source, "the group is gone; no longer served");
        self.around.store.retire(&self.key);
        self.gone = true;
    }

    fn adopt(&mut self, observation: Observation) {
        let reading = observation.reading.clone();
        let cloud = Arc::clone(&self.around.cloud);
        self.state.observe(observation, &|label| cloud.placeholder(&reading, label));
        if self.hinted.as_ref().is_none_or(|(hints, _)| *hints != reading.hints) {
            self.hinted =
                Some((Arc::clone(&reading.hints), Options::from_tags(&self.group_id(), &reading.hints.options)));
        }
        self.ask_for_template(&reading);
        self.publish();
    }

    fn publish(&self) {
        let (Some(observation), Some(status)) = (self.state.observation(), self.state.status()) else { return };
        let reading = &observation.reading;
        let max = match reading.growth {
            Permit::Granted => reading.max,
            // CA chooses no group that is at its maximum.
            Permit::Withheld(_) => status.target.max(reading.min),
        };
        let policy = self.around.policies.of(&self.group_id());
        let tagged = self.hinted.as_ref().map(|(_, options)| *options).unwrap_or_default();
        self.around.store.publish(GroupView {
            key: self.key.clone(),
            family: self.around.cloud.family(),
            min: reading.min,
            max,
            status: Arc::new(status),
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
        CloudError::unreachable(operation, self.key.name.as_str(), "no answer in time")
    }
}
