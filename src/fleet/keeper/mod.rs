//! The keeper: the task that owns one group. It alone writes to the group and publishes it, one thing after another, which is
//! the group's lock.
//!
//! `starting.rs` waits for the first observation; `observe.rs` adopts observations; `publish.rs` publishes them; `fresh.rs`
//! reads for writes; `batch.rs` carries requests out, with `delete.rs`, `removal.rs`, `grow.rs` and `capacity.rs`; `held.rs`
//! holds responses for the outcome; `operations.rs` sees operations to their end; `settle.rs` raises back and writes deferred
//! reductions; `side.rs` holds the work beside the keeper; `templates.rs` keeps the template.

mod attempts;
mod batch;
mod capacity;
mod context;
mod delete;
mod doubted;
mod fresh;
mod grow;
mod held;
mod observe;
mod operations;
mod publish;
mod reader;
mod removal;
mod settle;
mod side;
mod starting;
mod templates;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::error::{FleetError, Refusal};
use super::limits::MAILBOX;
use super::mailbox::{Adoption, Mailbox, Message};
use super::observation::Observation;
use super::operation::OperationId;
use super::options::Options;
use super::snapshot::{GroupKey, TemplateState};
use super::state::GroupState;
use crate::cloud::{GroupHints, GroupReading, ProviderId, differ};
use crate::tasks::TaskKind;
pub(super) use context::KeeperContext;
use doubted::Doubted;
use operations::FailedOperation;
use reader::GroupReader;
use side::{Finding, SideTasks};
use starting::StartingKeeper;
use templates::TemplateRequest;

/// The owner of one group.
pub(super) struct Keeper {
    key: GroupKey,
    context: KeeperContext,
    inbox: mpsc::Receiver<Message>,
    mailbox: Mailbox,
    backlog: VecDeque<Message>,
    reader: GroupReader,
    side: SideTasks,
    state: GroupState,
    doubted: Option<Doubted>,
    /// Operations that the cloud reports as failed, until an observation that is younger than the report.
    failed: Vec<FailedOperation>,
    /// Where responses that are held for a deletion learn which of its instances live on if it fails.
    held: BTreeMap<OperationId, watch::Sender<Option<BTreeSet<ProviderId>>>>,
    /// Instances that a preempted deletion named, until they are deleted once more.
    to_resubmit: BTreeSet<ProviderId>,
    /// Until when they are sent again.
    resubmit_until: Option<Instant>,
    /// When the last write ended. A read that began before that does not show it.
    written: Option<Instant>,
    /// When the last read beside the keeper began that was adopted.
    read_beside: Option<Instant>,
    /// When the group is to be read next without a request.
    look_at: Option<Instant>,
    /// Until when the outcome of a capacity write may still show.
    unsettled_until: Option<Instant>,
    /// The capacity that was last raised back to, and when the cloud accepted it.
    raised_back: Option<(u32, Instant)>,
    is_activity_denied: bool,
    /// What the group's tags set, read once for each time they change.
    tagged: Option<(Arc<GroupHints>, Options)>,
    template: TemplateState,
    template_request: Option<TemplateRequest>,
    /// The launch fingerprint of the group when the served template was requested.
    template_fingerprint: Option<u64>,
    is_gone: bool,
}

/// Starts the keeper of a group, which lives as long as the returned sender, or until the group is gone.
pub(super) fn start(key: GroupKey, context: KeeperContext) -> mpsc::Sender<Message> {
    let (mailbox, inbox) = mpsc::channel(MAILBOX);
    let reader = GroupReader::new(&context, &key.name);
    let weak = Mailbox::new(&mailbox);
    let mut starting = StartingKeeper { key, context, inbox, reader, mailbox: weak };
    let (tasks, name) = (starting.context.tasks.clone(), starting.key.to_string());
    tokio::spawn(async move {
        // Boxed, because each future around it would hold it once more: 8 kB a time, in each group.
        let keeping = Box::pin(async move {
            if let Some((observation, adoption)) = starting.observe().await {
                starting.into_keeper(observation).run(adoption).await;
            }
        });
        // What a keeper knew when it panicked may be wrong. The next listing starts another one, which derives everything again
        // from the cloud; until then the last status is served, and writes are refused.
        if let Err(panic) = tasks.guard(TaskKind::NodeGroup, keeping).await {
            tasks.note(TaskKind::NodeGroup, &name);
            tracing::error!(group = name, panic, "the task of a node group panicked; the next listing starts it again");
        }
    });
    mailbox
}

impl Keeper {
    fn new(starting: StartingKeeper, observation: Observation) -> Self {
        let StartingKeeper { key, context, inbox, reader, mailbox } = starting;
        let (cloud, reading) = (Arc::clone(&context.cloud), observation.reading.clone());
        let side = SideTasks::new(&context.tasks, &key);
        Self {
            state: GroupState::new(observation, &|label| cloud.placeholder(&reading, label)),
            key,
            context,
            inbox,
            mailbox,
            backlog: VecDeque::new(),
            reader,
            side,
            doubted: None,
            failed: Vec::new(),
            held: BTreeMap::new(),
            to_resubmit: BTreeSet::new(),
            resubmit_until: None,
            written: None,
            read_beside: None,
            look_at: None,
            unsettled_until: None,
            raised_back: None,
            is_activity_denied: false,
            tagged: None,
            template: TemplateState::Pending,
            template_request: None,
            template_fingerprint: None,
            is_gone: false,
        }
    }

    async fn run(mut self, adoption: Option<Adoption>) {
        self.publish_observed();
        if self.state.census().shortfall > 0 {
            self.side.read_activity(&self.reader, self.state.unexplained_shortfall());
        }
        drop(adoption);
        while !self.is_gone {
            if let Some(message) = self.backlog.pop_front() {
                self.receive(message).await;
                continue;
            }
            let wake = [self.doubted.as_ref().map(|doubted| doubted.confirm_at), self.look_at];
            let wake = wake.into_iter().flatten().min();
            tokio::select! {
                biased; // so that a seed decides what a simulation does; waking plans the next time, so nothing starves
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => self.wake(),
                Some(finding) = self.side.next(), if !self.side.is_empty() => self.take(finding).await,
                message = self.inbox.recv() => match message {
                    Some(message) => self.receive(message).await,
                    None => break,
                },
            }
        }
    }

    async fn receive(&mut self, message: Message) {
        match message {
            Message::Mutate(request) => self.serve(request).await,
            Message::Listed { reading, begun, adoption } => self.see_listed(*reading, begun, adoption).await,
            Message::NotListed { begun, adoption } => self.look_for(begun, adoption),
            Message::Publish => self.publish(),
            Message::Drain(done) => {
                let _nobody_waits = done.send(());
            }
        }
    }

    async fn take(&mut self, finding: Finding) {
        match finding {
            Finding::Read(read, adoption) => self.see_read(read, adoption).await,
            Finding::Activity(activity) => self.see_activity(activity).await,
            Finding::Polled(operation, end) => self.polled(operation, end),
            Finding::Template(Some(built)) => self.adopt_template(built),
            Finding::Template(None) => self.template_was_lost(),
            // The next listing or observation has the same work done again.
            Finding::Panicked(_) => {}
        }
    }

    /// Reads the group beside the keeper, because a doubt is to be confirmed or something is expected to show.
    fn wake(&mut self) {
        let now = Instant::now();
        if let Some(doubted) = self.doubted.as_mut().filter(|doubted| doubted.confirm_at <= now) {
            doubted.confirm_at = now + super::limits::READ_LIMIT;
            self.side.read(&self.reader, None);
        }
        if self.look_at.is_some_and(|at| at <= now) {
            self.look_at = None;
            self.side.read(&self.reader, None);
            self.plan_look();
        }
    }

    fn retire(&mut self) {
        tracing::warn!(group = %self.group_id(), source = %self.key.source, "node group no longer exists; no longer served");
        self.context.journal.retire(&self.group_id());
        self.context.store.retire(&self.key);
        self.is_gone = true;
    }

    fn adopt(&mut self, observation: Observation) {
        if self.is_another(&observation.reading) {
            return self.start_anew(observation);
        }
        let replaced = self.state.replaced_by(&observation);
        self.to_resubmit.retain(|id| !replaced.contains(id));
        let reported = self.take_failed(&observation);
        if reported.is_empty() {
            let names = self.placeholder_names_of(&observation);
            let _lost = self.state.observe(observation, &names);
        } else {
            self.fail(&reported, &observation);
        }
        self.publish_observed();
    }

    /// Whether this is a reading of another group than the last one, under the same name.
    fn is_another(&self, reading: &GroupReading) -> bool {
        differ(self.state.observation().reading.identity, reading.identity)
    }

    /// The group was deleted and created again: nothing that was known of the old one applies to the new one, and nothing that was
    /// requested from the old one is sent to it.
    fn start_anew(&mut self, observation: Observation) {
        tracing::warn!(
            group = %self.group_id(), source = %self.key.source,
            "node group was deleted and created again under its name; operations on the old one are dropped"
        );
        self.state = GroupState::new(observation.clone(), &self.placeholder_names_of(&observation));
        (self.failed, self.held, self.to_resubmit) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        (self.resubmit_until, self.unsettled_until, self.raised_back) = (None, None, None);
        (self.template_request, self.template_fingerprint) = (None, None);
        self.publish_observed();
    }

    /// A reading, with what the configuration says about the group's capacity.
    fn with_policy(&self, reading: GroupReading) -> GroupReading {
        self.context.policies.applied_to(&self.group_id(), reading)
    }

    /// Whether a write may begin; every write starts here. In read-only mode, logs what would have been written and returns
    /// the error for the caller.
    fn permit_write(&self, intended: String) -> Result<(), FleetError> {
        if !self.context.read_only {
            return Ok(());
        }
        tracing::info!(group = %self.group_id(), intended, "read-only: the write is refused");
        Err(FleetError::Refused { group: self.group_id(), refusal: Refusal::ReadOnly { intended } })
    }

    fn next_operation(&self) -> OperationId {
        OperationId(self.context.operation_ids.fetch_add(1, Ordering::Relaxed))
    }

    /// Names placeholders in the form of the group's instances.
    fn placeholder_names(&self) -> impl Fn(&str) -> ProviderId + Send + Sync + use<> {
        self.placeholder_names_of(self.state.observation())
    }

    fn placeholder_names_of(&self, observation: &Observation) -> impl Fn(&str) -> ProviderId + Send + Sync + use<> {
        let (cloud, reading) = (Arc::clone(&self.context.cloud), observation.reading.clone());
        move |label| cloud.placeholder(&reading, label)
    }

    /// The ID that the group is served under.
    fn group_id(&self) -> Arc<str> {
        self.context.store.served_id(&self.key)
    }
}
