//! What a cloud guarantees about the reads and writes of one node group. Decisions ask this model, and never which
//! cloud it is.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What may be concluded from a read of a group, and what a write to it does. Each cloud states it for each of its
/// groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consistency {
    /// The precondition of a capacity write.
    pub guard: Guard,
    /// Whether one read returns the capacity together with the instances.
    pub reads: Reads,
    /// What becomes of deletions that were accepted.
    pub deletions: Deletions,
    /// What happens to instances that the capacity asks for and that do not come.
    pub missing: Missing,
    /// What a capacity write adds or deletes.
    pub capacity_is: CapacityIs,
    /// How the group is made to grow.
    pub grows_by: GrowsBy,
    /// How many writes the cloud allows.
    #[serde(default)]
    pub writes: Writes,
}

/// The precondition of a capacity write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Guard {
    /// None: a write replaces whatever another client wrote since the read (AWS: SetDesiredCapacity).
    None,
    /// The group must be unchanged since it was read (Azure: `If-Match`). So a read with another etag is younger than
    /// the write.
    IfMatch,
}

/// How a group and its instances are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reads {
    /// In one call (AWS: DescribeAutoScalingGroups).
    Together,
    /// In two calls. The list of instances may lag behind the group (azure-sdk-for-net #36946).
    Apart,
}

/// What becomes of a deletion that was accepted, and of the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Deletions {
    /// It never fails, and the capacity falls when it is accepted (AWS: TerminateInstanceInAutoScalingGroup).
    Final,
    /// It can fail later. The capacity falls when it is accepted, or when the instance is gone: the read after it shows
    /// which.
    CanFail,
}

/// What happens to instances that the capacity asks for and that do not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Missing {
    /// The cloud keeps launching until they are there (AWS).
    Retried,
    /// Nothing. The capacity counts them all the same until another write (Azure).
    LeftOut,
}

/// What the capacity of a group is compared with when a new one is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CapacityIs {
    /// The live instances: a write adds or deletes `new − live`.
    Actual,
    /// The number that was written before, whatever lives: a write adds or deletes `new − old` (reported for scale sets
    /// in flexible mode: dataplat/dbatools #10540). A lower capacity deletes live instances although fewer live than it
    /// allows.
    Nominal,
    /// One of the two. A write must be safe with both.
    Unknown,
}

/// How a group is made to grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GrowsBy {
    /// A new capacity is written, and the cloud launches what is missing.
    Capacity,
    /// A call launches a number of instances and returns what became of them (AWS: LaunchInstances). It is relative:
    /// it undoes no other write. Repeated with its token, it is the same launch. The capacity follows, before the
    /// response or after it.
    Launch,
    /// In this way only, and in the zone that the request is for: each zone is served as a node group, and after a new
    /// capacity, instances would come up in any of them.
    LaunchInZone,
}

/// How many writes to one group the cloud allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Writes {
    /// So many that they need not be saved.
    #[default]
    Ample,
    /// A few a minute (Azure: 4, in bursts of 12).
    Scarce,
}

/// What is assumed of both clouds alike. `headcount verify` measures how long reads lag, how late a write takes effect, and
/// when launches begin.
impl Consistency {
    /// How long what a write of ours does may still show. A read may lag behind it for as long, assumed: neither cloud
    /// promises read-after-write. And an instance may appear that the cloud had begun to launch before a reduction: AWS
    /// was seen to take 20 s from SetDesiredCapacity to the first termination (autoscaler #10147).
    pub const LAG: Duration = Duration::from_secs(30);
    /// A read that lags is not older than this many etags, assumed.
    pub const ETAGS_BEHIND: usize = 8;
    /// How long after it was sent a write without a response may take effect, reads that show it included, assumed: no
    /// source gives a limit.
    pub const LATE: Duration = Duration::from_secs(30);
    /// The cloud's clock, as it is derived from its responses, may be behind by this much: the header Date has whole
    /// seconds.
    pub const CLOCK_ERROR: Duration = Duration::from_secs(1);
    /// How long an Auto Scaling group may take from a new capacity to the first launch in its activities, assumed. Until
    /// then, it is not known what the group is about to launch, so nothing is lowered.
    pub const LAUNCH_BEGINS: Duration = Duration::from_secs(5);
    /// A launch whose instances are listed raises the capacity within this time, assumed: the documentation does not say
    /// whether its response comes before. The group has patience with instances beyond its capacity for about 20 s: what
    /// a write undid is missed in time for a read, one of activities and a write, each as slow as they may be.
    pub const LAUNCH_RAISES: Duration = Duration::from_secs(7);
    /// A surplus of the cloud's own may have begun this long before a write of ours, assumed: an instance refresh
    /// replaces one batch after another.
    pub const OWN_SURPLUS: Duration = Duration::from_secs(600);
}

impl Consistency {
    /// EC2 Auto Scaling groups.
    pub const AUTO_SCALING: Self = Self {
        guard: Guard::None,
        reads: Reads::Together,
        deletions: Deletions::Final,
        missing: Missing::Retried,
        capacity_is: CapacityIs::Actual,
        grows_by: GrowsBy::Capacity,
        writes: Writes::Ample,
    };

    /// VM scale sets that Azure returns with an etag.
    pub const SCALE_SET: Self = Self {
        guard: Guard::IfMatch,
        reads: Reads::Apart,
        deletions: Deletions::CanFail,
        missing: Missing::LeftOut,
        capacity_is: CapacityIs::Unknown,
        grows_by: GrowsBy::Capacity,
        writes: Writes::Scarce,
    };

    /// VM scale sets that Azure returns without an etag.
    pub const SCALE_SET_WITHOUT_ETAG: Self = Self { guard: Guard::None, ..Self::SCALE_SET };

    /// Whether the cloud refuses a capacity write if the group has changed since it was read.
    pub fn is_guarded(self) -> bool {
        self.guard == Guard::IfMatch
    }

    /// Whether a lower capacity deletes nothing while it is not below the live instances.
    pub fn may_lower(self) -> bool {
        self.capacity_is == CapacityIs::Actual
    }
}
