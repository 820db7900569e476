//! The gRPC server: the service, health checks and reflection on one listener.

use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::server::HealthReporter;

use super::dialect::SendPolicy;
use super::gpu::Gpu;
use super::listener::{self, Listener, Refusals};
use super::message;
use super::metrics::GrpcMetrics;
use super::proto::cloud_provider_server::CloudProviderServer;
use super::service::Service;
use super::tls::LiveTls;
use crate::fleet::Fleet;
use crate::limits::CALL;
use crate::prices::Prices;
use crate::tasks::TaskKind;

/// What the server serves, and how.
pub struct Settings {
    /// The groups.
    pub fleet: Arc<Fleet>,
    /// The GPU label and types to serve.
    pub gpu: Gpu,
    /// What nodes and pods cost.
    pub prices: Arc<Prices>,
    /// Whether options are sent to CA 1.35 and later.
    pub options_since_135: SendPolicy,
    /// Whether the option `zeroOrMaxNodeScaling` is sent.
    pub zero_or_max_node_scaling: SendPolicy,
    /// Whether the devices of new nodes are sent with their templates.
    pub resource_slices: SendPolicy,
    /// TLS, or plaintext.
    pub tls: Option<Arc<LiveTls>>,
    /// Counts the rejected clients.
    pub refusals: Arc<Refusals>,
    /// Counts the calls.
    pub metrics: GrpcMetrics,
}

/// Returns the service without a server, for tests and benchmarks that have their own.
pub fn service(
    settings: Settings,
) -> (CloudProviderServer<impl super::proto::cloud_provider_server::CloudProvider>, Option<Arc<LiveTls>>) {
    let Settings {
        fleet,
        gpu,
        prices,
        options_since_135,
        zero_or_max_node_scaling,
        resource_slices,
        tls,
        refusals: _,
        metrics: _,
    } = settings;
    let (warned_of_options, warned_of_zero_or_max) = (Mutex::default(), Mutex::default());
    let service = Service {
        fleet,
        gpu,
        prices,
        options_since_135,
        zero_or_max_node_scaling,
        resource_slices,
        warned_of_options,
        warned_of_zero_or_max,
    };
    (CloudProviderServer::new(service).max_decoding_message_size(message::BYTES_MAX), tls)
}

/// Serves until `shutdown` completes, then finishes the calls in progress.
pub async fn serve(listener: Listener, settings: Settings, shutdown: impl Future<Output = ()> + Send) {
    let (fleet, refusals) = (Arc::clone(&settings.fleet), Arc::clone(&settings.refusals));
    let tasks = fleet.tasks().clone();
    let metrics = settings.metrics.clone();
    let (service, tls) = service(settings);
    let mut routes = Routes::builder();
    routes.add_service(service).add_service(health(&fleet).await.max_decoding_message_size(CALL.bytes));
    // grpcurl up to 1.8 supports only the alpha version of reflection.
    described(reflection().build_v1()).map(|service| routes.add_service(service.max_decoding_message_size(CALL.bytes)));
    described(reflection().build_v1alpha())
        .map(|service| routes.add_service(service.max_decoding_message_size(CALL.bytes)));
    let metered = Routes::from(routes.routes().into_axum_router().layer(metrics));
    listener::serve(listener, metered.prepare(), tls, refusals, tasks, shutdown).await;
}

/// Reflection for all services, so that grpcurl needs no .proto file.
fn reflection() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(super::proto::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

/// Reflection is a convenience. If it cannot be built, everything else is served anyway.
fn described<S>(reflection: Result<S, tonic_reflection::server::Error>) -> Option<S> {
    reflection
        .inspect_err(|error| tracing::error!(%error, "gRPC reflection is disabled; grpcurl needs the .proto file"))
        .ok()
}

/// The names that health checks may ask for: the whole server, and the service that CA calls.
const SERVICES: [&str; 2] = ["", "clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider"];

/// The grpc.health.v1 service: NOT_SERVING until the fleet is ready.
async fn health(fleet: &Arc<Fleet>) -> HealthServer<impl Health> {
    let (reporter, health) = tonic_health::server::health_reporter();
    for service in SERVICES {
        reporter.set_service_status(service, ServingStatus::NotServing).await;
    }
    let (mut restarts, ready) = (fleet.tasks().supervise(TaskKind::HealthReporter, ""), fleet.readiness());
    tokio::spawn(async move { while restarts.run(report(reporter.clone(), ready.clone())).await {} });
    health
}

/// Reports once that the fleet is ready. It stays ready.
async fn report(reporter: HealthReporter, mut ready: watch::Receiver<bool>) {
    if ready.wait_for(|ready| *ready).await.is_ok() {
        for service in SERVICES {
            reporter.set_service_status(service, ServingStatus::Serving).await;
        }
    }
}
