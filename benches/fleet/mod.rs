//! A fleet over a large simulated cloud, and its metrics.

use std::sync::Arc;
use std::time::Duration;

use headcount::admin::Metrics;
use headcount::cloud::{CallMetrics, SharedCloud};
use headcount::clouds::simulated::Simulated;
use headcount::fleet::{Cadence, Fleet, Policies, Settings};
use headcount::grpc::GrpcMetrics;
use headcount::instance_types::Catalog;
use prometheus_client::registry::Registry;

/// What Prometheus accepts first.
pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0";

/// A fleet with this many groups, of this many instances each, and what `/metrics` shows of it.
pub(crate) fn start(groups: u32, instances: u32) -> (Arc<Fleet>, Metrics) {
    let calls = CallMetrics::default();
    let cloud: SharedCloud = Arc::new(Simulated::large(groups, instances).metered(calls.meter("bench")));
    let fleet = Arc::new(Fleet::start(Settings {
        sources: vec![(Arc::from("bench"), cloud)],
        cadence: Cadence::new(Duration::from_secs(15), None),
        catalog: Arc::new(Catalog::new(Vec::new())),
        policies: Arc::new(Policies::default()),
        read_only: false,
    }));
    let mut registry = Registry::default();
    calls.register(&mut registry);
    GrpcMetrics::default().register(&mut registry);
    let metrics = Metrics::new(registry, Arc::clone(&fleet), Arc::new(Vec::new));
    (fleet, metrics)
}
