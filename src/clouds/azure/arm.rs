//! [`ScaleSetApi`] on Azure Resource Manager.
//!
//! Requests are azure_mgmt_compute's; see [`super::bridge`] for what it is kept from. Only `send` and `into_stream` of its
//! request builders are used: to await a builder that writes is to send the write again and again, and a test looks for
//! it. Looking at an operation is a request of our own, as the crate has none for it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use azure_core_legacy::{Error, Pageable};
use azure_mgmt_compute::package_2024_07_01::Client;
use azure_mgmt_compute::package_2024_07_01::models::{
    Sku, VirtualMachineScaleSetUpdate, VirtualMachineScaleSetVmInstanceRequiredIDs,
};
use futures_util::StreamExt;
use hyper::Method;
use hyper::body::Bytes;
use serde_json::Value;

use super::api::{AutoscaleSetting, BadItem, ScaleSet, ScaleSetApi, Size, VirtualMachine};
use super::bridge::Bridge;
use super::budget::Bucket;
use super::channel::{Channel, Errand};
use super::decode::{self, RawAutoscaleSetting, RawMachine, RawSet, RawSize};
use super::errors::Subject;
use super::lro;
use super::transport::Answer;
use crate::cloud::{Budget, CloudError, OperationHandle, Progress};

/// Far more pages than a resource group can have autoscale settings for.
const AUTOSCALE_PAGES_MAX: usize = 20;
/// A whole listing, all pages.
const LISTING_TIMEOUT: Duration = Duration::from_secs(60);

/// One subscription and resource group.
#[derive(Debug)]
pub(super) struct Arm {
    channel: Arc<Channel>,
    subscription: String,
    resource_group: String,
}

impl Arm {
    pub(super) fn new(channel: Channel, subscription: String, resource_group: String) -> Self {
        Self { channel: Arc::new(channel), subscription, resource_group }
    }

    /// All items of a list, undecoded.
    async fn list<T: Send, S>(&self, errand: Errand, start: S) -> Result<Vec<Value>, CloudError>
    where
        S: FnOnce(&Client) -> Pageable<T, Error> + Send,
    {
        let subject = errand.subject();
        let bridge = Bridge::new(&self.channel, errand.clone());
        let mut pages = start(&bridge.client());
        let walk = async {
            while let Some(page) = pages.next().await {
                page.map_err(|error| bridge.error(error))?;
            }
            Ok(())
        };
        let too_long = || CloudError::Unreachable(subject.fault(None, &format!("no end within {LISTING_TIMEOUT:?}")));
        tokio::time::timeout(LISTING_TIMEOUT, walk).await.unwrap_or_else(|_| Err(too_long()))?;
        decode::items(subject, bridge.answers())
    }

    fn accepted(&self, errand: &Errand, bridge: &Bridge, target: &str) -> Result<Option<OperationHandle>, CloudError> {
        let answer = answer(errand.subject(), bridge)?;
        let target = self.channel.endpoint().join(target).ok();
        Ok(lro::handle(&self.channel, errand.subject(), &answer, target.as_ref()))
    }
}

fn answer(subject: Subject<'_>, bridge: &Bridge) -> Result<Answer, CloudError> {
    bridge.answers().pop().ok_or_else(|| subject.unintelligible("there is no answer"))
}

// Names become parts of paths, so none may lead out of its own.
fn named(errand: &Errand, name: &str) -> Result<String, CloudError> {
    let safe = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '?', '#', '%']);
    if safe { Ok(name.to_owned()) } else { Err(errand.subject().refused("no such name is possible")) }
}

// A machine that is left out would be a machine less than there is, and writes go by that number. So one that has no ID, as
// may happen while it is deleted, makes its scale set unreadable for as long as it is listed so, and no other one.
fn all_machines(subject: Subject<'_>, items: Vec<Value>) -> Result<Vec<VirtualMachine>, CloudError> {
    let machine = |item| decode::item::<_, RawMachine>(item);
    items.into_iter().map(machine).collect::<Result<_, _>>().map_err(|BadItem { name, reason }| {
        subject.unintelligible(&format!("machine {}: {reason}", name.as_deref().unwrap_or("?")))
    })
}

#[async_trait]
impl ScaleSetApi for Arm {
    fn budgets(&self) -> Vec<Budget> {
        self.channel.gate().remaining()
    }

    async fn list_scale_sets(&self) -> Result<Vec<Result<ScaleSet, BadItem>>, CloudError> {
        let errand = Errand::new("VirtualMachineScaleSets.List", &self.resource_group, Bucket::SetList);
        let list = |client: &Client| {
            let sets = client.virtual_machine_scale_sets_client();
            sets.list(&self.resource_group, &self.subscription).into_stream()
        };
        let items = self.list(errand, list).await?;
        Ok(items.into_iter().map(decode::item::<_, RawSet>).collect())
    }

    async fn get_scale_set(&self, name: &str) -> Result<Option<ScaleSet>, CloudError> {
        let errand = Errand::new("VirtualMachineScaleSets.Get", name, Bucket::SetGet);
        let (subject, name) = (errand.subject(), named(&errand, name)?);
        let bridge = Bridge::new(&self.channel, errand.clone());
        let sets = bridge.client().virtual_machine_scale_sets_client();
        let sent = sets.get(&self.resource_group, name, &self.subscription).send().await;
        match sent.map_err(|error| bridge.error(error)) {
            // Resource Manager says what it has not found; a proxy on the way does not, and knows nothing of scale sets.
            Err(CloudError::NotFound(fault)) if fault.code.is_some() => return Ok(None),
            Err(CloudError::NotFound(fault)) => return Err(CloudError::Unintelligible(fault)),
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        let body = answer(subject, &bridge)?.body;
        let item = serde_json::from_slice(&body).map_err(|error| subject.unintelligible(&error.to_string()))?;
        let set = decode::item::<_, RawSet>(item).map_err(|bad| subject.unintelligible(&bad.reason))?;
        Ok(Some(set))
    }

    async fn list_uniform_machines(&self, name: &str) -> Result<Vec<VirtualMachine>, CloudError> {
        let errand = Errand::new("VirtualMachineScaleSetVMs.List", name, Bucket::MachineList);
        let name = named(&errand, name)?;
        let list = |client: &Client| {
            let machines = client.virtual_machine_scale_set_v_ms_client();
            machines.list(&self.resource_group, name, &self.subscription).expand("instanceView").into_stream()
        };
        let items = self.list(errand.clone(), list).await?;
        all_machines(errand.subject(), items)
    }

    async fn list_flexible_machines(&self, scale_set_id: &str) -> Result<Vec<VirtualMachine>, CloudError> {
        let name = scale_set_id.rsplit('/').next().unwrap_or_default();
        let errand = Errand::new("VirtualMachines.List", name, Bucket::FlexibleList);
        // The instance view is to be had together with this filter only, and the quotes are meant so.
        let filter = format!("'virtualMachineScaleSet/id' eq '{}'", scale_set_id.replace('\'', "''"));
        let list = |client: &Client| {
            let machines = client.virtual_machines_client();
            let request = machines.list(&self.resource_group, &self.subscription);
            request.filter(filter).expand("instanceView").into_stream()
        };
        let items = self.list(errand.clone(), list).await?;
        all_machines(errand.subject(), items)
    }

    async fn set_capacity(&self, name: &str, etag: &str, to: u32) -> Result<Option<OperationHandle>, CloudError> {
        let errand = Errand::new("VirtualMachineScaleSets.Update", name, Bucket::Update);
        let name = named(&errand, name)?;
        if etag.is_empty() {
            return Err(errand.subject().refused("a capacity is set only on the condition that nothing has changed"));
        }
        let bridge = Bridge::new(&self.channel, errand.clone());
        let sku = Sku { capacity: Some(i64::from(to)), ..Sku::default() };
        let update = VirtualMachineScaleSetUpdate { sku: Some(sku), ..VirtualMachineScaleSetUpdate::default() };
        let target = self.path(&name);
        let sets = bridge.client().virtual_machine_scale_sets_client();
        let request = sets.update(&self.resource_group, name, update, &self.subscription).if_match(etag);
        request.send().await.map_err(|error| bridge.error(error))?;
        self.accepted(&errand, &bridge, &target)
    }

    async fn delete_machines(
        &self,
        name: &str,
        instance_ids: &[String],
        force: bool,
    ) -> Result<Option<OperationHandle>, CloudError> {
        let errand = Errand::new("VirtualMachineScaleSets.DeleteInstances", name, Bucket::Delete);
        let name = named(&errand, name)?;
        if instance_ids.is_empty() || instance_ids.iter().any(|id| id.is_empty() || id == "*") {
            // `*` means all of them to this call.
            return Err(errand.subject().refused("machines are deleted by their names only"));
        }
        let bridge = Bridge::new(&self.channel, errand.clone());
        let ids = VirtualMachineScaleSetVmInstanceRequiredIDs::new(instance_ids.to_vec());
        let target = self.path(&name);
        let sets = bridge.client().virtual_machine_scale_sets_client();
        let request = sets.delete_instances(&self.resource_group, name, ids, &self.subscription).force_deletion(force);
        request.send().await.map_err(|error| bridge.error(error))?;
        self.accepted(&errand, &bridge, &target)
    }

    async fn poll(&self, handle: &OperationHandle) -> Result<Progress, CloudError> {
        const OPERATION: &str = "Operations.Get";
        let unknown = || Subject { operation: OPERATION, name: &handle.0 }.refused("no operation of this source");
        let (kind, url) = lro::parse(handle).filter(|(_, url)| self.channel.leads_to(url)).ok_or_else(unknown)?;
        let errand = Errand::new(OPERATION, lro::short_name(&url), Bucket::Poll);
        let looked = self.channel.send(&errand, Method::GET, &url, &[], Bytes::new()).await;
        lro::progress(kind, errand.subject(), looked, SystemTime::now())
    }

    async fn list_sizes(&self, location: &str) -> Result<Vec<Size>, CloudError> {
        let errand = Errand::new("ResourceSkus.List", location, Bucket::Sizes);
        let filter = format!("location eq '{}'", location.replace('\'', "''"));
        let list =
            |client: &Client| client.resource_skus_client().list(&self.subscription).filter(filter).into_stream();
        let items = self.list(errand, list).await?;
        let size = |item| {
            let size = decode::item::<_, RawSize>(item);
            size.inspect_err(|bad| tracing::debug!(name = bad.name, reason = bad.reason, "skipped a machine size")).ok()
        };
        Ok(items.into_iter().filter(decode::is_size).filter_map(size).collect())
    }

    async fn list_autoscale_settings(&self) -> Result<Vec<AutoscaleSetting>, CloudError> {
        // Azure Monitor has budgets of its own. It is asked once, by a command, so that which one is charged matters little.
        let errand = Errand::new("AutoscaleSettings.List", &self.resource_group, Bucket::Sizes);
        let subject = errand.subject();
        let Self { subscription, resource_group, .. } = self;
        let path = format!(
            "/subscriptions/{subscription}/resourceGroups/{resource_group}/providers/Microsoft.Insights/\
             autoscalesettings?api-version=2022-10-01"
        );
        let invalid = |error: &dyn std::fmt::Display| subject.unintelligible(&error.to_string());
        let mut next = Some(self.channel.endpoint().join(&path).map_err(|error| invalid(&error))?);
        let mut pages = Vec::new();
        while let Some(url) = next {
            if pages.len() >= AUTOSCALE_PAGES_MAX {
                return Err(subject.unintelligible("the pages have no end"));
            }
            let answer = self.channel.send(&errand, Method::GET, &url, &[], Bytes::new()).await?;
            let link = decode::next_link(subject, &answer)?;
            next = link.map(|link| url.join(&link)).transpose().map_err(|error| invalid(&error))?;
            pages.push(answer);
        }
        let items = decode::items(subject, pages)?.into_iter();
        Ok(items.filter_map(|item| decode::item::<_, RawAutoscaleSetting>(item).ok()).collect())
    }
}

impl Arm {
    /// The path of a scale set, to be looked at where a write names no other place to look.
    fn path(&self, name: &str) -> String {
        let Self { subscription, resource_group, .. } = self;
        let provider = "providers/Microsoft.Compute/virtualMachineScaleSets";
        format!(
            "/subscriptions/{subscription}/resourceGroups/{resource_group}/{provider}/{name}?api-version=2024-07-01"
        )
    }
}

#[cfg(test)]
mod tests;
