//! The status of everything, as one document. `docs/statusz.md` describes its keys, which only ever gain new ones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::cloud::text::{MESSAGE_CHARS_MAX, shorten};
use crate::cloud::{Budget, InstanceState, Permit};
use crate::fleet::{Fleet, GroupView, Headrooms, Health, TemplateState};

/// The version of the document's schema. A key that changes its meaning raises it.
const SCHEMA: u32 = 1;

/// The budgets shown of one source, the scarcest first: Azure has one per scale set and policy.
const BUDGETS_SHOWN: usize = 20;

/// The status of everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// The version of the schema.
    pub schema: u32,
    /// The version of Headcount.
    pub version: String,
    /// When this was written.
    pub time: String,
    /// Whether the Cluster Autoscaler gets responses.
    pub ready: bool,
    /// Whether no Cluster Autoscaler has called for 10 minutes.
    pub standby: bool,
    /// Whether every write is refused (`readOnly`).
    #[serde(default)]
    pub read_only: bool,
    /// The calling Cluster Autoscaler.
    pub autoscaler: Autoscaler,
    /// The sources, in the order of the configuration.
    pub sources: Vec<SourceStatus>,
    /// The node groups, by ID.
    pub groups: Vec<GroupEntry>,
    /// The last decisions, newest first.
    pub decisions: Vec<DecisionEntry>,
}

/// The calling Cluster Autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Autoscaler {
    /// When it last called.
    pub last_call: Option<String>,
    /// How long ago.
    pub age_seconds: Option<u64>,
    /// The releases that its requests look like; known once it has asked for options.
    pub dialect: Option<String>,
}

/// One source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceStatus {
    /// Its name.
    pub name: String,
    /// Whether its last listing succeeded.
    pub ready: bool,
    /// How long ago its last successful listing began.
    pub age_seconds: Option<u64>,
    /// The current time between listings: longer for an idle source, and longest on a standby.
    pub interval_seconds: u64,
    /// Why its last listing failed.
    pub problem: Option<String>,
    /// For how much longer it will not be listed.
    pub paused_seconds: u64,
    /// Groups that are not served because they cannot be read, with the reasons.
    #[serde(default)]
    pub unread_groups: BTreeMap<String, String>,
    /// Nodes whose IDs look like the source's but that no group lists.
    pub nodes_unmatched: u32,
    /// The call budgets of its cloud, the scarcest first.
    pub budgets: Vec<BudgetStatus>,
}

/// One call budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetStatus {
    /// The cloud's name for it, or the calls that it covers.
    pub name: String,
    /// The group that it covers, if each group has its own.
    pub group: Option<String>,
    /// The remaining calls; `null` if the cloud has not reported them.
    pub remaining: Option<u64>,
    /// For how much longer no call that it covers will be sent.
    pub paused_seconds: u64,
}

/// One node group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupEntry {
    /// Its ID, as served.
    pub id: String,
    /// Its source.
    pub source: String,
    /// The minimum number of nodes.
    pub min: u32,
    /// The maximum number of nodes.
    pub max: u32,
    /// The target size.
    pub target: u32,
    /// The cloud's capacity, with accepted writes that no read shows yet.
    pub desired: u32,
    /// Instances that are live.
    pub live: u32,
    /// The part of the capacity that no VM fills and that is not lowered.
    #[serde(default)]
    pub unfilled: u32,
    /// Instances and placeholders that are being created.
    pub creating: u32,
    /// Instances that are being deleted.
    pub deleting: u32,
    /// Instances that failed to be created.
    pub failed: u32,
    /// How long ago its capacity was read.
    pub age_seconds: u64,
    /// The quota that leaves it less room than its own maximum.
    #[serde(default)]
    pub limited_by: Option<String>,
    /// Why it cannot grow.
    pub cannot_grow: Option<String>,
    /// Why the cloud refused to launch instances in it on request, although it is to grow so.
    #[serde(default)]
    pub launches_refused: Option<String>,
    /// Why its instances cannot be deleted.
    pub cannot_shrink: Option<String>,
    /// Why its last observation waits for a second one.
    pub doubt: Option<String>,
    /// Why it has no template.
    pub no_template: Option<String>,
    /// Why instances failed, by code.
    pub failures: Vec<FailureEntry>,
    /// Writes that the cloud accepted and has not finished.
    pub operations: Vec<OperationEntry>,
}

/// Instances that failed with the same code.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureEntry {
    /// The cloud's code.
    pub code: String,
    /// The message of one of them.
    pub message: String,
    /// How many.
    pub count: u32,
}

/// An operation under way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationEntry {
    /// Its name in the log.
    pub id: String,
    /// increase, decrease or delete.
    pub kind: String,
    /// What it changes.
    pub what: String,
    /// How long ago the cloud accepted it.
    pub age_seconds: u64,
}

/// A decision and the reason for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionEntry {
    /// When it was taken.
    pub at: String,
    /// The group.
    pub group: String,
    /// What was requested, or what Headcount did by itself.
    pub action: String,
    /// The outcome.
    pub result: String,
    /// Why.
    pub reason: String,
    /// The ID of the call, as in the log.
    pub request_id: Option<String>,
}

impl Document {
    /// Describes the fleet as it is now.
    pub fn of(fleet: &Fleet) -> Self {
        let call = fleet.last_call();
        let snapshot = Arc::clone(&fleet.snapshot());
        let headrooms = fleet.headrooms(&snapshot);
        let unmatched = fleet.unmatched_nodes();
        let mut budgets: BTreeMap<Arc<str>, Vec<Budget>> =
            fleet.budgets().map(|(source, budgets)| (Arc::clone(source), budgets)).collect();
        let unread = fleet.unread_groups();
        let sources = fleet.sources().map(|(name, health)| {
            let budgets = budgets.remove(name).unwrap_or_default();
            let unread = unread.iter().filter(|(key, _)| key.source == *name);
            let unread = unread.map(|(key, reason)| (key.name.to_string(), reason.clone())).collect();
            source(name, &health, (unmatched.get(name).copied().unwrap_or(0), unread), budgets)
        });
        let decisions = fleet.journal().decisions().into_iter().map(|decision| DecisionEntry {
            at: timestamp(decision.at),
            group: decision.group,
            action: decision.action,
            result: decision.result.to_owned(),
            reason: decision.reason,
            request_id: decision.request_id,
        });
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            time: timestamp(SystemTime::now()),
            ready: fleet.is_ready(),
            standby: call.is_standby,
            read_only: fleet.is_read_only(),
            autoscaler: Autoscaler {
                last_call: call.at.map(timestamp),
                age_seconds: call.at.map(|at| at.elapsed().unwrap_or_default().as_secs()),
                dialect: call.dialect.map(str::to_owned),
            },
            sources: sources.collect(),
            groups: snapshot.groups().map(|(id, view)| group(fleet, id, view, &headrooms)).collect(),
            decisions: decisions.collect(),
        }
    }
}

fn timestamp(at: SystemTime) -> String {
    humantime::format_rfc3339_seconds(at).to_string()
}

fn source(
    name: &str,
    health: &Health,
    (nodes_unmatched, unread_groups): (u32, BTreeMap<String, String>),
    mut budgets: Vec<Budget>,
) -> SourceStatus {
    let seconds = |wait: Option<Duration>| wait.unwrap_or_default().as_secs();
    budgets.sort_by_key(|budget| (budget.closed_for.is_none(), budget.remaining));
    let budgets = budgets.into_iter().take(BUDGETS_SHOWN).map(|budget| BudgetStatus {
        remaining: (budget.most > 0).then_some(budget.remaining),
        paused_seconds: seconds(budget.closed_for),
        name: budget.name,
        group: budget.group,
    });
    SourceStatus {
        name: name.to_owned(),
        ready: health.good.is_some() && health.problem.is_none(),
        age_seconds: health.good.map(|good| good.elapsed().as_secs()),
        interval_seconds: health.interval.as_secs(),
        problem: health.problem.clone(),
        paused_seconds: seconds(health.paused_until.map(|until| until.saturating_duration_since(Instant::now()))),
        unread_groups,
        nodes_unmatched,
        budgets: budgets.collect(),
    }
}

fn group(fleet: &Fleet, id: &str, view: &GroupView, headrooms: &Headrooms) -> GroupEntry {
    let status = &view.status;
    let withheld = |permit: &Permit| match permit {
        Permit::Granted => None,
        Permit::Withheld(reason) => Some(reason.clone()),
    };
    let mut failures: BTreeMap<&str, FailureEntry> = BTreeMap::new();
    for failure in status.instances.iter().filter_map(|listed| listed.failure.as_ref()) {
        let entry = failures.entry(&failure.code).or_insert_with(|| FailureEntry {
            code: failure.code.clone(),
            message: shorten(&failure.message, MESSAGE_CHARS_MAX),
            count: 0,
        });
        entry.count += 1;
    }
    let operations = fleet.journal().unfinished(id).into_iter().map(|operation| OperationEntry {
        id: operation.id,
        kind: operation.kind.as_str().to_owned(),
        what: operation.what,
        age_seconds: operation.accepted.elapsed().as_secs(),
    });
    GroupEntry {
        id: id.to_owned(),
        source: view.key.source.to_string(),
        min: view.min,
        max: fleet.max(headrooms, view),
        target: status.target,
        desired: status.capacity,
        live: status.live,
        unfilled: status.unfilled,
        creating: status.in_state(InstanceState::Creating).saturating_sub(status.failed()),
        deleting: status.in_state(InstanceState::Deleting),
        failed: status.failed(),
        age_seconds: view.observed.elapsed().as_secs(),
        limited_by: headrooms.limiting(view).map(|headroom| {
            format!(
                "the quota {} has {} of {} vCPUs used; its own maximum is {}",
                headroom.quota, headroom.used, headroom.limit, view.max
            )
        }),
        cannot_grow: withheld(&fleet.growth(view)),
        launches_refused: view.launches_refused.as_deref().map(str::to_owned),
        cannot_shrink: withheld(&view.removal),
        doubt: view.doubt.as_deref().map(str::to_owned),
        no_template: match &view.template {
            TemplateState::Unavailable(reason) => Some(reason.to_string()),
            TemplateState::Ready(_) | TemplateState::Pending => None,
        },
        failures: failures.into_values().collect(),
        operations: operations.collect(),
    }
}
