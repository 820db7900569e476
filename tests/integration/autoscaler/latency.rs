//! How long a pending pod waits for the write to the cloud. `tests/autoscaler/run --latency` prints it.

use std::time::{Duration, Instant};

use super::fixture::Fixture;
use super::scenario::Scenario;
use super::scenarios::{ONE_PER_NODE, aws, azure, scale_set, scaling_group};
use crate::emulators::Emulator;

/// The autoscaler's default interval.
const SCAN_INTERVAL: Duration = Duration::from_secs(10);

const ROUNDS: u32 = 5;

#[tokio::test(flavor = "multi_thread")]
async fn aws_writes_within_one_and_a_half_intervals() {
    measure("aws_writes_within_one_and_a_half_intervals", aws([scaling_group("web", (0, 10, 0))])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn azure_writes_within_one_and_a_half_intervals() {
    measure("azure_writes_within_one_and_a_half_intervals", azure([scale_set("web", (0, 10, 0))])).await;
}

/// One pod after the other, each of which needs a node of its own, at different moments of the autoscaler's interval.
async fn measure(name: &'static str, emulator: impl Emulator) {
    let Some(fixture) = Fixture::start(Scenario::new(name).scan_interval("10s"), emulator).await else { return };
    let mut waits = Vec::new();
    for round in 1..=ROUNDS {
        fixture.create_pods(1, ONE_PER_NODE).await;
        let began = Instant::now();
        let written = async {
            while fixture.capacity("web") < round {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SCAN_INTERVAL * 10, written).await.expect("written");
        waits.push(began.elapsed());
        fixture.until("the pod has a node", async |fixture| fixture.scheduled().await == round as usize).await;
        // The next round begins elsewhere in the interval.
        tokio::time::sleep(Duration::from_millis(1700) * round).await;
    }
    waits.sort();
    let median = waits[waits.len() / 2];
    let all: Vec<String> = waits.iter().map(|wait| format!("{:.1}", wait.as_secs_f64())).collect();
    println!("latency {name}: median {:.1} s of {} s", median.as_secs_f64(), all.join(", "));
    assert!(median < SCAN_INTERVAL * 3 / 2, "{median:?}");
    fixture.finish(&[]);
}
