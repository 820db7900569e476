//! The keeper: the task that drives one group. It alone writes to the group and publishes it. It decides nothing: it
//! carries out the effects of [`crate::group::Group`], and returns their results to it as events.
//!
//! `starting.rs` waits for the first observation; `reader.rs` reads the group; `side.rs` holds the work beside the
//! writes; `publish.rs` publishes the status; `log.rs` writes the log; `templates.rs` keeps the template.

mod context;
mod log;
mod publish;
mod reader;
mod side;
mod starting;
mod templates;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::Instrument as _;

use super::error::FleetError;
use super::limits::{MAILBOX, WRITE_LIMIT};
use super::mailbox::{Adoption, Mailbox, Message};
use super::options::Options;
use super::policy::ForeignPolicy;
use super::recording::Recorder;
use super::request::{Caller, Incoming};
use super::snapshot::GroupKey;
use crate::cloud::{CloudError, GroupHints, GroupReading, LaunchRequest, ProviderId, ZoneName};
use crate::group::{
    Effect, Event, Foreign, Group, ListingKey, Mutation, NamedNode, NodeKind, Observation, ReadResult, Request,
    RequestKey, Scope,
};
use crate::tasks::TaskKind;
pub(super) use context::KeeperContext;
pub(super) use log::write as write_note;
use reader::GroupReader;
use side::{Finding, Polled, SideTasks};
use starting::StartingKeeper;
use templates::Template;

/// A cloud call that a write waits for.
type Call = Pin<Box<dyn Future<Output = Event> + Send>>;

/// The driver of one group.
pub(super) struct Keeper {
    key: GroupKey,
    context: KeeperContext,
    inbox: mpsc::Receiver<Message>,
    mailbox: Mailbox,
    /// Messages that were received with a request, and wait until it was taken.
    backlog: VecDeque<Message>,
    reader: GroupReader,
    side: SideTasks,
    group: Group,
    recorder: Recorder,
    /// The cloud call that a write waits for.
    call: Option<Call>,
    callers: BTreeMap<RequestKey, Caller>,
    listings: BTreeMap<ListingKey, Adoption>,
    drains: Vec<oneshot::Sender<()>>,
    last_key: u64,
    /// What the tokens of its launches begin with. No other keeper has it.
    tokens: String,
    /// What the group's tags set, read once for each time they change.
    tagged: Option<(Arc<GroupHints>, Options)>,
    /// The templates of the group, or of its zones.
    templates: BTreeMap<Option<ZoneName>, Template>,
    /// The zones that were published last; `None` for the whole group.
    published: BTreeSet<Option<ZoneName>>,
    /// Why no scale-up reaches the cloud for more than a minute, as it was published last.
    paused: Option<String>,
}

/// Starts the keeper of a group, which lives as long as the returned sender, or until the group is gone.
pub(super) fn start(key: GroupKey, context: KeeperContext) -> mpsc::Sender<Message> {
    let (mailbox, inbox) = mpsc::channel(MAILBOX);
    let reader = GroupReader::new(&context, &key);
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
        // What a keeper knew when it panicked may be wrong. The next listing starts another one, which derives
        // everything again from the cloud; until then the last status is served, and writes are refused.
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
        let recorder = context.recordings.recorder(&key);
        // What a task of the group published before it ended.
        let published = context.store.zones_of(&key);
        let side = SideTasks::new(&context.tasks, &key);
        Self {
            group: Group::new(observation, context.read_only),
            recorder,
            key,
            context,
            inbox,
            mailbox,
            backlog: VecDeque::new(),
            reader,
            side,
            call: None,
            callers: BTreeMap::new(),
            listings: BTreeMap::new(),
            drains: Vec::new(),
            last_key: 0,
            tokens: format!("headcount-{:016x}", fastrand::u64(..)),
            tagged: None,
            templates: BTreeMap::new(),
            published,
            paused: None,
        }
    }

    async fn run(mut self, adoption: Option<Adoption>) {
        self.happen(Event::Started);
        drop(adoption);
        while !self.group.is_gone() {
            if let Some(message) = self.backlog.pop_front() {
                self.receive(message);
                continue;
            }
            let wake = self.group.wake_at().map(|time| self.context.clock.instant(time));
            tokio::select! {
                biased; // so that a seed decides what a simulation does; waking plans the next time, so nothing starves
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => self.happen(Event::Woke),
                event = answer(&mut self.call), if self.call.is_some() => {
                    self.call = None;
                    self.happen(event);
                }
                Some(finding) = self.side.next(), if !self.side.is_empty() => self.found(finding),
                message = self.inbox.recv() => match message {
                    Some(message) => self.receive(message),
                    None => break,
                },
            }
        }
    }

    fn receive(&mut self, message: Message) {
        match message {
            Message::Mutate(incoming) => self.request(incoming),
            Message::Listed { reading, begun, adoption } => {
                let listing = self.keep(adoption);
                self.happen(Event::Listed(self.context.listed(Ok(reading), begun), listing));
            }
            Message::Unreadable { reason, begun, adoption } => {
                let listing = self.keep(adoption);
                let error = CloudError::unintelligible("list", self.key.name.as_str(), reason);
                self.happen(Event::Listed(self.context.listed(Err(error), begun), listing));
            }
            Message::NotListed { begun, adoption } => {
                let listing = self.keep(adoption);
                self.happen(Event::NotListed(self.context.clock.time(begun), listing));
            }
            Message::Publish => self.publish(),
            Message::Drain(done) => {
                self.drains.push(done);
                self.end_drains();
            }
        }
    }

    /// Hands requests to the group: this one, and all that wait already.
    fn request(&mut self, first: Incoming) {
        self.context.pulse.note_activity();
        let mut requests: Vec<_> = self.accept(first).into_iter().collect();
        while let Ok(message) = self.inbox.try_recv() {
            match message {
                Message::Mutate(incoming) => requests.extend(self.accept(incoming)),
                other => self.backlog.push_back(other),
            }
        }
        if !requests.is_empty() {
            self.happen(Event::Requested(requests));
        }
    }

    fn accept(&mut self, incoming: Incoming) -> Option<Request> {
        let Incoming { mutation, zone, deadline, caller } = incoming;
        if self.callers.len() >= MAILBOX {
            caller.respond(Err(FleetError::Busy { group: self.group_id() }));
            return None;
        }
        let mutation = self.with_known_nodes(mutation);
        let key = RequestKey(self.next_key());
        let foreign = self.foreign(zone.as_ref(), &mutation);
        self.callers.insert(key, caller);
        let mut request = Request::new(key, mutation, self.context.clock.time(deadline.send_by));
        request.is_cloud_lost = self.context.reach.is_lost();
        request.foreign = foreign;
        request.zone = zone;
        Some(request)
    }

    /// What CA calls unregistered is judged as a node where the cluster has it as one.
    fn with_known_nodes(&self, mutation: Mutation) -> Mutation {
        let Mutation::Delete(nodes) = mutation else { return mutation };
        // The judgement is up to a minute old, and the watch is of this moment.
        let (judged, watched) = (self.context.cluster.load(Instant::now()), self.context.store.cluster_nodes());
        let is_node = |id: &ProviderId| judged.as_ref().is_some_and(|cluster| cluster.has(id)) || watched.has(id);
        let known = |node: NamedNode| match node.kind {
            NodeKind::Unregistered if is_node(&node.id) => NamedNode { kind: NodeKind::Joined, ..node },
            _ => node,
        };
        Mutation::Delete(nodes.into_iter().map(known).collect())
    }

    /// The named instances that seem to be another cluster's.
    fn foreign(&self, zone: Option<&ZoneName>, mutation: &Mutation) -> Option<Foreign> {
        if self.context.policies.of(&self.key).foreign == ForeignPolicy::Allow {
            return None;
        }
        let clusters = &self.group.state().observation().reading.hints.clusters;
        self.context.cluster.load(Instant::now())?.foreign(&self.key_of(zone), clusters, mutation.named())
    }

    fn next_key(&mut self) -> u64 {
        self.last_key += 1;
        self.last_key
    }

    fn keep(&mut self, adoption: Adoption) -> ListingKey {
        let key = ListingKey(self.next_key());
        self.listings.insert(key, adoption);
        key
    }

    /// Work beside the writes has ended.
    fn found(&mut self, finding: Finding) {
        match finding {
            Finding::Event(event) => self.happen(*event),
            Finding::Template(id, built) => self.template_built(id, built.map(|built| *built)),
            Finding::Nothing => {}
        }
    }

    /// Takes an event to the group, and carries out what it decides.
    fn happen(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let before = self.request_ids();
            let (now, at) = (self.context.clock.now(), self.context.cloud.now());
            let mut event = self.with_policy(event);
            self.recorder.happen(&self.group, now, at, &mut event);
            let effects = self.group.step(now, at, event);
            self.recorder.decide(&effects);
            // What is decided and sent is tied to the calls of the Cluster Autoscaler that it is for.
            let span = self.write_span(before);
            let _entered = span.enter();
            for effect in effects {
                self.carry_out(effect, &mut events);
            }
        }
        self.publish_pause();
        self.end_drains();
    }

    fn carry_out(&mut self, effect: Effect, events: &mut VecDeque<Event>) {
        match effect {
            Effect::Read { scope, limit } => {
                let reader = self.reader.clone();
                self.begin(async move {
                    Event::Read(match scope {
                        Scope::Capacity => reader.capacity(limit).await,
                        Scope::Instances => reader.instances_for_write(limit).await,
                    })
                });
            }
            Effect::ReadActivity { shortfall, limit } => {
                let reader = self.reader.clone();
                self.begin(async move { Event::Activity(reader.launch_activity(shortfall, limit).await) });
            }
            Effect::PollForWrite { operations, limit } => {
                let reader = self.reader.clone();
                self.begin(async move { reader.poll_once(operations, limit).await });
            }
            Effect::SetCapacity { basis, to, requests } => {
                if self.commit(&requests, events) {
                    let (context, reader) = (self.context.clone(), self.reader.clone());
                    self.begin(async move {
                        let outcome = timeout(WRITE_LIMIT, context.set_capacity(&basis, to)).await;
                        let lost = |_elapsed| Err(reader.timed_out("capacity write"));
                        Event::CapacityWritten(outcome.unwrap_or_else(lost))
                    });
                } else {
                    events.push_back(Event::CapacityWritten(Err(self.given_up("capacity write"))));
                }
            }
            Effect::Launch { operation, basis, number, zone, requests } => {
                if self.commit(&requests, events) {
                    let token = format!("{}-{operation}", self.tokens);
                    let launch = LaunchRequest { number, token, zone: zone.map(|zone| zone.to_string()) };
                    self.side.launch(&self.context, &self.reader, (operation, basis, launch));
                } else {
                    events.push_back(Event::Launched(operation, Err(self.given_up("launch"))));
                }
            }
            Effect::Delete { basis, ids, requests } => {
                if self.commit(&requests, events) {
                    let (context, reader) = (self.context.clone(), self.reader.clone());
                    self.begin(async move {
                        let outcome = timeout(WRITE_LIMIT, context.delete_instances(&basis, &ids)).await;
                        let lost = |_elapsed| Err(reader.timed_out("deletion"));
                        Event::Deleted(outcome.unwrap_or_else(lost))
                    });
                } else {
                    events.push_back(Event::Deleted(Err(self.given_up("deletion"))));
                }
            }
            Effect::ReadBeside(listing) => self.side.read(&self.reader, listing),
            Effect::ReadActivityBeside(shortfall) => self.side.read_activity(&self.reader, shortfall),
            Effect::Poll(operation, handle) => {
                let is_deletion = self.group.state().in_flight().deleted_by(operation).is_some();
                let polled = if is_deletion { Polled::Deletion } else { Polled::Capacity };
                self.side.poll(&self.context.cloud, self.group_id(), operation, polled, handle);
            }
            Effect::Begin(request) => {
                if let Some(caller) = self.callers.get(&request) {
                    caller.begin();
                }
            }
            Effect::Release(request) => {
                if let Some(caller) = self.callers.get(&request) {
                    caller.release();
                }
            }
            Effect::Respond(request, outcome) => {
                if let Some(caller) = self.callers.remove(&request) {
                    caller.respond(outcome.map_err(|error| FleetError::of(self.group_id(), error)));
                }
            }
            Effect::Adopted(listing) => drop(self.listings.remove(&listing)),
            Effect::Publish => self.publish_observed(),
            Effect::Retire => self.retire_published(&BTreeSet::new()),
            Effect::Log(note) => self.log(note),
        }
    }

    /// Begins a cloud call. What it logs is tied to the same calls.
    fn begin(&mut self, call: impl Future<Output = Event> + Send + 'static) {
        self.call = Some(Box::pin(call.in_current_span()));
    }

    /// The IDs of the calls whose requests are being carried out.
    fn request_ids(&self) -> Vec<String> {
        let ids = self.group.requests_in_work().filter_map(|key| self.callers.get(&key)?.id);
        ids.map(|id| id.to_string()).collect()
    }

    /// A span that names the calls of the Cluster Autoscaler that something is done for: those of now, or those of a
    /// moment `before`.
    fn write_span(&self, before: Vec<String>) -> tracing::Span {
        let now = self.request_ids();
        let ids = if now.is_empty() { before } else { now };
        if ids.is_empty() {
            return tracing::Span::none();
        }
        tracing::info_span!("write", group = %self.group_id(), request_id = ids.join(","))
    }

    /// Commits to sending a write for these requests. If any caller has given up, nothing is sent.
    fn commit(&mut self, requests: &[RequestKey], events: &mut VecDeque<Event>) -> bool {
        let has_given_up = |key: &&RequestKey| self.callers.get(key).is_none_or(|caller| !caller.commit());
        let given_up: BTreeSet<RequestKey> = requests.iter().filter(has_given_up).copied().collect();
        let is_committed = given_up.is_empty();
        // Nobody waits for a response to these.
        self.callers.retain(|key, _| !given_up.contains(key));
        if !is_committed {
            events.push_back(Event::Withdrawn(given_up));
        }
        is_committed
    }

    fn given_up(&self, operation: &'static str) -> CloudError {
        CloudError::conflict(operation, self.key.name.as_str(), "a caller gave up before it was sent")
    }

    /// What an event brings, with what the configuration says about the group's capacity.
    fn with_policy(&self, event: Event) -> Event {
        match event {
            Event::Listed(read, listing) => Event::Listed(self.policed(read), listing),
            Event::Read(read) => Event::Read(self.policed(read)),
            Event::ReadBeside(read, listing) => Event::ReadBeside(self.policed(read), listing),
            other => other,
        }
    }

    fn policed(&self, read: ReadResult) -> ReadResult {
        let apply = |reading: Box<GroupReading>| Box::new(self.context.policies.applied_to(&self.key, *reading));
        ReadResult { reading: read.reading.map(|reading| reading.map(apply)), ..read }
    }

    fn end_drains(&mut self) {
        if self.group.is_idle() {
            for done in self.drains.drain(..) {
                let _nobody_waits = done.send(());
            }
        }
    }

    /// The node groups that the group is served as: one for each zone, or itself.
    fn served(&self) -> BTreeSet<Option<ZoneName>> {
        let zones: BTreeSet<_> = self.group.zones().into_iter().map(Some).collect();
        if zones.is_empty() { BTreeSet::from([None]) } else { zones }
    }

    /// The key of the group, or of a zone of it.
    fn key_of(&self, zone: Option<&ZoneName>) -> GroupKey {
        let name = zone.map_or_else(|| self.key.name.clone(), |zone| self.key.name.in_zone(zone));
        GroupKey { source: Arc::clone(&self.key.source), name }
    }

    /// The ID that the group, or a zone of it, is served under.
    fn served_id(&self, zone: Option<&ZoneName>) -> Arc<str> {
        self.context.store.served_id(&self.key_of(zone))
    }

    /// The ID of the group as a whole.
    fn group_id(&self) -> Arc<str> {
        self.served_id(None)
    }
}

/// What the call returns, if there is one.
async fn answer(call: &mut Option<Call>) -> Event {
    match call {
        Some(call) => call.await,
        None => pending().await,
    }
}
