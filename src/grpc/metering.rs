//! A layer around the gRPC port that counts and times every call, by method and status code, and gives it a request ID.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use http_body::{Body, Frame, SizeHint};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tonic::Code;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tower_layer::Layer;
use tower_service::Service;
use tracing::Instrument as _;

use super::listener::Refusals;
use crate::fleet::RequestId;
use crate::metrics::{FamilySpec, samples};
use crate::prices::Prices;

const REQUESTS: FamilySpec = FamilySpec::counter(
    "headcount_grpc_requests",
    &["method", "code"],
    "Calls on the gRPC port, by method and status code",
);
const SECONDS: FamilySpec = FamilySpec::histogram(
    "headcount_grpc_request_duration_seconds",
    &["method"],
    "Duration of calls on the gRPC port, by method",
);

static REJECTED: FamilySpec = FamilySpec::counter(
    "headcount_grpc_rejected_clients",
    &[],
    "Connections on the gRPC port that were turned away: a failed handshake, a name that is not allowed, too many at once",
);

static ESTIMATES: FamilySpec = FamilySpec::counter(
    "headcount_price_estimates",
    &[],
    "Prices that the Cluster Autoscaler got and that are estimates from the vCPUs and the memory of the instance type",
);

/// The families of this module.
pub const GRPC_FAMILIES: [FamilySpec; 4] = [REQUESTS, SECONDS, REJECTED, ESTIMATES];

/// From a read out of memory to the longest deadline in use.
const BUCKETS: [f64; 13] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// The path of the protocol's service.
const SERVICE: &str = "/clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider/";
/// The methods of the protocol, as they are in paths.
pub const METHODS: [&str; 15] = [
    "NodeGroups",
    "NodeGroupForNode",
    "PricingNodePrice",
    "PricingPodPrice",
    "GPULabel",
    "GetAvailableGPUTypes",
    "Cleanup",
    "Refresh",
    "NodeGroupTargetSize",
    "NodeGroupIncreaseSize",
    "NodeGroupDeleteNodes",
    "NodeGroupDecreaseTargetSize",
    "NodeGroupNodes",
    "NodeGroupTemplateNodeInfo",
    "NodeGroupGetOptions",
];
/// Everything else on the port: health checks, reflection.
const OTHER: &str = "other";

/// The status codes of gRPC, by number.
const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    method: &'static str,
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MethodLabel {
    method: &'static str,
}

/// The counts, and the layer that keeps them.
#[derive(Clone, Debug)]
pub struct GrpcMetrics {
    requests: Family<CallLabels, Counter>,
    seconds: Family<MethodLabel, Histogram, fn() -> Histogram>,
}

impl Default for GrpcMetrics {
    fn default() -> Self {
        let requests = Family::<CallLabels, Counter>::default();
        let seconds = Family::new_with_constructor((|| Histogram::new(BUCKETS)) as fn() -> Histogram);
        for method in METHODS.into_iter().chain([OTHER]) {
            for code in CODES {
                drop(requests.get_or_create(&CallLabels { method, code }));
            }
            drop(seconds.get_or_create(&MethodLabel { method }));
        }
        Self { requests, seconds }
    }
}

impl GrpcMetrics {
    /// Has a registry serve the counts.
    pub fn register(&self, registry: &mut Registry) {
        REQUESTS.register(registry, self.requests.clone());
        SECONDS.register(registry, self.seconds.clone());
    }
}

/// Serves what the service and its listener count themselves.
pub struct ServiceTotals {
    /// The clients that were turned away.
    pub refusals: Arc<Refusals>,
    /// The prices.
    pub prices: Arc<Prices>,
}

impl fmt::Debug for ServiceTotals {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ServiceTotals")
    }
}

impl Collector for ServiceTotals {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // Exact up to 2^32.
        let exact = |total: u64| f64::from(u32::try_from(total).unwrap_or(u32::MAX));
        for (spec, total) in [(&REJECTED, self.refusals.total()), (&ESTIMATES, self.prices.estimates())] {
            samples(&mut encoder, spec, &mut String::new())?.write(&[], exact(total))?;
        }
        Ok(())
    }
}

impl<S> Layer<S> for GrpcMetrics {
    type Service = Metered<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Metered { inner, metrics: self.clone() }
    }
}

/// A service whose calls are counted.
#[derive(Clone, Debug)]
pub struct Metered<S> {
    inner: S,
    metrics: GrpcMetrics,
}

impl<S, Sent, Received> Service<Request<Sent>> for Metered<S>
where
    S: Service<Request<Sent>, Response = Response<Received>>,
    S::Future: Send + 'static,
    S::Error: 'static,
    Received: Body + Unpin + 'static,
{
    type Response = Response<MeteredBody<Received>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Sent>) -> Self::Future {
        let method = method_of(request.uri().path());
        let measure = Measure { method, began: Instant::now(), metrics: self.metrics.clone(), is_done: false };
        let id = RequestId::next();
        let span = tracing::info_span!("rpc", request_id = %id, method);
        let called = id.scope(self.inner.call(request));
        let measured = async move {
            // If the caller goes away, this future is dropped, and the measurement with it.
            let mut measure = measure;
            let response = called.await?;
            let (parts, body) = response.into_parts();
            let measure = match code_in(&parts.headers) {
                Some(code) => {
                    measure.end(code);
                    None
                }
                None => Some(measure),
            };
            Ok(Response::from_parts(parts, MeteredBody { body, measure }))
        };
        Box::pin(measured.instrument(span))
    }
}

fn method_of(path: &str) -> &'static str {
    let name = path.strip_prefix(SERVICE).unwrap_or_default();
    METHODS.into_iter().find(|method| *method == name).unwrap_or(OTHER)
}

fn code_in(headers: &HeaderMap) -> Option<Code> {
    headers.get("grpc-status").map(|value| Code::from_bytes(value.as_bytes()))
}

/// One call, counted when it ends or is dropped.
#[derive(Debug)]
struct Measure {
    method: &'static str,
    began: Instant,
    metrics: GrpcMetrics,
    is_done: bool,
}

impl Measure {
    fn end(&mut self, code: Code) {
        if std::mem::replace(&mut self.is_done, true) {
            return;
        }
        let name = usize::try_from(code as i32).ok().and_then(|code| CODES.get(code)).unwrap_or(&CODES[2]);
        self.metrics.requests.get_or_create(&CallLabels { method: self.method, code: name }).inc();
        let took = self.began.elapsed().as_secs_f64();
        self.metrics.seconds.get_or_create(&MethodLabel { method: self.method }).observe(took);
    }
}

impl Drop for Measure {
    fn drop(&mut self) {
        self.end(Code::Cancelled);
    }
}

/// The body of a response, whose trailers carry the status.
#[derive(Debug)]
pub struct MeteredBody<B> {
    body: B,
    measure: Option<Measure>,
}

impl<B: Body + Unpin> Body for MeteredBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(code) = frame.trailers_ref().and_then(code_in)
            && let Some(measure) = &mut self.measure
        {
            measure.end(code);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::proto::DESCRIPTORS;

    #[test]
    fn every_method_of_the_protocol_has_its_own_series() {
        let path = |method: &str| format!("{SERVICE}{method}");
        assert_eq!(method_of(&path("NodeGroups")), "NodeGroups");
        assert_eq!(method_of("/grpc.health.v1.Health/Check"), OTHER);
        // The names are in the descriptors as they are in paths.
        let text = String::from_utf8_lossy(DESCRIPTORS);
        assert!(METHODS.iter().all(|method| text.contains(method)));
    }

    #[test]
    fn a_call_whose_caller_goes_away_counts_as_cancelled() {
        let metrics = GrpcMetrics::default();
        let (method, began) = ("Refresh", Instant::now());
        drop(Measure { method, began, metrics: metrics.clone(), is_done: false });
        let count = |code| metrics.requests.get_or_create(&CallLabels { method, code }).get();
        assert_eq!((count("CANCELLED"), count("OK")), (1, 0));
    }
}
