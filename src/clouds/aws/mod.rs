//! AWS Auto Scaling groups, EKS managed node groups among them.
//!
//! One `DescribeAutoScalingGroups` returns everything about a group, instances included. So reading one group is one
//! call, and listing a source is one call per 100 groups. The submodules, each of which may use those before it:
//!
//! - `sdk` calls AWS and classifies its errors.
//! - `launch` works out what a group launches.
//! - `prices` reads what instances cost.
//! - `groups` reads and changes the groups themselves.

mod groups;
mod launch;
pub mod parsers;
mod permissions;
mod prices;
mod replayed;
mod sdk;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use tokio::sync::mpsc;

use self::groups::{Groups, ids};
use self::launch::Launches;
use self::prices::PriceLists;
use self::sdk::clock::CloudClock;
use self::sdk::connect::Clients;
use self::sdk::credentials::ReloadedCredentials;
use self::sdk::identity::StsApi;
use crate::cloud::{
    Acceptance, AdverseSettings, CallMeter, Cloud, CloudError, Currency, Deletion, DeniedCall, Family, GroupName,
    GroupReading, InstanceType, LaunchActivity, LaunchRequest, LaunchResult, LaunchSpec, Listing, Market, OWN_ENDPOINT,
    OperatingSystem, OperationHandle, PriceExtent, PriceList, Progress, ProviderId, Recognition, Shortfall,
    VerifiableCloud, WritableCloud,
};

pub use self::sdk::api::{
    CHECK_ACTIONS, FLEET_ACTIONS, LAUNCH_ACTIONS, PRICE_ACTIONS, READ_ACTIONS, WRITE_ACTIONS, ZONE_ACTIONS,
};
pub use self::sdk::connect::ConnectError;
pub use crate::config::settings::aws::{Settings, TagQuery, TagQueryError};

/// One AWS account and region.
pub struct Aws {
    region: String,
    /// The configured endpoint: it is hardly AWS itself then.
    endpoint: Option<String>,
    clock: Arc<CloudClock>,
    groups: Groups,
    launches: Launches,
    prices: PriceLists,
    sts: Arc<dyn StsApi>,
    credentials: Option<ReloadedCredentials>,
}

impl Aws {
    /// Loads the credentials again. If that fails, the earlier ones stay in use.
    ///
    /// # Errors
    ///
    /// If no credentials can be loaded.
    pub async fn renew_credentials(&self) -> Result<(), String> {
        match &self.credentials {
            Some(credentials) => credentials.renew().await,
            None => Ok(()),
        }
    }

    /// Connects to one account and region. Makes no call, except to find the region if none is configured.
    pub async fn connect(settings: Settings, calls: CallMeter) -> Result<Self, ConnectError> {
        let clients = Clients::connect(&settings, calls).await?;
        Ok(Self::over(settings, clients))
    }

    fn over(settings: Settings, clients: Clients) -> Self {
        let (sts, credentials) = (Arc::clone(&clients.sts), clients.credentials.clone());
        Self {
            region: clients.region.clone(),
            endpoint: settings.endpoint.clone(),
            clock: Arc::clone(&clients.clock),
            groups: Groups::new(settings, &clients),
            prices: PriceLists {
                region: clients.region.clone(),
                currency: currency(&clients.region),
                ec2: Arc::clone(&clients.ec2),
                pricing: clients.pricing.clone(),
            },
            launches: Launches::new(clients),
            sts,
            credentials,
        }
    }
}

#[async_trait]
impl Cloud for Aws {
    async fn list(&self) -> Result<Listing, CloudError> {
        self.groups.list().await
    }

    async fn list_pages(&self, pages: mpsc::UnboundedSender<Listing>) -> Result<Listing, CloudError> {
        // If the receiver is gone, the caller no longer waits for the result.
        let absent = self.groups.list_pages(&mut |page| drop(pages.send(page))).await?;
        Ok(Listing { absent, ..Listing::default() })
    }

    async fn observe(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        self.groups.observe(group).await
    }

    async fn launch_activity(&self, group: &GroupName, shortfall: Shortfall) -> Result<LaunchActivity, CloudError> {
        self.groups.launch_activity(group, shortfall, self.now()).await
    }

    async fn created_before(
        &self,
        group: &GroupName,
        instances: &[ProviderId],
        before: SystemTime,
    ) -> Result<Vec<ProviderId>, CloudError> {
        self.groups.created_before(group, instances, before).await
    }

    async fn follow(&self, handle: &OperationHandle) -> Result<Progress, CloudError> {
        // No write to AWS returns a handle: each reading of a group shows the progress.
        Err(CloudError::not_found("DescribeScalingActivities", &handle.0, "no such operation"))
    }

    async fn launch_spec(&self, reading: &GroupReading) -> Result<LaunchSpec, CloudError> {
        let settings = self.groups.launch_settings(reading).await?;
        let system = reading.hints.labels.get("kubernetes.io/os");
        let tagged = system.and_then(|label| OperatingSystem::of_label(label));
        self.launches.launch_spec(reading.name.as_str(), &settings, tagged).await
    }

    async fn instance_types(&self, names: &[String]) -> Result<Vec<InstanceType>, CloudError> {
        self.launches.instance_types_named(names).await
    }

    async fn all_instance_types(&self) -> Result<Vec<InstanceType>, CloudError> {
        self.launches.all_instance_types().await
    }

    fn warnings(&self) -> Vec<(GroupName, String)> {
        self.groups.warnings.all()
    }

    async fn adverse_settings(&self) -> AdverseSettings {
        self.groups.adverse_settings().await
    }

    async fn denied_calls(&self) -> Vec<DeniedCall> {
        self.all_denied_calls().await
    }

    async fn identity(&self) -> Result<Option<String>, CloudError> {
        self.sts.caller().await
    }

    fn recognise(&self, id: &str) -> Recognition {
        ids::recognise(&self.region, id)
    }

    fn market(&self) -> Market {
        Market { region: Some(self.region.clone()), currency: currency(&self.region) }
    }

    async fn price_regions(&self) -> Result<Vec<String>, CloudError> {
        Ok(vec![self.region.clone()])
    }

    async fn price_list(&self, _region: &str, extent: PriceExtent) -> PriceList {
        self.prices.read(self.now(), extent).await
    }

    fn endpoint(&self) -> Option<&str> {
        self.endpoint.as_deref()
    }

    fn family(&self) -> Family {
        Family::Aws
    }

    fn now(&self) -> SystemTime {
        self.clock.now()
    }
}

fn currency(region: &str) -> Currency {
    if region.starts_with("cn-") { Currency::Cny } else { Currency::Usd }
}

#[async_trait]
impl WritableCloud for Aws {
    async fn set_capacity(&self, basis: &GroupReading, to: u32) -> Result<Acceptance, CloudError> {
        self.groups.set_capacity(basis, to).await
    }

    async fn launch(&self, basis: &GroupReading, launch: &LaunchRequest) -> Result<LaunchResult, CloudError> {
        self.groups.launch(basis, launch, self.now()).await
    }

    async fn delete_instances(&self, basis: &GroupReading, ids: &[ProviderId]) -> Result<Deletion, CloudError> {
        self.groups.terminate(basis, ids).await
    }
}

#[async_trait]
impl VerifiableCloud for Aws {
    fn kind_of(&self, _reading: &GroupReading) -> String {
        let whose = if self.endpoint.is_some() { OWN_ENDPOINT } else { "" };
        format!("Auto Scaling group, API 2011-01-01{whose}")
    }

    /// Without lowering the desired capacity: for the group, that is an instance that it lacks.
    async fn delete_behind(&self, _group: &GroupName, id: &ProviderId) -> Result<(), CloudError> {
        self.groups.scaling.terminate_instance(id.instance(), false).await
    }
}
