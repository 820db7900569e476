//! [`ScaleSetApi`] on Azure Resource Manager.
//!
//! Requests are azure_mgmt_compute's; see [`super::sdk_call`] for what it is kept from. Only `send` and `into_stream` of its
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
use super::client::{ArmCall, ArmClient};
use super::decode::{self, RawAutoscaleSetting, RawMachine, RawSet, RawSize};
use super::errors::ErrorContext;
use super::sdk_call::SdkCall;
use super::{lro, operations};
use crate::cloud::{Budget, CloudError, OperationHandle, Progress};
use crate::clouds::azure::http::HttpResponse;
use crate::clouds::azure::throttle::Bucket;

/// Far more pages than a resource group can have autoscale settings for.
const AUTOSCALE_PAGES_MAX: usize = 20;
/// A whole listing, all pages.
const LISTING_TIMEOUT: Duration = Duration::from_secs(60);

/// One subscription and resource group.
#[derive(Debug)]
pub(in crate::clouds::azure) struct ArmScaleSets {
    client: Arc<ArmClient>,
    subscription: String,
    resource_group: String,
}

impl ArmScaleSets {
    pub(in crate::clouds::azure) fn new(client: ArmClient, subscription: String, resource_group: String) -> Self {
        Self { client: Arc::new(client), subscription, resource_group }
    }

    /// All items of a list, undecoded.
    async fn list<T: Send, S>(&self, call: ArmCall, start: S) -> Result<Vec<Value>, CloudError>
    where
        S: FnOnce(&Client) -> Pageable<T, Error> + Send,
    {
        let context = call.context();
        let sdk_call = SdkCall::new(&self.client, call.clone());
        let mut pages = start(&sdk_call.sdk_client());
        let walk = async {
            while let Some(page) = pages.next().await {
                page.map_err(|error| sdk_call.error(error))?;
            }
            Ok(())
        };
        let too_long = || CloudError::Unreachable(context.fault(None, &format!("no end within {LISTING_TIMEOUT:?}")));
        tokio::time::timeout(LISTING_TIMEOUT, walk).await.unwrap_or_else(|_| Err(too_long()))?;
        decode::items(context, sdk_call.responses())
    }

    fn accepted(
        &self,
        call: &ArmCall,
        sdk_call: &SdkCall,
        target: &str,
    ) -> Result<Option<OperationHandle>, CloudError> {
        let response = response(call.context(), sdk_call)?;
        let target = self.client.endpoint().join(target).ok();
        Ok(lro::handle(&self.client, call.context(), &response, target.as_ref()))
    }
}

fn response(context: ErrorContext<'_>, sdk_call: &SdkCall) -> Result<HttpResponse, CloudError> {
    sdk_call.responses().pop().ok_or_else(|| context.unintelligible("there is no response"))
}

// Names become parts of paths, so none may lead out of its own.
fn named(call: &ArmCall, name: &str) -> Result<String, CloudError> {
    let safe = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '?', '#', '%']);
    if safe { Ok(name.to_owned()) } else { Err(call.context().refused("no such name is possible")) }
}

// A machine that is left out would be a machine less than there is, and writes go by that number. So one that has no ID, as
// may happen while it is deleted, makes its scale set unreadable for as long as it is listed so, and no other one.
fn all_machines(context: ErrorContext<'_>, items: Vec<Value>) -> Result<Vec<VirtualMachine>, CloudError> {
    let machine = |item| decode::item::<_, RawMachine>(item);
    items.into_iter().map(machine).collect::<Result<_, _>>().map_err(|BadItem { name, reason }| {
        context.unintelligible(&format!("machine {}: {reason}", name.as_deref().unwrap_or("?")))
    })
}

#[async_trait]
impl ScaleSetApi for ArmScaleSets {
    fn budgets(&self) -> Vec<Budget> {
        self.client.limiter().remaining()
    }

    async fn list_scale_sets(&self) -> Result<Vec<Result<ScaleSet, BadItem>>, CloudError> {
        let call = ArmCall::new(operations::LIST_SCALE_SETS, &self.resource_group, Bucket::SetList);
        let list = |client: &Client| {
            let sets = client.virtual_machine_scale_sets_client();
            sets.list(&self.resource_group, &self.subscription).into_stream()
        };
        let items = self.list(call, list).await?;
        Ok(items.into_iter().map(decode::item::<_, RawSet>).collect())
    }

    async fn get_scale_set(&self, name: &str) -> Result<Option<ScaleSet>, CloudError> {
        let call = ArmCall::new(operations::GET_SCALE_SET, name, Bucket::SetGet);
        let (context, name) = (call.context(), named(&call, name)?);
        let sdk_call = SdkCall::new(&self.client, call.clone());
        let sets = sdk_call.sdk_client().virtual_machine_scale_sets_client();
        let sent = sets.get(&self.resource_group, name, &self.subscription).send().await;
        match sent.map_err(|error| sdk_call.error(error)) {
            // Resource Manager says what it has not found; a proxy on the way does not, and knows nothing of scale sets.
            Err(CloudError::NotFound(fault)) if fault.code.is_some() => return Ok(None),
            Err(CloudError::NotFound(fault)) => return Err(CloudError::Unintelligible(fault)),
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        let body = response(context, &sdk_call)?.body;
        let item = serde_json::from_slice(&body).map_err(|error| context.unintelligible(&error.to_string()))?;
        let set = decode::item::<_, RawSet>(item).map_err(|bad| context.unintelligible(&bad.reason))?;
        Ok(Some(set))
    }

    async fn list_uniform_machines(&self, name: &str) -> Result<Vec<VirtualMachine>, CloudError> {
        let call = ArmCall::new(operations::LIST_UNIFORM_MACHINES, name, Bucket::MachineList);
        let name = named(&call, name)?;
        let list = |client: &Client| {
            let machines = client.virtual_machine_scale_set_v_ms_client();
            machines.list(&self.resource_group, name, &self.subscription).expand("instanceView").into_stream()
        };
        let items = self.list(call.clone(), list).await?;
        all_machines(call.context(), items)
    }

    async fn list_flexible_machines(&self, scale_set_id: &str) -> Result<Vec<VirtualMachine>, CloudError> {
        let name = scale_set_id.rsplit('/').next().unwrap_or_default();
        let call = ArmCall::new(operations::LIST_FLEXIBLE_MACHINES, name, Bucket::FlexibleList);
        // The instance view is to be had together with this filter only, and the quotes are meant so.
        let filter = format!("'virtualMachineScaleSet/id' eq '{}'", scale_set_id.replace('\'', "''"));
        let list = |client: &Client| {
            let machines = client.virtual_machines_client();
            let request = machines.list(&self.resource_group, &self.subscription);
            request.filter(filter).expand("instanceView").into_stream()
        };
        let items = self.list(call.clone(), list).await?;
        all_machines(call.context(), items)
    }

    async fn set_capacity(&self, name: &str, etag: &str, to: u32) -> Result<Option<OperationHandle>, CloudError> {
        let call = ArmCall::new(operations::UPDATE_SCALE_SET, name, Bucket::Update);
        let name = named(&call, name)?;
        if etag.is_empty() {
            return Err(call.context().refused("a capacity is set only on the condition that nothing has changed"));
        }
        let sdk_call = SdkCall::new(&self.client, call.clone());
        let sku = Sku { capacity: Some(i64::from(to)), ..Sku::default() };
        let update = VirtualMachineScaleSetUpdate { sku: Some(sku), ..VirtualMachineScaleSetUpdate::default() };
        let target = self.path(&name);
        let sets = sdk_call.sdk_client().virtual_machine_scale_sets_client();
        let request = sets.update(&self.resource_group, name, update, &self.subscription).if_match(etag);
        request.send().await.map_err(|error| sdk_call.error(error))?;
        self.accepted(&call, &sdk_call, &target)
    }

    async fn delete_machines(
        &self,
        name: &str,
        instance_ids: &[String],
        force: bool,
    ) -> Result<Option<OperationHandle>, CloudError> {
        let call = ArmCall::new(operations::DELETE_INSTANCES, name, Bucket::Delete);
        let name = named(&call, name)?;
        if instance_ids.is_empty() || instance_ids.iter().any(|id| id.is_empty() || id == "*") {
            // `*` means all of them to this call.
            return Err(call.context().refused("machines are deleted by their names only"));
        }
        let sdk_call = SdkCall::new(&self.client, call.clone());
        let ids = VirtualMachineScaleSetVmInstanceRequiredIDs::new(instance_ids.to_vec());
        let target = self.path(&name);
        let sets = sdk_call.sdk_client().virtual_machine_scale_sets_client();
        let request = sets.delete_instances(&self.resource_group, name, ids, &self.subscription).force_deletion(force);
        request.send().await.map_err(|error| sdk_call.error(error))?;
        self.accepted(&call, &sdk_call, &target)
    }

    async fn poll(&self, handle: &OperationHandle) -> Result<Progress, CloudError> {
        let unknown = || {
            ErrorContext { operation: operations::GET_OPERATION, name: &handle.0 }
                .refused("no operation of this source")
        };
        let (kind, url) = lro::parse(handle).filter(|(_, url)| self.client.leads_to(url)).ok_or_else(unknown)?;
        let call = ArmCall::new(operations::GET_OPERATION, lro::short_name(&url), Bucket::Poll);
        let looked = self.client.send(&call, Method::GET, &url, &[], Bytes::new()).await;
        lro::progress(kind, call.context(), looked, SystemTime::now())
    }

    async fn list_sizes(&self, location: &str) -> Result<Vec<Size>, CloudError> {
        let call = ArmCall::new(operations::LIST_SKUS, location, Bucket::Sizes);
        let filter = format!("location eq '{}'", location.replace('\'', "''"));
        let list =
            |client: &Client| client.resource_skus_client().list(&self.subscription).filter(filter).into_stream();
        let items = self.list(call, list).await?;
        let size = |item| {
            let size = decode::item::<_, RawSize>(item);
            size.inspect_err(|bad| tracing::debug!(name = bad.name, reason = bad.reason, "skipped a machine size")).ok()
        };
        Ok(items.into_iter().filter(decode::is_size).filter_map(size).collect())
    }

    async fn list_autoscale_settings(&self) -> Result<Vec<AutoscaleSetting>, CloudError> {
        // Azure Monitor has budgets of its own. It is asked once, by a command, so that which one is charged matters little.
        let call = ArmCall::new(operations::LIST_AUTOSCALE_SETTINGS, &self.resource_group, Bucket::Sizes);
        let context = call.context();
        let Self { subscription, resource_group, .. } = self;
        let path = format!(
            "/subscriptions/{subscription}/resourceGroups/{resource_group}/providers/Microsoft.Insights/\
             autoscalesettings?api-version=2022-10-01"
        );
        let invalid = |error: &dyn std::fmt::Display| context.unintelligible(&error.to_string());
        let mut next = Some(self.client.endpoint().join(&path).map_err(|error| invalid(&error))?);
        let mut pages = Vec::new();
        while let Some(url) = next {
            if pages.len() >= AUTOSCALE_PAGES_MAX {
                return Err(context.unintelligible("the pages have no end"));
            }
            let response = self.client.send(&call, Method::GET, &url, &[], Bytes::new()).await?;
            let link = decode::next_link(context, &response)?;
            next = link.map(|link| url.join(&link)).transpose().map_err(|error| invalid(&error))?;
            pages.push(response);
        }
        let items = decode::items(context, pages)?.into_iter();
        Ok(items.filter_map(|item| decode::item::<_, RawAutoscaleSetting>(item).ok()).collect())
    }
}

impl ArmScaleSets {
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
