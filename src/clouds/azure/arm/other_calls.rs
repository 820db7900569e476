//! The calls that azure_mgmt_compute cannot build: polls of operations, Azure Monitor and AKS.

use std::time::SystemTime;

use hyper::Method;
use hyper::body::Bytes;
use serde_json::Value;

use super::api::{AgentPool, AksCluster, AutoscaleSetting, ReadPurpose};
use super::client::ArmCall;
use super::decode::{self, RawAgentPool, RawAutoscaleSetting};
use super::errors::ErrorContext;
use super::paths::path_segment;
use super::scale_sets::{ArmScaleSets, check_number};
use super::{lro, operations};
use crate::cloud::{CloudError, OperationHandle, Progress};
use crate::clouds::azure::throttle::Bucket;
use crate::clouds::listing_size::{AZURE_LIST_BYTES_MAX, ListSize};
use crate::clouds::page_walk::PageWalk;

/// Far more pages than the autoscale settings of a resource group, or the node pools of a cluster, can fill.
const OTHER_PAGES_MAX: usize = 20;
/// An ID that no operation has.
const NO_OPERATION: &str = "00000000-0000-0000-0000-000000000000";

impl ArmScaleSets {
    /// Reads the state of an operation once.
    pub(super) async fn poll_once(&self, handle: &OperationHandle) -> Result<Progress, CloudError> {
        let unknown = || {
            ErrorContext { operation: operations::GET_OPERATION, name: &handle.0 }
                .refused("the operation does not belong to this source")
        };
        let (kind, url) = lro::parse(handle).filter(|(_, url)| self.client.is_on_endpoint(url)).ok_or_else(unknown)?;
        let call = ArmCall::new(operations::GET_OPERATION, lro::short_name(&url), Bucket::Poll);
        let polled = self.client.send(&call, Method::GET, &url, &[], Bytes::new()).await;
        lro::progress(kind, call.context(), polled, SystemTime::now())
    }

    /// Reads an operation that does not exist, to learn whether operations in this location may be read.
    pub(super) async fn poll_nothing(&self, location: &str) -> Result<(), CloudError> {
        let call = ArmCall::new(operations::GET_OPERATION, location, Bucket::Poll);
        let location = path_segment(&call, location)?;
        let path = format!(
            "/subscriptions/{}/providers/Microsoft.Compute/locations/{location}/operations/{NO_OPERATION}\
             ?api-version=2024-07-01",
            self.subscription
        );
        let url = self.client.endpoint().join(&path).map_err(|error| call.context().refused(&error.to_string()))?;
        match self.client.send(&call, Method::GET, &url, &[], Bytes::new()).await {
            Ok(_) | Err(CloudError::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Lists the autoscale settings of the resource group.
    pub(super) async fn all_autoscale_settings(&self) -> Result<Vec<AutoscaleSetting>, CloudError> {
        let call = ArmCall::new(operations::LIST_AUTOSCALE_SETTINGS, &self.resource_group, Bucket::Other);
        let Self { subscription, resource_group, .. } = self;
        let path = format!(
            "/subscriptions/{subscription}/resourceGroups/{resource_group}/providers/Microsoft.Insights/\
             autoscalesettings?api-version=2022-10-01"
        );
        let items = self.other_list(&call, &path).await?.into_iter();
        Ok(items.filter_map(|item| decode::item::<_, RawAutoscaleSetting>(item).ok()).collect())
    }

    /// Lists the node pools of an AKS cluster.
    pub(super) async fn all_agent_pools(&self, cluster: &AksCluster) -> Result<Vec<AgentPool>, CloudError> {
        let call = ArmCall::new(operations::LIST_AGENT_POOLS, &cluster.name, Bucket::Other);
        let (group, name) = (path_segment(&call, &cluster.resource_group)?, path_segment(&call, &cluster.name)?);
        let path = format!(
            "/subscriptions/{}/resourceGroups/{group}/providers/Microsoft.ContainerService/managedClusters/{name}/\
             agentPools?api-version=2024-09-01",
            self.subscription
        );
        let items = self.other_list(&call, &path).await?.into_iter();
        Ok(items.filter_map(|item| decode::item::<_, RawAgentPool>(item).ok()).collect())
    }

    /// The items of all pages of a list.
    async fn other_list(&self, call: &ArmCall, path: &str) -> Result<Vec<Value>, CloudError> {
        let context = call.context();
        let invalid = |error: &dyn std::fmt::Display| context.unintelligible(&error.to_string());
        let mut next = Some(self.client.endpoint().join(path).map_err(|error| invalid(&error))?);
        let (mut items, mut pages) = (Vec::new(), 0);
        let (mut size, mut walk) = (ListSize::of_at_most(AZURE_LIST_BYTES_MAX), PageWalk::default());
        while let Some(url) = next {
            if pages >= OTHER_PAGES_MAX {
                return Err(context.unintelligible("the list has too many pages"));
            }
            pages += 1;
            // The reserve lets lists through one at a time; one that has begun is finished.
            let call = if pages == 1 { call.clone() } else { call.clone().of(ReadPurpose::Write) };
            let response = self.client.send(&call, Method::GET, &url, &[], Bytes::new()).await?;
            size.add(response.body.len()).map_err(|reason| context.unintelligible(&reason))?;
            let link = walk.token(decode::next_link(context, &response)?);
            let link = link.map_err(|reason| context.unintelligible(reason))?;
            next = link.map(|link| url.join(&link)).transpose().map_err(|error| invalid(&error))?;
            items.extend(decode::items(context, &response)?);
            check_number(context, items.len())?;
        }
        Ok(items)
    }
}
