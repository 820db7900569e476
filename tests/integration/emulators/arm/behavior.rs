//! The behavior of the ARM emulator, and details of scale sets that the simulated cloud does not have.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The behavior of the emulator.
#[derive(Clone, Debug)]
pub(crate) struct Behavior {
    /// Items per page.
    pub(crate) page: usize,
    /// The ends of the paths, in lower case, of lists whose last page links to the first one.
    pub(crate) circles: Vec<&'static str>,
    /// How long each page of a list of machines takes.
    pub(crate) page_time: Duration,
    /// Whether lists spell the resource group in capitals, as ARM sometimes does.
    pub(crate) upper_case_in_lists: bool,
    /// How lists spell the IDs of machines.
    pub(crate) id_spelling: fn(&str) -> String,
    /// Where scale sets have etags.
    pub(crate) etags: Etags,
    /// What remains of these policies, instead of the figures in [`super::headers`].
    pub(crate) remaining: BTreeMap<String, u64>,
    /// What a deletion does with an instance that does not exist.
    pub(crate) missing_instance: MissingInstance,
    /// The response to a new capacity.
    pub(crate) write_answer: WriteAnswer,
    /// How an operation can be followed.
    pub(crate) tracking: Tracking,
    /// `Retry-After` of operations in progress, in seconds.
    pub(crate) retry_after: Option<u64>,
    /// The limits of quotas, by the names of VM families, `cores` or `lowPriorityCores`. Others are not listed, and not
    /// checked.
    pub(crate) quotas: BTreeMap<String, u64>,
    /// How long tokens are valid.
    pub(crate) token_life: Duration,
    /// Whether every token is refused.
    pub(crate) refuses_tokens: bool,
}

impl Default for Behavior {
    fn default() -> Self {
        Self {
            page: 100,
            circles: Vec::new(),
            page_time: Duration::ZERO,
            upper_case_in_lists: true,
            id_spelling: str::to_owned,
            etags: Etags::Everywhere,
            remaining: BTreeMap::new(),
            missing_instance: MissingInstance::Invalid,
            write_answer: WriteAnswer::Ok,
            tracking: Tracking::AsyncOperation,
            retry_after: None,
            quotas: BTreeMap::new(),
            token_life: Duration::from_secs(3600),
            refuses_tokens: false,
        }
    }
}

/// Where scale sets have etags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Etags {
    /// In lists and in their own responses, as recorded.
    Everywhere,
    /// In their own responses alone.
    NotInLists,
    /// Nowhere.
    Nowhere,
}

/// What a deletion does with an instance that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MissingInstance {
    /// It is ignored, and the others are deleted.
    Tolerated,
    /// It is refused as a whole: 404 ResourceNotFound.
    NotFound,
    /// It is refused as a whole: 400 InvalidParameter, as recorded.
    Invalid,
}

/// The response to a new capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteAnswer {
    /// 200 with the scale set, which is `Updating`.
    Ok,
    /// 202 without a body.
    Accepted,
}

/// How an operation can be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tracking {
    /// By `Azure-AsyncOperation`; `Location` is there as well.
    AsyncOperation,
    /// By `Location` alone.
    Location,
    /// Not at all.
    None,
}

/// Details of a scale set that the simulated cloud does not have.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupDetails {
    /// `orchestrationMode` is `Flexible`: machines have names, and are listed separately from the scale set.
    pub(crate) flexible: bool,
    /// `sku.name` is `Mix`, and all the instance types are in `skuProfile`.
    pub(crate) mix: bool,
    pub(crate) overprovision: bool,
    /// `virtualMachineProfile.capacityReservation` names a group of reservations.
    pub(crate) reserved: bool,
    /// The name of an autoscale setting for it.
    pub(crate) autoscale: Option<String>,
    /// Whether AKS's own autoscaler scales the pool that its tags name.
    pub(crate) aks_autoscales: bool,
    /// Further properties of that pool, as the REST reference documents them.
    pub(crate) aks_pool: serde_json::Map<String, serde_json::Value>,
    /// Further properties, as the REST reference documents them.
    pub(crate) properties: serde_json::Map<String, serde_json::Value>,
    /// `virtualMachineProfile.priority` is `Spot`.
    pub(crate) spot: bool,
    pub(crate) windows: bool,
    /// It is on a dedicated host group.
    pub(crate) host_group: bool,
    pub(crate) os_disk_gb: Option<u32>,
    pub(crate) ephemeral_os_disk: bool,
    pub(crate) storage_account_type: Option<String>,
    /// The image's gallery, name and version: `AKSUbuntu/images/2204gen2containerd/versions/1`.
    pub(crate) image: Option<String>,
    /// Addresses of the network interface; 0 means one.
    pub(crate) addresses: u32,
    /// Its capacity is not a number, in lists and in its own response.
    pub(crate) undecodable: bool,
    /// `forceDeletion=true` is refused.
    pub(crate) force_refused: bool,
    /// Instances (IDs or machine names) that are protected from scale-in.
    pub(crate) protected: BTreeSet<String>,
    /// The power state of failed machines, such as `stopped`; by default it is `running` if an extension failed, and
    /// none otherwise: such a machine never existed.
    pub(crate) power_of_failed: Option<String>,
    /// Instances whose instance view is left out.
    pub(crate) viewless: BTreeSet<String>,
    /// How much older machines are shown than they are.
    pub(crate) created_ago: Duration,
    /// Instances that lists go on to show as running VMs, whatever became of them.
    pub(crate) still_listed: BTreeSet<String>,
    /// Instances that are shown with another provisioning state, and with this power state if any.
    pub(crate) shown_as: BTreeMap<String, (&'static str, Option<&'static str>)>,
}
