//! Growing a group by launches, whose outcome each call returns.

use std::collections::BTreeSet;
use std::time::Duration;

use headcount::cloud::{CloudError, InstanceState};
use headcount::clouds::simulated::{CallFault, CallKind, GroupPlan, LaunchOutcome, Pick, Raise, Span};
use headcount::fleet::{FleetError, Mutation, NamedNode, NodeKind};
use tokio::time::{Instant, sleep};

use super::fixture::{Fixture, limit, no_capacity, seconds};

/// What the documentation leaves open, and both at their worst.
const RAISES: [Raise; 2] = [Raise::BeforeResponse, Raise::After(Duration::from_secs(3))];

/// A group in one zone with two running instances.
fn group(raise: Raise) -> GroupPlan {
    let mut plan = GroupPlan::aws("g").sized(0, 400, 2).launch_calls(seconds(1), raise);
    plan.zones.truncate(1);
    plan
}

/// As a call at its slowest.
fn slow() -> Span {
    seconds(20)
}

/// The tokens of all launches that were sent.
fn tokens(fixture: &Fixture) -> Vec<String> {
    let calls = fixture.cloud().calls().into_iter().filter(|call| call.kind == CallKind::Launch);
    calls.filter_map(|call| call.detail.split(' ').nth(1).map(str::to_owned)).collect()
}

/// How many instances the cloud has launched, with those at the start.
fn members(fixture: &Fixture) -> usize {
    fixture.cloud().world(|world, _| world.group("g").expect("it exists").members().count())
}

/// Watches the target until all is quiet. Fails if it ever differs from `target`.
async fn stays(fixture: &Fixture, target: u32, why: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        assert_eq!(fixture.target("g"), target, "{why}");
        sleep(Duration::from_millis(500)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_launch_shows_at_once_and_once_whenever_the_capacity_follows() {
    for raise in RAISES {
        let fixture = Fixture::that_launches([group(raise)]).await;
        fixture.increase("g", 3).await.expect("launched");
        assert_eq!((fixture.target("g"), fixture.instances("g", InstanceState::Creating).len()), (5, 3), "{raise:?}");
        stays(&fixture, 5, &format!("{raise:?}")).await;
        assert_eq!((members(&fixture), fixture.capacity("g")), (5, 5), "{raise:?}");
        assert_eq!((fixture.calls(CallKind::Launch), fixture.calls(CallKind::SetCapacity)), (1, 0), "{raise:?}");
        fixture.no_instance_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn a_shortage_is_the_error_of_the_call() {
    let plan = group(Raise::BeforeResponse);
    let fixture =
        Fixture::that_launches([plan.launches(Pick::Always, LaunchOutcome::fails(no_capacity(), seconds(1)))]).await;
    let refused = fixture.increase("g", 3).await.expect_err("there is none");
    let FleetError::Cloud { error: CloudError::OutOfResources(fault), .. } = &refused else { panic!("{refused}") };
    assert_eq!(fault.code.as_deref(), Some("InsufficientInstanceCapacity"));
    stays(&fixture, 2, "nothing was launched, and nothing is missing").await;
    assert_eq!((fixture.failed("g").len(), fixture.capacity("g"), members(&fixture)), (0, 2, 2));
}

#[tokio::test(start_paused = true)]
async fn what_was_launched_counts_and_the_rest_is_listed_as_failed() {
    for raise in RAISES {
        let plan = group(raise).launches(Pick::Every(2), LaunchOutcome::fails(no_capacity(), seconds(1)));
        let fixture = Fixture::that_launches([plan]).await;
        fixture.increase("g", 4).await.expect("part of it");
        let failed = fixture.failed("g");
        assert_eq!((fixture.target("g"), failed.len()), (6, 2), "{raise:?}");
        stays(&fixture, 6, "the failed ones stay until the autoscaler deletes them").await;
        assert_eq!(fixture.failed("g"), failed, "under the same IDs");
        let node = |id: &headcount::cloud::ProviderId| NamedNode { id: id.clone(), kind: NodeKind::CreateError };
        let nodes = failed.iter().map(node).collect();
        fixture.fleet.mutate("g", Mutation::Delete(nodes), limit(5)).await.expect("no call is needed");
        stays(&fixture, 4, "the rest").await;
        assert_eq!((fixture.capacity("g"), members(&fixture)), (4, 4), "{raise:?}");
        fixture.no_instance_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_outlasts_its_caller_is_ok_and_counts_until_its_outcome() {
    for raise in RAISES {
        let fixture = Fixture::that_launches([group(raise).launch_calls(slow(), raise)]).await;
        let called = Instant::now();
        fixture.increase("g", 3).await.expect("it goes on");
        assert_eq!(called.elapsed(), Duration::from_millis(4_500), "500 ms before the deadline");
        stays(&fixture, 5, &format!("{raise:?}")).await;
        assert_eq!((members(&fixture), fixture.capacity("g"), fixture.calls(CallKind::Launch)), (5, 5, 1), "{raise:?}");
    }
    let plan = group(Raise::BeforeResponse).launch_calls(slow(), Raise::BeforeResponse);
    let plan = plan.launches(Pick::Always, LaunchOutcome::fails(no_capacity(), seconds(1)));
    let fixture = Fixture::that_launches([plan]).await;
    fixture.increase("g", 3).await.expect("nobody knows yet");
    assert!(fixture.failed("g").is_empty());
    fixture.until("it has failed", |fixture| fixture.failed("g").len() == 3).await;
    assert_eq!((fixture.target("g"), fixture.capacity("g")), (5, 2), "listed as failed");
}

#[tokio::test(start_paused = true)]
async fn a_lost_response_is_repeated_with_its_token_and_nothing_is_launched_twice() {
    for raise in RAISES {
        for fault in [CallFault::LostResponse, CallFault::Malformed, CallFault::Unreachable] {
            let fixture = Fixture::that_launches([group(raise)]).await;
            fixture.cloud().faults(|faults| faults.script(Some(CallKind::Launch), None, 4, fault.clone()));
            fixture.increase("g", 3).await.expect("it is repeated until it is known");
            stays(&fixture, 5, &format!("{raise:?} {fault:?}")).await;
            assert_eq!((members(&fixture), fixture.capacity("g")), (5, 5), "{raise:?} {fault:?}");
            let sent = tokens(&fixture);
            assert_eq!((sent.len(), sent.iter().collect::<BTreeSet<_>>().len()), (5, 1), "{fault:?}: {sent:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_cloud_is_asked_again_in_the_callers_time_only() {
    let throttled = CallFault::Throttled { retry_after: Some(Duration::from_secs(1)) };
    for fault in [CallFault::Conflict, throttled] {
        let fixture = Fixture::that_launches([group(Raise::BeforeResponse)]).await;
        fixture.cloud().faults(|faults| faults.script(Some(CallKind::Launch), None, 2, fault.clone()));
        fixture.increase("g", 3).await.expect("in time");
        assert_eq!((fixture.target("g"), members(&fixture)), (5, 5), "{fault:?}");

        fixture.cloud().faults(|faults| faults.script(Some(CallKind::Launch), None, 100, fault.clone()));
        fixture.increase("g", 1).await.expect_err("not in time");
        let sent = tokens(&fixture).len();
        stays(&fixture, 5, "nothing was launched").await;
        assert_eq!((tokens(&fixture).len(), fixture.failed("g").len()), (sent, 0), "{fault:?}: not sent again");
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_permission_the_capacity_is_set() {
    let fixture = Fixture::that_launches([group(Raise::BeforeResponse)]).await;
    fixture.cloud().faults(|faults| faults.script(Some(CallKind::Launch), None, 100, CallFault::Denied));
    fixture.increase("g", 3).await.expect("in the other way");
    assert_eq!((fixture.target("g"), fixture.capacity("g")), (5, 5));
    fixture.increase("g", 1).await.expect("in the other way at once");
    assert_eq!((fixture.calls(CallKind::Launch), fixture.calls(CallKind::SetCapacity)), (1, 2));
    stays(&fixture, 6, "as ever").await;
    assert_eq!(members(&fixture), 6);
}

#[tokio::test(start_paused = true)]
async fn a_group_of_several_zones_sets_its_capacity() {
    let fixture = Fixture::that_launches([GroupPlan::aws("g").sized(0, 10, 2)]).await;
    fixture.increase("g", 3).await.expect("as ever");
    assert_eq!((fixture.calls(CallKind::Launch), fixture.calls(CallKind::SetCapacity)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_large_scale_up_is_several_launches_of_a_hundred() {
    let fixture = Fixture::that_launches([group(Raise::BeforeResponse)]).await;
    fixture.increase("g", 250).await.expect("launched");
    let sent = tokens(&fixture);
    assert_eq!((sent.len(), sent.iter().collect::<BTreeSet<_>>().len()), (3, 3));
    stays(&fixture, 252, "all of them").await;
    assert_eq!((members(&fixture), fixture.capacity("g")), (252, 252));
}

#[tokio::test(start_paused = true)]
async fn a_launch_undoes_nothing_that_another_client_or_a_deletion_does_meanwhile() {
    for raise in RAISES {
        let fixture = Fixture::that_launches([group(raise).launch_calls(slow(), raise)]).await;
        fixture.increase("g", 3).await.expect("it goes on");
        let victim = fixture.instances("g", InstanceState::Running)[0].clone();
        let called = Instant::now();
        fixture.delete_unregistered("g", &[victim]).await.expect("deleted");
        assert!(called.elapsed() < Duration::from_secs(2), "a deletion does not wait for a launch");
        assert_eq!(fixture.target("g"), 4, "{raise:?}");
        fixture.cloud().set_desired_externally("g", 4).expect("it exists");
        fixture.until("all are there", |fixture| members(fixture) == 7).await;
        fixture.until("it is settled", |fixture| fixture.target("g") == 7).await;
        stays(&fixture, 7, &format!("{raise:?}")).await;
        assert_eq!((members(&fixture), fixture.capacity("g"), fixture.calls(CallKind::SetCapacity)), (7, 7, 0));
        fixture.no_instance_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn what_ca_gives_back_is_lowered_only_after_the_launch() {
    for raise in RAISES {
        let plan = group(raise).launch_calls(slow(), raise);
        let plan = plan.launches(Pick::Every(2), LaunchOutcome::fails(no_capacity(), seconds(1)));
        let fixture = Fixture::that_launches([plan]).await;
        fixture.increase("g", 4).await.expect("it goes on");
        fixture.decrease("g", 1).await.expect("given back");
        assert_eq!(fixture.target("g"), 5, "{raise:?}");
        fixture.until("all are there", |fixture| members(fixture) == 4).await;
        sleep(Duration::from_secs(90)).await;
        assert_eq!((members(&fixture), fixture.capacity("g")), (4, 4), "{raise:?}: what was launched stays");
        fixture.no_instance_was_killed();
    }
}
