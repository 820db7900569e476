//! Azure VM scale sets, uniform and flexible ones.
//!
//! A scale set reports its capacity but not its VMs. Listing a source therefore takes one call (and one per spot scale
//! set), and VMs are read only where something changed. `arm` makes the calls; the other files turn what Azure returns
//! into the vocabulary of [`crate::cloud`]. Min and max size come from the configuration or from tags: a scale set has
//! none.
//!
//! In names in this module, a machine is a VM. Imports run in one direction: `http`, then `throttle` and `auth`, then
//! `arm`, then the domain in the files at this level.

mod adverse_settings;
mod aks;
mod arm;
mod auth;
mod discovery;
mod groups;
mod http;
mod ids;
mod instances;
mod launch_spec;
mod launches;
mod listing;
mod node_pools;
pub mod parsers;
mod quotas;
mod retail_prices;
mod scale_set_cache;
mod size_lists;
mod sizes;
mod tags;
#[cfg(test)]
mod tests;
mod throttle;
mod writes;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use self::arm::{ArmScaleSets, Orchestration, ReadPurpose, ScaleSetApi};
use self::ids::{MachineName, ParsedId};
use self::node_pools::NodePools;
use self::retail_prices::RetailPrices;
use self::scale_set_cache::ScaleSetCache;
use self::size_lists::SizeLists;
use super::warnings::Warnings;
use crate::cloud::{
    Acceptance, AdverseSettings, Budget, CallMeter, Cloud, CloudError, Currency, Deletion, DeniedCall, Family,
    GroupName, GroupReading, InstanceType, LaunchActivity, LaunchSpec, Listing, Market, OWN_ENDPOINT, OperationHandle,
    PriceExtent, PriceList, Progress, ProviderId, Quotas, Recognition, Shortfall, VerifiableCloud, WritableCloud,
};

pub use crate::config::settings::azure::{AzureCloud, Credential, LabelQuery, Settings};
pub use arm::{ConnectError, ROLE_ACTIONS, VERIFY_ROLE_ACTIONS};

/// A longer pause that Azure asks for is served (law 13).
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// One Azure subscription and resource group.
pub struct Azure {
    settings: Settings,
    subscription: String,
    api: Arc<dyn ScaleSetApi>,
    /// The same client, for signing in with other credentials; `None` in tests.
    signed_in: Option<Arc<ArmScaleSets>>,
    cache: ScaleSetCache,
    warnings: Warnings,
    size_lists: SizeLists,
    node_pools: NodePools,
    /// Whether Azure denies polls of operations.
    are_polls_denied: AtomicBool,
    /// The price list; `None` if this cloud has none.
    prices: Option<RetailPrices>,
}

impl Azure {
    /// Connects to one subscription and resource group. Without a configured subscription it uses that of the VM it
    /// runs on.
    ///
    /// # Errors
    ///
    /// If the settings are unusable. Azure Resource Manager is not called yet.
    pub async fn connect(mut settings: Settings, calls: CallMeter) -> Result<Self, ConnectError> {
        if settings.subscription_id.as_deref().is_none_or(|id| id.trim().is_empty()) {
            settings.subscription_id = auth::subscription().await;
        }
        let subscription = settings.subscription_id.clone().ok_or(ConnectError::NoSubscription)?;
        let arm = Arc::new(ArmScaleSets::connect(&settings, calls.clone())?);
        let prices = RetailPrices::new(&settings, arm.endpoint(), Arc::clone(arm.transport()), calls);
        let signed_in = Some(Arc::clone(&arm));
        Ok(Self { prices, signed_in, ..Self::over(settings, subscription, arm) })
    }

    /// Signs in with this credential from now on, if there is a token for it. Otherwise the previous one stays in use.
    ///
    /// # Errors
    ///
    /// If there is no token for it.
    pub async fn renew_credential(&self, credential: &Credential) -> Result<(), String> {
        match &self.signed_in {
            Some(arm) => arm.renew_credential(credential, self.settings.cloud).await,
            None => Ok(()),
        }
    }

    fn over(settings: Settings, subscription: String, api: Arc<dyn ScaleSetApi>) -> Self {
        Self {
            settings,
            subscription,
            api,
            signed_in: None,
            cache: ScaleSetCache::default(),
            warnings: Warnings::default(),
            size_lists: SizeLists::default(),
            node_pools: NodePools::default(),
            are_polls_denied: AtomicBool::new(false),
            prices: None,
        }
    }

    /// Whether an ID belongs to this subscription and resource group.
    fn is_ours(&self, id: &ParsedId<'_>) -> bool {
        id.subscription.eq_ignore_ascii_case(&self.subscription)
            && id.resource_group.eq_ignore_ascii_case(&self.settings.resource_group)
    }
}

#[async_trait]
impl Cloud for Azure {
    async fn list(&self) -> Result<Listing, CloudError> {
        self.list_all().await
    }

    async fn observe(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        self.observe_one(group, ReadPurpose::Refresh).await
    }

    async fn observe_for_write(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        self.observe_one(group, ReadPurpose::Write).await
    }

    async fn read_capacity(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        self.capacity_of(group).await
    }

    async fn launch_activity(&self, group: &GroupName, shortfall: Shortfall) -> Result<LaunchActivity, CloudError> {
        self.failed_launches(group, shortfall).await
    }

    async fn created_before(
        &self,
        group: &GroupName,
        instances: &[ProviderId],
        before: SystemTime,
    ) -> Result<Vec<ProviderId>, CloudError> {
        // The list of VMs has the times, and was read a moment ago.
        let Some(machines) = self.cache.machines(group) else { return Ok(Vec::new()) };
        let created = |id: &ProviderId| machines.get(id).and_then(|machine| machine.created);
        let is_old = |id: &&ProviderId| created(id).is_some_and(|created| created < before);
        Ok(instances.iter().filter(is_old).cloned().collect())
    }

    async fn follow(&self, handle: &OperationHandle) -> Result<Progress, CloudError> {
        self.poll(handle).await
    }

    async fn launch_spec(&self, reading: &GroupReading) -> Result<LaunchSpec, CloudError> {
        self.read_launch_spec(reading).await
    }

    async fn instance_types(&self, names: &[String]) -> Result<Vec<InstanceType>, CloudError> {
        self.types_named(names).await
    }

    async fn all_instance_types(&self) -> Result<Vec<InstanceType>, CloudError> {
        self.types_all().await
    }

    fn paused(&self, group: &GroupName) -> Option<String> {
        self.api.paused_for(group.as_str()).filter(|pause| *pause > PAUSE_MAX)?;
        Some("Azure throttles it, and has asked for a pause of more than a minute".to_owned())
    }

    fn warnings(&self) -> Vec<(GroupName, String)> {
        self.warnings.all()
    }

    async fn adverse_settings(&self) -> AdverseSettings {
        self.all_adverse_settings().await
    }

    fn has_quotas(&self) -> bool {
        true
    }

    async fn quotas(&self) -> Result<Quotas, CloudError> {
        self.read_quotas().await
    }

    async fn denied_calls(&self) -> Vec<DeniedCall> {
        let mut denied = self.denied_polls().await;
        denied.extend(self.denied_size_lists().await);
        denied
    }

    async fn identity(&self) -> Result<Option<String>, CloudError> {
        let Some(credential) = &self.settings.credential else { return Ok(None) };
        let described = credential.description();
        let application = match &self.signed_in {
            Some(arm) => arm.application().await?,
            None => None,
        };
        Ok(Some(match application.filter(|id| !described.contains(id.as_str())) {
            Some(id) => format!("{described}: application {id}"),
            None => described,
        }))
    }

    fn recognise(&self, id: &str) -> Recognition {
        match ids::parse(id).filter(|parsed| self.is_ours(parsed)).map(|parsed| parsed.machine) {
            Some(MachineName::Uniform(set, _)) => {
                Recognition::OursInGroup(self.served_name(set).unwrap_or_else(|| set.into()))
            }
            Some(MachineName::Standalone(_)) => Recognition::Ours,
            None => Recognition::Foreign,
        }
    }

    fn budgets(&self) -> Vec<Budget> {
        self.api.budgets()
    }

    fn market(&self) -> Market {
        let region = self.settings.location.as_deref().map(launch_spec::region);
        let is_china = self.settings.cloud == AzureCloud::China;
        Market { region, currency: if is_china { Currency::Cny } else { Currency::Usd } }
    }

    async fn price_regions(&self) -> Result<Vec<String>, CloudError> {
        if self.prices.is_none() {
            return Ok(Vec::new());
        }
        Ok(self.locations().await?.into_iter().collect())
    }

    async fn price_list(&self, region: &str, extent: PriceExtent) -> PriceList {
        match &self.prices {
            // The price list is public, so there is no permission to test with a sample.
            Some(prices) if extent == PriceExtent::All => prices.read(region).await,
            _ => PriceList::default(),
        }
    }

    fn endpoint(&self) -> Option<&str> {
        self.settings.endpoint.as_deref()
    }

    fn family(&self) -> Family {
        Family::Azure
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

#[async_trait]
impl WritableCloud for Azure {
    async fn set_capacity(&self, basis: &GroupReading, to: u32) -> Result<Acceptance, CloudError> {
        self.resize(basis, to).await
    }

    async fn delete_instances(&self, basis: &GroupReading, ids: &[ProviderId]) -> Result<Deletion, CloudError> {
        self.delete(basis, ids).await
    }
}

#[async_trait]
impl VerifiableCloud for Azure {
    fn kind_of(&self, reading: &GroupReading) -> String {
        let mode = match self.cache.set(&reading.name).map(|set| set.orchestration) {
            Some(Orchestration::Uniform) => "uniform",
            Some(Orchestration::Flexible) => "flexible",
            None => "unknown",
        };
        let whose = if self.settings.endpoint.is_some() { OWN_ENDPOINT } else { "" };
        format!("VM scale set, orchestration mode {mode}, Compute API 2024-07-01{whose}")
    }

    /// Only VMs of flexible scale sets can be deleted by themselves.
    async fn delete_behind(&self, _group: &GroupName, id: &ProviderId) -> Result<(), CloudError> {
        match ids::parse(id.as_str()).filter(|parsed| self.is_ours(parsed)).map(|parsed| parsed.machine) {
            Some(MachineName::Standalone(name)) => self.api.delete_machine(name).await,
            _ => {
                let message = "a VM of a uniform scale set cannot be deleted without the scale set";
                Err(CloudError::refused(arm::operations::DELETE_MACHINE, id.instance(), message))
            }
        }
    }
}
