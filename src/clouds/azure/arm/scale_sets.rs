//! [`ScaleSetApi`] on Azure Resource Manager.
//!
//! azure_mgmt_compute builds the requests; [`super::sdk_call`] describes what it must not do. Only `send` and
//! `into_stream` of its request builders are used: awaiting a builder that writes sends the write repeatedly, and a
//! test forbids it. What the crate cannot build is in [`super::other_calls`].

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use azure_core::http::Url;
use azure_core_legacy::{Error, Pageable};
use azure_mgmt_compute::package_2024_07_01::Client;
use azure_mgmt_compute::package_2024_07_01::models::{
    Sku, VirtualMachineScaleSetUpdate, VirtualMachineScaleSetVmInstanceRequiredIDs,
};
use futures_util::StreamExt;
use serde_json::Value;

use super::api::{
    AgentPool, AksCluster, AutoscaleSetting, BadItem, MachineList, MachineQuery, ReadPurpose, ScaleSet, ScaleSetApi,
    Size, Usage, VirtualMachine,
};
use super::client::{ArmCall, ArmClient};
use super::decode::{self, RawMachine, RawSet, RawSize, RawUsage};
use super::errors::ErrorContext;
use super::paths::path_segment;
use super::sdk_call::SdkCall;
use super::{lro, operations};
use crate::cloud::{Budget, CloudError, OperationHandle, Progress};
use crate::clouds::azure::http::{HttpResponse, Transport};
use crate::clouds::azure::throttle::{Bucket, Pace};
use crate::clouds::listing_size::AZURE_LIST_ITEMS_MAX;

/// A whole listing, all pages.
const LISTING_TIMEOUT: Duration = Duration::from_secs(60);

/// One subscription and resource group.
#[derive(Debug)]
pub(in crate::clouds::azure) struct ArmScaleSets {
    pub(super) client: Arc<ArmClient>,
    pub(super) subscription: String,
    pub(super) resource_group: String,
}

impl ArmScaleSets {
    pub(in crate::clouds::azure) fn new(client: ArmClient, subscription: String, resource_group: String) -> Self {
        Self { client: Arc::new(client), subscription, resource_group }
    }

    /// Where Azure Resource Manager is called.
    pub(in crate::clouds::azure) fn endpoint(&self) -> &Url {
        self.client.endpoint()
    }

    /// The HTTP client.
    pub(in crate::clouds::azure) fn transport(&self) -> &Arc<Transport> {
        self.client.transport()
    }

    /// All items of a list. Each page is decoded, and dropped, as it arrives.
    async fn list<T: Send, S, I: Send>(
        &self,
        call: ArmCall,
        start: S,
        decode: impl Fn(Value) -> I + Send + Sync,
    ) -> Result<Vec<I>, CloudError>
    where
        S: FnOnce(&Client) -> Pageable<T, Error> + Send,
    {
        let context = call.context();
        let sdk_call = SdkCall::new(&self.client, call.clone());
        let mut pages = start(&sdk_call.sdk_client());
        let walk = async {
            let mut items = Vec::new();
            while let Some(page) = pages.next().await {
                page.map_err(|error| sdk_call.error(error))?;
                for page in sdk_call.responses() {
                    items.extend(decode::items(context, &page)?.into_iter().map(&decode));
                }
                check_number(context, items.len())?;
            }
            Ok(items)
        };
        let too_long = || {
            CloudError::Unreachable(context.fault(None, &format!("the list did not end within {LISTING_TIMEOUT:?}")))
        };
        tokio::time::timeout(LISTING_TIMEOUT, walk).await.unwrap_or_else(|_| Err(too_long()))
    }

    fn accepted(
        &self,
        call: &ArmCall,
        sdk_call: &SdkCall,
        target: Option<&str>,
    ) -> Result<Option<OperationHandle>, CloudError> {
        let response = response(call.context(), sdk_call)?;
        if !lro::is_of_azure(&response.body) {
            return Err(call.context().unintelligible("the body of an accepted write is an error, or none of Azure's"));
        }
        let target = target.and_then(|target| self.client.endpoint().join(target).ok());
        Ok(lro::handle(&self.client, call.context(), &response, target.as_ref()))
    }
}

/// Whether a list has no more items than it may.
pub(super) fn check_number(context: ErrorContext<'_>, items: usize) -> Result<(), CloudError> {
    if items <= AZURE_LIST_ITEMS_MAX {
        return Ok(());
    }
    Err(context.unintelligible(&format!("the list has more than {AZURE_LIST_ITEMS_MAX} items")))
}

fn response(context: ErrorContext<'_>, sdk_call: &SdkCall) -> Result<HttpResponse, CloudError> {
    sdk_call.responses().pop().ok_or_else(|| context.unintelligible("there is no response"))
}

// A VM without an ID cannot be named, so it is counted and left out. Any other VM that cannot be decoded makes its
// scale set unreadable: leaving it out would make the count too low.
fn all_machines(context: ErrorContext<'_>, items: Vec<ListedMachine>) -> Result<MachineList, CloudError> {
    let without_id = items.iter().filter(|item| item.is_none()).count();
    let machines = items.into_iter().flatten().collect::<Result<_, _>>().map_err(|BadItem { name, reason }| {
        context.unintelligible(&format!("VM {}: {reason}", name.as_deref().unwrap_or("?")))
    })?;
    Ok(MachineList { machines, without_id: u32::try_from(without_id).unwrap_or(u32::MAX) })
}

/// A VM of a list; `None` if it has no ID.
type ListedMachine = Option<Result<VirtualMachine, BadItem>>;

fn machine(item: Value) -> ListedMachine {
    (!decode::lacks_id(&item)).then(|| decode::item::<_, RawMachine>(item))
}

#[async_trait]
impl ScaleSetApi for ArmScaleSets {
    fn pace(&self) -> Option<&Pace> {
        Some(self.client.limiter().pace())
    }

    fn paused_for(&self, scale_set: &str) -> Option<Duration> {
        let limiter = self.client.limiter();
        [Bucket::SetGet, Bucket::Update].into_iter().filter_map(|call| limiter.closed_for(call, scale_set)).max()
    }

    fn budgets(&self) -> Vec<Budget> {
        self.client.limiter().remaining()
    }

    async fn list_scale_sets(&self) -> Result<Vec<Result<ScaleSet, BadItem>>, CloudError> {
        let call = ArmCall::new(operations::LIST_SCALE_SETS, &self.resource_group, Bucket::SetList);
        let list = |client: &Client| {
            let sets = client.virtual_machine_scale_sets_client();
            sets.list(&self.resource_group, &self.subscription).into_stream()
        };
        self.list(call, list, decode::item::<_, RawSet>).await
    }

    async fn get_scale_set(&self, name: &str, purpose: ReadPurpose) -> Result<Option<ScaleSet>, CloudError> {
        let call = ArmCall::new(operations::GET_SCALE_SET, name, Bucket::SetGet).of(purpose);
        let (context, name) = (call.context(), path_segment(&call, name)?);
        let sdk_call = SdkCall::new(&self.client, call.clone());
        let sets = sdk_call.sdk_client().virtual_machine_scale_sets_client();
        let sent = sets.get(&self.resource_group, name, &self.subscription).send().await;
        match sent.map_err(|error| sdk_call.error(error)) {
            // Resource Manager adds a code to a 404. A 404 without one comes from a proxy and says nothing about the
            // scale set.
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

    async fn list_uniform_machines(&self, name: &str, query: MachineQuery) -> Result<MachineList, CloudError> {
        let call = ArmCall::new(operations::LIST_UNIFORM_MACHINES, name, Bucket::MachineList).of(query.purpose);
        let name = path_segment(&call, name)?;
        let list = |client: &Client| {
            let machines = client.virtual_machine_scale_set_v_ms_client();
            let request = machines.list(&self.resource_group, name, &self.subscription);
            if query.with_view { request.expand("instanceView").into_stream() } else { request.into_stream() }
        };
        let items = self.list(call.clone(), list, machine).await?;
        all_machines(call.context(), items)
    }

    async fn list_flexible_machines(&self, scale_set_id: &str, query: MachineQuery) -> Result<MachineList, CloudError> {
        let name = scale_set_id.rsplit('/').next().unwrap_or_default();
        let call = ArmCall::new(operations::LIST_FLEXIBLE_MACHINES, name, Bucket::FlexibleList).of(query.purpose);
        // Azure returns the instance view only with this filter. The quotes around the key are required.
        let filter = format!("'virtualMachineScaleSet/id' eq '{}'", scale_set_id.replace('\'', "''"));
        let list = |client: &Client| {
            let machines = client.virtual_machines_client();
            let request = machines.list(&self.resource_group, &self.subscription);
            let request = request.filter(filter);
            if query.with_view { request.expand("instanceView").into_stream() } else { request.into_stream() }
        };
        // The filter is Azure's to honour. A VM that names another scale set is none of this one's, nor is one that names
        // none where others name this one (law 1).
        let is_in = |item: Value| (decode::is_in_scale_set(&item, scale_set_id), machine(item));
        let items = self.list(call.clone(), list, is_in).await?;
        let says_so = items.iter().any(|(is_in, _)| *is_in == Some(true));
        let own = items.into_iter().filter(|(is_in, _)| is_in.unwrap_or(!says_so));
        all_machines(call.context(), own.map(|(_, machine)| machine).collect())
    }

    async fn set_capacity(
        &self,
        name: &str,
        etag: Option<&str>,
        to: u32,
    ) -> Result<Option<OperationHandle>, CloudError> {
        let call = ArmCall::new(operations::UPDATE_SCALE_SET, name, Bucket::Update);
        let name = path_segment(&call, name)?;
        if etag.is_some_and(str::is_empty) {
            return Err(call.context().refused("the etag is empty"));
        }
        let sdk_call = SdkCall::new(&self.client, call.clone());
        let sku = Sku { capacity: Some(i64::from(to)), ..Sku::default() };
        let update = VirtualMachineScaleSetUpdate { sku: Some(sku), ..VirtualMachineScaleSetUpdate::default() };
        let target = self.path(&name);
        let sets = sdk_call.sdk_client().virtual_machine_scale_sets_client();
        let request = sets.update(&self.resource_group, name, update, &self.subscription);
        let request = match etag {
            Some(etag) => request.if_match(etag),
            None => request,
        };
        request.send().await.map_err(|error| sdk_call.error(error))?;
        self.accepted(&call, &sdk_call, Some(&target))
    }

    async fn delete_machines(
        &self,
        name: &str,
        instance_ids: &[String],
        force: bool,
    ) -> Result<Option<OperationHandle>, CloudError> {
        let call = ArmCall::new(operations::DELETE_INSTANCES, name, Bucket::Delete);
        let name = path_segment(&call, name)?;
        if instance_ids.is_empty() || instance_ids.iter().any(|id| id.is_empty() || id == "*") {
            // This call would take `*` for all instances.
            return Err(call.context().refused("VMs are deleted only by name"));
        }
        let sdk_call = SdkCall::new(&self.client, call.clone());
        let ids = VirtualMachineScaleSetVmInstanceRequiredIDs::new(instance_ids.to_vec());
        let sets = sdk_call.sdk_client().virtual_machine_scale_sets_client();
        let request = sets.delete_instances(&self.resource_group, name, ids, &self.subscription).force_deletion(force);
        request.send().await.map_err(|error| sdk_call.error(error))?;
        // The state of a scale set says nothing about one deletion.
        self.accepted(&call, &sdk_call, None)
    }

    async fn delete_machine(&self, name: &str) -> Result<(), CloudError> {
        let call = ArmCall::new(operations::DELETE_MACHINE, name, Bucket::Delete);
        let name = path_segment(&call, name)?;
        let sdk_call = SdkCall::new(&self.client, call.clone());
        let machines = sdk_call.sdk_client().virtual_machines_client();
        let request = machines.delete(&self.resource_group, name, &self.subscription);
        request.send().await.map_err(|error| sdk_call.error(error))?;
        Ok(())
    }

    async fn poll(&self, handle: &OperationHandle) -> Result<Progress, CloudError> {
        self.poll_once(handle).await
    }

    async fn may_poll(&self, location: &str) -> Result<(), CloudError> {
        self.poll_nothing(location).await
    }

    async fn list_sizes(&self, location: &str) -> Result<Vec<Size>, CloudError> {
        let call = ArmCall::new(operations::LIST_SKUS, location, Bucket::Sizes);
        let filter = format!("location eq '{}'", location.replace('\'', "''"));
        let list =
            |client: &Client| client.resource_skus_client().list(&self.subscription).filter(filter).into_stream();
        let size = |item| {
            let size = decode::is_size(&item).then(|| decode::item::<_, RawSize>(item))?;
            size.inspect_err(|bad| {
                tracing::debug!(name = bad.name, reason = bad.reason, "skipped a VM size that cannot be decoded")
            })
            .ok()
        };
        Ok(self.list(call, list, size).await?.into_iter().flatten().collect())
    }

    async fn list_usages(&self, location: &str) -> Result<Vec<Usage>, CloudError> {
        let call = ArmCall::new(operations::LIST_USAGES, location, Bucket::Sizes);
        let location = path_segment(&call, location)?;
        let list = |client: &Client| client.usage_client().list(location, &self.subscription).into_stream();
        let usages = self.list(call, list, decode::item::<_, RawUsage>).await?;
        Ok(usages.into_iter().flatten().collect())
    }

    async fn list_autoscale_settings(&self) -> Result<Vec<AutoscaleSetting>, CloudError> {
        self.all_autoscale_settings().await
    }

    async fn list_agent_pools(&self, cluster: &AksCluster) -> Result<Vec<AgentPool>, CloudError> {
        self.all_agent_pools(cluster).await
    }
}

#[cfg(test)]
mod tests;
