//! The fifteen RPCs of the protocol, each translated into a call to the fleet. Once the fleet is ready, only `Refresh`,
//! the mutations, a template that is built for the first time, and the first call after ten minutes without one wait for
//! anything.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;
use tonic::{Request, Response, Status};

use super::deadline::deadline_of;
use super::dialect::{Dialect, SendPolicy};
use super::encoding::{instance, int32, is_registered, named, node_group};
use super::gpu::Gpu;
use super::nodes;
use super::options::options_to_send;
use super::pricing;
use super::proto::cloud_provider_server::CloudProvider;
use super::proto::*;
use super::status::{invalid, status};
use crate::fleet::options::Options;
use crate::fleet::{Deadline, Fleet, FleetError, GroupView, Mutation};
use crate::prices::{Prices, hours};

/// Headcount logs the warning once per group, for at most this many groups.
const WARNED_GROUPS_MAX: usize = 10_000;

/// The service.
pub(super) struct Service {
    /// The groups to serve.
    pub(super) fleet: Arc<Fleet>,
    /// The GPU label and types to serve.
    pub(super) gpu: Gpu,
    /// What nodes and pods cost.
    pub(super) prices: Arc<Prices>,
    /// Whether options are sent to CA 1.35 and later, which then treats booting nodes as unready (#10245).
    pub(super) options_since_135: SendPolicy,
    /// Whether the option `zeroOrMaxNodeScaling` is sent.
    pub(super) zero_or_max_node_scaling: SendPolicy,
    /// Whether the ResourceSlices of templates are sent: no release reads their field yet.
    pub(super) resource_slices: SendPolicy,
    /// Groups whose options are withheld from CA and that were warned about.
    pub(super) warned_of_options: Mutex<HashSet<String>>,
    /// The same for `zeroOrMaxNodeScaling` alone.
    pub(super) warned_of_zero_or_max: Mutex<HashSet<String>>,
}

type Reply<T> = Result<Response<T>, Status>;

impl Service {
    /// Notes the call, and waits until the fleet is ready, or until the caller's deadline.
    async fn ready<T>(&self, request: &Request<T>) -> Result<Deadline, Status> {
        let deadline = deadline_of(request);
        self.fleet.note_call(deadline.respond_by).await;
        self.fleet.wait_ready(deadline.respond_by).await.map_err(|error| status(&error))?;
        Ok(deadline)
    }

    fn view(&self, id: &str) -> Result<Arc<GroupView>, Status> {
        let unknown = || status(&FleetError::unknown_group(id));
        self.fleet.snapshot().group(id).map(|(_, view)| Arc::clone(view)).ok_or_else(unknown)
    }

    /// Warns once for each group that its options are withheld from CA, and says what to do.
    fn warn_of_suppressed_options(&self, id: &str, defaults: Option<&NodeGroupAutoscalingOptions>) {
        if !is_first_time(&self.warned_of_options, id) {
            return;
        }
        let autoscaler = Dialect::of(defaults).map(Dialect::releases);
        tracing::warn!(
            group = %id, autoscaler,
            "autoscaling options of the node group are withheld: with them, this release of the Cluster Autoscaler \
             would treat booting nodes as unready or delete new nodes; to send them to 1.35 and later anyway, set \
             grpc.optionsSince135: send"
        );
    }

    /// The options without `zeroOrMaxNodeScaling`, unless it is to be sent. Warns once for each group.
    ///
    /// CA scales such a group down only if it removes all its nodes at once, and counts them by the object that stands
    /// for the group. Its external gRPC client makes another object for each node, so CA never finds more than one.
    fn without_zero_or_max(&self, id: &str, options: Options) -> Options {
        if self.zero_or_max_node_scaling == SendPolicy::Send || options.zero_or_max_node_scaling != Some(true) {
            return options;
        }
        if is_first_time(&self.warned_of_zero_or_max, id) {
            tracing::warn!(
                group = %id,
                "zeroOrMaxNodeScaling of the node group is withheld: with it, the Cluster Autoscaler would never scale \
                 the group down; to send it anyway, set grpc.zeroOrMaxNodeScaling: send"
            );
        }
        Options { zero_or_max_node_scaling: None, ..options }
    }

    async fn mutate(&self, id: &str, mutation: Mutation, deadline: Deadline) -> Result<(), Status> {
        if id.is_empty() {
            return Err(invalid("the request names no node group: its id is empty; set id"));
        }
        self.fleet.mutate(id, mutation, deadline).await.map_err(|error| status(&error))
    }
}

/// Whether a group is warned about for the first time.
fn is_first_time(warned: &Mutex<HashSet<String>>, id: &str) -> bool {
    let mut warned = warned.lock().unwrap_or_else(PoisonError::into_inner);
    warned.len() < WARNED_GROUPS_MAX && warned.insert(id.to_owned())
}

#[tonic::async_trait]
impl CloudProvider for Service {
    async fn node_groups(&self, request: Request<NodeGroupsRequest>) -> Reply<NodeGroupsResponse> {
        self.ready(&request).await?;
        let snapshot = Arc::clone(&self.fleet.snapshot());
        let headrooms = self.fleet.headrooms(&snapshot);
        let node_groups =
            snapshot.groups().map(|(id, view)| node_group(id, view, self.fleet.max(&headrooms, view))).collect();
        Ok(Response::new(NodeGroupsResponse { node_groups }))
    }

    async fn node_group_for_node(&self, request: Request<NodeGroupForNodeRequest>) -> Reply<NodeGroupForNodeResponse> {
        self.ready(&request).await?;
        let node = request.into_inner().node.unwrap_or_default();
        let found = self.fleet.note_node(&node.provider_id, is_registered(&node));
        let node_group = found.map(|(id, view)| {
            let headrooms = self.fleet.headrooms(&Arc::clone(&self.fleet.snapshot()));
            node_group(&id, &view, self.fleet.max(&headrooms, &view))
        });
        Ok(Response::new(NodeGroupForNodeResponse { node_group }))
    }

    async fn node_group_target_size(
        &self,
        request: Request<NodeGroupTargetSizeRequest>,
    ) -> Reply<NodeGroupTargetSizeResponse> {
        self.ready(&request).await?;
        let view = self.view(&request.into_inner().id)?;
        Ok(Response::new(NodeGroupTargetSizeResponse { target_size: int32(view.status.target) }))
    }

    async fn node_group_nodes(&self, request: Request<NodeGroupNodesRequest>) -> Reply<NodeGroupNodesResponse> {
        self.ready(&request).await?;
        let id = request.into_inner().id;
        let view = self.view(&id)?;
        let instances = view.listed(Instant::now()).map(instance).collect();
        nodes::fitting(&id, NodeGroupNodesResponse { instances }).map(Response::new)
    }

    async fn node_group_template_node_info(
        &self,
        request: Request<NodeGroupTemplateNodeInfoRequest>,
    ) -> Reply<NodeGroupTemplateNodeInfoResponse> {
        let deadline = self.ready(&request).await?;
        let id = request.into_inner().id;
        let template = self.fleet.template(&id, deadline.respond_by).await.map_err(|error| status(&error))?;
        // CA up to 1.34 reads the first field, CA 1.35 and later the second. A response without the one it reads
        // crashes it.
        let node_info = template.bytes.clone();
        let resource_slice_bytes = match self.resource_slices {
            SendPolicy::Send => template.resource_slices.clone(),
            SendPolicy::Suppress => Vec::new(),
        };
        Ok(Response::new(NodeGroupTemplateNodeInfoResponse {
            node_bytes: node_info.clone(),
            node_info,
            resource_slice_bytes,
        }))
    }

    async fn node_group_get_options(
        &self,
        request: Request<NodeGroupAutoscalingOptionsRequest>,
    ) -> Reply<NodeGroupAutoscalingOptionsResponse> {
        self.ready(&request).await?;
        let NodeGroupAutoscalingOptionsRequest { id, defaults } = request.into_inner();
        if let Some(dialect) = Dialect::of(defaults.as_ref()) {
            self.fleet.note_dialect(dialect.releases());
        }
        let view = self.view(&id)?;
        let overrides = self.without_zero_or_max(&id, view.options);
        let options = options_to_send(&overrides, defaults.as_ref(), self.options_since_135);
        if options.is_none() && !overrides.is_empty() {
            self.warn_of_suppressed_options(&id, defaults.as_ref());
        }
        Ok(Response::new(NodeGroupAutoscalingOptionsResponse { node_group_autoscaling_options: options }))
    }

    async fn node_group_increase_size(
        &self,
        request: Request<NodeGroupIncreaseSizeRequest>,
    ) -> Reply<NodeGroupIncreaseSizeResponse> {
        let deadline = self.ready(&request).await?;
        let NodeGroupIncreaseSizeRequest { delta, id } = request.into_inner();
        let delta = u32::try_from(delta)
            .ok()
            .filter(|delta| *delta > 0)
            .ok_or_else(|| invalid(&format!("node group {id}: cannot grow by {delta}; send a positive delta")))?;
        self.mutate(&id, Mutation::Increase(delta), deadline).await?;
        Ok(Response::new(NodeGroupIncreaseSizeResponse {}))
    }

    async fn node_group_decrease_target_size(
        &self,
        request: Request<NodeGroupDecreaseTargetSizeRequest>,
    ) -> Reply<NodeGroupDecreaseTargetSizeResponse> {
        let deadline = self.ready(&request).await?;
        let NodeGroupDecreaseTargetSizeRequest { delta, id } = request.into_inner();
        if delta >= 0 {
            let message = format!("node group {id}: cannot decrease the target size by {delta}; send a negative delta");
            return Err(invalid(&message));
        }
        self.mutate(&id, Mutation::Decrease(delta.unsigned_abs()), deadline).await?;
        Ok(Response::new(NodeGroupDecreaseTargetSizeResponse {}))
    }

    async fn node_group_delete_nodes(
        &self,
        request: Request<NodeGroupDeleteNodesRequest>,
    ) -> Reply<NodeGroupDeleteNodesResponse> {
        let deadline = self.ready(&request).await?;
        let NodeGroupDeleteNodesRequest { nodes, id } = request.into_inner();
        if nodes.is_empty() {
            return Err(invalid(&format!("node group {id}: the request names no node to delete; name at least one")));
        }
        let nodes = nodes.into_iter().map(named).collect();
        self.mutate(&id, Mutation::Delete(nodes), deadline).await?;
        Ok(Response::new(NodeGroupDeleteNodesResponse {}))
    }

    async fn refresh(&self, request: Request<RefreshRequest>) -> Reply<RefreshResponse> {
        let deadline = self.ready(&request).await?;
        self.fleet.refresh(deadline.respond_by).await.map_err(|error| status(&error))?;
        Ok(Response::new(RefreshResponse {}))
    }

    async fn gpu_label(&self, _request: Request<GpuLabelRequest>) -> Reply<GpuLabelResponse> {
        Ok(Response::new(GpuLabelResponse { label: self.gpu.label.clone() }))
    }

    async fn get_available_gpu_types(
        &self,
        _request: Request<GetAvailableGpuTypesRequest>,
    ) -> Reply<GetAvailableGpuTypesResponse> {
        // CA reads only the keys.
        let gpu_types: HashMap<_, _> =
            self.gpu.types.iter().map(|name| ((*name).to_owned(), prost_types::Any::default())).collect();
        Ok(Response::new(GetAvailableGpuTypesResponse { gpu_types }))
    }

    async fn pricing_node_price(&self, request: Request<PricingNodePriceRequest>) -> Reply<PricingNodePriceResponse> {
        let PricingNodePriceRequest { node, start_time, end_time, start_timestamp, end_timestamp } =
            request.into_inner();
        let hours = hours((start_timestamp, &start_time), (end_timestamp, &end_time)).map_err(|why| invalid(&why))?;
        let offer = pricing::offer(&self.fleet.snapshot(), &node.unwrap_or_default(), self.prices.family());
        Ok(Response::new(PricingNodePriceResponse { price: self.prices.node(&offer, hours) }))
    }

    async fn pricing_pod_price(&self, request: Request<PricingPodPriceRequest>) -> Reply<PricingPodPriceResponse> {
        let request = request.into_inner();
        let start = (request.start_timestamp, request.start_time.as_slice());
        let hours = hours(start, (request.end_timestamp, &request.end_time)).map_err(|why| invalid(&why))?;
        // CA 1.34 sends the pod twice.
        let pod = if request.pod_bytes.is_empty() { request.pod } else { request.pod_bytes };
        pricing::find_region(&self.fleet, &self.prices);
        let price =
            self.prices.pod(&pod, hours).map_err(|error| invalid(&format!("the pod is not a v1.Pod: {error}")))?;
        Ok(Response::new(PricingPodPriceResponse { price }))
    }

    /// CA calls this when it exits, at every restart and change of leader. There is nothing to clean up.
    async fn cleanup(&self, _request: Request<CleanupRequest>) -> Reply<CleanupResponse> {
        Ok(Response::new(CleanupResponse {}))
    }
}
