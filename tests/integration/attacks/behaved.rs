//! A well-behaved client, which calls as the Cluster Autoscaler does and measures how long it waits.

use std::time::Duration;

use headcount::grpc::proto::cloud_provider_client::CloudProviderClient;
use headcount::grpc::proto::*;
use tokio::time::{Instant, sleep_until};
use tonic::transport::Channel;

/// Calls until this time and returns how long each response took. The calls are the Cluster Autoscaler's, with its deadline of 5 s.
///
/// # Panics
///
/// If a response is missing.
pub(crate) async fn behave(channel: Channel, group: String, until: Instant) -> Vec<Duration> {
    let mut stub = CloudProviderClient::new(channel);
    let (mut waits, mut node) = (Vec::new(), String::new());
    while Instant::now() < until {
        let next = Instant::now() + Duration::from_millis(10);
        waits.push(timed(stub.node_groups(limited(NodeGroupsRequest {}))).await);
        let target = NodeGroupTargetSizeRequest { id: group.clone() };
        waits.push(timed(stub.node_group_target_size(limited(target))).await);
        let begun = Instant::now();
        let nodes = stub.node_group_nodes(limited(NodeGroupNodesRequest { id: group.clone() })).await;
        waits.push(begun.elapsed());
        if let Some(first) = nodes.expect("every call gets a response").into_inner().instances.into_iter().next() {
            node = first.id;
        }
        let node = Some(ExternalGrpcNode { provider_id: node.clone(), ..Default::default() });
        waits.push(timed(stub.node_group_for_node(limited(NodeGroupForNodeRequest { node }))).await);
        sleep_until(next).await;
    }
    waits
}

fn limited<T>(message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.set_timeout(Duration::from_secs(5));
    request
}

async fn timed<T>(call: impl Future<Output = Result<T, tonic::Status>>) -> Duration {
    let begun = Instant::now();
    call.await.expect("every call gets a response");
    begun.elapsed()
}

/// The 50th and the 99th percentile, and the maximum, in milliseconds.
pub(crate) fn percentiles(mut waits: Vec<Duration>) -> [f64; 3] {
    waits.sort();
    let at =
        |share: usize| waits.get((waits.len() * share / 100).min(waits.len() - 1)).expect("waits").as_secs_f64() * 1e3;
    [at(50), at(99), at(100)]
}
