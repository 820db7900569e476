//! A fleet and its gRPC service in this process, for tests that look inside.

use std::sync::Arc;
use std::time::Duration;

use headcount::cloud::{Family, SharedCloud};
use headcount::fleet::{Cadence, Fleet, Policies, Settings};
use headcount::grpc::dialect::SendPolicy;
use headcount::grpc::{self, Gpu, GrpcMetrics};
use headcount::instance_types::Catalog;
use headcount::prices::Prices;

/// A fleet over these sources, which are listed at this interval.
pub(crate) fn fleet(sources: Vec<(Arc<str>, SharedCloud)>, interval: Duration) -> Arc<Fleet> {
    Arc::new(Fleet::start(Settings {
        sources,
        cadence: Cadence::new(interval, None),
        catalog: Arc::new(Catalog::new(Vec::new())),
        policies: Arc::new(Policies::default()),
        read_only: false,
    }))
}

/// A service of a fleet, in plaintext and without prices of its own.
pub(crate) fn service(fleet: Arc<Fleet>) -> grpc::Settings {
    grpc::Settings {
        fleet,
        gpu: Gpu::new(None, &[Family::Aws]),
        prices: Arc::new(Prices::new(Arc::default(), &[])),
        options_since_135: SendPolicy::Suppress,
        zero_or_max_node_scaling: SendPolicy::Suppress,
        resource_slices: SendPolicy::Suppress,
        tls: None,
        refusals: Arc::default(),
        metrics: GrpcMetrics::default(),
    }
}
