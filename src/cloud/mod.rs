//! The clouds, and the one trait the rest of the house sees them through.
//!
//! A cloud *observes* and *acts*; it decides nothing. What an observation means, whether a write is allowed and what the
//! Cluster Autoscaler is told is decided in [`crate::fleet`], which is why everything here is in the field's words
//! (group, instance, capacity) and not in an API's.

mod adverse_setting;
mod budget;
mod error;
pub mod go_syntax;
mod instance_type;
mod launch_spec;
mod reading;
mod spec;
mod taint;
pub mod text;

use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;

pub use adverse_setting::{AdverseSetting, AdverseSettings};
pub use budget::Budget;
pub use error::{CloudError, Fault};
pub use instance_type::{Accelerator, Architecture, InstanceType};
pub use launch_spec::{LaunchSpec, OperatingSystem, ReservedProfile};
pub use reading::{
    CAPACITY_MAX, Counts, Failure, FailureClass, GroupHints, GroupName, GroupReading, Instance, InstanceState,
    LaunchActivity, Listing, Permit, ProviderId, Shortfall,
};
pub use spec::{NodeGroupSpec, SpecError};
pub use taint::{Taint, TaintEffect};

/// One cloud account (or subscription) and region (or resource group) that Headcount watches: a *source*.
///
/// All methods are safe to call concurrently. Every method makes a bounded number of calls, each with a time limit, and
/// none retries a write: what to do after a failed write is decided by the caller, who reads again first.
#[async_trait]
pub trait Cloud: Send + Sync {
    /// Lists every node group of this source.
    ///
    /// One broken group never fails the listing: it is named in [`Listing::broken`] instead.
    async fn list(&self) -> Result<Listing, CloudError>;

    /// Reads one group anew, its instances included. `None` where the cloud says that there is no such group.
    ///
    /// Where capacity and instances are two calls, the instances are read first: a capacity read later than the
    /// instances can be too low by what was deleted in between, which the status bounds, but never too high.
    async fn observe(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError>;

    /// Reads one group's capacity and precondition, for a write. Its instances are included only where the same call returns
    /// them. `None` where the cloud reports that there is no such group.
    async fn read_capacity(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        self.observe(group).await
    }

    /// Reads one group and its instances for a write. Unlike [`Cloud::observe`], it is not held back to save calls.
    async fn observe_for_write(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        self.observe(group).await
    }

    /// What the cloud reports of recent launches, as far back as the shortfall needs it. Read only for groups that miss
    /// instances.
    async fn launch_activity(&self, group: &GroupName, shortfall: Shortfall) -> Result<LaunchActivity, CloudError>;

    /// Sets the group's capacity to `to` nodes, provided that the group still is as `basis` says, where the cloud can
    /// check that. Exactly one write is sent.
    async fn set_capacity(&self, basis: &GroupReading, to: u32) -> Result<Acceptance, CloudError>;

    /// Deletes exactly the named instances and lowers the capacity by their number; nothing else.
    ///
    /// `Err` says that nothing was accepted, or that the outcome is unknown ([`CloudError::outcome_unknown`]).
    async fn delete_instances(&self, basis: &GroupReading, ids: &[ProviderId]) -> Result<Deletion, CloudError>;

    /// How an accepted operation is doing. Asked only for operations that carry a handle.
    async fn follow(&self, handle: &OperationHandle) -> Result<Progress, CloudError>;

    /// What a new instance of this group would be made from: instance types, zones, labels and taints.
    async fn launch_spec(&self, reading: &GroupReading) -> Result<LaunchSpec, CloudError>;

    /// Looks instance types up by name, live. Types the cloud does not know are left out of the answer.
    async fn instance_types(&self, names: &[String]) -> Result<Vec<InstanceType>, CloudError>;

    /// Every instance type this source offers, live.
    async fn all_instance_types(&self) -> Result<Vec<InstanceType>, CloudError>;

    /// The warnings logged about groups so far, each once.
    fn warnings(&self) -> Vec<(GroupName, String)> {
        Vec::new()
    }

    /// Settings of its groups that work against the Cluster Autoscaler. Only `headcount check` asks for them.
    async fn adverse_settings(&self) -> AdverseSettings {
        AdverseSettings::default()
    }

    /// Calls that serving needs and no listing makes, and that the credentials do not permit. Only `headcount check` tries
    /// them.
    async fn denied_calls(&self) -> Vec<CloudError> {
        Vec::new()
    }

    /// Whether an ID is of the form this source's instances have, and which group it names if it names one.
    fn recognise(&self, id: &str) -> Recognition;

    /// An ID in the form of this source's instances for an instance that does not exist (yet). `label` makes it unique
    /// within the group and holds only `[0-9a-z-]`.
    fn placeholder(&self, reading: &GroupReading, label: &str) -> ProviderId;

    /// What remains of the budgets of calls that this cloud tells of; empty where it tells of none.
    fn budgets(&self) -> Vec<Budget> {
        Vec::new()
    }

    /// The cloud's family, which chooses the instance-types table and the GPU label.
    fn family(&self) -> Family;

    /// Wall-clock time, as this cloud's launch activities would stamp it.
    fn now(&self) -> SystemTime;
}

/// A shared cloud.
pub type SharedCloud = Arc<dyn Cloud>;

/// Which kind of cloud a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// AWS Auto Scaling groups.
    Aws,
    /// Azure VM scale sets.
    Azure,
}

/// The cloud took a write on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acceptance {
    /// Where the cloud finishes the write later and can be asked about it.
    pub handle: Option<OperationHandle>,
}

/// What became of a deletion request, instance by instance.
#[derive(Debug, Default)]
pub struct Deletion {
    /// Instances whose deletion was accepted.
    pub accepted: Vec<ProviderId>,
    /// Instances the cloud says are gone or going already; no deletion was started for them.
    pub already_gone: Vec<ProviderId>,
    /// Instances whose deletion was refused, each with the reason.
    pub refused: Vec<(ProviderId, CloudError)>,
    /// Where the cloud finishes the deletion later and can be asked about it.
    pub handle: Option<OperationHandle>,
}

/// A cloud's own reference to an operation that it has accepted and not finished.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OperationHandle(pub String);

/// How an accepted operation is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Not finished; ask again, not sooner than after this time if one is given.
    Running {
        /// The cloud's wish (Retry-After).
        ask_after: Option<std::time::Duration>,
    },
    /// Finished as asked.
    Succeeded,
    /// Finished, and not as asked.
    Failed(Failure),
    /// Superseded by another operation before it took effect: to be read and asked again.
    Preempted,
}

/// What a provider ID is to a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recognition {
    /// Not of this source's form.
    Foreign,
    /// Of this source's form; the ID does not say which group it is in.
    Ours,
    /// Of this source's form, and it names its group.
    OursInGroup(GroupName),
}
