//! The Cluster Autoscaler's end of the protocol.

use std::time::Duration;

use headcount::grpc::proto::cloud_provider_client::CloudProviderClient;
use headcount::grpc::proto::*;
use tonic::{Request, Status};

use super::{Connection, PATIENCE};

/// The timeout of a call. The Cluster Autoscaler's default is 5 s, which a busy machine may need for a call that takes
/// none at rest.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The Cluster Autoscaler's end of the protocol.
#[derive(Clone)]
pub(crate) struct Client {
    stub: CloudProviderClient<Connection>,
    timeout: Duration,
}

impl Client {
    pub(super) fn new(connection: Connection) -> Self {
        Self { stub: CloudProviderClient::new(connection), timeout: TIMEOUT }
    }

    /// The same client, whose calls have this timeout.
    pub(crate) fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    pub(crate) fn stub(&mut self) -> &mut CloudProviderClient<Connection> {
        &mut self.stub
    }

    fn timed<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.timeout);
        request
    }

    pub(crate) async fn node_groups(&mut self) -> Vec<NodeGroup> {
        let request = self.timed(NodeGroupsRequest {});
        let response = self.stub.node_groups(request).await;
        response.expect("NodeGroups never fails").into_inner().node_groups
    }

    pub(crate) async fn refresh(&mut self) -> Result<(), Status> {
        let request = self.timed(RefreshRequest {});
        self.stub.refresh(request).await.map(|_| ())
    }

    pub(crate) async fn target(&mut self, id: &str) -> i32 {
        let request = self.timed(NodeGroupTargetSizeRequest { id: id.into() });
        let response = self.stub.node_group_target_size(request).await;
        response.expect("served").into_inner().target_size
    }

    pub(crate) async fn nodes(&mut self, id: &str) -> Vec<Instance> {
        let request = self.timed(NodeGroupNodesRequest { id: id.into() });
        let response = self.stub.node_group_nodes(request).await;
        response.expect("served").into_inner().instances
    }

    /// The IDs of the nodes in this state: 1 running, 2 creating, 3 deleting.
    pub(crate) async fn nodes_in(&mut self, id: &str, state: i32) -> Vec<String> {
        let in_state =
            |instance: &Instance| instance.status.as_ref().is_some_and(|status| status.instance_state == state);
        self.nodes(id).await.into_iter().filter(in_state).map(|instance| instance.id).collect()
    }

    pub(crate) async fn increase(&mut self, id: &str, delta: i32) -> Result<(), Status> {
        let request = self.timed(NodeGroupIncreaseSizeRequest { id: id.into(), delta });
        self.stub.node_group_increase_size(request).await.map(|_| ())
    }

    pub(crate) async fn decrease(&mut self, id: &str, delta: i32) -> Result<(), Status> {
        let request = self.timed(NodeGroupDecreaseTargetSizeRequest { id: id.into(), delta });
        self.stub.node_group_decrease_target_size(request).await.map(|_| ())
    }

    pub(crate) async fn delete(&mut self, id: &str, nodes: &[&str]) -> Result<(), Status> {
        self.delete_with(id, nodes, &[]).await
    }

    /// Deletes instances that never became nodes.
    pub(crate) async fn delete_unregistered(&mut self, id: &str, nodes: &[&str]) -> Result<(), Status> {
        self.delete_with(id, nodes, &[("k8s.io/cluster-autoscaler/fake-node-reason", "unregistered")]).await
    }

    async fn delete_with(&mut self, id: &str, nodes: &[&str], annotations: &[(&str, &str)]) -> Result<(), Status> {
        let node = |provider_id: &&str| ExternalGrpcNode {
            provider_id: (*provider_id).to_owned(),
            name: (*provider_id).to_owned(),
            annotations: annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            ..Default::default()
        };
        let nodes = nodes.iter().map(node).collect();
        let request = self.timed(NodeGroupDeleteNodesRequest { id: id.into(), nodes });
        self.stub.node_group_delete_nodes(request).await.map(|_| ())
    }

    pub(crate) async fn group_of(&mut self, provider_id: &str) -> Option<String> {
        let node = ExternalGrpcNode { provider_id: provider_id.into(), ..Default::default() };
        let request = self.timed(NodeGroupForNodeRequest { node: Some(node) });
        let response = self.stub.node_group_for_node(request).await;
        response.expect("a response").into_inner().node_group.map(|group| group.id)
    }

    pub(crate) async fn template(&mut self, id: &str) -> Result<NodeGroupTemplateNodeInfoResponse, Status> {
        let request = self.timed(NodeGroupTemplateNodeInfoRequest { id: id.into() });
        self.stub.node_group_template_node_info(request).await.map(tonic::Response::into_inner)
    }

    /// Refreshes, as the autoscaler does before each loop, until a condition holds.
    pub(crate) async fn until(&mut self, what: &str, holds: impl AsyncFnMut(&mut Self) -> bool) {
        self.until_within(PATIENCE, what, holds).await;
    }

    /// The same, with another time limit.
    pub(crate) async fn until_within(
        &mut self,
        limit: Duration,
        what: &str,
        mut holds: impl AsyncFnMut(&mut Self) -> bool,
    ) {
        let wait = async {
            while !holds(self).await {
                self.refresh().await.expect("refreshed");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(limit, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
    }
}
