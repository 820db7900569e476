//! The trait [`Cloud`] and its vocabulary: what the fleet knows about a cloud.
//!
//! A cloud *observes* and *acts*; it decides nothing. [`crate::fleet`] decides what an observation means, whether a
//! write is allowed and what the Cluster Autoscaler sees. Types here therefore use the terms of node groups (group,
//! instance, capacity) and no API's own.

mod adverse_setting;
mod behavior;
mod budget;
mod call_meter;
mod consistency;
mod endpoint;
mod error;
pub mod go_syntax;
mod identity;
mod ids;
pub mod in_tree;
mod instance_type;
mod kubelet_reserves;
mod label;
mod launch;
mod launch_spec;
mod node_image;
mod price;
mod quota;
mod reading;
mod response_log;
pub mod secrets;
mod spec;
mod taint;
pub mod text;
mod verifiable;
mod zones;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use serde::{Deserialize, Serialize, Serializer};
use tokio::sync::mpsc;

pub use adverse_setting::{AdverseKind, AdverseSetting, AdverseSettings};
pub use behavior::{Behavior, Falls, Raises};
pub use budget::Budget;
pub use call_meter::{CALL_FAMILIES, CallMeter, CallMetrics, CallStatus};
pub use consistency::{CapacityIs, Consistency, Deletions, GrowsBy, Guard, Missing, Reads, Writes};
pub use endpoint::parse_endpoint;
pub use error::{CloudError, Fault, RETRY_AFTER_MAX};
pub use identity::{Identity, differ};
pub use ids::{GroupName, ProviderId};
pub use instance_type::{Accelerator, Architecture, InstanceType};
pub use kubelet_reserves::{KubeletReserves, ReserveFigures};
pub use label::{is_label_key, is_label_value, is_qualified_name};
pub use launch::{LAUNCH_MAX, LaunchRequest, LaunchResult};
pub use launch_spec::{LaunchSpec, LocalDisks, OperatingSystem, ReservedProfile, Unread};
pub use node_image::{ImageEvidence, ImageFamily, NodeImage};
pub use price::{Currency, ListedPrice, Market, PriceExtent, PriceList, is_price};
pub use quota::{Quota, QuotaUse, Quotas};
pub use reading::{
    CAPACITY_MAX, Counts, Failure, FailureClass, GroupHints, GroupReading, Instance, InstanceState, LaunchActivity,
    Launched, Listing, OwnLaunches, Permit, Provisioning, Shortfall, Zones,
};
pub use response_log::{RawResponse, ResponseLog};
pub use spec::{NodeGroupSpec, SpecError};
pub use taint::{Taint, TaintEffect};
pub use verifiable::{OWN_ENDPOINT, SET_ASIDE_TAG, SET_ASIDE_VALUE, VerifiableCloud};
pub use zones::ZoneName;

/// One cloud account (or subscription) and region (or resource group) that Headcount watches: a *source*.
///
/// All methods are safe to call concurrently. Every method makes a bounded number of calls, each with a time limit, and
/// none retries a write: after a failed write, the caller reads again and decides.
#[async_trait]
pub trait Cloud: Send + Sync {
    /// Lists every node group of this source.
    ///
    /// A group that cannot be read never fails the listing; [`Listing::broken`] names it.
    async fn list(&self) -> Result<Listing, CloudError>;

    /// Lists page by page if the cloud has pages, and sends each page as it arrives. Returns what was in no page. If it
    /// fails, the pages already sent stay valid.
    async fn list_pages(&self, _pages: mpsc::UnboundedSender<Listing>) -> Result<Listing, CloudError> {
        self.list().await
    }

    /// Reads one group and its instances from the cloud. `None` where the cloud reports that there is no such group.
    ///
    /// If capacity and instances need two calls, the instances are read first. The capacity is then the newer of the
    /// two. It may be lower by what was deleted in between, which the census allows for, but it is never too high.
    async fn observe(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError>;

    /// Reads one group's capacity and precondition, for a write. Its instances are included only where the same call
    /// returns them. `None` where the cloud reports that there is no such group.
    async fn read_capacity(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        self.observe(group).await
    }

    /// Reads one group and its instances for a write. Unlike [`Cloud::observe`], it is not held back to save calls.
    async fn observe_for_write(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        self.observe(group).await
    }

    /// What the cloud reports about recent launches, as far back as the shortfall needs it. Read only for groups with
    /// missing instances.
    async fn launch_activity(&self, group: &GroupName, shortfall: Shortfall) -> Result<LaunchActivity, CloudError>;

    /// The instances of a group that the cloud created before this time, by the cloud's clock. Instances whose age is
    /// unknown are left out. Called only for groups that may belong to another cluster.
    async fn created_before(
        &self,
        _group: &GroupName,
        _instances: &[ProviderId],
        _before: SystemTime,
    ) -> Result<Vec<ProviderId>, CloudError> {
        Ok(Vec::new())
    }

    /// The progress of an accepted operation that has a handle.
    async fn follow(&self, handle: &OperationHandle) -> Result<Progress, CloudError>;

    /// What a new instance of this group would be made from: instance types, zones, labels and taints.
    async fn launch_spec(&self, reading: &GroupReading) -> Result<LaunchSpec, CloudError>;

    /// Looks instance types up by name, live. The result leaves out types that the cloud does not know.
    async fn instance_types(&self, names: &[String]) -> Result<Vec<InstanceType>, CloudError>;

    /// Looks up every instance type that this source offers, live.
    async fn all_instance_types(&self) -> Result<Vec<InstanceType>, CloudError>;

    /// Why no scale-up of this group will reach the cloud for more than a minute, although it can grow.
    fn paused(&self, _group: &GroupName) -> Option<String> {
        None
    }

    /// The warnings logged about groups so far, each once.
    fn warnings(&self) -> Vec<(GroupName, String)> {
        Vec::new()
    }

    /// Settings of its groups that work against the Cluster Autoscaler. Only `headcount check` asks for them.
    async fn adverse_settings(&self) -> AdverseSettings {
        AdverseSettings::default()
    }

    /// Whether the quotas of the account can be read ahead of a write.
    fn has_quotas(&self) -> bool {
        false
    }

    /// The quotas of the account that the listed groups count against.
    async fn quotas(&self) -> Result<Quotas, CloudError> {
        Ok(Quotas::default())
    }

    /// Calls that `headcount serve` makes in addition to listings and that the credentials do not permit. Only
    /// `headcount check` tries them.
    async fn denied_calls(&self) -> Vec<DeniedCall> {
        Vec::new()
    }

    /// The identity behind the source's credentials, as the cloud names it. Only `headcount check` asks for it.
    async fn identity(&self) -> Result<Option<String>, CloudError> {
        Ok(None)
    }

    /// Whether an ID has the form of this source's instances, and the group that it names, if any.
    fn recognise(&self, id: &str) -> Recognition;

    /// The remaining call budgets that this cloud reports; empty where it reports none.
    fn budgets(&self) -> Vec<Budget> {
        Vec::new()
    }

    /// Where this source buys its instances.
    fn market(&self) -> Market {
        Market::default()
    }

    /// The regions whose price lists this source buys by; empty where there is no list that Headcount may read.
    async fn price_regions(&self) -> Result<Vec<String>, CloudError> {
        Ok(Vec::new())
    }

    /// The price list of a region, in the currency of [`Cloud::market`]. It takes many calls, and nothing waits for it.
    async fn price_list(&self, _region: &str, _extent: PriceExtent) -> PriceList {
        PriceList::default()
    }

    /// The address that the cloud is called at, if it is not the family's own. Another address is another cloud,
    /// whatever it calls its groups.
    fn endpoint(&self) -> Option<&str> {
        None
    }

    /// The cloud's family, which chooses the instance-types table and the GPU label.
    fn family(&self) -> Family;

    /// Wall-clock time by the clock that stamps this cloud's launch activities.
    fn now(&self) -> SystemTime;
}

/// A cloud that can be written to. Code that only reads holds a [`Cloud`], which has no call that writes (law 11).
#[async_trait]
pub trait WritableCloud: Cloud {
    /// Sets the group's capacity to `to` nodes. Where the cloud can check preconditions, the write fails unless the
    /// group is still as in `basis`. Sends exactly one write.
    async fn set_capacity(&self, basis: &GroupReading, to: u32) -> Result<Acceptance, CloudError>;

    /// Launches instances and returns what became of them. Only for groups that [`GroupReading::launch`] permits it
    /// for.
    ///
    /// If the outcome is unknown ([`CloudError::outcome_unknown`]), the caller repeats it with the same token. Any
    /// other error means that nothing was launched.
    async fn launch(&self, basis: &GroupReading, _launch: &LaunchRequest) -> Result<LaunchResult, CloudError> {
        Err(CloudError::unsupported("launch", basis.name.as_str(), "this cloud has no such call"))
    }

    /// Deletes exactly the named instances and lowers the capacity by their number.
    ///
    /// `Err` means that nothing was accepted, or that the outcome is unknown ([`CloudError::outcome_unknown`]).
    async fn delete_instances(&self, basis: &GroupReading, ids: &[ProviderId]) -> Result<Deletion, CloudError>;
}

/// A shared cloud that can be written to.
pub type SharedCloud = Arc<dyn WritableCloud>;

/// A shared cloud that can only be read.
pub type ReadOnlyCloud = Arc<dyn Cloud>;

/// Which kind of cloud a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// AWS Auto Scaling groups.
    Aws,
    /// Azure VM scale sets.
    Azure,
}

/// A call that the credentials do not permit.
#[derive(Clone, Debug)]
pub struct DeniedCall {
    /// The cloud's refusal.
    pub error: CloudError,
    /// What is lost without the call.
    pub loss: &'static str,
}

/// The cloud accepted a write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acceptance {
    /// The handle to follow the write by, where the cloud finishes it later.
    pub handle: Option<OperationHandle>,
}

/// The outcome of a deletion request, instance by instance.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Deletion {
    /// Instances whose deletion was accepted.
    pub accepted: Vec<ProviderId>,
    /// Instances that are gone or being deleted already; no deletion was started for them.
    pub already_gone: Vec<ProviderId>,
    /// Instances whose deletion was refused, each with the reason.
    pub refused: Vec<(ProviderId, CloudError)>,
    /// The handle to follow the deletion by, where the cloud finishes it later.
    pub handle: Option<OperationHandle>,
}

/// A cloud's own reference to an operation that it has accepted and not finished. Azure's are URLs with a signature, so
/// a recording has only what tells one from another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
pub struct OperationHandle(pub String);

impl Serialize for OperationHandle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const RECORDED: &str = "handle ";
        if self.0.starts_with(RECORDED) {
            return serializer.serialize_str(&self.0);
        }
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        serializer.collect_str(&format_args!("{RECORDED}{:016x}", hasher.finish()))
    }
}

/// The progress of an accepted operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Not finished.
    Running {
        /// The pause that the cloud asks for before the next poll (Retry-After).
        ask_after: Option<std::time::Duration>,
    },
    /// Finished, with the requested effect.
    Succeeded,
    /// Finished, without the requested effect.
    Failed(Failure),
    /// Superseded by another operation before it took effect. The caller reads again and repeats the request.
    Preempted,
}

/// Whether a provider ID belongs to a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recognition {
    /// It does not have the form of this source's IDs.
    Foreign,
    /// It has that form and names no group.
    Ours,
    /// It has that form and names its group.
    OursInGroup(GroupName),
}
