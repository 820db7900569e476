//! The settings and behavior of a simulated node group.

use std::collections::BTreeMap;
use std::time::Duration;

use super::chance::{Pick, Span, seconds};
use super::launch_call::Raise;
use super::outcome::{DeleteOutcome, LaunchOutcome, OutcomeRules, PlannedFailure};
use crate::cloud::{GroupHints, Permit, SET_ASIDE_TAG, SET_ASIDE_VALUE, Taint};

/// Which cloud's kind of group a simulated group behaves like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupStyle {
    /// An AWS Auto Scaling group: adjusts to its desired capacity by itself, retries, replaces.
    AutoScaling,
    /// An Azure VM scale set: carries out each write as one operation that can be followed, and does nothing else.
    ScaleSet,
}

/// When a deleted instance leaves the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accounting {
    /// When the deletion is accepted; an Auto Scaling group always does so.
    OnAccept,
    /// When the instance is gone.
    WhenGone,
}

/// What a scale set compares a new capacity with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizing {
    /// The instances: it creates or deletes `new − instances`.
    Actual,
    /// The capacity before, whatever lives: it creates or deletes `new − old`. Instances that leave without being named
    /// in a call of the scale set stay in the capacity (dataplat/dbatools #10540).
    Nominal,
}

/// Which instances a cloud deletes when a write sets the capacity below the live ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalOrder {
    /// The youngest first.
    Newest,
    /// Any of them.
    Random,
}

/// What a scale set does with a write during an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// Runs both.
    Together,
    /// Refuses the new one as a conflict.
    Conflict,
    /// Stops the old one and reports it as preempted.
    Preempt,
}

/// The settings and behavior of a simulated group. All of it can be changed later, see `World::replan`.
#[derive(Clone, Debug)]
pub struct GroupPlan {
    /// Its name.
    pub name: String,
    /// Which kind of group it is.
    pub style: GroupStyle,
    /// Instance types that it launches, in turn.
    pub instance_types: Vec<String>,
    /// Capacity units that the cloud counts for each instance: the weight that all instance types of an Auto Scaling
    /// group share. All sizes in a plan and in the simulated world are in instances; only the cloud's API shows units.
    pub units_per_node: u32,
    /// The minimum capacity.
    pub min: u32,
    /// The maximum capacity.
    pub max: u32,
    /// The capacity at the start; all of these instances run.
    pub initial: u32,
    /// Further instances at the start, in standby (Auto Scaling groups only).
    pub standby: u32,
    /// Zones, as in the node label; instances are spread over them in turn.
    pub zones: Vec<String>,
    /// Tags, as the cloud's API shows them.
    pub tags: BTreeMap<String, String>,
    /// The settings of nodes that the tags contain.
    pub hints: GroupHints,
    /// Labels that the cloud gives its nodes.
    pub labels: BTreeMap<String, String>,
    /// Taints that the cloud gives its nodes.
    pub taints: Vec<Taint>,
    /// When a deleted instance leaves the capacity (scale sets only).
    pub accounting: Accounting,
    /// What a new capacity is compared with (scale sets only).
    pub sizing: Sizing,
    /// How long a launch takes.
    pub launch_time: Span,
    /// How long a launch on request takes until it returns its instances (Auto Scaling groups only).
    pub launch_call_time: Span,
    /// When a launch on request raises the capacity.
    pub raise: Raise,
    /// Zones in which launches on request fail.
    pub zones_without_capacity: BTreeMap<String, PlannedFailure>,
    /// How long a deletion takes.
    pub delete_time: Span,
    /// How long an Auto Scaling group waits before it retries a failed launch.
    pub retry_every: Duration,
    /// How long an Auto Scaling group takes to act on a new desired capacity.
    pub acts_after: Span,
    /// How long an Auto Scaling group tolerates more instances than desired before it terminates some.
    pub scale_in_lag: Span,
    /// Whether all instances are protected from scale-in (Auto Scaling groups only).
    pub is_protected: bool,
    /// Which instances a capacity write below the live ones deletes.
    pub removal_order: RemovalOrder,
    /// What happens to overlapping writes (scale sets only).
    pub overlap: Overlap,
    /// Whether it can grow. An Auto Scaling group that cannot grow accepts a new capacity and launches nothing.
    pub growth: Permit,
    /// Whether its instances can be deleted.
    pub removal: Permit,
    /// The time between evictions, where there are any.
    pub evictions: Option<Span>,
    pub(super) launch_outcomes: OutcomeRules<LaunchOutcome>,
    pub(super) delete_outcomes: OutcomeRules<DeleteOutcome>,
}

impl GroupPlan {
    /// An empty Auto Scaling group of m5.large in two zones, from 0 to 100, without failures.
    pub fn aws(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            style: GroupStyle::AutoScaling,
            instance_types: vec!["m5.large".to_owned()],
            units_per_node: 1,
            min: 0,
            max: 100,
            initial: 0,
            standby: 0,
            zones: vec!["us-east-1a".to_owned(), "us-east-1b".to_owned()],
            tags: BTreeMap::new(),
            hints: GroupHints::default(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            accounting: Accounting::OnAccept,
            sizing: Sizing::Actual,
            launch_time: seconds(8, 15),
            launch_call_time: seconds(1, 3),
            raise: Raise::BeforeResponse,
            zones_without_capacity: BTreeMap::new(),
            delete_time: seconds(5, 10),
            retry_every: Duration::from_secs(20),
            acts_after: Duration::from_millis(500)..=Duration::from_secs(2),
            // Real incidents show 20 s from the write to the first termination.
            scale_in_lag: seconds(18, 22),
            is_protected: false,
            removal_order: RemovalOrder::Random,
            overlap: Overlap::Together,
            growth: Permit::Granted,
            removal: Permit::Granted,
            evictions: None,
            launch_outcomes: OutcomeRules::default(),
            delete_outcomes: OutcomeRules::default(),
        }
    }

    /// An empty scale set of Standard_D4s_v5 in three zones, from 0 to 100, without failures.
    pub fn azure(name: &str) -> Self {
        Self {
            style: GroupStyle::ScaleSet,
            instance_types: vec!["Standard_D4s_v5".to_owned()],
            zones: ["eastus-1", "eastus-2", "eastus-3"].map(str::to_owned).to_vec(),
            accounting: Accounting::WhenGone,
            removal_order: RemovalOrder::Newest,
            ..Self::aws(name)
        }
    }

    /// With these bounds, and this many instances running at the start.
    pub fn sized(mut self, min: u32, max: u32, initial: u32) -> Self {
        (self.min, self.max, self.initial) = (min, max, initial);
        self
    }

    /// With these instance types.
    pub fn instance_types(mut self, types: &[&str]) -> Self {
        self.instance_types = types.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// With this many capacity units for each instance (Auto Scaling groups only).
    pub fn weighted(mut self, units_per_node: u32) -> Self {
        self.units_per_node = units_per_node;
        self
    }

    /// With this accounting of deletions.
    pub fn accounting(mut self, accounting: Accounting) -> Self {
        self.accounting = accounting;
        self
    }

    /// With this meaning of a new capacity (scale sets only).
    pub fn sizing(mut self, sizing: Sizing) -> Self {
        self.sizing = sizing;
        self
    }

    /// With launches that take this long.
    pub fn launch_time(mut self, span: Span) -> Self {
        self.launch_time = span;
        self
    }

    /// With launches on request that take this long, and raise the capacity then.
    pub fn launch_calls(mut self, span: Span, raise: Raise) -> Self {
        (self.launch_call_time, self.raise) = (span, raise);
        self
    }

    /// With a zone in which launches on request fail.
    pub fn fails_in(mut self, zone: &str, failure: PlannedFailure) -> Self {
        self.zones_without_capacity.insert(zone.to_owned(), failure);
        self
    }

    /// With deletions that take this long.
    pub fn delete_time(mut self, span: Span) -> Self {
        self.delete_time = span;
        self
    }

    /// With this outcome of some launches; outcomes given earlier take precedence.
    pub fn launches(mut self, pick: Pick, outcome: LaunchOutcome) -> Self {
        self.launch_outcomes.0.push((pick, outcome));
        self
    }

    /// With this outcome of some deletions; outcomes given earlier take precedence.
    pub fn deletions(mut self, pick: Pick, outcome: DeleteOutcome) -> Self {
        self.delete_outcomes.0.push((pick, outcome));
        self
    }

    /// With this handling of overlapping writes.
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// With this many instances in standby.
    pub fn standby(mut self, count: u32) -> Self {
        self.standby = count;
        self
    }

    /// With a label that the cloud gives its nodes.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Set aside for `headcount verify`, as the cloud's tag says it.
    pub fn set_aside(mut self) -> Self {
        self.tags.insert(SET_ASIDE_TAG.to_owned(), SET_ASIDE_VALUE.to_owned());
        self.hints.is_set_aside = true;
        self
    }

    /// With an eviction after each interval of this span.
    pub fn evicted_every(mut self, span: Span) -> Self {
        self.evictions = Some(span);
        self
    }

    /// Gives some launches this outcome, in place of all outcomes given earlier.
    pub fn launches_now(&mut self, pick: Pick, outcome: LaunchOutcome) {
        self.launch_outcomes.0 = vec![(pick, outcome)];
    }

    /// Gives some deletions this outcome, in place of all outcomes given earlier.
    pub fn deletions_now(&mut self, pick: Pick, outcome: DeleteOutcome) {
        self.delete_outcomes.0 = vec![(pick, outcome)];
    }

    /// Makes all launches succeed from now on.
    pub fn launches_fine(&mut self) {
        self.launch_outcomes.0.clear();
    }

    /// Makes all deletions succeed from now on.
    pub fn deletions_fine(&mut self) {
        self.delete_outcomes.0.clear();
    }
}
