//! Calls with fields of all sorts.

use std::collections::HashMap;

use headcount::grpc::proto::cloud_provider_client::CloudProviderClient;
use headcount::grpc::proto::*;
use proptest::collection::{hash_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use tonic::Status;
use tonic::transport::Channel;

use super::NODE;

/// A call with fields of all sorts.
#[derive(Clone, Debug)]
pub(super) enum Call {
    ForNode(NodeGroupForNodeRequest),
    Target(NodeGroupTargetSizeRequest),
    Nodes(NodeGroupNodesRequest),
    Template(NodeGroupTemplateNodeInfoRequest),
    Options(NodeGroupAutoscalingOptionsRequest),
    Increase(NodeGroupIncreaseSizeRequest),
    Decrease(NodeGroupDecreaseTargetSizeRequest),
    Delete(NodeGroupDeleteNodesRequest),
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => select(&["asg", "vmss", "sim/asg", "ASG", NODE, "k8s.io/cluster-autoscaler/fake-node-reason", "create-error"][..])
            .prop_map(str::to_owned),
        2 => "\\PC{0,20}",
        1 => (1..200_000_usize, any::<char>()).prop_map(|(times, letter)| letter.to_string().repeat(times)),
    ]
}

fn node() -> impl Strategy<Value = ExternalGrpcNode> {
    let maps = (hash_map(text(), text(), 0..3), hash_map(text(), text(), 0..3));
    (text(), text(), maps).prop_map(|(provider_id, name, (labels, annotations))| ExternalGrpcNode {
        provider_id,
        name,
        labels: labels.into_iter().collect::<HashMap<_, _>>(),
        annotations,
    })
}

fn defaults() -> impl Strategy<Value = NodeGroupAutoscalingOptions> {
    let kubernetes = option::of(any::<i64>().prop_map(|duration| KubernetesDuration { duration }));
    let protobuf =
        option::of((any::<i64>(), any::<i32>()).prop_map(|(seconds, nanos)| prost_types::Duration { seconds, nanos }));
    (
        any::<[f64; 2]>(),
        [kubernetes.clone(), kubernetes.clone(), kubernetes],
        [protobuf.clone(), protobuf.clone(), protobuf],
    )
        .prop_map(|(shares, kubernetes, protobuf)| NodeGroupAutoscalingOptions {
            scale_down_utilization_threshold: shares[0],
            scale_down_gpu_utilization_threshold: shares[1],
            scale_down_unneeded_time: kubernetes[0],
            scale_down_unready_time: kubernetes[1],
            max_node_provision_time: kubernetes[2],
            scale_down_unneeded_duration: protobuf[0],
            scale_down_unready_duration: protobuf[1],
            max_node_provision_duration: protobuf[2],
            ..Default::default()
        })
}

pub(super) fn call() -> impl Strategy<Value = Call> {
    let delta = prop_oneof![any::<i32>(), -9..9_i32, Just(i32::MIN), Just(i32::MAX)].boxed();
    prop_oneof![
        option::of(node()).prop_map(|node| Call::ForNode(NodeGroupForNodeRequest { node })),
        text().prop_map(|id| Call::Target(NodeGroupTargetSizeRequest { id })),
        text().prop_map(|id| Call::Nodes(NodeGroupNodesRequest { id })),
        text().prop_map(|id| Call::Template(NodeGroupTemplateNodeInfoRequest { id })),
        (text(), option::of(defaults()))
            .prop_map(|(id, defaults)| Call::Options(NodeGroupAutoscalingOptionsRequest { id, defaults })),
        (text(), delta.clone()).prop_map(|(id, delta)| Call::Increase(NodeGroupIncreaseSizeRequest { id, delta })),
        (text(), delta).prop_map(|(id, delta)| Call::Decrease(NodeGroupDecreaseTargetSizeRequest { id, delta })),
        (text(), vec(node(), 0..4)).prop_map(|(id, nodes)| Call::Delete(NodeGroupDeleteNodesRequest { id, nodes })),
    ]
}

pub(super) async fn make(mut client: CloudProviderClient<Channel>, call: Call) -> Result<(), Status> {
    match call {
        Call::ForNode(request) => client.node_group_for_node(request).await.map(drop),
        Call::Target(request) => client.node_group_target_size(request).await.map(drop),
        Call::Nodes(request) => client.node_group_nodes(request).await.map(drop),
        Call::Template(request) => client.node_group_template_node_info(request).await.map(drop),
        Call::Options(request) => client.node_group_get_options(request).await.map(drop),
        Call::Increase(request) => client.node_group_increase_size(request).await.map(drop),
        Call::Decrease(request) => client.node_group_decrease_target_size(request).await.map(drop),
        Call::Delete(request) => client.node_group_delete_nodes(request).await.map(drop),
    }
}
