//! Headcount compared with upstream's own server (CA's in-tree providers behind its example of an external gRPC
//! server), over the same emulators. `tests/autoscaler/beside` runs it and writes docs/benchmarks.md.

mod autoscaler;
mod idle;
mod memory;
mod shortage;
mod upstream;

use crate::emulators::arm::Arm;
use crate::emulators::aws::Aws;
use crate::peers::headcount::Client;
pub(super) use upstream::Upstream;

/// The variable with the folder of upstream's servers, `upstream-aws` and `upstream-azure`.
pub(super) const UPSTREAM: &str = "HEADCOUNT_UPSTREAM_SERVERS";

/// Which server is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measured {
    Headcount,
    Upstream,
}

impl Measured {
    fn name(self) -> &'static str {
        match self {
            Self::Headcount => "headcount",
            Self::Upstream => "upstream",
        }
    }
}

/// Prints a figure in the form that tests/autoscaler/page.py reads.
fn report(cloud: &str, measured: Measured, what: &str, figure: impl std::fmt::Display) {
    println!("beside {cloud} {} {what} {figure}", measured.name());
}

/// The autoscaler's reads of all groups in one loop. Returns how many instances they listed.
async fn read_all(client: &mut Client) -> usize {
    let mut listed = 0;
    for group in client.node_groups().await {
        client.target(&group.id).await;
        listed += client.nodes(&group.id).await.len();
    }
    listed
}

#[tokio::test(flavor = "multi_thread")]
async fn aws_headcount() {
    autoscaler::measure::<Aws>("beside_aws_headcount", Measured::Headcount).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn aws_upstream() {
    autoscaler::measure::<Aws>("beside_aws_upstream", Measured::Upstream).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn azure_headcount() {
    autoscaler::measure::<Arm>("beside_azure_headcount", Measured::Headcount).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn azure_upstream() {
    autoscaler::measure::<Arm>("beside_azure_upstream", Measured::Upstream).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn aws_burst() {
    for (name, measured) in [("burst_aws_headcount", Measured::Headcount), ("burst_aws_upstream", Measured::Upstream)] {
        autoscaler::measure_burst::<Aws>(name, measured).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn azure_burst() {
    for (name, measured) in
        [("burst_azure_headcount", Measured::Headcount), ("burst_azure_upstream", Measured::Upstream)]
    {
        autoscaler::measure_burst::<Arm>(name, measured).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn aws_shortage() {
    shortage::measure_synchronous::<Aws>("shortage_aws_synchronous").await;
    for (name, measured) in
        [("shortage_aws_headcount", Measured::Headcount), ("shortage_aws_upstream", Measured::Upstream)]
    {
        shortage::measure::<Aws>(name, measured).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn azure_shortage() {
    for (name, measured) in
        [("shortage_azure_headcount", Measured::Headcount), ("shortage_azure_upstream", Measured::Upstream)]
    {
        shortage::measure::<Arm>(name, measured).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn aws_idle() {
    idle::measure().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn aws_memory() {
    memory::measure::<Aws>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn azure_memory() {
    memory::measure::<Arm>().await;
}
