//! Runs the node groups: lists the sources, drives one keeper for each group, and serves the snapshot.
//!
//! ```text
//!   source ──listing──▶ keeper (one per group) ──status──▶ snapshot ◀── every read
//!                         ▲    │
//!        every mutation ──┘    └── fresh reading, laws, one write ──▶ cloud
//! ```
//!
//! What to do with one group is decided in `group`. The fleet drives these decisions: `keeper` and `source`.
//! It sees clouds only through [`crate::cloud::Cloud`].

mod admission;
mod cadence;
mod calls;
mod claims;
mod clock;
mod contact;
mod deadline;
mod error;
mod events;
mod failure_log;
mod foreign;
mod health;
mod journal;
mod keeper;
mod learning;
mod limits;
mod mailbox;
pub mod options;
mod policy;
mod quota;
mod reach;
pub mod recording;
mod request;
mod request_id;
mod snapshot;
mod source;
mod start;
mod store;
mod template_builder;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

pub use cadence::{Cadence, Pace};
pub use contact::LastCall;
pub use deadline::Deadline;
pub use error::FleetError;
pub use foreign::NODE_AGE;
pub use journal::{Decision, JOURNAL_FAMILIES, Journal, Notice, RequestKind, RequestResult, UnfinishedOperation};
use learning::LearnedState;
pub use learning::{Learner, NodeUse, recall};
pub use limits::LEARN_EVERY;
pub use policy::{ForeignPolicy, LivePolicies, Policies, Policy, QuotaPolicy, ZonePolicy};
pub use quota::{Headroom, Headrooms};
pub use request_id::RequestId;
pub use snapshot::{GroupKey, GroupView, Snapshot, TemplateState, Unlisted};
pub use source::Health;
pub use start::Settings;
pub use template_builder::{BuiltTemplate, TemplateBuilder};

use crate::cloud::{Budget, CloudError, Permit, ReadOnlyCloud};
pub use crate::group::{GroupStatus, Mutation, NamedNode, NodeKind, Refusal, ReportedInstance};
use crate::instance_types::{Catalog, Table};
use crate::kubernetes::KubernetesApi;
use crate::tasks::Tasks;
use crate::template::NodeTemplate;
use contact::Contact;
use foreign::{Judge, LiveCluster};
use journal::RequestRecord;
use mailbox::{Mailbox, Undelivered};
use quota::{QuotaBook, QuotaWatch, Reservation};
use recording::Recordings;
use request::Incoming;
use source::Source;
use store::Store;

/// All sources and their groups.
pub struct Fleet {
    store: Arc<Store>,
    sources: Vec<Source>,
    clouds: HashMap<Arc<str>, ReadOnlyCloud>,
    catalog: Arc<Catalog>,
    policies: Arc<LivePolicies>,
    tasks: Tasks,
    started: Instant,
    cadence: Cadence,
    read_only: bool,
    ready: watch::Receiver<bool>,
    journal: Arc<Journal>,
    contact: Arc<Contact>,
    quotas: Arc<QuotaBook>,
    quota_watches: HashMap<Arc<str>, QuotaWatch>,
    cluster: Arc<LiveCluster>,
    recordings: Arc<Recordings>,
    /// Whether what was learned before this process started is in the catalog, or cannot be read. Templates wait for
    /// it.
    remembered: watch::Sender<bool>,
}

impl Fleet {
    /// The snapshot that reads are served from.
    pub fn snapshot(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.store.load()
    }

    /// What the quotas of the accounts leave for the groups of a snapshot.
    pub fn headrooms(&self, snapshot: &Arc<Snapshot>) -> Arc<Headrooms> {
        self.quotas.headrooms(snapshot, &self.policies)
    }

    /// Whether a group can grow as it is served.
    pub fn growth(&self, view: &GroupView) -> Permit {
        match self.lost_source(view) {
            Some(problem) if view.growth == Permit::Granted => {
                Permit::Withheld(format!("its source cannot be listed: {problem}"))
            }
            _ => view.growth.clone(),
        }
    }

    /// The greatest number of nodes that CA may ask for.
    pub fn max(&self, headrooms: &Headrooms, view: &GroupView) -> u32 {
        let max = headrooms.max(view);
        if self.lost_source(view).is_some() { max.min(view.status.target) } else { max }
    }

    /// Why the group's source cannot be listed, although another one can. No scale-up of the group would be written, as
    /// it could not be read either (law 13). Where no source can be listed, `Refresh` fails, and CA asks for nothing.
    fn lost_source(&self, view: &GroupView) -> Option<String> {
        let problem = self.sources.iter().find(|source| source.name == view.key.source)?.lost()?;
        let mut others = self.sources.iter().filter(|other| other.name != view.key.source);
        others.any(Source::is_recent).then_some(problem)
    }

    /// What the fleet did recently.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// What happened lately to the groups of this ID or `source/name`, or to all groups, as [`recording::Recording`]
    /// reads it. `None` where no group has this ID.
    pub fn recordings(&self, group: Option<&str>) -> Option<String> {
        // A zone is recorded with its group.
        let snapshot = self.snapshot();
        let whole = group.and_then(|id| snapshot.group(id)).map(|(_, view)| view.whole().to_string());
        self.recordings.text(whole.as_deref().or(group))
    }

    /// The memory that the recordings take, in bytes.
    pub fn recorded_bytes(&self) -> usize {
        self.recordings.bytes()
    }

    /// Records nothing from now on, to measure what recording costs.
    #[cfg(feature = "faults")]
    pub fn stop_recording(&self) {
        self.recordings.stop();
    }

    /// What remains of the call budgets of each source's cloud.
    pub fn budgets(&self) -> impl Iterator<Item = (&Arc<str>, Vec<Budget>)> {
        let of = |source| self.clouds.get(source).map(|cloud| cloud.budgets()).unwrap_or_default();
        self.sources.iter().map(move |source| (&source.name, of(&source.name)))
    }

    /// Lists new instances at once from now on: for releases of the Cluster Autoscaler that back off a group whose
    /// instances never register, whenever they were listed first (kubernetes-sigs/cluster-autoscaler#157).
    pub fn list_new_at_once(&self) {
        self.store.list_new_at_once();
    }

    /// How each source is doing.
    pub fn sources(&self) -> impl Iterator<Item = (&Arc<str>, Health)> {
        self.sources.iter().map(|source| (&source.name, source.health()))
    }

    /// Whether every source has been listed once, or the sources that were have waited long enough for the others.
    pub fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Whether every write is refused.
    pub fn is_read_only(&self) -> bool {
        self.read_only
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

    /// The long-lived tasks of the process.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Sends a mutation to a group's keeper, and waits for the outcome within the caller's time.
    pub async fn mutate(&self, id: &str, mutation: Mutation, deadline: Deadline) -> Result<(), FleetError> {
        let request = RequestRecord::new(&self.journal, self.snapshot().group(id), &mutation);
        let outcome = self.carry_out(id, mutation, deadline).await;
        if let Some(request) = request {
            request.ended(&outcome);
        }
        outcome
    }

    async fn carry_out(&self, id: &str, mutation: Mutation, deadline: Deadline) -> Result<(), FleetError> {
        let (group, view) = {
            let snapshot = self.snapshot();
            let Some((id, view)) = snapshot.group(id) else {
                return Err(FleetError::unknown_group(id));
            };
            (Arc::clone(id), Arc::clone(view))
        };
        if let Some(cloud) = self.clouds.get(&view.key.source) {
            admission::check(&group, &view.key, &mutation, &self.snapshot(), cloud.as_ref())?;
        }
        let _reserved = self.reserve(&group, &view, &mutation)?;
        let (incoming, mut pending) = Incoming::new(mutation, view.zone.clone(), deadline);
        view.mailbox.request(incoming).map_err(|undelivered| match undelivered {
            Undelivered::Full => FleetError::Busy { group: Arc::clone(&group) },
            Undelivered::Closed => FleetError::NotServed { group: Arc::clone(&group) },
        })?;
        let outcome = pending.outcome(&group).await;
        if let (Err(FleetError::Cloud { error: CloudError::OutOfResources(_), .. }), Some(quotas)) =
            (&outcome, self.quota_watches.get(&view.key.source))
        {
            quotas.ask();
        }
        outcome
    }

    /// Sets the nodes of a scale-up aside, so that another one that arrives meanwhile does not count on them. A
    /// request that the group refuses as it is served is left to the group, which has the reason.
    fn reserve(
        &self,
        group: &Arc<str>,
        view: &GroupView,
        mutation: &Mutation,
    ) -> Result<Option<Reservation>, FleetError> {
        let Mutation::Increase(delta) = *mutation else { return Ok(None) };
        if self.read_only || view.status.target.saturating_add(delta) > view.max {
            return Ok(None);
        }
        let reserved = self.quotas.reserve(view, delta, &self.snapshot(), &self.policies);
        let over = |headroom| FleetError::OverQuota { group: Arc::clone(group), delta, headroom };
        reserved.map(Some).map_err(over)
    }

    /// Watches the cluster's nodes until the returned value is dropped: to learn the resources of instance types, to
    /// see which node groups belong to another cluster, and to see which nodes CA has tainted for deletion. A failure
    /// only causes a warning. A read-only fleet does not write the ConfigMap either.
    pub fn learn(&self, api: Arc<dyn KubernetesApi>, uses: NodeUse, every: Duration) -> Learner {
        let judge = Judge::new(self.clouds.clone(), Arc::clone(&self.cluster));
        let learned = LearnedState {
            catalog: Arc::clone(&self.catalog),
            remembered: self.remembered.clone(),
            is_saved: !self.read_only,
            judge,
        };
        Learner::start(api, Arc::clone(&self.store), learned, self.readiness(), (uses, every), &self.tasks)
    }

    /// Replaces the policies and tables. Each group uses them from its next reading on, which is requested at once.
    pub fn reconfigure(&self, policies: Policies, tables: Vec<Table>) {
        self.catalog.replace_tables(tables);
        self.policies.replace(policies);
        self.sources.iter().for_each(Source::ask);
    }

    /// The template of a group. Waits only while it is being built for the first time.
    pub async fn template(&self, id: &str, until: Instant) -> Result<Arc<NodeTemplate>, FleetError> {
        let mut changes = self.store.changes();
        loop {
            changes.mark_unchanged();
            let template = match self.snapshot().group(id) {
                Some((_, view)) => view.template.clone(),
                None => return Err(FleetError::unknown_group(id)),
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
