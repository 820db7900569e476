//! The real service on a real port.

mod call;
mod raw;

use std::error::Error as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use headcount::cloud::SharedCloud;
use headcount::clouds::simulated::{GroupPlan, Simulated};
use headcount::grpc::dialect::SendPolicy;
use headcount::grpc::proto::cloud_provider_client::CloudProviderClient;
use headcount::grpc::proto::*;
use headcount::grpc::{self, METHODS};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use super::samples;
use crate::in_process;
use crate::peers::headcount::PATIENCE;
use call::{call, make};
use raw::Raw;

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
        let sources = vec![("sim".into(), Arc::clone(&cloud) as SharedCloud)];
        let fleet = in_process::fleet(sources, Duration::from_secs(1));
        let settings = grpc::Settings { options_since_135: SendPolicy::Send, ..in_process::service(fleet) };
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

    /// It serves as before, and no unnamed instance was killed.
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

/// Whether this is a response of the server itself, not the end of a connection, with a message that fits into a
/// header.
fn is_a_response<T>(outcome: &Result<T, Status>) -> bool {
    let Err(status) = outcome else { return true };
    status.source().is_none() && status.code() != Code::Unknown && status.message().len() <= MESSAGE_BYTES_MAX
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
async fn any_bytes_for_any_call_get_a_status() {
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
            assert!(is_a_response(&outcome), "{method} with {bytes:02x?}: {outcome:?}");
        }
    });
    outcomes.buffer_unordered(AT_ONCE).collect::<()>().await;
    service.is_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_values_in_any_call_get_a_status_that_fits_into_a_header() {
    let service = Service::start().await;
    service.is_well().await;
    let outcomes = stream::iter(samples(600, call())).map(|call| {
        let client = service.client();
        async move {
            let outcome = make(client, call.clone()).await;
            let shown = || format!("{call:?}").chars().take(500).collect::<String>();
            assert!(is_a_response(&outcome), "{}: {outcome:?}", shown());
        }
    });
    outcomes.buffer_unordered(AT_ONCE).collect::<()>().await;
    service.is_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_bytes_at_the_port_do_not_affect_other_clients() {
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
        let mut response = Vec::new();
        let _may_be_cut_short = stream.read_to_end(&mut response).await;
        assert!(response.len() < 100_000, "{} bytes for {bytes:02x?}", response.len());
    });
    tokio::time::timeout(PATIENCE, visits.buffer_unordered(AT_ONCE).collect::<()>())
        .await
        .expect("no client is kept forever");
    service.is_well().await;
}
