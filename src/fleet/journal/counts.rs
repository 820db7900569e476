//! The counts of requests, their durations and failed launches.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Mutex;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::lock;
use crate::cloud::{Failure, FailureClass, ProviderId};
use crate::group::GroupStatus;
use crate::metrics::FamilySpec;

const OPERATIONS: FamilySpec = FamilySpec::counter(
    "headcount_operations",
    &["node_group", "operation", "result"],
    "Requests of the Cluster Autoscaler to change a node group, by result: ok, refused (by the group's limits, a quota, or as invalid), failed (the \
     cloud refused or could not be reached), unknown (the response of the cloud was lost, or the caller left before it), \
     late (not sent in time, or too many requests), failed_later (the cloud accepted it and did not carry it out)",
);
const SECONDS: FamilySpec = FamilySpec::histogram(
    "headcount_operation_duration_seconds",
    &["operation"],
    "Time from the cloud's acceptance of a write until its instances run or are gone",
);
const FAILURES: FamilySpec = FamilySpec::counter(
    "headcount_instance_launch_failures",
    &["node_group", "class", "reason"],
    "Instances that failed to be created, by the protocol's error class and the error code of the cloud",
);
const GROUP_FAILURES: FamilySpec = FamilySpec::counter(
    "headcount_node_group_launch_failures",
    &["node_group"],
    "Instances that failed to be created, whatever the reason",
);

/// The families of this module.
pub const JOURNAL_FAMILIES: [FamilySpec; 4] = [OPERATIONS, SECONDS, FAILURES, GROUP_FAILURES];

/// From the deletion of an instance to a GPU node that takes a quarter of an hour.
const BUCKETS: [f64; 12] = [1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 2400.0];

/// The most error codes per group that get series of their own.
const REASONS_MAX: usize = 20;
const OTHER: &str = "other";
/// The longest error code that becomes a label.
const REASON_CHARS_MAX: usize = 80;

/// What the Cluster Autoscaler asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestKind {
    /// More nodes.
    Increase,
    /// Less capacity, without deleting a node.
    Decrease,
    /// The deletion of named nodes.
    Delete,
}

impl RequestKind {
    const ALL: [Self; 3] = [Self::Increase, Self::Decrease, Self::Delete];

    /// Its name in labels and documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Increase => "increase",
            Self::Decrease => "decrease",
            Self::Delete => "delete",
        }
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestResult {
    /// Done, or accepted by the cloud.
    Ok,
    /// The group's limits refuse it.
    Refused,
    /// The cloud refused it or could not be reached.
    Failed,
    /// The response of the cloud was lost, or the caller left before it.
    Unknown,
    /// Not sent within the caller's deadline.
    Late,
    /// The cloud accepted it, and did not carry it out.
    FailedLater,
}

impl RequestResult {
    const ALL: [Self; 6] = [Self::Ok, Self::Refused, Self::Failed, Self::Unknown, Self::Late, Self::FailedLater];

    /// Its name in labels and documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Late => "late",
            Self::FailedLater => "failed_later",
        }
    }
}

impl EncodeLabelValue for RequestKind {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        EncodeLabelValue::encode(&self.as_str(), encoder)
    }
}

impl EncodeLabelValue for RequestResult {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        EncodeLabelValue::encode(&self.as_str(), encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    node_group: String,
    operation: RequestKind,
    result: RequestResult,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    operation: RequestKind,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    node_group: String,
    class: &'static str,
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GroupLabel {
    node_group: String,
}

/// The counts.
#[derive(Debug)]
pub(super) struct Counts {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<KindLabel, Histogram, fn() -> Histogram>,
    failures: Family<FailureLabels, Counter>,
    group_failures: Family<GroupLabel, Counter>,
    /// The series of each group.
    groups: Mutex<HashMap<String, HashSet<FailureLabels>>>,
}

impl Default for Counts {
    fn default() -> Self {
        let seconds = Family::new_with_constructor((|| Histogram::new(BUCKETS)) as fn() -> Histogram);
        for operation in RequestKind::ALL {
            drop(seconds.get_or_create(&KindLabel { operation }));
        }
        Self {
            requests: Family::default(),
            seconds,
            failures: Family::default(),
            group_failures: Family::default(),
            groups: Mutex::default(),
        }
    }
}

impl Counts {
    pub(super) fn register(&self, registry: &mut Registry) {
        OPERATIONS.register(registry, self.requests.clone());
        SECONDS.register(registry, self.seconds.clone());
        FAILURES.register(registry, self.failures.clone());
        GROUP_FAILURES.register(registry, self.group_failures.clone());
    }

    /// Makes the series of a group appear at zero.
    pub(super) fn expect(&self, group: &str) {
        let mut groups = lock(&self.groups);
        if groups.contains_key(group) {
            return;
        }
        groups.insert(group.to_owned(), HashSet::new());
        for labels in request_labels(group) {
            drop(self.requests.get_or_create(&labels));
        }
        drop(self.group_failures.get_or_create(&GroupLabel { node_group: group.to_owned() }));
    }

    pub(super) fn retire(&self, group: &str) {
        let failures = lock(&self.groups).remove(group).unwrap_or_default();
        for labels in request_labels(group) {
            self.requests.remove(&labels);
        }
        for labels in failures {
            self.failures.remove(&labels);
        }
        self.group_failures.remove(&GroupLabel { node_group: group.to_owned() });
    }

    /// Counts a request of a group that is served. One that was retired meanwhile keeps no series.
    pub(super) fn request(&self, group: &str, operation: RequestKind, result: RequestResult) {
        if !lock(&self.groups).contains_key(group) {
            return;
        }
        self.requests.get_or_create(&RequestLabels { node_group: group.to_owned(), operation, result }).inc();
    }

    pub(super) fn finished(&self, operation: RequestKind, took: Duration) {
        self.seconds.get_or_create(&KindLabel { operation }).observe(took.as_secs_f64());
    }

    /// Counts the instances that failed since the status before, and returns one failure for each code.
    pub(super) fn launches<'a>(
        &self,
        group: &str,
        before: Option<&GroupStatus>,
        now: &'a GroupStatus,
    ) -> Vec<&'a Failure> {
        if now.instances.iter().all(|listed| listed.failure.is_none()) {
            return Vec::new();
        }
        let failed_before: BTreeMap<&ProviderId, &str> = before
            .into_iter()
            .flat_map(|status| &status.instances)
            .filter_map(|listed| Some((&listed.id, listed.failure.as_ref()?.code.as_str())))
            .collect();
        let (mut counted, mut failures) = (BTreeSet::new(), BTreeMap::new());
        for listed in &now.instances {
            let Some(failure) = listed.failure.as_deref() else { continue };
            if !failed_before.contains_key(&listed.id) && counted.insert(&listed.id) {
                self.launch_failed(group, failure.class, &failure.code);
                failures.entry(failure.code.as_str()).or_insert(failure);
            }
        }
        failures.into_values().collect()
    }

    fn launch_failed(&self, group: &str, class: FailureClass, code: &str) {
        let class = match class {
            FailureClass::OutOfResources => "out_of_resources",
            FailureClass::Other => OTHER,
        };
        let labels = |reason: &str| FailureLabels { node_group: group.to_owned(), class, reason: reason.to_owned() };
        let mut groups = lock(&self.groups);
        let known = groups.entry(group.to_owned()).or_default();
        let mut labels_of_code = labels(code);
        let is_bounded = code.chars().count() <= REASON_CHARS_MAX && known.len() < REASONS_MAX;
        if !known.contains(&labels_of_code) && !is_bounded {
            labels_of_code = labels(OTHER);
        }
        known.insert(labels_of_code.clone());
        drop(groups);
        self.failures.get_or_create(&labels_of_code).inc();
        self.group_failures.get_or_create(&GroupLabel { node_group: group.to_owned() }).inc();
    }
}

fn request_labels(group: &str) -> impl Iterator<Item = RequestLabels> {
    RequestKind::ALL.into_iter().flat_map(move |operation| {
        let of = move |result| RequestLabels { node_group: group.to_owned(), operation, result };
        RequestResult::ALL.into_iter().map(of)
    })
}
