//! Options of single groups, and limits of the whole cluster.

use super::super::fixture::Fixture;
use super::super::scenario::Scenario;
use super::{MakeGroup, ONE_PER_NODE};
use crate::emulators::Emulator;

/// 1.35 and later receive options only on request.
const OPTIONS: &str = "groups: [{match: kept, options: {scaleDownUnneededTime: 20m}}]\n";
const ON_REQUEST: &str = "{listen: \"127.0.0.1:0\", optionsSince135: send}";

on_both_clouds!(
    aws_honours_the_options_of_a_group,
    azure_honours_the_options_of_a_group,
    honours_options,
    |group: MakeGroup| [group("kept", (0, 10, 2)), group("web", (0, 10, 2))]
);

/// Without pods, both groups would be empty after 6 s.
async fn honours_options(name: &'static str, emulator: impl Emulator) {
    let scenario = Scenario::new(name).headcount(OPTIONS).grpc(ON_REQUEST);
    let Some(fixture) = Fixture::start(scenario, emulator).await else { return };
    fixture.until("the other group is empty", async |fixture| fixture.capacity("web") == 0).await;
    assert_eq!(fixture.capacity("kept"), 2);
    fixture.create_pods(3, ONE_PER_NODE).await;
    fixture.until("three pods have nodes", async |fixture| fixture.scheduled().await == 3).await;
    fixture.finish(&[]);
}

on_both_clouds!(
    aws_is_served_without_the_options_of_a_group,
    azure_is_served_without_the_options_of_a_group,
    is_served_without_options,
    |group: MakeGroup| [group("kept", (0, 10, 2)), group("web", (0, 10, 0))]
);

/// Whether options reach the autoscaler depends on its release. No release complains.
async fn is_served_without_options(name: &'static str, emulator: impl Emulator) {
    let Some(fixture) = Fixture::start(Scenario::new(name).headcount(OPTIONS), emulator).await else { return };
    fixture.create_pods(3, ONE_PER_NODE).await;
    fixture.until("three pods have nodes", async |fixture| fixture.scheduled().await == 3).await;
    fixture.finish(&[]);
}

on_both_clouds!(
    aws_keeps_the_limit_of_cores,
    azure_keeps_the_limit_of_cores,
    keeps_the_limit_of_cores,
    |group: MakeGroup| [group("web", (0, 20, 1))]
);

/// To enforce the limit, 1.36 and later look for the groups of template nodes too (kubernetes/autoscaler#10140): no
/// group, no error.
async fn keeps_the_limit_of_cores(name: &'static str, emulator: impl Emulator) {
    let scenario = Scenario::new(name).flags(&["--cores-total=0:12"]);
    let Some(fixture) = Fixture::start(scenario, emulator).await else { return };
    fixture.create_pods(9, ONE_PER_NODE).await;
    fixture.until("six pods have nodes", async |fixture| fixture.scheduled().await == 6).await;
    assert_eq!(fixture.capacity("web"), 6, "two cores each");
    let lookups = fixture.metric("headcount_grpc_requests_total{method=\"NodeGroupForNode\"");
    let failed = |sample: &&String| !sample.contains("code=\"OK\"") && !sample.ends_with(" 0");
    assert_eq!(lookups.iter().filter(failed).collect::<Vec<_>>(), Vec::<&String>::new());
    assert!(lookups.iter().any(|sample| sample.contains("code=\"OK\"") && !sample.ends_with(" 0")), "{lookups:?}");
    fixture.finish(&[]);
}
