//! The connection between one process and the cloud. After a crash of the process, a call that has not reached the
//! cloud never does, a call that has reached it continues there, and no response arrives. A fleet only calls its cloud,
//! so cutting the connection is equivalent to a crash of its process, at any await point.

use std::future::pending;
use std::sync::Arc;

use async_trait::async_trait;
use headcount::cloud::{
    Acceptance, Cloud, CloudError, Deletion, GroupName, GroupReading, InstanceType, LaunchActivity, LaunchRequest,
    LaunchResult, LaunchSpec, Listing, OperationHandle, Progress, ProviderId, Shortfall, WritableCloud,
};
use headcount::clouds::simulated::Simulated;
use tokio::sync::watch;

/// The connection of one process.
pub(super) struct Connection {
    cloud: Arc<Simulated>,
    cut: watch::Receiver<bool>,
}

impl Connection {
    /// A connection, and a sender that cuts it.
    pub(super) fn to(cloud: &Arc<Simulated>) -> (Self, watch::Sender<bool>) {
        let (cutter, cut) = watch::channel(false);
        (Self { cloud: Arc::clone(cloud), cut }, cutter)
    }

    async fn carry<T>(&self, call: impl Future<Output = T>) -> T {
        let mut cut = self.cut.clone();
        let crash = async move {
            let _cut_or_gone = cut.wait_for(|cut| *cut).await.is_ok();
        };
        tokio::select! {
            biased;
            () = crash => pending().await,
            answer = call => answer,
        }
    }
}

#[async_trait]
impl Cloud for Connection {
    async fn list(&self) -> Result<Listing, CloudError> {
        self.carry(self.cloud.list()).await
    }

    async fn observe(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        self.carry(self.cloud.observe(group)).await
    }

    async fn read_capacity(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        self.carry(self.cloud.read_capacity(group)).await
    }

    async fn launch_activity(&self, group: &GroupName, shortfall: Shortfall) -> Result<LaunchActivity, CloudError> {
        self.carry(self.cloud.launch_activity(group, shortfall)).await
    }

    async fn follow(&self, handle: &OperationHandle) -> Result<Progress, CloudError> {
        self.carry(self.cloud.follow(handle)).await
    }

    async fn launch_spec(&self, reading: &GroupReading) -> Result<LaunchSpec, CloudError> {
        self.carry(self.cloud.launch_spec(reading)).await
    }

    async fn instance_types(&self, names: &[String]) -> Result<Vec<InstanceType>, CloudError> {
        self.carry(self.cloud.instance_types(names)).await
    }

    async fn all_instance_types(&self) -> Result<Vec<InstanceType>, CloudError> {
        self.carry(self.cloud.all_instance_types()).await
    }

    pass_on_what_calls_nothing!();
}

#[async_trait]
impl WritableCloud for Connection {
    async fn set_capacity(&self, basis: &GroupReading, to: u32) -> Result<Acceptance, CloudError> {
        self.carry(self.cloud.set_capacity(basis, to)).await
    }

    async fn launch(&self, basis: &GroupReading, launch: &LaunchRequest) -> Result<LaunchResult, CloudError> {
        self.carry(self.cloud.launch(basis, launch)).await
    }

    async fn delete_instances(&self, basis: &GroupReading, ids: &[ProviderId]) -> Result<Deletion, CloudError> {
        self.carry(self.cloud.delete_instances(basis, ids)).await
    }
}
