//! What a caller's deadline means for its request.

use std::time::Duration;

use futures_util::future::join_all;
use headcount::cloud::{CloudError, InstanceState, ProviderId};
use headcount::clouds::simulated::{CallFault, CallKind, GroupPlan};
use headcount::fleet::{FleetError, Mutation};
use tokio::time::{Instant, sleep, timeout};

use super::fixture::{Fixture, kinds, limit, named};

#[tokio::test(start_paused = true)]
async fn a_write_that_was_not_sent_in_time_is_never_sent() {
    let fixture = Fixture::with([GroupPlan::aws("g").sized(0, 10, 4)]).await;
    let slow = CallFault::Slow(Duration::from_secs(10));
    fixture.cloud().faults(|faults| faults.script(Some(CallKind::Observe), None, 1, slow));
    let asked = Instant::now();
    let error = fixture.increase("g", 1).await.expect_err("no time");
    assert!(matches!(error, FleetError::Cloud { .. }), "the cloud did not respond: {error}");
    assert!(asked.elapsed() < Duration::from_secs(5));
    sleep(Duration::from_secs(60)).await;
    assert_eq!((fixture.target("g"), fixture.calls(CallKind::SetCapacity)), (4, 0));
}

/// They come in two parts: a group takes what waits for it, and it is not done with that.
#[tokio::test(start_paused = true)]
async fn more_requests_than_a_group_keeps_are_refused() {
    let fixture = Fixture::with([GroupPlan::aws("g").sized(0, 5_000, 4)]).await;
    let slow = CallFault::Slow(Duration::from_secs(10));
    fixture.cloud().faults(|faults| faults.script(Some(CallKind::Observe), None, 1, slow));
    let part = async |after: u64| {
        sleep(Duration::from_millis(after)).await;
        join_all((0..600).map(|_| fixture.fleet.mutate("g", Mutation::Increase(1), limit(3)))).await
    };
    let (first, second) = tokio::join!(part(0), part(100));
    let is_busy = |outcome: &&Result<_, _>| matches!(outcome, Err(FleetError::Busy { .. }));
    let busy = [first, second].map(|outcomes| outcomes.iter().filter(is_busy).count());
    assert_eq!(busy, [0, 2 * 600 - 1024]);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_behind_another_past_its_time_is_never_sent() {
    let fixture = Fixture::with([GroupPlan::aws("g").sized(0, 10, 4)]).await;
    let slow = CallFault::Slow(Duration::from_secs(10));
    fixture.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), None, 1, slow));
    let second = async {
        sleep(Duration::from_secs(1)).await;
        fixture.fleet.mutate("g", Mutation::Increase(2), limit(3)).await
    };
    let (first, second) = tokio::join!(fixture.fleet.mutate("g", Mutation::Increase(1), limit(20)), second);
    first.expect("accepted late");
    assert!(matches!(second, Err(FleetError::NotSent { .. })), "{second:?}");
    sleep(Duration::from_secs(60)).await;
    assert_eq!((fixture.target("g"), fixture.capacity("g")), (5, 5));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_sent_is_finished_after_its_caller_has_gone() {
    let fixture = Fixture::with([GroupPlan::aws("g").sized(0, 10, 4)]).await;
    let slow = CallFault::Slow(Duration::from_secs(10));
    fixture.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), None, 1, slow.clone()));
    let error = fixture.increase("g", 1).await.expect_err("the response comes too late");
    assert!(matches!(error, FleetError::StillRunning { .. }), "{error}");
    fixture.until("it shows", |fixture| fixture.target("g") == 5).await;

    fixture.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), None, 1, slow));
    let call = fixture.fleet.mutate("g", Mutation::Increase(1), limit(20));
    let _gone = timeout(Duration::from_secs(5), call).await.expect_err("the response comes too late");
    fixture.until("it shows", |fixture| fixture.target("g") == 6).await;
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_caller_has_gone_before_it_was_sent_is_never_sent() {
    for (kind, plan) in kinds() {
        let fixture = Fixture::with([plan.sized(0, 10, 4)]).await;
        let running = fixture.instances("g", InstanceState::Running);
        for mutation in [Mutation::Increase(1), Mutation::Delete(named(&running[..1]))] {
            let slow = CallFault::Slow(Duration::from_secs(3));
            fixture.cloud().faults(|faults| faults.script(Some(CallKind::Observe), None, 1, slow));
            let call = fixture.fleet.mutate("g", mutation, limit(20));
            let _gone = timeout(Duration::from_secs(2), call).await.expect_err("it is read for 3 s");
            sleep(Duration::from_secs(60)).await;
        }
        let writes = [CallKind::SetCapacity, CallKind::DeleteInstances].map(|write| fixture.calls(write));
        assert_eq!((writes, fixture.target("g")), ([0, 0], 4), "{kind}");
    }
}

/// The group is busy for longer than the first call has, and not as long as the second one has.
async fn busy_fixture(plan: GroupPlan) -> Fixture {
    let fixture = Fixture::with([plan.sized(0, 10, 4)]).await;
    for kind in [CallKind::SetCapacity, CallKind::DeleteInstances] {
        fixture.cloud().faults(|faults| faults.script(Some(kind), None, 6, CallFault::Conflict));
    }
    fixture
}

#[tokio::test(start_paused = true)]
async fn a_scale_up_whose_time_is_up_is_not_sent_with_a_later_one() {
    for (kind, plan) in kinds() {
        let fixture = busy_fixture(plan).await;
        let fleet = &fixture.fleet;
        let (first, second) = tokio::join!(
            fleet.mutate("g", Mutation::Increase(1), limit(2)),
            fleet.mutate("g", Mutation::Increase(2), limit(10)),
        );
        assert!(matches!(first, Err(FleetError::Cloud { error: CloudError::Conflict(_), .. })), "{kind}: {first:?}");
        second.expect(kind);
        assert_eq!((fixture.target("g"), fixture.capacity("g")), (6, 6), "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_meets_a_conflict_and_is_read_for_past_its_time_was_not_sent() {
    for (kind, plan) in kinds() {
        let fixture = Fixture::with([plan.sized(0, 10, 4)]).await;
        let running = fixture.instances("g", InstanceState::Running);
        let delete = |node: &ProviderId| Mutation::Delete(named(std::slice::from_ref(node)));
        let pairs = [
            (Mutation::Increase(1), Mutation::Increase(2), CallKind::SetCapacity),
            (delete(&running[0]), delete(&running[1]), CallKind::DeleteInstances),
        ];
        for (first, second, write) in pairs {
            fixture.cloud().faults(|faults| {
                faults.script(Some(write), None, 1, CallFault::Conflict);
                faults.script(Some(CallKind::Observe), None, 1, CallFault::Slow(Duration::from_millis(1)));
                faults.script(Some(CallKind::Observe), None, 1, CallFault::Slow(Duration::from_secs(10)));
            });
            let fleet = &fixture.fleet;
            let (first, second) =
                tokio::join!(fleet.mutate("g", first, limit(5)), fleet.mutate("g", second, limit(20)));
            assert!(matches!(first, Err(FleetError::NotSent { .. })), "{kind}: {first:?}");
            second.expect(kind);
            sleep(Duration::from_secs(60)).await;
        }
        assert_eq!((fixture.target("g"), fixture.capacity("g")), (5, 5), "{kind}");
        assert!(fixture.instances("g", InstanceState::Running).contains(&running[0]), "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_whose_time_is_up_is_not_sent_with_a_later_one() {
    for (kind, plan) in kinds() {
        let fixture = busy_fixture(plan).await;
        let running = fixture.instances("g", InstanceState::Running);
        let delete = |node: &ProviderId| Mutation::Delete(named(std::slice::from_ref(node)));
        let (first, second) = tokio::join!(
            fixture.fleet.mutate("g", delete(&running[0]), limit(2)),
            fixture.fleet.mutate("g", delete(&running[1]), limit(10)),
        );
        assert!(matches!(first, Err(FleetError::Cloud { error: CloudError::Conflict(_), .. })), "{kind}: {first:?}");
        second.expect(kind);
        assert!(fixture.instances("g", InstanceState::Running).contains(&running[0]), "{kind}");
        assert_eq!(fixture.target("g"), 3, "{kind}");
    }
}
