//! The cloud calls of the minute in which six pods need nodes: the real binary over the emulators, called in a loop as
//! the Cluster Autoscaler does it. docs/benchmarks.md says what each call is for.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use headcount::clouds::simulated::{GroupPlan, Simulated};
use tokio::time::{Instant, sleep_until};

use crate::emulators::arm::Arm;
use crate::emulators::aws::Aws;
use crate::emulators::setup::Setup;
use crate::emulators::{Emulator, Request};
use crate::peers::headcount::Client;

/// The autoscaler's default scan interval.
const LOOP: Duration = Duration::from_secs(10);

const LOOPS: u32 = 6;

/// The most listings of a minute: one every 15 s, and one more where the first falls into its first moments.
const LISTINGS: usize = 5;

/// How the pods come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pods {
    /// All at once: one scale-up by six.
    AtOnce,
    /// One in each loop: six scale-ups by one.
    OneByOne,
}

/// The calls of the minute, by operation.
#[derive(Debug)]
struct Calls(BTreeMap<String, usize>);

impl Calls {
    fn of(&self, operation: &str) -> usize {
        self.0.get(operation).copied().unwrap_or(0)
    }

    /// Fails if there were more than this.
    fn are_at_most(&self, most: usize) {
        let all: usize = self.0.values().sum();
        assert!(all <= most, "{all} calls: {self:?}");
    }
}

fn launch_time() -> RangeInclusive<Duration> {
    Duration::from_secs(3)..=Duration::from_secs(4)
}

/// The groups of the comparison with upstream's server (`tests/autoscaler/beside`).
fn plans(plan: fn(&str) -> GroupPlan) -> [GroupPlan; 2] {
    [plan("spot").sized(0, 10, 0), plan("web").sized(0, 100, 20).launch_time(launch_time())]
}

fn aws() -> Aws {
    Aws::start(Arc::new(Simulated::with_groups(1, plans(GroupPlan::aws))))
}

fn arm() -> Arm {
    let plan = |name: &str| GroupPlan::azure(name).instance_types(&["Standard_D2s_v5"]);
    Arm::start(Arc::new(Simulated::with_groups(2, plans(plan))))
}

async fn count(emulator: impl Emulator, pods: Pods) -> Calls {
    let mut setup = Setup::with(emulator, |options| options.refresh = "15s".to_owned()).await;
    for group in ["spot", "web"] {
        setup.client.until("its template is built", async |client| client.template(group).await.is_ok()).await;
    }
    setup.emulator.forget_requests();
    let mut next = Instant::now();
    for number in 0..LOOPS {
        setup.client.refresh().await.expect("fresh");
        read_all(&mut setup.client).await;
        match pods {
            Pods::AtOnce if number == 0 => setup.client.increase("web", 6).await.expect("accepted"),
            Pods::AtOnce => {}
            Pods::OneByOne => setup.client.increase("web", 1).await.expect("accepted"),
        }
        // The minute is what is measured: a later loop brings further calls.
        next += LOOP;
        sleep_until(next).await;
    }
    let mut calls = BTreeMap::new();
    for request in setup.emulator.requests() {
        *calls.entry(operation(&request)).or_default() += 1;
    }
    let listed = setup.client.nodes("web").await.len();
    assert!(listed >= 25, "the nodes of five loops are listed: {listed}");
    assert_eq!(setup.client.target("web").await, 26);
    Calls(calls)
}

/// The autoscaler's reads of one loop.
async fn read_all(client: &mut Client) {
    for group in client.node_groups().await {
        client.target(&group.id).await;
        client.nodes(&group.id).await;
    }
}

/// The name of an operation: AWS's own, or method and kind of resource.
fn operation(request: &Request) -> String {
    let action = request.body.split('&').find_map(|field| field.strip_prefix("Action="));
    let last = || request.path.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
    match action {
        Some(action) => action.to_owned(),
        None if request.path.to_ascii_lowercase().contains("/operations/") => "GET operation".to_owned(),
        None => format!("{} {}", request.method, last()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scale_up_by_six_takes_at_most_10_calls_on_aws_and_18_on_azure() {
    let (aws, azure) = tokio::join!(count(aws(), Pods::AtOnce), count(arm(), Pods::AtOnce));
    aws.are_at_most(1 + 2 + LISTINGS + 2);
    azure.are_at_most(18);
    assert_eq!((aws.of("SetDesiredCapacity"), azure.of("PATCH web")), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn six_scale_ups_in_a_minute_share_the_reads_that_are_not_for_a_write() {
    let (mut aws, azure) = tokio::join!(count(aws(), Pods::OneByOne), count(arm(), Pods::OneByOne));
    // A listing that a busy machine delays until after a scale-up finds instances missing, and their launches are read.
    let late = aws.0.remove("DescribeScalingActivities").unwrap_or(0);
    assert!(late <= LISTINGS, "{late} reads of launches beside {aws:?}");
    aws.are_at_most(6 + 2 * 6 + LISTINGS + 2);
    azure.are_at_most(52);
    assert_eq!((aws.of("SetDesiredCapacity"), azure.of("PATCH web")), (6, 6));
}
