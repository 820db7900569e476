//! What one read of a node group returned, before anything is concluded from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::consistency::Consistency;
use super::identity::Identity;
use super::ids::{GroupName, ProviderId};
use super::taint::Taint;

/// More nodes than any group of either cloud can have: Auto Scaling groups and scale sets hold some thousands.
/// Headcount lists missing instances one by one, so it rejects a capacity beyond this.
pub const CAPACITY_MAX: u32 = 100_000;

/// Whether a cloud is changing a group, as far as it says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Provisioning {
    /// It adds or deletes instances, or may: an operation runs. Always so where the cloud launches by itself what is
    /// missing (AWS).
    Running,
    /// Nothing runs, and the last operation succeeded.
    Succeeded,
    /// Nothing runs, and the last operation failed.
    Failed,
}

/// What one read of a node group returned. Sizes are in nodes, even if the cloud counts in other units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupReading {
    /// The group.
    pub name: GroupName,
    /// What tells it from another group of this name. `None` where the cloud did not return it.
    pub identity: Option<Identity>,
    /// What may be concluded from this read, and what a write does.
    pub consistency: Consistency,
    /// The least number of nodes: the cloud's or the configuration's, whichever is higher.
    pub min: u32,
    /// The greatest number of nodes: the cloud's or the configuration's, whichever is lower.
    pub max: u32,
    /// The lowest capacity that the cloud itself accepts in a write; 0 where it has no such bound.
    pub floor: u32,
    /// The group's desired capacity.
    pub desired: u32,
    /// The version of the group, and the precondition of writes to it, where [`Consistency::guard`] is `IfMatch`.
    pub etag: Option<String>,
    /// Units of the cloud's capacity per node; 1 for nearly every group. `None` where the instances' weights differ, so
    /// that no capacity can be written.
    pub units_per_node: Option<u32>,
    /// The instances may have changed although the capacity has not; an earlier read of them is outdated.
    pub is_detail_outdated: bool,
    /// Whether the cloud is changing the group, and how its last change ended.
    pub provisioning: Provisioning,
    /// Whether the group can grow.
    pub growth: Permit,
    /// Whether its instances can be deleted.
    pub removal: Permit,
    /// Whether a call can launch instances in it and return what became of them ([`super::GrowsBy::Launch`]).
    pub launch: Permit,
    /// The zones that new instances come up in.
    pub zones: Zones,
    /// Its instances; `None` where this read did not include them.
    pub instances: Option<Vec<Instance>>,
    /// How many instances were listed without an ID. They exist, and are not among `instances`: a lower capacity could
    /// delete them.
    pub without_id: u32,
    /// How many instances the cloud keeps after their deletion, until somebody terminates them. They are listed as
    /// being deleted.
    pub retained: u32,
    /// Whether the cloud may launch instances beyond the capacity by itself, as the group is set up.
    #[serde(default)]
    pub has_own_surplus: bool,
    /// The settings in the group's tags for its nodes and their scaling.
    pub hints: Arc<GroupHints>,
    /// Changes whenever the launch spec of new instances may have changed (launch template, instance types, tags).
    pub launch_fingerprint: u64,
    /// What the ID of a placeholder begins with, in the form of the group's instances. A label follows that is unique in
    /// the group and contains only `[0-9a-z-]`. It does not change while the group exists: CA knows a placeholder by its
    /// ID.
    pub placeholder_prefix: String,
}

impl GroupReading {
    /// The ID of the placeholder with this label.
    pub fn placeholder(&self, label: &str) -> ProviderId {
        ProviderId::from(format!("{}{label}", self.placeholder_prefix))
    }

    /// The zone that a launch in this group is in, or why none can be requested.
    pub fn launch_zone(&self) -> Result<&str, String> {
        if let Permit::Withheld(reason) = &self.launch {
            return Err(reason.clone());
        }
        match &self.zones.names[..] {
            [zone] => Ok(zone),
            [] => Err("its zone is not known".to_owned()),
            zones => Err(format!(
                "it has {} zones ({}), and a launch is in one; zones: separate serves each of them",
                zones.len(),
                zones.join(", ")
            )),
        }
    }
}

/// The zones of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zones {
    /// Their names. Empty where no launch can choose one.
    pub names: Vec<String>,
    /// If the cloud launches and terminates instances to spread them evenly: the command that stops it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_rebalancing: Option<String>,
    /// Those in which the cloud launches nothing at the moment, each with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub withdrawn: BTreeMap<String, String>,
}

/// Whether a kind of write to a group is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Permit {
    /// Allowed.
    Granted,
    /// Not allowed, for this reason.
    Withheld(String),
}

/// One instance, as the cloud lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// Its ID.
    pub id: ProviderId,
    /// What tells it from another instance of this ID. `None` where the cloud did not return it, or never reuses IDs.
    pub identity: Option<Identity>,
    /// Its state.
    pub state: InstanceState,
    /// Whether the group's desired capacity includes it.
    pub counts: Counts,
    /// Whether the cloud deletes it only when its deletion names it (AWS: protected from scale-in).
    pub is_protected: bool,
    /// Why it will never be a node, where the cloud reports it as failed. Behind a pointer, which takes little room:
    /// nearly no instance has one.
    pub failure: Option<Arc<Failure>>,
}

/// The states of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum InstanceState {
    /// Being created.
    Creating,
    /// Running.
    Running,
    /// Being deleted.
    Deleting,
}

/// Whether an instance is part of the desired capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Counts {
    /// The cloud documents that it is.
    Yes,
    /// The cloud documents that it is not (AWS: terminating, standby).
    No,
    /// It is part of the capacity while it is live. Only a read shows whether it stays part of it while it is being
    /// deleted.
    UntilDeleted,
}

/// Why an instance could not be created, or why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// How CA treats it.
    pub class: FailureClass,
    /// The cloud's own code. Never empty: CA drops an error without one.
    pub code: String,
    /// The cloud's own message, shortened.
    pub message: String,
    /// When it failed, by the cloud's clock.
    pub at: SystemTime,
    /// Whether the cloud gave a reason. If not, code and message are generic until the failed operation reports its
    /// own.
    pub is_explained: bool,
    /// Whether it was a node, and the cloud has taken it away. It is listed as failed even if the Kubernetes API still
    /// has the node.
    pub is_eviction: bool,
}

/// CA's classes of instance errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FailureClass {
    /// No capacity or no quota: CA tries another group.
    OutOfResources,
    /// Any other reason.
    Other,
}

/// What the cloud reports about recent launches in one group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchActivity {
    /// Launches whose failure is final, newest first. A launch that the cloud may still retry in another zone is not
    /// included.
    pub failures: Vec<Failure>,
    /// Launches under way that name no instance yet.
    pub under_way: u32,
    /// The instances of launches that began within the last minute and have not failed, unless a later activity names
    /// them, too. A list that lags may lack them.
    pub launched: Vec<Launched>,
    /// What the cloud launched for reasons of its own.
    pub own: OwnLaunches,
}

/// An instance that was launched, and when that began, by the cloud's clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launched {
    /// Its ID: [`ProviderId::instance`].
    pub instance: String,
    /// When its launch began. A list that has it is younger than everything that was written before.
    pub at: SystemTime,
}

/// What the cloud launched since the shortfall began, and for reasons of its own: an instance refresh, rebalancing,
/// maintenance. Launches whose reason is not known are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnLaunches {
    /// The instances, newest first. By [`ProviderId::instance`].
    pub instances: Vec<String>,
    /// How many instances the cloud terminated for such reasons. As many of those it launched replace them.
    pub replacing: usize,
}

impl OwnLaunches {
    /// The instances without the oldest ones, as many as replace others.
    pub fn additional(&self) -> &[String] {
        &self.instances[..self.instances.len().saturating_sub(self.replacing)]
    }
}

/// The missing instances that launch activity has to explain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortfall {
    /// How many have no known reason.
    pub missing: u32,
    /// Since when the first of them has been missing, by the cloud's clock.
    pub since: SystemTime,
}

impl Shortfall {
    /// More than any number of launches explains: every launch since then is read.
    pub fn of_every_launch(since: SystemTime) -> Self {
        Self { missing: u32::MAX, since }
    }
}

/// The settings in a group's tags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupHints {
    /// `node-template/label/…`
    pub labels: BTreeMap<String, String>,
    /// `node-template/taint/…`
    pub taints: Vec<Taint>,
    /// `node-template/resources/…`, quantities as written.
    pub resources: BTreeMap<String, String>,
    /// `node-template/autoscaling-options/…`, lower-case names, values as written.
    pub options: BTreeMap<String, String>,
    /// The clusters that the tags name. More than one where tags were copied from another cluster's group (autoscaler
    /// #8084).
    pub clusters: BTreeSet<String>,
    /// Whether the tag [`SET_ASIDE_TAG`](super::SET_ASIDE_TAG) allows `headcount verify` to write to the group.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_set_aside: bool,
}

/// What a listing of a source returned.
#[derive(Debug, Default)]
pub struct Listing {
    /// The groups that could be read.
    pub groups: Vec<GroupReading>,
    /// Groups that exist but cannot be decoded, each with the reason. Their last good reading stays in force.
    pub broken: Vec<(GroupName, String)>,
    /// Groups that were requested by name and do not exist.
    pub absent: Vec<GroupName>,
}
