//! The cost of a scrape: `/metrics` of 1,000 node groups, rendered in both formats.
//!
//!     cargo bench --no-default-features --bench metrics

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, criterion_group};
use headcount::admin::Metrics;
use headcount::cloud::{CallMetrics, SharedCloud};
use headcount::clouds::simulated::Simulated;
use headcount::fleet::{Fleet, Policies, Settings};
use headcount::grpc::GrpcMetrics;
use headcount::instance_types::Catalog;
use prometheus_client::registry::Registry;
use tokio::runtime::Runtime;
use tokio::time::Instant;

const GROUPS: u32 = 1000;
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0";

async fn metrics() -> Metrics {
    let calls = CallMetrics::default();
    let cloud: SharedCloud = Arc::new(Simulated::large(GROUPS, 10).metered(calls.meter("bench")));
    let fleet = Arc::new(Fleet::start(Settings {
        sources: vec![(Arc::from("bench"), cloud)],
        refresh_interval: Duration::from_secs(15),
        catalog: Arc::new(Catalog::new(Vec::new())),
        policies: Arc::new(Policies::default()),
        read_only: false,
    }));
    fleet.wait_ready(Instant::now() + Duration::from_secs(60)).await.expect("listed");
    let mut registry = Registry::default();
    calls.register(&mut registry);
    GrpcMetrics::default().register(&mut registry);
    Metrics::new(registry, fleet, Arc::new(Vec::new))
}

fn scrape(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("threads");
    let metrics = runtime.block_on(metrics());
    let mut group = criterion.benchmark_group("/metrics of 1000 groups");
    for (format, accept) in [("OpenMetrics", OPEN_METRICS), ("text 0.0.4", "")] {
        let size = metrics.render(accept).expect("rendered").text.len();
        println!("{format}: {size} bytes");
        let _entered = runtime.enter();
        group.bench_function(format, |bencher| bencher.iter(|| black_box(metrics.render(accept).expect("rendered"))));
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(50).measurement_time(Duration::from_secs(5));
    targets = scrape
}

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
}
