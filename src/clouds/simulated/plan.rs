//! How a simulated node group is made and how it behaves.

use std::collections::BTreeMap;
use std::time::Duration;

use super::chance::{Pick, Span, seconds};
use super::trouble::{DeleteOutcome, LaunchOutcome, Troubles};
use crate::cloud::{GroupHints, Permit, Taint};

/// Which cloud's groups a simulated group behaves like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An AWS Auto Scaling group: strives for its desired capacity by itself, retries, replaces.
    AwsLike,
    /// An Azure VM scale set: does what each write asks for as one operation that can be followed, and no more.
    AzureLike,
}

/// When a deleted instance leaves the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accounting {
    /// When the deletion is accepted; an Auto Scaling group always does so.
    OnAccept,
    /// When the machine is gone.
    WhenGone,
}

/// Whom a cloud deletes when a write takes the capacity below what lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victims {
    /// The youngest first.
    Newest,
    /// Anyone.
    Random,
}

/// What a scale set does with a write while an operation is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// Both go on.
    Together,
    /// The new one is refused as a conflict.
    Conflict,
    /// The old one is given up where it stands, and reported as preempted.
    Preempt,
}

/// How a simulated group is made and how it behaves. Every part can be changed while it lives, see `World::replan`.
#[derive(Clone, Debug)]
pub struct GroupPlan {
    /// Its name.
    pub name: String,
    /// The cloud it behaves like.
    pub kind: Kind,
    /// LaunchSpec types that it launches, in turn.
    pub instance_types: Vec<String>,
    /// Capacity units that the cloud counts for each instance: the weight that all instance types of an Auto Scaling group
    /// share. All sizes in a plan and in the simulated world are in instances; only the cloud's API shows units.
    pub units_per_node: u32,
    /// The least capacity.
    pub min: u32,
    /// The greatest capacity.
    pub max: u32,
    /// The capacity it starts with, all of it running.
    pub initial: u32,
    /// Instances in standby that it starts with besides (AWS-like).
    pub standby: u32,
    /// Zones, as the node label has them; instances are spread over them in turn.
    pub zones: Vec<String>,
    /// Tags, as the cloud's API shows them.
    pub tags: BTreeMap<String, String>,
    /// What the tags say of nodes.
    pub hints: GroupHints,
    /// Labels of the cloud's own node machinery.
    pub labels: BTreeMap<String, String>,
    /// Taints of the cloud's own node machinery.
    pub taints: Vec<Taint>,
    /// When a deleted instance leaves the capacity (Azure-like).
    pub accounting: Accounting,
    /// How long a launch takes.
    pub launch_time: Span,
    /// How long a deletion takes.
    pub delete_time: Span,
    /// How long an Auto Scaling group waits before it tries a failed launch again.
    pub retry_every: Duration,
    /// How long an Auto Scaling group tolerates more instances than desired before it terminates some.
    pub scale_in_lag: Span,
    /// Whom a capacity write below what lives costs its life.
    pub victims: Victims,
    /// What becomes of writes that overlap (Azure-like).
    pub overlap: Overlap,
    /// Whether it can grow. An Auto Scaling group that cannot takes a new capacity and launches nothing.
    pub growth: Permit,
    /// Whether its instances can be deleted.
    pub removal: Permit,
    /// The time between evictions, where there are any.
    pub evictions: Option<Span>,
    pub(super) launch_troubles: Troubles<LaunchOutcome>,
    pub(super) delete_troubles: Troubles<DeleteOutcome>,
}

impl GroupPlan {
    /// An Auto Scaling group that launches m5.large in two zones, from 0 to 100, empty, and without trouble.
    pub fn aws(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: Kind::AwsLike,
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
            launch_time: seconds(8, 15),
            delete_time: seconds(5, 10),
            retry_every: Duration::from_secs(20),
            // From the write to the first termination the incidents show 20 s.
            scale_in_lag: seconds(18, 22),
            victims: Victims::Random,
            overlap: Overlap::Together,
            growth: Permit::Granted,
            removal: Permit::Granted,
            evictions: None,
            launch_troubles: Troubles::default(),
            delete_troubles: Troubles::default(),
        }
    }

    /// A scale set of Standard_D4s_v5 in three zones, from 0 to 100, empty, and without trouble.
    pub fn azure(name: &str) -> Self {
        Self {
            kind: Kind::AzureLike,
            instance_types: vec!["Standard_D4s_v5".to_owned()],
            zones: ["eastus-1", "eastus-2", "eastus-3"].map(str::to_owned).to_vec(),
            accounting: Accounting::WhenGone,
            victims: Victims::Newest,
            ..Self::aws(name)
        }
    }

    /// With these bounds, and this many instances running from the start.
    pub fn sized(mut self, min: u32, max: u32, initial: u32) -> Self {
        (self.min, self.max, self.initial) = (min, max, initial);
        self
    }

    /// With these instance types.
    pub fn machines(mut self, types: &[&str]) -> Self {
        self.instance_types = types.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// With this many capacity units for each instance (AWS-like).
    pub fn weighted(mut self, units_per_node: u32) -> Self {
        self.units_per_node = units_per_node;
        self
    }

    /// With this habit of accounting.
    pub fn accounting(mut self, accounting: Accounting) -> Self {
        self.accounting = accounting;
        self
    }

    /// With launches that take this long.
    pub fn launch_time(mut self, span: Span) -> Self {
        self.launch_time = span;
        self
    }

    /// With deletions that take this long.
    pub fn delete_time(mut self, span: Span) -> Self {
        self.delete_time = span;
        self
    }

    /// With this outcome of some launches, after the outcomes that were given before.
    pub fn launches(mut self, pick: Pick, outcome: LaunchOutcome) -> Self {
        self.launch_troubles.0.push((pick, outcome));
        self
    }

    /// With this outcome of some deletions, after the outcomes that were given before.
    pub fn deletions(mut self, pick: Pick, outcome: DeleteOutcome) -> Self {
        self.delete_troubles.0.push((pick, outcome));
        self
    }

    /// With these victims of capacity writes below what lives.
    pub fn victims(mut self, victims: Victims) -> Self {
        self.victims = victims;
        self
    }

    /// With this way with overlapping writes.
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// With this many instances in standby.
    pub fn standby(mut self, count: u32) -> Self {
        self.standby = count;
        self
    }

    /// With a label of the cloud's own node machinery.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// With an eviction each time this span has passed.
    pub fn evicted_every(mut self, span: Span) -> Self {
        self.evictions = Some(span);
        self
    }

    /// Gives some launches this outcome and forgets those given before.
    pub fn launches_now(&mut self, pick: Pick, outcome: LaunchOutcome) {
        self.launch_troubles.0 = vec![(pick, outcome)];
    }

    /// Gives some deletions this outcome and forgets those given before.
    pub fn deletions_now(&mut self, pick: Pick, outcome: DeleteOutcome) {
        self.delete_troubles.0 = vec![(pick, outcome)];
    }

    /// Forgets the outcomes given for launches: they are fine from now on.
    pub fn launches_fine(&mut self) {
        self.launch_troubles.0.clear();
    }

    /// Forgets the outcomes given for deletions: they are fine from now on.
    pub fn deletions_fine(&mut self) {
        self.delete_troubles.0.clear();
    }
}
