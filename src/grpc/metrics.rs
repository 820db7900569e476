//! The metrics of the gRPC port.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tonic::Code;

use super::listener::Refusals;
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
    "Connections rejected on the gRPC port: a failed handshake, a name that is not allowed, a client CA that was \
        removed, a request or response not finished in time, or too many connections",
);

static ESTIMATES: FamilySpec = FamilySpec::counter(
    "headcount_price_estimates",
    &[],
    "Prices returned to the Cluster Autoscaler that are estimates from the vCPUs and the memory of the instance type",
);

/// The families of this module.
pub const GRPC_FAMILIES: [FamilySpec; 4] = [REQUESTS, SECONDS, REJECTED, ESTIMATES];

/// From a read of memory to the longest deadline in use.
const BUCKETS: [f64; 13] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// The path of the protocol's service.
const SERVICE: &str = "/clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider/";
/// The methods of the protocol, as request paths spell them.
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
    /// Registers the counts.
    pub fn register(&self, registry: &mut Registry) {
        REQUESTS.register(registry, self.requests.clone());
        SECONDS.register(registry, self.seconds.clone());
    }

    /// Counts a call that ended with this code.
    pub(super) fn count(&self, method: &'static str, code: Code, took: Duration) {
        let code = usize::try_from(code as i32).ok().and_then(|code| CODES.get(code)).unwrap_or(&CODES[2]);
        self.requests.get_or_create(&CallLabels { method, code }).inc();
        self.seconds.get_or_create(&MethodLabel { method }).observe(took.as_secs_f64());
    }

    /// How many calls ended with this code.
    #[cfg(test)]
    pub(super) fn total(&self, method: &'static str, code: &'static str) -> u64 {
        self.requests.get_or_create(&CallLabels { method, code }).get()
    }
}

/// Metrics of the service and its listener.
pub struct ServiceTotals {
    /// Counts the rejected clients.
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
        #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
        let exact = |total: u64| total as f64;
        for (spec, total) in [(&REJECTED, self.refusals.total()), (&ESTIMATES, self.prices.estimates())] {
            samples(&mut encoder, spec, &mut String::new())?.write(&[], exact(total))?;
        }
        Ok(())
    }
}

/// The method that a path names.
pub(super) fn method_of(path: &str) -> &'static str {
    let name = path.strip_prefix(SERVICE).unwrap_or_default();
    METHODS.into_iter().find(|method| *method == name).unwrap_or(OTHER)
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
}
