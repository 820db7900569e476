//! What Headcount assumes of a cloud, one probe for each assumption, and what is at risk where it does not hold.

use serde::{Deserialize, Serialize};

use crate::cloud::{CapacityIs, Consistency, Deletions, Guard, Missing, Reads, Writes};
use crate::group::WATCH_EVERY;

/// Where an assumption is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A field of the consistency model ([`Consistency`]), of the same name.
    Model,
    /// What the exhaustive search assumes not to happen, under the same name
    /// (`tests/integration/simulation/README.md`).
    Search,
    /// A constant, or what the code of one cloud relies on.
    Code,
}

/// What is at risk where an assumption does not hold, and what is safe until Headcount is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Risk {
    pub(super) laws: &'static str,
    pub(super) meanwhile: &'static str,
}

/// An assumption, and the probe that looks whether it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "Probe::about says what each is")]
pub enum Probe {
    #[serde(rename = "guard")]
    Guard,
    #[serde(rename = "reads")]
    Reads,
    #[serde(rename = "deletions")]
    Deletions,
    #[serde(rename = "missing")]
    Missing,
    #[serde(rename = "capacity_is")]
    CapacityIs,
    #[serde(rename = "grows_by")]
    GrowsBy,
    #[serde(rename = "writes")]
    Writes,
    #[serde(rename = "changed-between-read-and-write")]
    ChangedBetween,
    #[serde(rename = "read-lags")]
    ReadLags,
    #[serde(rename = "other-client-during-undo")]
    OtherClient,
    #[serde(rename = "restart-during-undo")]
    RestartDuringUndo,
    #[serde(rename = "restart-during-write")]
    RestartDuringWrite,
    #[serde(rename = "late")]
    Late,
    #[serde(rename = "etag")]
    Etag,
    #[serde(rename = "launch-begins")]
    LaunchBegins,
    #[serde(rename = "termination-while-launching")]
    WhileLaunching,
    #[serde(rename = "deletion-named-twice")]
    NamedTwice,
    #[serde(rename = "time-to-scale-in")]
    TimeToScaleIn,
    #[serde(rename = "scale-in-protection")]
    ScaleInProtection,
    #[serde(rename = "operation-addresses")]
    OperationAddresses,
    #[serde(rename = "failed-allocation")]
    FailedAllocation,
    #[serde(rename = "spot-and-deallocated")]
    SpotAndDeallocated,
}

impl Probe {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 22] = [
        Self::Guard,
        Self::Reads,
        Self::Deletions,
        Self::Missing,
        Self::CapacityIs,
        Self::GrowsBy,
        Self::Writes,
        Self::ChangedBetween,
        Self::ReadLags,
        Self::OtherClient,
        Self::RestartDuringUndo,
        Self::RestartDuringWrite,
        Self::Late,
        Self::Etag,
        Self::LaunchBegins,
        Self::WhileLaunching,
        Self::NamedTwice,
        Self::TimeToScaleIn,
        Self::ScaleInProtection,
        Self::OperationAddresses,
        Self::FailedAllocation,
        Self::SpotAndDeallocated,
    ];

    /// Its name in the table, in reports and in the documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Guard => "guard",
            Self::Reads => "reads",
            Self::Deletions => "deletions",
            Self::Missing => "missing",
            Self::CapacityIs => "capacity_is",
            Self::GrowsBy => "grows_by",
            Self::Writes => "writes",
            Self::ChangedBetween => "changed-between-read-and-write",
            Self::ReadLags => "read-lags",
            Self::OtherClient => "other-client-during-undo",
            Self::RestartDuringUndo => "restart-during-undo",
            Self::RestartDuringWrite => "restart-during-write",
            Self::Late => "late",
            Self::Etag => "etag",
            Self::LaunchBegins => "launch-begins",
            Self::WhileLaunching => "termination-while-launching",
            Self::NamedTwice => "deletion-named-twice",
            Self::TimeToScaleIn => "time-to-scale-in",
            Self::ScaleInProtection => "scale-in-protection",
            Self::OperationAddresses => "operation-addresses",
            Self::FailedAllocation => "failed-allocation",
            Self::SpotAndDeallocated => "spot-and-deallocated",
        }
    }

    /// Where the assumption is written down.
    pub fn origin(self) -> Origin {
        match self {
            Self::Guard | Self::Reads | Self::Deletions | Self::Missing | Self::CapacityIs | Self::GrowsBy => {
                Origin::Model
            }
            Self::Writes => Origin::Model,
            Self::ChangedBetween
            | Self::ReadLags
            | Self::OtherClient
            | Self::RestartDuringUndo
            | Self::RestartDuringWrite => Origin::Search,
            _ => Origin::Code,
        }
    }

    /// What it does, or why nothing can be done.
    pub fn about(self) -> &'static str {
        match self {
            Self::Guard => "writes a capacity once more on the reading before the last write",
            Self::Reads => "compares capacity and instances of each reading while an instance is being deleted",
            Self::Deletions => "reads the capacity right after an accepted deletion, and after its end",
            Self::Missing => "deletes an instance without telling the group, and waits for a replacement",
            Self::CapacityIs => "writes a capacity up and down while an instance is missing or beyond the capacity",
            Self::GrowsBy => "launches an instance by LaunchInstances, and repeats the call with its token",
            Self::ReadLags => "reads the group by itself and in the list after a write, until both show it",
            Self::Late => "abandons a capacity write halfway, and watches when it takes effect",
            Self::Etag => "compares the etags before and after a write, by itself and in the list",
            Self::LaunchBegins => "waits for the first sign of a launch after a higher capacity",
            Self::WhileLaunching => "deletes an instance as soon as it is listed, while it is being created",
            Self::NamedTwice => "names an instance once more while its deletion runs",
            Self::TimeToScaleIn => "sets a capacity below the live instances, and waits for the first termination",
            Self::ScaleInProtection => "sets a capacity below the live instances where they are protected",
            Self::OperationAddresses => "polls the first operation again at the end",
            Self::FailedAllocation => "watches a launch that fails, if one does, and what it leaves",
            Self::Writes => "counts the writes of all probes that are throttled, and the budgets that responses report",
            _ => self.unprobed().unwrap_or_default(),
        }
    }

    /// Why it cannot be probed, where it cannot.
    pub fn unprobed(self) -> Option<&'static str> {
        Some(match self {
            Self::ChangedBetween => "how often others write in between is up to them; `guard` shows what happens then",
            Self::OtherClient => {
                "another client's write, which the probes would have to imitate: the cloud adds nothing"
            }
            Self::RestartDuringUndo => "a restart of Headcount, in which the cloud has no part",
            Self::RestartDuringWrite => "a restart of Headcount; `late` measures the cloud's part in it",
            Self::SpotAndDeallocated => {
                "it needs a spot scale set, and calls that evict and deallocate a VM, for which Headcount has none; a VM \
                 that the cloud evicts meanwhile is in the evidence"
            }
            _ => return None,
        })
    }

    /// What Headcount assumes of a group with this model.
    pub fn assumed(self, model: Consistency) -> String {
        let is_scale_set = model.missing == Missing::LeftOut;
        match self {
            Self::Guard => match model.guard {
                Guard::IfMatch => "a write on an outdated reading is refused".to_owned(),
                Guard::None => "a write has no precondition".to_owned(),
            },
            Self::Reads => match model.reads {
                Reads::Together => "a reading with the lower capacity shows the deletion".to_owned(),
                Reads::Apart => "the list of instances may lag behind the capacity".to_owned(),
            },
            Self::Deletions => match model.deletions {
                Deletions::Final => "the capacity falls by one when the deletion is accepted".to_owned(),
                Deletions::CanFail => "the capacity falls by one, when accepted or when the VM is gone".to_owned(),
            },
            Self::Missing => match model.missing {
                Missing::Retried => "what is missing is launched".to_owned(),
                Missing::LeftOut => "what is missing is not launched".to_owned(),
            },
            Self::CapacityIs => match model.capacity_is {
                CapacityIs::Actual => "a new capacity is compared with what lives".to_owned(),
                CapacityIs::Nominal => "a new capacity is compared with the one before".to_owned(),
                CapacityIs::Unknown => "a new capacity is compared with what lives, or with the one before".to_owned(),
            },
            Self::GrowsBy if is_scale_set => "nothing launches instances but a higher capacity".to_owned(),
            Self::GrowsBy => "LaunchInstances raises the capacity; repeated, it is the same launch".to_owned(),
            Self::ReadLags => format!("reads show a write within {} s", Consistency::LAG.as_secs()),
            Self::Late => {
                format!("a write without a response takes effect within {} s, or never", Consistency::LATE.as_secs())
            }
            Self::Etag if is_scale_set => "every reading has an etag, and each capacity write changes it".to_owned(),
            Self::Etag => "there is none".to_owned(),
            Self::LaunchBegins | Self::TimeToScaleIn | Self::ScaleInProtection if is_scale_set => "nothing".to_owned(),
            Self::LaunchBegins => {
                format!("a launch shows within {} s of a higher capacity", Consistency::LAUNCH_BEGINS.as_secs())
            }
            Self::WhileLaunching => "it is deleted and not replaced, or refused as a conflict".to_owned(),
            Self::NamedTwice if is_scale_set => "the capacity falls once".to_owned(),
            Self::NamedTwice => "the capacity falls each time".to_owned(),
            Self::TimeToScaleIn => {
                format!("more than {} s until the first termination", 2 * WATCH_EVERY.as_secs())
            }
            Self::ScaleInProtection => "no protected instance is terminated for a lower capacity".to_owned(),
            Self::OperationAddresses => "the address of an operation works until it has ended".to_owned(),
            Self::FailedAllocation if is_scale_set => {
                "refused at once, or its reason is reported and the capacity stays or goes back".to_owned()
            }
            Self::FailedAllocation => "its reason is reported, and the capacity stays".to_owned(),
            Self::Writes => match model.writes {
                Writes::Ample => "some dozen writes in ten minutes are not throttled".to_owned(),
                Writes::Scarce => "a few writes a minute are not throttled".to_owned(),
            },
            Self::ChangedBetween
            | Self::OtherClient
            | Self::RestartDuringUndo
            | Self::RestartDuringWrite
            | Self::SpotAndDeallocated => "see docs/verified.md".to_owned(),
        }
    }

    /// What is at risk where the assumption does not hold.
    pub(super) fn risk(self, model: Consistency) -> Risk {
        const PROTECT: &str = "scale-in protection for the group's instances";
        const ALONE: &str = "no other client that writes the capacity of the group, autoscale settings included";
        const UNDECLARED: &str = "no `capacityIs` for the group, so that its capacity is never lowered";
        const READ_ONLY: &str = "`readOnly: true`";
        let is_scale_set = model.missing == Missing::LeftOut;
        let (laws, meanwhile) = match self {
            Self::Guard | Self::Etag | Self::ChangedBetween => ("1, 2", ALONE),
            Self::Reads if is_scale_set => ("3", UNDECLARED),
            Self::Reads | Self::LaunchBegins | Self::TimeToScaleIn => ("1, 11", PROTECT),
            Self::Deletions if is_scale_set => ("1, 3, 6", UNDECLARED),
            Self::Deletions => ("1, 3, 6", PROTECT),
            Self::Missing if is_scale_set => ("3", UNDECLARED),
            Self::Missing | Self::FailedAllocation => {
                ("3, 13", "a low --max-node-provision-time of the Cluster Autoscaler")
            }
            Self::CapacityIs if is_scale_set => ("1", UNDECLARED),
            Self::CapacityIs => ("1", READ_ONLY),
            Self::GrowsBy => ("7, 11", "no `launch: synchronous` for the group"),
            Self::ReadLags if is_scale_set => {
                ("3, 4", "a --scan-interval of the Cluster Autoscaler that is longer than the lag")
            }
            Self::ReadLags => ("1, 3, 4", PROTECT),
            Self::Late if is_scale_set => ("7", ALONE),
            Self::Late => ("1, 7", PROTECT),
            Self::WhileLaunching => ("1, 4", "a --scale-down-delay-after-add longer than a launch takes"),
            Self::NamedTwice => ("1, 7", READ_ONLY),
            Self::ScaleInProtection => ("1", READ_ONLY),
            Self::OperationAddresses => ("3, 12", "none is needed: reads show what became of an operation"),
            Self::Writes => ("9", "a longer --scan-interval of the Cluster Autoscaler"),
            Self::OtherClient | Self::RestartDuringUndo | Self::RestartDuringWrite | Self::SpotAndDeallocated => {
                ("1", READ_ONLY)
            }
        };
        Risk { laws, meanwhile }
    }
}
