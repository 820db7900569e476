//! The calls of the imitation, with the timeout that CA has by default.

use std::time::Duration;

use tonic::service::Routes;
use tonic::{Request, Status};

use crate::grpc::proto::cloud_provider_client::CloudProviderClient;
use crate::grpc::proto::{
    ExternalGrpcNode, NodeGroupDeleteNodesRequest, NodeGroupForNodeRequest, NodeGroupIncreaseSizeRequest,
    NodeGroupNodesRequest, NodeGroupTargetSizeRequest, NodeGroupsRequest, RefreshRequest,
};

/// CA's `grpc_timeout` as docs/install.md sets it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Why CA names an instance that is no node.
const REASON: (&str, &str) = ("k8s.io/cluster-autoscaler/fake-node-reason", "create-error");

/// A node group as the service describes it.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) id: String,
    pub(super) min: u32,
    pub(super) max: u32,
    pub(super) target: u32,
    /// Instances that failed to be created, each with its code.
    pub(super) failed: Vec<(String, String)>,
}

/// A client of the service in this process.
#[derive(Clone, Debug)]
pub(super) struct Calls(CloudProviderClient<Routes>);

impl Calls {
    pub(super) fn new(service: Routes) -> Self {
        Self(CloudProviderClient::new(service))
    }

    /// Refreshes, and reads all groups.
    pub(super) async fn refreshed_groups(&mut self) -> Result<Vec<Group>, Status> {
        self.0.refresh(within(RefreshRequest {})).await?;
        self.groups().await
    }

    /// Reads all groups.
    pub(super) async fn groups(&mut self) -> Result<Vec<Group>, Status> {
        let listed = self.0.node_groups(within(NodeGroupsRequest {})).await?.into_inner().node_groups;
        let mut groups = Vec::new();
        for group in listed {
            let id = group.id;
            let target = self.0.node_group_target_size(within(NodeGroupTargetSizeRequest { id: id.clone() })).await?;
            let nodes = self.0.node_group_nodes(within(NodeGroupNodesRequest { id: id.clone() })).await?.into_inner();
            let failed = nodes.instances.into_iter().filter_map(|instance| {
                let error = instance.status?.error_info.filter(|error| !error.error_code.is_empty())?;
                Some((instance.id, error.error_code))
            });
            groups.push(Group {
                min: size(group.min_size),
                max: size(group.max_size),
                target: size(target.into_inner().target_size),
                failed: failed.collect(),
                id,
            });
        }
        Ok(groups)
    }

    /// The group of a node; `None` if it has none, or if it is not known.
    pub(super) async fn group_of(&mut self, provider_id: &str) -> Option<String> {
        let node = ExternalGrpcNode { provider_id: provider_id.to_owned(), ..ExternalGrpcNode::default() };
        let found = self.0.node_group_for_node(within(NodeGroupForNodeRequest { node: Some(node) })).await.ok()?;
        found.into_inner().node_group.map(|group| group.id).filter(|id| !id.is_empty())
    }

    /// `NodeGroupIncreaseSize`
    pub(super) async fn increase(&mut self, group: &str, delta: u32) -> Result<(), Status> {
        let delta = i32::try_from(delta).unwrap_or(i32::MAX);
        let request = NodeGroupIncreaseSizeRequest { id: group.to_owned(), delta };
        self.0.node_group_increase_size(within(request)).await.map(drop)
    }

    /// `NodeGroupDeleteNodes` for a node of the cluster.
    pub(super) async fn delete(&mut self, group: &str, node: &str) -> Result<(), Status> {
        let node = ExternalGrpcNode {
            provider_id: node.to_owned(),
            name: node.rsplit('/').next().unwrap_or_default().to_owned(),
            ..ExternalGrpcNode::default()
        };
        self.delete_nodes(group, vec![node]).await
    }

    /// `NodeGroupDeleteNodes` for instances that failed to be created.
    pub(super) async fn delete_failed(&mut self, group: &str, instances: &[String]) -> Result<(), Status> {
        let (key, value) = REASON;
        let nodes = instances.iter().map(|id| ExternalGrpcNode {
            provider_id: id.clone(),
            name: id.clone(),
            annotations: [(key.to_owned(), value.to_owned())].into(),
            ..ExternalGrpcNode::default()
        });
        self.delete_nodes(group, nodes.collect()).await
    }

    async fn delete_nodes(&mut self, group: &str, nodes: Vec<ExternalGrpcNode>) -> Result<(), Status> {
        let request = NodeGroupDeleteNodesRequest { id: group.to_owned(), nodes };
        self.0.node_group_delete_nodes(within(request)).await.map(drop)
    }
}

fn within<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(TIMEOUT);
    request
}

fn size(size: i32) -> u32 {
    u32::try_from(size).unwrap_or_default()
}
