//! The cost of a read, beside a bare tonic server that returns clones of the same messages.
//!
//! Each server is a process of its own. One client calls it over loopback gRPC and waits for each response, as the
//! Cluster Autoscaler does. The difference is what Headcount itself adds. At the end, the benchmark prints the resident
//! memory of each server, which includes the simulated cloud.
//!
//!     cargo bench --no-default-features

mod fleet;

use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, criterion_group};
use headcount::cloud::{Cloud, Family};
use headcount::clouds::simulated::Simulated;
use headcount::grpc::dialect::SendPolicy;
use headcount::grpc::proto::cloud_provider_client::CloudProviderClient;
use headcount::grpc::proto::cloud_provider_server::{CloudProvider, CloudProviderServer};
use headcount::grpc::proto::*;
use headcount::grpc::{self, Gpu};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::time::sleep;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status};

use fleet::OPEN_METRICS;

/// The responses of a real server, to return unchanged.
#[derive(Clone)]
struct Echo {
    group: NodeGroupForNodeResponse,
    target: NodeGroupTargetSizeResponse,
    nodes: NodeGroupNodesResponse,
    options: NodeGroupAutoscalingOptionsResponse,
}

macro_rules! responses {
    ($($method:ident($request:ty) -> $response:ty { $response_of:expr })*) => {
        #[tonic::async_trait]
        impl CloudProvider for Echo {
            $(async fn $method(&self, request: Request<$request>) -> Result<Response<$response>, Status> {
                let (echo, _request) = (self, request);
                ($response_of)(echo).map(Response::new).ok_or_else(|| Status::unimplemented("not echoed"))
            })*
        }
    };
}

responses! {
    node_group_for_node(NodeGroupForNodeRequest) -> NodeGroupForNodeResponse { |echo: &Echo| Some(echo.group.clone()) }
    node_group_target_size(NodeGroupTargetSizeRequest) -> NodeGroupTargetSizeResponse { |echo: &Echo| Some(echo.target) }
    node_group_nodes(NodeGroupNodesRequest) -> NodeGroupNodesResponse { |echo: &Echo| Some(echo.nodes.clone()) }
    node_group_get_options(NodeGroupAutoscalingOptionsRequest) -> NodeGroupAutoscalingOptionsResponse {
        |echo: &Echo| Some(echo.options)
    }
    node_groups(NodeGroupsRequest) -> NodeGroupsResponse { |_: &Echo| None }
    pricing_node_price(PricingNodePriceRequest) -> PricingNodePriceResponse { |_: &Echo| None }
    pricing_pod_price(PricingPodPriceRequest) -> PricingPodPriceResponse { |_: &Echo| None }
    gpu_label(GpuLabelRequest) -> GpuLabelResponse { |_: &Echo| None }
    get_available_gpu_types(GetAvailableGpuTypesRequest) -> GetAvailableGpuTypesResponse { |_: &Echo| None }
    cleanup(CleanupRequest) -> CleanupResponse { |_: &Echo| None }
    refresh(RefreshRequest) -> RefreshResponse { |_: &Echo| None }
    node_group_increase_size(NodeGroupIncreaseSizeRequest) -> NodeGroupIncreaseSizeResponse { |_: &Echo| None }
    node_group_delete_nodes(NodeGroupDeleteNodesRequest) -> NodeGroupDeleteNodesResponse { |_: &Echo| None }
    node_group_decrease_target_size(NodeGroupDecreaseTargetSizeRequest) -> NodeGroupDecreaseTargetSizeResponse {
        |_: &Echo| None
    }
    node_group_template_node_info(NodeGroupTemplateNodeInfoRequest) -> NodeGroupTemplateNodeInfoResponse {
        |_: &Echo| None
    }
}

type Client = CloudProviderClient<Channel>;

/// The requests that are measured, about one node of one group.
#[derive(Clone)]
struct Requests {
    group: NodeGroupForNodeRequest,
    target: NodeGroupTargetSizeRequest,
    nodes: NodeGroupNodesRequest,
    options: NodeGroupAutoscalingOptionsRequest,
}

impl Requests {
    async fn about(model: &mut Client) -> Self {
        let group = "group-0000";
        let nodes = model.node_group_nodes(NodeGroupNodesRequest { id: group.to_owned() }).await.expect("a response");
        let node = nodes.into_inner().instances[42].id.clone();
        let node = ExternalGrpcNode { provider_id: node, name: "node".to_owned(), ..Default::default() };
        let duration = |seconds: i64| Some(prost_types::Duration { seconds, nanos: 0 });
        let defaults = NodeGroupAutoscalingOptions {
            scale_down_utilization_threshold: 0.5,
            scale_down_gpu_utilization_threshold: 0.5,
            scale_down_unneeded_duration: duration(600),
            scale_down_unready_duration: duration(1200),
            max_node_provision_duration: duration(900),
            ..Default::default()
        };
        Self {
            group: NodeGroupForNodeRequest { node: Some(node) },
            target: NodeGroupTargetSizeRequest { id: group.to_owned() },
            nodes: NodeGroupNodesRequest { id: group.to_owned() },
            options: NodeGroupAutoscalingOptionsRequest { id: group.to_owned(), defaults: Some(defaults) },
        }
    }
}

/// The role of a server process; not set in the benchmark itself.
const ROLE: &str = "HEADCOUNT_BENCH_ROLE";

/// A server in a process of its own. Dropping this ends the process.
struct Process {
    process: Child,
    address: SocketAddr,
}

impl Process {
    fn start(role: String) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut process = Command::new(program)
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let stdout = process.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("the address it listens on");
        Self { process, address: line.trim().parse().expect("an address") }
    }

    /// Resident memory, from `/proc`; 0 on systems without it.
    fn resident_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() / 1024
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ended_already = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// Plays a role: `GROUPS INSTANCES` serves a fleet; `scraped GROUPS INSTANCES` does too, and renders `/metrics` every
/// second; `cloud GROUPS INSTANCES` only lists such a simulated cloud, as a fleet does; an address echoes the server
/// there.
async fn play(role: &str) {
    if let Some((groups, instances)) = role.strip_prefix("cloud ").and_then(|role| role.split_once(' ')) {
        return list(groups.parse().expect("a number"), instances.parse().expect("a number")).await;
    }
    let (role, is_scraped) = role.strip_prefix("scraped ").map_or((role, false), |role| (role, true));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    match role.split_once(' ') {
        Some((groups, instances)) => {
            let number = |text: &str| text.parse().expect("a number");
            println!("{address}");
            headcount(listener, number(groups), number(instances), is_scraped).await;
        }
        None => {
            let mut model = client(role.parse().expect("an address")).await;
            let echo = Echo::of(&mut model).await;
            println!("{address}");
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            let service = CloudProviderServer::new(echo);
            Server::builder().add_service(service).serve_with_incoming(incoming).await.expect("served");
        }
    }
}

/// The simulated cloud by itself, to measure its share of a server's memory.
async fn list(groups: u32, instances: u32) {
    let cloud = Simulated::large(groups, instances);
    black_box(cloud.list().await.expect("listed"));
    println!("127.0.0.1:1");
    std::future::pending::<()>().await;
}

/// Serves a fleet with this many groups, of this many instances each.
async fn headcount(listener: TcpListener, groups: u32, instances: u32, is_scraped: bool) {
    let (fleet, metrics) = fleet::start(groups, instances);
    if is_scraped {
        tokio::spawn(async move {
            loop {
                sleep(Duration::from_secs(1)).await;
                black_box(metrics.render(headcount::admin::Format::wanted(OPEN_METRICS)).expect("rendered"));
            }
        });
    }
    let settings = grpc::Settings {
        fleet,
        gpu: Gpu::new(None, &[Family::Aws]),
        prices: Arc::new(headcount::prices::Prices::new(Arc::default(), &[])),
        options_since_135: SendPolicy::Suppress,
        zero_or_max_node_scaling: SendPolicy::Suppress,
        resource_slices: SendPolicy::Suppress,
        tls: None,
        refusals: Arc::default(),
        metrics: grpc::GrpcMetrics::default(),
    };
    let listener = listener.try_into().expect("a listener");
    grpc::serve(listener, settings, std::future::pending()).await;
}

impl Echo {
    /// The responses of a server to the requests.
    async fn of(model: &mut Client) -> Self {
        let requests = Requests::about(model).await;
        Self {
            group: model.node_group_for_node(requests.group.clone()).await.expect("a response").into_inner(),
            target: model.node_group_target_size(requests.target.clone()).await.expect("a response").into_inner(),
            nodes: model.node_group_nodes(requests.nodes.clone()).await.expect("a response").into_inner(),
            options: model.node_group_get_options(requests.options.clone()).await.expect("a response").into_inner(),
        }
    }
}

async fn client(address: SocketAddr) -> Client {
    let endpoint = Channel::from_shared(format!("http://{address}")).expect("an address").tcp_nodelay(true);
    CloudProviderClient::new(endpoint.connect().await.expect("connects"))
}

macro_rules! measure {
    ($criterion:expr, $runtime:expr, $name:literal, $method:ident, $request_of:ident, $clients:expr, $requests:expr) => {{
        let mut group = $criterion.benchmark_group($name);
        for (who, client) in $clients {
            let request = $requests.$request_of.clone();
            group.bench_function(*who, |bencher| {
                bencher.to_async($runtime).iter(|| {
                    let (mut client, request) = (client.clone(), request.clone());
                    async move { black_box(client.$method(request).await.expect("a response")) }
                });
            });
        }
        group.finish();
    }};
}

fn reads(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("threads");
    let small = Process::start("1 100".to_owned());
    let large = Process::start("1000 100".to_owned());
    let scraped = Process::start("scraped 1000 100".to_owned());
    let bare = Process::start(large.address.to_string());
    let (clients, requests) = runtime.block_on(async {
        let servers = [
            ("bare tonic", client(bare.address).await),
            ("1 group, 100 instances", client(small.address).await),
            ("1000 groups, 100000 instances", client(large.address).await),
            ("1000 groups, 100000 instances, scraped every second", client(scraped.address).await),
        ];
        let requests = Requests::about(&mut client(large.address).await).await;
        (servers, requests)
    });
    measure!(criterion, &runtime, "NodeGroupForNode", node_group_for_node, group, &clients, requests);
    measure!(criterion, &runtime, "NodeGroupTargetSize", node_group_target_size, target, &clients, requests);
    measure!(criterion, &runtime, "NodeGroupNodes of 100", node_group_nodes, nodes, &clients, requests);
    measure!(criterion, &runtime, "NodeGroupGetOptions", node_group_get_options, options, &clients, requests);
    let cloud = Process::start("cloud 1000 100".to_owned());
    let processes =
        [("bare tonic", &bare), ("100 instances", &small), ("100000 instances", &large), ("its cloud alone", &cloud)];
    for (who, process) in processes {
        println!("resident memory, {who}: {} MiB", process.resident_mib());
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(200).measurement_time(Duration::from_secs(8));
    targets = reads
}

fn main() {
    if let Ok(role) = std::env::var(ROLE) {
        return Runtime::new().expect("threads").block_on(play(&role));
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}
