//! The cost of a scrape: `/metrics` of 1,000 node groups, rendered in both formats.
//!
//!     cargo bench --no-default-features --bench metrics

mod fleet;

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group};
use headcount::admin::{Format, Metrics};
use tokio::runtime::Runtime;
use tokio::time::Instant;

use fleet::OPEN_METRICS;

async fn metrics() -> Metrics {
    let (fleet, metrics) = fleet::start(1000, 10);
    fleet.wait_ready(Instant::now() + Duration::from_secs(60)).await.expect("listed");
    metrics
}

fn scrape(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("threads");
    let metrics = runtime.block_on(metrics());
    let mut group = criterion.benchmark_group("/metrics of 1000 groups");
    for (format, accept) in [("OpenMetrics", OPEN_METRICS), ("text 0.0.4", "")] {
        let size = metrics.render(Format::wanted(accept)).expect("rendered").len();
        println!("{format}: {size} bytes");
        let _entered = runtime.enter();
        group.bench_function(format, |bencher| {
            bencher.iter(|| black_box(metrics.render(Format::wanted(accept)).expect("rendered")))
        });
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
