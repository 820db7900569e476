//! The template of a group whose launch spec cannot be read at first.

use std::time::Duration;

use headcount::clouds::simulated::{CallFault, CallKind, GroupPlan, Simulated};
use headcount::fleet::TemplateState;
use tokio::time::Instant;

use super::fixture::Fixture;

/// A fleet whose first call of this kind fails with this fault.
fn fixture(kind: CallKind, call_fault: CallFault) -> Fixture {
    let fixture = Fixture::cold([("sim", Simulated::with_groups(7, [GroupPlan::aws("g").sized(0, 10, 0)]))]);
    fixture.cloud().faults(|faults| faults.script(Some(kind), None, 1, call_fault));
    fixture
}

async fn until_template(fixture: &Fixture, what: &str, is: impl Fn(&TemplateState) -> bool) {
    fixture
        .until(what, |fixture| fixture.fleet.snapshot().group("g").is_some_and(|(_, view)| is(&view.template)))
        .await;
}

/// How long a group has no template if its launch spec cannot be read at first.
async fn without_template(call_fault: CallFault) -> Duration {
    let fixture = fixture(CallKind::LaunchSpec, call_fault);
    until_template(&fixture, "none can be built", |state| matches!(state, TemplateState::Unavailable(_))).await;
    let since = Instant::now();
    until_template(&fixture, "it is built", |state| matches!(state, TemplateState::Ready(_))).await;
    since.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_launch_spec_that_could_not_be_read_is_retried_soon_and_a_refused_one_later() {
    let soon = Duration::from_secs(20);
    for passing in [CallFault::Unreachable, CallFault::Malformed] {
        let without = without_template(passing.clone()).await;
        assert!(without < soon, "{passing:?}: {without:?}");
    }
    let without = without_template(CallFault::Denied).await;
    assert!(without > soon * 2, "{without:?}");
}

#[tokio::test(start_paused = true)]
async fn a_template_from_the_tables_alone_is_rebuilt_once_the_cloud_can_be_read() {
    let fixture = fixture(CallKind::InstanceTypes, CallFault::Unreachable);
    until_template(&fixture, "it is built", |state| matches!(state, TemplateState::Ready(_))).await;
    let since = Instant::now();
    fixture.until("it is looked up", |fixture| fixture.calls(CallKind::InstanceTypes) == 2).await;
    assert!(since.elapsed() < Duration::from_secs(2 * 60), "{:?}", since.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_template_is_withdrawn_once_the_group_launches_something_that_cannot_be_described() {
    let fixture = Fixture::with([GroupPlan::aws("g").sized(0, 10, 0)]).await;
    until_template(&fixture, "it is built", |state| matches!(state, TemplateState::Ready(_))).await;
    let replan = |types: &[&str]| {
        let types = types.iter().map(|name| (*name).to_owned()).collect();
        fixture.cloud().replan("g", |plan| plan.instance_types = types).expect("it exists");
    };
    replan(&["x9.unknown"]);
    until_template(&fixture, "it is withdrawn", |state| matches!(state, TemplateState::Unavailable(_))).await;
    replan(&["m5.large"]);
    until_template(&fixture, "it is built again", |state| matches!(state, TemplateState::Ready(_))).await;
    fixture.cloud().faults(|faults| faults.script(Some(CallKind::LaunchSpec), None, 3, CallFault::Denied));
    let built = fixture.calls(CallKind::LaunchSpec);
    tokio::time::sleep(Duration::from_secs(15 * 60)).await;
    assert!(
        fixture.calls(CallKind::LaunchSpec) >= built + 3,
        "it is built again every 10 minutes, and every minute after a failure"
    );
    let (snapshot, is_ready) = (fixture.fleet.snapshot(), |state: &_| matches!(state, TemplateState::Ready(_)));
    assert!(snapshot.group("g").is_some_and(|(_, view)| is_ready(&view.template)), "it is still right");
}

#[tokio::test(start_paused = true)]
async fn a_template_of_earlier_settings_that_is_built_later_is_not_served() {
    let fixture = Fixture::cold([(
        "sim",
        Simulated::with_groups(7, [GroupPlan::aws("g").sized(0, 10, 0).instance_types(&["m5.large"])]),
    )]);
    let slow = CallFault::Slow(Duration::from_secs(20));
    fixture.cloud().faults(|faults| faults.script(Some(CallKind::InstanceTypes), None, 1, slow));
    fixture.until("the first one is looked up", |fixture| fixture.calls(CallKind::InstanceTypes) == 1).await;
    fixture.cloud().replan("g", |plan| plan.instance_types = vec!["m5.xlarge".to_owned()]).expect("it exists");
    let has_cpus = |state: &TemplateState, cpus: &str| {
        let TemplateState::Ready(template) = state else { return false };
        template.values.iter().any(|value| value.path == "capacity.cpu" && value.value == cpus)
    };
    until_template(&fixture, "the second one is built", |state| has_cpus(state, "4")).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let snapshot = fixture.fleet.snapshot();
    assert!(snapshot.group("g").is_some_and(|(_, view)| has_cpus(&view.template, "4")), "the first one has ended");
}
