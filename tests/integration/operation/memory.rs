//! The memory of a server with 1,000 node groups and 100,000 instances.
//!
//!     cargo test --test integration operation::memory -- --ignored --nocapture

use std::sync::Arc;
use std::time::Duration;

use headcount::clouds::simulated::Simulated;
use tokio::time::{sleep, timeout};

use crate::emulators::Emulator;
use crate::emulators::aws::Aws;
use crate::emulators::setup::Setup;

/// The emulator takes up to a minute for one listing.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// Pages of a listing of 1,000 groups.
const PAGES: usize = 10;
const RESIDENT_MAX_MIB: u64 = 150;
/// The pages of a release build and its libraries. A debug build has about twice as many.
const RELEASE_PAGES_MIB: u64 = 27;

/// The memory that the process has allocated, and the pages of the program and its libraries, in MiB.
fn resident_mib(process: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let figure = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        line.split_whitespace().next().and_then(|text| text.parse().ok()).expect(name)
    };
    (figure("RssAnon:") / 1024, figure("RssFile:") / 1024)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; measures what docs/benchmarks.md says"]
async fn a_hundred_thousand_instances_fit_into_150_mib() {
    let emulator = Aws::start(Arc::new(Simulated::large(1000, 100)));
    let setup = Setup::open(emulator).await;
    let listed = async |pages| {
        while setup.emulator.requests_with("POST", "Action=DescribeAutoScalingGroups").len() < pages {
            sleep(Duration::from_millis(200)).await;
        }
    };
    // Two whole listings, and the first page of a third one.
    timeout(PATIENCE, listed(2 * PAGES + 1)).await.expect("listed");
    let (allocated, program) = resident_mib(setup.server().process_id());
    println!("allocated: {allocated} MiB; the program and its libraries: {program} MiB");
    assert!(allocated <= RESIDENT_MAX_MIB - RELEASE_PAGES_MIB, "{allocated} MiB");
}
