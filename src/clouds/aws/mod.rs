//! AWS Auto Scaling groups, EKS managed node groups among them.
//!
//! One `DescribeAutoScalingGroups` says all there is to know of a group, instances included, so reading one group is one
//! call and listing a source is one call to 100 groups. The calls made are those of `api`, what their errors mean is in
//! `errors`, and everything else is pure and turns what AWS describes into the words of [`crate::cloud`].

mod activities;
mod adverse_settings;
mod api;
mod blueprint;
mod cache;
mod connect;
mod discovery;
mod errors;
#[cfg(test)]
mod fake;
mod gathered;
mod groups;
mod ids;
mod launch;
mod lifecycle;
mod listing;
mod nodegroups;
mod requirements;
mod sizes;
mod startup;
mod tags;
mod termination;
#[cfg(test)]
mod tests;
mod types;
mod volumes;
mod weights;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use async_trait::async_trait;

use self::api::{AutoScalingApi, Ec2Api, EksApi};
use self::blueprint::{Blueprint, TemplateRef};
use self::cache::Cache;
use self::launch::LaunchData;
use self::nodegroups::{NodegroupFacts, NodegroupKey};
use self::volumes::ImageFacts;
use super::warnings::Warnings;
use crate::cloud::{
    Acceptance, AdverseSettings, Cloud, CloudError, Deletion, Family, GroupName, GroupReading, InstanceType,
    LaunchActivity, LaunchSpec, Listing, OperationHandle, Progress, ProviderId, Recognition,
};

pub use crate::config::settings::aws::{Settings, TagQuery, TagQueryError};
pub use api::{CHECK_ACTIONS, READ_ACTIONS, WRITE_ACTIONS};
pub use connect::ConnectError;

/// One AWS account and region.
pub struct Aws {
    settings: Settings,
    region: String,
    scaling: Arc<dyn AutoScalingApi>,
    ec2: Arc<dyn Ec2Api>,
    eks: Arc<dyn EksApi>,
    /// What each group said of its machines when it was read last, so that a template costs no further reading of it.
    blueprints: Mutex<HashMap<GroupName, Arc<Blueprint>>>,
    warnings: Warnings,
    configurations: Cache<String, Arc<LaunchData>>,
    templates: Cache<TemplateRef, Arc<LaunchData>>,
    images: Cache<String, Option<Arc<ImageFacts>>>,
    satisfying: Cache<String, Arc<[String]>>,
    nodegroups: Cache<NodegroupKey, Arc<NodegroupFacts>>,
    /// Remembers that AWS does not know the batch form of a termination.
    no_batch: Cache<(), ()>,
}

impl Aws {
    fn over(
        settings: Settings,
        region: String,
        scaling: impl AutoScalingApi + 'static,
        ec2: impl Ec2Api + 'static,
        eks: impl EksApi + 'static,
    ) -> Self {
        Self {
            settings,
            region,
            scaling: Arc::new(scaling),
            ec2: Arc::new(ec2),
            eks: Arc::new(eks),
            blueprints: Mutex::default(),
            warnings: Warnings::default(),
            configurations: Cache::default(),
            templates: Cache::default(),
            images: Cache::default(),
            satisfying: Cache::default(),
            nodegroups: Cache::default(),
            no_batch: Cache::default(),
        }
    }
}

#[async_trait]
impl Cloud for Aws {
    async fn list(&self) -> Result<Listing, CloudError> {
        self.list_all().await
    }

    async fn observe(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        self.observe_one(group).await
    }

    async fn launch_activity(&self, group: &GroupName) -> Result<LaunchActivity, CloudError> {
        Ok(activities::launches(&self.scaling.describe_scaling_activities(group.as_str()).await?))
    }

    async fn set_capacity(&self, basis: &GroupReading, to: u32) -> Result<Acceptance, CloudError> {
        const OPERATION: &str = "SetDesiredCapacity";
        let group = basis.name.as_str();
        let units = basis
            .units_per_node
            .ok_or_else(|| CloudError::refused(OPERATION, group, "the group's capacity is not counted in nodes"))?;
        let units = to.checked_mul(units).and_then(|units| i32::try_from(units).ok());
        let units = units.ok_or_else(|| {
            CloudError::refused(OPERATION, group, format!("{to} nodes are more than can be asked for"))
        })?;
        self.scaling.set_desired_capacity(group, units).await?;
        Ok(Acceptance { handle: None })
    }

    async fn delete_instances(&self, basis: &GroupReading, ids: &[ProviderId]) -> Result<Deletion, CloudError> {
        self.terminate(basis, ids).await
    }

    async fn follow(&self, handle: &OperationHandle) -> Result<Progress, CloudError> {
        // No write of this cloud hands out a handle: groups show their progress themselves.
        Err(CloudError::not_found("DescribeScalingActivities", &handle.0, "no such operation"))
    }

    async fn launch_spec(&self, reading: &GroupReading) -> Result<LaunchSpec, CloudError> {
        self.machine_of(reading).await
    }

    async fn instance_types(&self, names: &[String]) -> Result<Vec<InstanceType>, CloudError> {
        self.types_named(names).await
    }

    async fn all_instance_types(&self) -> Result<Vec<InstanceType>, CloudError> {
        self.types_all().await
    }

    fn warnings(&self) -> Vec<(GroupName, String)> {
        self.warnings.all()
    }

    async fn adverse_settings(&self) -> AdverseSettings {
        self.all_adverse_settings().await
    }

    fn recognise(&self, id: &str) -> Recognition {
        ids::recognise(&self.region, id)
    }

    fn placeholder(&self, reading: &GroupReading, label: &str) -> ProviderId {
        // The zone is one of the region, whichever: the ID must stay the same while the group's zones change.
        ids::provider_id(&format!("{}a", self.region), &format!("i-placeholder-{}-{label}", reading.name))
    }

    fn family(&self) -> Family {
        Family::Aws
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}
