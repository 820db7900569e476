//! The heart: which groups there are, how big they are, and every decision about changing that.
//!
//! ```text
//!   source ──listing──▶ keeper (one per group) ──status──▶ snapshot ◀── every read
//!                         ▲    │
//!        every mutation ──┘    └── fresh reading, laws, one write ──▶ cloud
//! ```
//!
//! What decides is pure and lives in `census`, `doubt`, `plan`, `placeholder`, `state` and `status`; what drives it is in
//! `keeper` and `source`. Clouds are seen only through [`crate::cloud::Cloud`].

mod accounting;
mod census;
mod contact;
mod deadline;
mod doubt;
mod error;
mod in_flight;
mod journal;
mod keeper;
mod learning;
mod limits;
mod mailbox;
mod observation;
mod operation;
pub mod options;
mod placeholder;
mod plan;
mod policy;
mod request;
mod request_id;
mod snapshot;
mod source;
mod state;
mod status;
mod surplus;
mod tasks;
mod template_builder;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

pub use contact::LastCall;
pub use deadline::Deadline;
pub use error::{FleetError, Refusal};
pub use journal::{Decision, JOURNAL_FAMILIES, Journal, Notice, RequestKind, RequestResult, UnfinishedOperation};
use learning::LearnedState;
pub use learning::{Learner, recall};
pub use limits::LEARN_EVERY;
pub use plan::NamedNode;
pub use policy::{LivePolicies, Policies, Policy};
pub use request::Mutation;
pub use request_id::RequestId;
pub use snapshot::{GroupKey, GroupView, Newcomers, Snapshot, TemplateState};
pub use source::Health;
pub use status::{GroupStatus, ReportedInstance};
pub use tasks::{Restarts, TaskHealth, Tasks};
pub use template_builder::{BuiltTemplate, TemplateBuilder};

use crate::cloud::{Budget, ProviderId, ReadOnlyCloud, Recognition, SharedCloud};
use crate::instance_types::{Catalog, Table};
use crate::kubernetes::KubernetesApi;
use crate::template::NodeTemplate;
use contact::Contact;
use journal::RequestRecord;
use keeper::KeeperContext;
use limits::{NODES_PER_CALL, REFRESH_WAIT, STALE_AFTER, WAIT_FOR_ALL_SOURCES};
use mailbox::{Mailbox, Undelivered};
use request::Request;
use snapshot::Store;
use source::Source;

/// What a fleet is made of.
pub struct Settings<C = SharedCloud> {
    /// The sources, by name.
    pub sources: Vec<(Arc<str>, C)>,
    /// How often each is listed: 1 s to 10 min.
    pub refresh_interval: Duration,
    /// LaunchSpec types.
    pub catalog: Arc<Catalog>,
    /// The configuration's say on groups.
    pub policies: Arc<Policies>,
    /// Whether everything that needs a write is refused.
    pub read_only: bool,
}

/// All sources and their groups.
pub struct Fleet {
    store: Arc<Store>,
    sources: Vec<Source>,
    clouds: HashMap<Arc<str>, ReadOnlyCloud>,
    catalog: Arc<Catalog>,
    policies: Arc<LivePolicies>,
    tasks: Tasks,
    started: Instant,
    interval: Duration,
    read_only: bool,
    ready: watch::Receiver<bool>,
    journal: Arc<Journal>,
    contact: Contact,
}

impl Fleet {
    /// Starts watching all sources.
    pub fn start(settings: Settings) -> Self {
        Self::watch(settings, |cloud| (Arc::clone(cloud) as ReadOnlyCloud, Some(Arc::clone(cloud))))
    }

    /// Starts watching all sources without a way to write to them: for commands that only read.
    pub fn start_reading(settings: Settings<ReadOnlyCloud>) -> Self {
        Self::watch(settings, |cloud| (Arc::clone(cloud), None))
    }

    fn watch<C>(settings: Settings<C>, access: impl Fn(&C) -> (ReadOnlyCloud, Option<SharedCloud>)) -> Self {
        let store = Arc::new(Store::default());
        let operation_ids = Arc::new(AtomicU64::new(1));
        let journal = Arc::new(Journal::default());
        let policies = Arc::new(LivePolicies::new(settings.policies));
        let tasks = Tasks::default();
        let sources: Vec<Source> = settings
            .sources
            .iter()
            .map(|(name, cloud)| {
                let (cloud, writer) = access(cloud);
                let builder = TemplateBuilder {
                    source: Arc::clone(name),
                    cloud: Arc::clone(&cloud),
                    catalog: Arc::clone(&settings.catalog),
                    policies: Arc::clone(&policies),
                    is_lookup_failing: Arc::default(),
                };
                let read_only = settings.read_only || writer.is_none();
                let context = KeeperContext {
                    cloud,
                    writer,
                    store: Arc::clone(&store),
                    policies: Arc::clone(&policies),
                    tasks: tasks.clone(),
                    operation_ids: Arc::clone(&operation_ids),
                    journal: Arc::clone(&journal),
                    templates: builder.start(),
                    catalog: Arc::clone(&settings.catalog),
                    read_only,
                };
                Source::start(Arc::clone(name), context, settings.refresh_interval)
            })
            .collect();
        let ready = watch_readiness(sources.iter().map(|source| source.health.clone()).collect());
        Self {
            store,
            sources,
            clouds: settings.sources.iter().map(|(name, cloud)| (Arc::clone(name), access(cloud).0)).collect(),
            catalog: settings.catalog,
            policies,
            tasks,
            started: Instant::now(),
            interval: settings.refresh_interval,
            read_only: settings.read_only,
            ready,
            journal,
            contact: Contact::new(),
        }
    }

    /// The snapshot that reads are served from.
    pub fn snapshot(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.store.load()
    }

    /// What the fleet did lately.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Notes that the Cluster Autoscaler called.
    pub fn note_call(&self) {
        self.contact.called();
    }

    /// Notes which releases the calling Cluster Autoscaler looks like.
    pub fn note_dialect(&self, dialect: &'static str) {
        self.contact.speaks(dialect);
    }

    /// What is known of the calling Cluster Autoscaler.
    pub fn last_call(&self) -> LastCall {
        self.contact.last_call()
    }

    /// The group of a node that the Cluster Autoscaler asks about. Notes nodes that look like a source's and that no group
    /// lists.
    pub fn note_node(&self, provider_id: &str) -> Option<(Arc<str>, Arc<GroupView>)> {
        let found = self.snapshot().group_of(provider_id).map(|(id, view)| (Arc::clone(id), Arc::clone(view)));
        if found.is_some() {
            self.contact.matched(&ProviderId::from(provider_id));
        } else {
            let recognises = |source: &&Source| {
                self.clouds.get(&source.name).is_some_and(|cloud| cloud.recognise(provider_id) != Recognition::Foreign)
            };
            if let Some(source) = self.sources.iter().find(recognises) {
                self.contact.unmatched(ProviderId::from(provider_id), &source.name);
            }
        }
        found
    }

    /// How many nodes the Cluster Autoscaler asks about that look like a source's and that no group lists.
    pub fn unmatched_nodes(&self) -> HashMap<Arc<str>, u32> {
        self.contact.unmatched_nodes()
    }

    /// What remains of the call budgets of each source's cloud.
    pub fn budgets(&self) -> impl Iterator<Item = (&Arc<str>, Vec<Budget>)> {
        let of = |source| self.clouds.get(source).map(|cloud| cloud.budgets()).unwrap_or_default();
        self.sources.iter().map(move |source| (&source.name, of(&source.name)))
    }

    /// How each source is doing.
    pub fn sources(&self) -> impl Iterator<Item = (&Arc<str>, Health)> {
        self.sources.iter().map(|source| (&source.name, source.health.borrow().clone()))
    }

    /// Whether every source has been listed well once, or those that were have waited long enough for the others.
    pub fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Turns true when [`Fleet::is_ready`] does.
    pub fn readiness(&self) -> watch::Receiver<bool> {
        self.ready.clone()
    }

    /// Waits until [`Fleet::is_ready`], within the caller's time.
    pub async fn wait_ready(&self, until: Instant) -> Result<(), FleetError> {
        if self.is_ready() {
            return Ok(());
        }
        let mut ready = self.ready.clone();
        match timeout_at(until, ready.wait_for(|ready| *ready)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(FleetError::NotReady { reasons: self.problems().join("; ") }),
        }
    }

    /// The tasks of the process, for whoever has one to be supervised.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// For how long no source at all has been read.
    pub fn unread_for(&self) -> Duration {
        let last = self.sources().filter_map(|(_, health)| health.good).max();
        last.unwrap_or(self.started).elapsed()
    }

    /// What is wrong with each source that something is wrong with, in one word, and since when. The log has the texts.
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        for (name, health) in self.sources() {
            let since = match (health.problem.is_some(), health.good) {
                (false, Some(_)) => continue,
                (_, Some(good)) => format!("for {}s", good.elapsed().as_secs()),
                (_, None) => "since the start".to_owned(),
            };
            complaints.push(format!("source {name}: {}, not read {since}", health.why.unwrap_or("waiting")));
        }
        let failing = self.tasks.panicked().into_iter().filter(|(_, health)| health.is_failing());
        complaints.extend(failing.map(|(name, health)| format!("{name}: panicked, {} times", health.panics)));
        complaints
    }

    /// What is wrong with each source that something is wrong with.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (name, health) in self.sources() {
            match (&health.problem, health.good) {
                (Some(problem), _) => problems.push(format!("{name}: {problem}")),
                (None, None) if health.found > 0 => {
                    problems.push(format!("{name}: not listed yet, {} groups so far", health.found));
                }
                (None, None) => problems.push(format!("{name}: not listed yet")),
                (None, Some(_)) => {}
            }
        }
        problems
    }

    /// The sources whose listings take longer than the refresh interval: what they serve is older than configured.
    pub fn delays(&self) -> Vec<String> {
        let seconds = |time: Duration| humantime::format_duration(Duration::from_secs(time.as_secs())).to_string();
        let slow =
            self.sources().filter_map(|(name, health)| Some((name, health.took.filter(|took| *took > self.interval)?)));
        slow.map(|(name, took)| format!("{name}: slow, a listing takes {}", seconds(took))).collect()
    }

    /// Brings sources up to date that are older than the refresh interval. Fails only when none is fresh enough to
    /// go on with; writes read fresh anyway.
    pub async fn refresh(&self, until: Instant) -> Result<(), FleetError> {
        let until = until.min(Instant::now() + REFRESH_WAIT);
        let old: Vec<&Source> =
            self.sources.iter().filter(|source| self.is_old(source) && !source.is_paused(until)).collect();
        let waits = old.iter().map(|source| async {
            let listed = source.listed_again();
            source.ask();
            let _taking_longer = timeout_at(until, listed).await;
        });
        join_all(waits).await;
        let limit = STALE_AFTER.max(self.interval * 3);
        let fresh = |source: &Source| source.health.borrow().good.is_some_and(|good| good.elapsed() <= limit);
        if self.sources.iter().any(fresh) {
            return Ok(());
        }
        let reasons = [self.problems(), self.delays()].concat().join("; ");
        Err(FleetError::Stale { limit, reasons })
    }

    fn is_old(&self, source: &Source) -> bool {
        source.health.borrow().good.is_none_or(|good| good.elapsed() > self.interval)
    }

    /// Has a group's keeper do something, within the caller's time.
    pub async fn mutate(&self, id: &str, mutation: Mutation, deadline: Deadline) -> Result<(), FleetError> {
        let request = RequestRecord::new(self.snapshot().group(id), &mutation);
        let outcome = self.carry_out(id, mutation, deadline).await;
        if let Some(request) = request {
            request.ended(&self.journal, &outcome);
        }
        outcome
    }

    async fn carry_out(&self, id: &str, mutation: Mutation, deadline: Deadline) -> Result<(), FleetError> {
        let (group, view) = {
            let snapshot = self.snapshot();
            let Some((id, view)) = snapshot.group(id) else {
                return Err(FleetError::UnknownGroup { id: id.to_owned() });
            };
            (Arc::clone(id), Arc::clone(view))
        };
        self.check(&group, &view, &mutation)?;
        let (request, pending) = Request::new(mutation, deadline);
        view.mailbox.request(request).map_err(|undelivered| match undelivered {
            Undelivered::Full => FleetError::Busy { group: Arc::clone(&group) },
            Undelivered::Closed => FleetError::NotServed { group: Arc::clone(&group) },
        })?;
        pending.outcome(&group).await
    }

    /// Refuses what makes no sense before anything is done (and whole: a call that names one foreign node does nothing).
    fn check(&self, group: &Arc<str>, view: &GroupView, mutation: &Mutation) -> Result<(), FleetError> {
        let Mutation::Delete(nodes) = mutation else { return Ok(()) };
        if nodes.len() > NODES_PER_CALL {
            let named = nodes.len();
            return Err(FleetError::Malformed(format!(
                "{named} nodes in one call; at most {NODES_PER_CALL} can be named"
            )));
        }
        let Some(cloud) = self.clouds.get(&view.key.source) else { return Ok(()) };
        let snapshot = self.snapshot();
        for node in nodes {
            let id = node.id.as_str();
            let complaint = match snapshot.group_of(id) {
                Some((_, owner)) if owner.key == view.key => continue,
                Some((owner, _)) => format!("node {id:?} belongs to node group {owner}, not to {group}"),
                None => match cloud.recognise(id) {
                    Recognition::Ours => continue,
                    Recognition::OursInGroup(named) if named == view.key.name => continue,
                    Recognition::OursInGroup(named) => {
                        format!("node {id:?} belongs to {named}, not to node group {group}")
                    }
                    Recognition::Foreign if id.is_empty() => {
                        format!("a node without a provider ID cannot be in node group {group}")
                    }
                    Recognition::Foreign => {
                        format!("node {id:?} is not of the form that nodes of node group {group} have")
                    }
                },
            };
            return Err(FleetError::Malformed(format!("{complaint}; nothing was deleted")));
        }
        Ok(())
    }

    /// Learns from the cluster's nodes what instance types hold, until the answer is dropped. Whatever goes wrong with that
    /// costs a warning and nothing else. A fleet that is read-only does not write the ConfigMap either.
    pub fn learn(&self, api: Arc<dyn KubernetesApi>, every: Duration) -> Learner {
        let learned = LearnedState { catalog: Arc::clone(&self.catalog), is_saved: !self.read_only };
        Learner::start(api, Arc::clone(&self.store), learned, self.readiness(), every, &self.tasks)
    }

    /// Puts other policies and tables in force. Each group shows them after its next reading, which is asked for at once.
    pub fn reconfigure(&self, policies: Policies, tables: Vec<Table>) {
        self.catalog.replace_tables(tables);
        self.policies.replace(policies);
        self.sources.iter().for_each(Source::ask);
    }

    /// The node a group would grow by; waits for it only while it is being built for the first time.
    pub async fn template(&self, id: &str, until: Instant) -> Result<Arc<NodeTemplate>, FleetError> {
        let mut changes = self.store.changes();
        loop {
            changes.mark_unchanged();
            let template = match self.snapshot().group(id) {
                Some((_, view)) => view.template.clone(),
                None => return Err(FleetError::UnknownGroup { id: id.to_owned() }),
            };
            let reason: Arc<str> = match template {
                TemplateState::Ready(template) => return Ok(template),
                TemplateState::Unavailable(reason) => reason,
                TemplateState::Pending => match timeout_at(until, changes.changed()).await {
                    Ok(Ok(())) => continue,
                    Ok(Err(_)) | Err(_) => "it is still being built; try again".into(),
                },
            };
            return Err(FleetError::NoTemplate { group: id.into(), reason: reason.to_string() });
        }
    }

    /// Waits until every keeper has finished its requests, for as long as `limit`.
    pub async fn drain(&self, limit: Duration) {
        let mailboxes: Vec<_> = self.snapshot().groups().map(|(_, view)| view.mailbox.clone()).collect();
        let waits = mailboxes.iter().map(Mailbox::drain);
        if timeout(limit, join_all(waits)).await.is_err() {
            tracing::warn!(
                limit_seconds = limit.as_secs_f64(),
                "some writes did not finish within the shutdown time limit"
            );
        }
    }
}

/// Says when the fleet is ready: at once when all sources are good, after a while when some are.
fn watch_readiness(mut sources: Vec<watch::Receiver<Health>>) -> watch::Receiver<bool> {
    let (ready, seen) = watch::channel(false);
    tokio::spawn(async move {
        let patience = Instant::now() + WAIT_FOR_ALL_SOURCES;
        let all = join_all(sources.iter_mut().map(good));
        if timeout_at(patience, all).await.is_err() {
            tracing::warn!("some sources cannot be read; serving the others from now on");
            let any = sources.iter_mut().map(|source| Box::pin(good(source)));
            select_all(any).await;
        }
        ready.send_replace(true);
    });
    seen
}

/// Waits for a source's first good listing. One that is gone never has one.
async fn good(source: &mut watch::Receiver<Health>) {
    if source.wait_for(|health| health.good.is_some()).await.is_err() {
        std::future::pending().await
    }
}
