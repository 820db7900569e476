//! What the keepers of one source share.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::cloud::{
    Acceptance, CloudError, Deletion, GroupReading, LaunchRequest, LaunchResult, ProviderId, ReadOnlyCloud, SharedCloud,
};
use crate::fleet::cadence::Pulse;
use crate::fleet::claims::Claims;
use crate::fleet::clock::Clock;
use crate::fleet::foreign::LiveCluster;
use crate::fleet::journal::Journal;
use crate::fleet::policy::LivePolicies;
use crate::fleet::quota::QuotaWatch;
use crate::fleet::reach::Reach;
use crate::fleet::recording::Recordings;
use crate::fleet::store::Store;
use crate::fleet::template_builder::TemplateJob;
use crate::group::ReadResult;
use crate::instance_types::Catalog;
use crate::tasks::Tasks;

/// What a keeper shares with the other keepers of its source.
#[derive(Clone)]
pub(in crate::fleet) struct KeeperContext {
    /// The group's cloud.
    pub cloud: ReadOnlyCloud,
    /// The same cloud, where it may be written to.
    pub writer: Option<SharedCloud>,
    /// Which source serves each group.
    pub claims: Arc<Claims>,
    /// Where to publish.
    pub store: Arc<Store>,
    /// What the configuration sets for groups.
    pub policies: Arc<LivePolicies>,
    /// What the fleet did lately.
    pub journal: Arc<Journal>,
    /// Where templates are built.
    pub templates: mpsc::Sender<TemplateJob>,
    /// Instance types, and what nodes were seen to hold.
    pub catalog: Arc<Catalog>,
    /// Where the source's keepers report that something happens.
    pub pulse: Arc<Pulse>,
    /// Whether the cloud responds.
    pub reach: Arc<Reach>,
    /// Supervises tasks.
    pub tasks: Tasks,
    /// What is known of the cluster's nodes.
    pub cluster: Arc<LiveCluster>,
    /// Requests a reading of the quotas.
    pub quotas: QuotaWatch,
    /// The clock that groups are driven by.
    pub clock: Clock,
    /// What happened to the groups, and what was decided.
    pub recordings: Arc<Recordings>,
    /// Whether everything that needs a write is refused.
    pub read_only: bool,
}

impl KeeperContext {
    /// What a listing that began at this moment has of a group. Its pages may have taken seconds since.
    pub(super) fn listed(&self, reading: Result<Box<GroupReading>, CloudError>, begun: Instant) -> ReadResult {
        let at = self.cloud.now().checked_sub(begun.elapsed()).unwrap_or(SystemTime::UNIX_EPOCH);
        ReadResult { reading: reading.map(Some), begun: self.clock.time(begun), at }
    }

    pub(super) async fn set_capacity(&self, basis: &GroupReading, to: u32) -> Result<Acceptance, CloudError> {
        self.writer("set_capacity", basis)?.set_capacity(basis, to).await
    }

    pub(super) async fn launch(
        &self,
        basis: &GroupReading,
        launch: &LaunchRequest,
    ) -> Result<LaunchResult, CloudError> {
        self.writer("launch", basis)?.launch(basis, launch).await
    }

    pub(super) async fn delete_instances(
        &self,
        basis: &GroupReading,
        ids: &[ProviderId],
    ) -> Result<Deletion, CloudError> {
        self.writer("delete_instances", basis)?.delete_instances(basis, ids).await
    }

    fn writer(&self, operation: &'static str, basis: &GroupReading) -> Result<&SharedCloud, CloudError> {
        self.writer
            .as_ref()
            .ok_or_else(|| CloudError::refused(operation, basis.name.as_str(), "this process only reads"))
    }
}
