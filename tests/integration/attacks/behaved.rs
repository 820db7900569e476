//! A well-behaved client, which calls as the Cluster Autoscaler does and measures how long it waits.

use std::time::Duration;

use headcount::grpc::proto::*;
use tokio::time::{Instant, sleep_until};
use tonic::Status;
use tonic::transport::Channel;

use crate::delivery::{Client, delivered};

/// The timeout of a call. The Cluster Autoscaler's default is 5 s, which a busy machine may need for the attackers
/// alone.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Calls until this time and returns how long each response took. The calls are the Cluster Autoscaler's.
///
/// # Panics
///
/// If a response is missing.
pub(crate) async fn behave(channel: Channel, group: String, until: Instant) -> Vec<Duration> {
    let client = Client::new(channel);
    let (mut waits, mut node) = (Vec::new(), String::new());
    while Instant::now() < until {
        let next = Instant::now() + Duration::from_millis(10);
        let list = async |mut client: Client, request| client.node_groups(request).await;
        timed(&mut waits, delivered(&client, TIMEOUT, NodeGroupsRequest {}, list)).await;
        let target = NodeGroupTargetSizeRequest { id: group.clone() };
        let read = async |mut client: Client, request| client.node_group_target_size(request).await;
        timed(&mut waits, delivered(&client, TIMEOUT, target, read)).await;
        let nodes = NodeGroupNodesRequest { id: group.clone() };
        let read = async |mut client: Client, request| client.node_group_nodes(request).await;
        let nodes = timed(&mut waits, delivered(&client, TIMEOUT, nodes, read)).await;
        if let Some(first) = nodes.instances.into_iter().next() {
            node = first.id;
        }
        let node = Some(ExternalGrpcNode { provider_id: node.clone(), ..Default::default() });
        let find = async |mut client: Client, request| client.node_group_for_node(request).await;
        timed(&mut waits, delivered(&client, TIMEOUT, NodeGroupForNodeRequest { node }, find)).await;
        sleep_until(next).await;
    }
    waits
}

async fn timed<T>(waits: &mut Vec<Duration>, call: impl Future<Output = Result<T, Status>>) -> T {
    let begun = Instant::now();
    let response = call.await.expect("every call gets a response");
    waits.push(begun.elapsed());
    response
}

/// The 50th and the 99th percentile, and the maximum, in milliseconds.
pub(crate) fn percentiles(mut waits: Vec<Duration>) -> [f64; 3] {
    waits.sort();
    let at =
        |share: usize| waits.get((waits.len() * share / 100).min(waits.len() - 1)).expect("waits").as_secs_f64() * 1e3;
    [at(50), at(99), at(100)]
}
