//! The real service on a real port.

use std::collections::HashMap;
use std::error::Error as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use headcount::cloud::{Family, SharedCloud};
use headcount::clouds::simulated::{GroupPlan, Simulated};
use headcount::fleet::{Cadence, Fleet, Policies, Settings};
use headcount::grpc::dialect::SendPolicy;
use headcount::grpc::proto::cloud_provider_client::CloudProviderClient;
use headcount::grpc::proto::*;
use headcount::grpc::{self, Gpu, METHODS};
use headcount::instance_types::Catalog;
use proptest::collection::{hash_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use prost::bytes::{Buf, BufMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use super::samples;

/// Calls under way at a time.
const AT_ONCE: usize = 40;
/// A message is a header of the response, and clients accept some KiB of those.
const MESSAGE_BYTES_MAX: usize = 8 << 10;
const NODE: &str = "aws:///us-east-1a/i-0000000000000001";

/// A server over a simulated cloud with two groups.
struct Service {
    cloud: Arc<Simulated>,
    address: SocketAddr,
    channel: Channel,
}

impl Service {
    async fn start() -> Self {
        let plans = [GroupPlan::aws("asg").sized(1, 8, 4), GroupPlan::azure("vmss").sized(0, 8, 4)];
        let cloud = Arc::new(Simulated::with_groups(5, plans));
        let fleet = Arc::new(Fleet::start(Settings {
            sources: vec![(Arc::from("sim"), Arc::clone(&cloud) as SharedCloud)],
            cadence: Cadence::new(Duration::from_secs(1), None),
            catalog: Arc::new(Catalog::new(Vec::new())),
            policies: Arc::new(Policies::default()),
            read_only: false,
        }));
        let settings = grpc::Settings {
            fleet,
            gpu: Gpu::new(None, &[Family::Aws]),
            prices: Arc::new(headcount::prices::Prices::new(Arc::default(), &[])),
            options_since_135: SendPolicy::Send,
            tls: None,
            refusals: Arc::default(),
            metrics: headcount::grpc::GrpcMetrics::default(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let listener = listener.try_into().expect("a listener");
        tokio::spawn(grpc::serve(listener, settings, std::future::pending()));
        let endpoint = Channel::from_shared(format!("http://{address}")).expect("an address");
        Self { cloud, address, channel: endpoint.connect().await.expect("connects") }
    }

    fn client(&self) -> CloudProviderClient<Channel> {
        CloudProviderClient::new(self.channel.clone())
    }

    /// It serves as before, and nobody died unnamed.
    async fn is_well(&self) {
        let groups = self.client().node_groups(NodeGroupsRequest {}).await.expect("NodeGroups never fails");
        assert_eq!(groups.into_inner().node_groups.len(), 2);
        for id in ["asg", "vmss"] {
            let target = self.client().node_group_target_size(NodeGroupTargetSizeRequest { id: id.to_owned() }).await;
            assert!((0..=8).contains(&target.expect("served").into_inner().target_size), "{id}");
        }
        assert_eq!(self.cloud.killed_unnamed(), []);
    }
}

/// A response of the server itself, not the end of a connection, with a message that fits into a header.
fn is_an_answer<T>(outcome: &Result<T, Status>) -> bool {
    let Err(status) = outcome else { return true };
    status.source().is_none() && status.code() != Code::Unknown && status.message().len() <= MESSAGE_BYTES_MAX
}

/// Bytes in place of messages.
#[derive(Clone, Copy, Debug, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let length = buffer.remaining();
        Ok(Some(buffer.copy_to_bytes(length).to_vec()))
    }
}

/// Bytes that begin as protobuf fields do, or in any way.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let field = (1..12_u8, 0..8_u8, vec(any::<u8>(), 0..40)).prop_map(|(number, kind, bytes)| {
        let length = u8::try_from(bytes.len()).expect("short");
        [vec![number << 3 | kind, length], bytes].concat()
    });
    prop_oneof![vec(field, 0..6).prop_map(|fields| fields.concat()), vec(any::<u8>(), 0..200)]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_bytes_for_any_call_are_answered_with_a_status() {
    let service = Service::start().await;
    service.is_well().await;
    let calls = samples(600, (select(&METHODS[..]), message()));
    let outcomes = stream::iter(calls).map(|(method, bytes)| {
        let mut client = tonic::client::Grpc::new(service.channel.clone());
        async move {
            let path = format!("/clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider/{method}");
            let path = PathAndQuery::try_from(path).expect("a path");
            client.ready().await.expect("still connected");
            let outcome = client.unary(Request::new(bytes.clone()), path, Raw).await.map(drop);
            assert!(is_an_answer(&outcome), "{method} with {bytes:02x?}: {outcome:?}");
        }
    });
    outcomes.buffer_unordered(AT_ONCE).collect::<()>().await;
    service.is_well().await;
}

/// A call with fields of all sorts.
#[derive(Clone, Debug)]
enum Call {
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

fn call() -> impl Strategy<Value = Call> {
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

async fn make(mut client: CloudProviderClient<Channel>, call: Call) -> Result<(), Status> {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_values_in_any_call_are_answered_with_a_status_that_fits_into_a_header() {
    let service = Service::start().await;
    service.is_well().await;
    let outcomes = stream::iter(samples(600, call())).map(|call| {
        let client = service.client();
        async move {
            let outcome = make(client, call.clone()).await;
            let shown = || format!("{call:?}").chars().take(500).collect::<String>();
            assert!(is_an_answer(&outcome), "{}: {outcome:?}", shown());
        }
    });
    outcomes.buffer_unordered(AT_ONCE).collect::<()>().await;
    service.is_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_bytes_at_the_port_harm_nobody_else() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let service = Service::start().await;
    let frame = (vec(any::<u8>(), 0..60), any::<[u8; 6]>()).prop_map(|(payload, head)| {
        let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
        [&length[1..], &[head[0] % 12], &head[1..], &payload].concat()
    });
    let bytes = prop_oneof![
        1 => vec(any::<u8>(), 1..400),
        2 => vec(frame, 1..8).prop_map(|frames| [PREFACE.to_vec(), frames.concat()].concat()),
        1 => "(GET|POST|PRI) \\PC{0,40} HTTP/1.1\r\n\r\n".prop_map(String::into_bytes),
    ];
    let visits = stream::iter(samples(150, bytes)).map(|bytes| async move {
        let mut stream = TcpStream::connect(service.address).await.expect("it still listens");
        let _may_be_cut_short = stream.write_all(&bytes).await;
        let _may_be_cut_short = stream.shutdown().await;
        let mut answer = Vec::new();
        let _may_be_cut_short = stream.read_to_end(&mut answer).await;
        assert!(answer.len() < 100_000, "{} bytes for {bytes:02x?}", answer.len());
    });
    tokio::time::timeout(Duration::from_secs(60), visits.buffer_unordered(AT_ONCE).collect::<()>())
        .await
        .expect("no client is kept forever");
    service.is_well().await;
}
