//! Growing a group, and what happens when the write fails or conflicts.

use std::sync::Arc;
use std::time::Duration;

use headcount::cloud::{CloudError, InstanceState, Permit};
use headcount::clouds::simulated::{CallFault, CallKind, GroupPlan};
use headcount::fleet::{FleetError, Mutation, Refusal};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::fixture::{Fixture, kinds, limit, seconds};

#[tokio::test(start_paused = true)]
async fn a_group_grows_and_shrinks_and_each_write_shows_at_once() {
    for (kind, plan) in kinds() {
        let fixture = Fixture::with([plan.sized(0, 10, 2)]).await;
        assert_eq!(fixture.target("g"), 2, "{kind}");
        fixture.increase("g", 3).await.expect(kind);
        assert_eq!(fixture.target("g"), 5, "{kind}");
        assert_eq!(fixture.instances("g", InstanceState::Creating).len(), 3, "{kind}");
        fixture.until("five run", |fixture| fixture.instances("g", InstanceState::Running).len() == 5).await;

        let victim = fixture.instances("g", InstanceState::Running)[1].clone();
        fixture.delete("g", std::slice::from_ref(&victim)).await.expect(kind);
        assert_eq!(fixture.target("g"), 4, "{kind}");
        assert_eq!(fixture.instances("g", InstanceState::Deleting), std::slice::from_ref(&victim), "{kind}");
        fixture.until("it is gone", |fixture| fixture.instances("g", InstanceState::Deleting).is_empty()).await;
        assert_eq!((fixture.target("g"), fixture.capacity("g")), (4, 4), "{kind}");
        assert!(!fixture.instances("g", InstanceState::Running).contains(&victim), "{kind}");
        fixture.no_instance_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn fifty_concurrent_scale_ups_stop_exactly_at_the_maximum() {
    for (kind, plan) in kinds() {
        let fixture = Fixture::with([plan.sized(0, 40, 5)]).await;
        let mut calls = JoinSet::new();
        for _ in 0..50 {
            let fleet = Arc::clone(&fixture.fleet);
            calls.spawn(async move { fleet.mutate("g", Mutation::Increase(1), limit(5)).await });
        }
        let outcomes = calls.join_all().await;
        let accepted = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!(accepted, 35, "{kind}");
        let above = |error: &FleetError| {
            matches!(error, FleetError::Refused { refusal: Refusal::AboveMax { max: 40, .. }, .. })
        };
        assert!(outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).all(above), "{kind}: {outcomes:?}");
        assert_eq!((fixture.target("g"), fixture.capacity("g")), (40, 40), "{kind}");
        assert!(fixture.calls(CallKind::SetCapacity) <= 3, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_scale_up_during_deletions_keeps_both() {
    for (kind, plan) in kinds() {
        let fixture = Fixture::with([plan.sized(1, 200, 86).delete_time(seconds(120))]).await;
        let victims = fixture.instances("g", InstanceState::Running)[..38].to_vec();
        fixture.delete("g", &victims).await.expect(kind);
        fixture.increase("g", 2).await.expect(kind);
        assert_eq!(fixture.target("g"), 50, "{kind}");
        fixture.until("all is done", |fixture| fixture.instances("g", InstanceState::Running).len() == 50).await;
        fixture.until("the capacity agrees", |fixture| fixture.capacity("g") == 50).await;
        assert_eq!(fixture.target("g"), 50, "{kind}");
        fixture.no_instance_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_settles_a_write_whose_response_was_lost() {
    for call_fault in [CallFault::LostResponse, CallFault::Malformed] {
        for (kind, plan) in kinds() {
            let fixture = Fixture::with([plan.sized(0, 10, 4)]).await;
            fixture.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), None, 1, call_fault.clone()));
            fixture.increase("g", 2).await.expect(kind);
            assert_eq!((fixture.target("g"), fixture.capacity("g")), (6, 6), "{kind}");
            fixture.until("six run", |fixture| fixture.instances("g", InstanceState::Running).len() == 6).await;

            fixture
                .cloud()
                .faults(|faults| faults.script(Some(CallKind::DeleteInstances), None, 1, call_fault.clone()));
            let victim = fixture.instances("g", InstanceState::Running)[0].clone();
            fixture.delete("g", &[victim]).await.expect(kind);
            assert_eq!(fixture.target("g"), 5, "{kind}");
            assert_eq!(fixture.calls(CallKind::DeleteInstances), 1, "{kind}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_changes_nothing_and_returns_an_error() {
    for call_fault in [CallFault::Unreachable, CallFault::Denied, CallFault::Refused] {
        let fixture = Fixture::with([GroupPlan::aws("g").sized(0, 10, 4)]).await;
        fixture.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), None, 1, call_fault.clone()));
        let error = fixture.increase("g", 2).await.expect_err("it was not written");
        assert!(matches!(error, FleetError::Cloud { .. } | FleetError::OutcomeUnknown { .. }), "{error}");
        assert_eq!((fixture.target("g"), fixture.capacity("g")), (4, 4), "{call_fault:?}");
        assert!(fixture.instances("g", InstanceState::Creating).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_conflicts_is_recomputed_from_a_new_read() {
    let fixture = Fixture::with([GroupPlan::azure("g").sized(0, 100, 4)]).await;
    fixture.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), None, 2, CallFault::Conflict));
    fixture.cloud().set_desired_externally("g", 9).expect("exists");
    fixture.increase("g", 2).await.expect("the third attempt is accepted");
    assert_eq!((fixture.target("g"), fixture.capacity("g")), (11, 11), "growth by another client is kept");

    fixture.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), None, 100, CallFault::Conflict));
    let began = Instant::now();
    let error = fixture.increase("g", 1).await.expect_err("the conflict lasts");
    assert!(matches!(error, FleetError::Cloud { error: CloudError::Conflict(_), .. }), "{error}");
    let taken = began.elapsed();
    assert!(
        (Duration::from_secs(3)..Duration::from_millis(4_500)).contains(&taken),
        "the caller's time is used: {taken:?}"
    );
    assert_eq!(fixture.capacity("g"), 11);
}

#[tokio::test(start_paused = true)]
async fn a_scale_up_without_a_response_that_takes_effect_later_shows_within_seconds() {
    let fixture = Fixture::with([GroupPlan::azure("g").sized(0, 100, 4)]).await;
    fixture.cloud().faults(|faults| {
        faults.script(Some(CallKind::SetCapacity), None, 1, CallFault::Late(Duration::from_secs(8)));
    });
    fixture.increase("g", 1).await.expect_err("no response");
    while fixture.capacity("g") == 4 {
        sleep(Duration::from_millis(100)).await;
    }
    let landed = Instant::now();
    fixture.until("it shows", |fixture| fixture.target("g") == 5).await;
    assert!(landed.elapsed() < Duration::from_secs(4), "not only with the next listing: {:?}", landed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_throttled_write_is_sent_again_if_the_pause_ends_in_time() {
    let fixture = Fixture::with([GroupPlan::azure("g").sized(0, 100, 4)]).await;
    let throttled = |pause| CallFault::Throttled { retry_after: Some(Duration::from_secs(pause)) };
    fixture.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), None, 1, throttled(2)));
    fixture.increase("g", 2).await.expect("there is time for the pause");
    fixture.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), None, 1, throttled(60)));
    let began = Instant::now();
    let error = fixture.increase("g", 2).await.expect_err("there is not");
    assert!(matches!(error, FleetError::Cloud { error: CloudError::Throttled { .. }, .. }), "{error}");
    assert!(began.elapsed() < Duration::from_secs(1), "waiting would not help");
    assert_eq!(fixture.capacity("g"), 6);
}

#[tokio::test(start_paused = true)]
async fn growth_by_another_client_is_read_before_a_write_is_computed() {
    for (kind, plan) in kinds() {
        let fixture = Fixture::with([plan.sized(0, 100, 4)]).await;
        fixture.cloud().set_desired_externally("g", 9).expect("exists");
        assert_eq!(fixture.target("g"), 4, "{kind}: not listed again yet");
        fixture.increase("g", 2).await.expect(kind);
        assert_eq!((fixture.target("g"), fixture.capacity("g")), (11, 11), "{kind}");
        fixture.no_instance_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn growth_by_another_client_during_a_write_is_kept() {
    let fixture = Fixture::with([GroupPlan::azure("g").sized(0, 100, 4)]).await;
    let slow = CallFault::Slow(Duration::from_secs(2));
    fixture.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), None, 1, slow));
    let another_client = async {
        fixture.until("the write is on its way", |fixture| fixture.calls(CallKind::SetCapacity) == 1).await;
        fixture.cloud().set_desired_externally("g", 9).expect("exists");
    };
    let (outcome, ()) = tokio::join!(fixture.increase("g", 2), another_client);
    outcome.expect("read again and recomputed");
    assert_eq!((fixture.target("g"), fixture.capacity("g")), (11, 11));
    fixture.no_instance_was_killed();
}

#[tokio::test(start_paused = true)]
async fn scale_ups_by_more_than_can_be_counted_are_all_refused() {
    for (kind, plan) in kinds() {
        let fixture = Fixture::with([plan.sized(0, 40, 5)]).await;
        let mut calls = JoinSet::new();
        for _ in 0..3 {
            let fleet = Arc::clone(&fixture.fleet);
            calls.spawn(async move { fleet.mutate("g", Mutation::Increase(i32::MAX.unsigned_abs()), limit(5)).await });
        }
        for outcome in calls.join_all().await {
            let is_above = |error: &FleetError| {
                matches!(error, FleetError::Refused { refusal: Refusal::AboveMax { target: 5, max: 40, .. }, .. })
            };
            assert!(outcome.as_ref().is_err_and(is_above), "{kind}: {outcome:?}");
        }
        fixture.increase("g", 35).await.expect("all that is free");
    }
}

#[tokio::test(start_paused = true)]
async fn a_scale_up_is_judged_again_if_another_client_used_the_room_below_the_maximum() {
    let fixture = Fixture::with([GroupPlan::azure("g").sized(0, 10, 7)]).await;
    let slow = CallFault::Slow(Duration::from_secs(2));
    fixture.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), None, 1, slow));
    let another_client = async {
        fixture.until("the write is on its way", |fixture| fixture.calls(CallKind::SetCapacity) == 1).await;
        fixture.cloud().set_desired_externally("g", 9).expect("exists");
    };
    let (outcome, ()) = tokio::join!(fixture.increase("g", 3), another_client);
    let is_above = |error: &FleetError| {
        matches!(error, FleetError::Refused { refusal: Refusal::AboveMax { target: 9, max: 10, .. }, .. })
    };
    assert!(outcome.as_ref().is_err_and(is_above), "{outcome:?}");
    assert_eq!(fixture.capacity("g"), 9);
}

/// Another client raises the capacity after it was read for a scale-up and before that scale-up is written, and the
/// write, which an Auto Scaling group does not check, lowers the capacity. No read showed that raise, so it is not
/// raised back (law 11).
async fn growth_race(units_per_node: u32) {
    let plan = GroupPlan::aws("g").sized(0, 100, 4).launch_time(seconds(30)).weighted(units_per_node);
    let fixture = Fixture::with([plan]).await;
    let slow = CallFault::Slow(Duration::from_secs(4));
    fixture.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), None, 1, slow));
    let another_client = async {
        fixture.until("the write is on its way", |fixture| fixture.calls(CallKind::SetCapacity) == 1).await;
        fixture.cloud().set_desired_externally("g", 9).expect("exists");
    };
    let (outcome, ()) = tokio::join!(fixture.increase("g", 2), another_client);
    outcome.expect("accepted");
    sleep(Duration::from_secs(120)).await;
    assert_eq!(fixture.calls(CallKind::SetCapacity), 1, "only what was requested is written");
    assert_eq!((fixture.target("g"), fixture.capacity("g")), (6, 6));
    assert_eq!(fixture.instances("g", InstanceState::Running).len(), 6);
}

#[tokio::test(start_paused = true)]
async fn what_another_client_raised_between_the_read_and_the_write_is_not_raised_back() {
    for units_per_node in [1, 2] {
        growth_race(units_per_node).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_state_that_refuses_every_scale_up_is_served_as_such_after_a_minute() {
    let mut plan = GroupPlan::aws("g").sized(0, 20, 8);
    let for_good = Duration::from_secs(3600);
    plan.scale_in_lag = for_good..=for_good;
    let fixture = Fixture::with([plan]).await;
    let max = |fixture: &Fixture| fixture.fleet.snapshot().group("g").map(|(_, view)| view.max);
    // Somebody lowers the capacity, and the instances stay, as where their termination is suspended.
    fixture.cloud().set_desired_externally("g", 3).expect("exists");
    fixture.until("it shows", |fixture| fixture.target("g") == 3).await;
    let refused = fixture.increase("g", 1).await;
    assert!(matches!(refused, Err(FleetError::Contended { .. })), "{refused:?}");
    assert_eq!(max(&fixture), Some(20));
    fixture.until("it is at its maximum for CA", |fixture| max(fixture) == Some(3)).await;
    let growth = fixture.fleet.snapshot().group("g").map(|(_, view)| view.growth.clone());
    assert!(matches!(&growth, Some(Permit::Withheld(reason)) if reason.contains("(8)")), "{growth:?}");
    fixture.cloud().set_desired_externally("g", 8).expect("exists");
    fixture.until("it may grow again", |fixture| max(fixture) == Some(20)).await;
    fixture.increase("g", 1).await.expect("accepted");
}

/// Two processes set the same capacity, and neither gets a response: a read that shows it does not tell which of the
/// two has landed. Ours lands `late` seconds after its client gave up, and undoes a scale-up from 6 to 7.
async fn undo_a_scale_up(fixture: &Fixture, late: u64) {
    let late = CallFault::Late(Duration::from_secs(late));
    fixture.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), None, 1, late));
    let another_process = async {
        fixture.until("the write is on its way", |fixture| fixture.calls(CallKind::SetCapacity) == 1).await;
        fixture.cloud().set_desired_externally("g", 6).expect("exists");
    };
    let (outcome, ()) = tokio::join!(fixture.increase("g", 2), another_process);
    assert!(outcome.is_err(), "no response within the caller's time: {outcome:?}");
    fixture.until("a read shows six", |fixture| fixture.target("g") == 6).await;
    fixture.increase("g", 1).await.expect("accepted");
    assert_eq!(fixture.capacity("g"), 7, "the first write has not landed");
    fixture.until("it lands", |fixture| fixture.capacity("g") == 6).await;
}

#[tokio::test(start_paused = true)]
async fn a_write_that_lands_after_a_read_showed_its_capacity_undoes_no_later_scale_up() {
    let fixture = Fixture::with([GroupPlan::aws("g").sized(0, 10, 4).launch_time(seconds(1))]).await;
    undo_a_scale_up(&fixture, 5).await;
    fixture.until("the capacity is raised back", |fixture| fixture.capacity("g") == 7).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!((fixture.target("g"), fixture.instances("g", InstanceState::Running).len()), (7, 7));
    fixture.no_instance_was_killed();
}

#[tokio::test(start_paused = true)]
async fn a_raise_back_is_not_repeated_for_each_read_that_lags() {
    let fixture = lagging(3, GroupPlan::aws("g").sized(0, 10, 4).launch_time(seconds(1))).await;
    undo_a_scale_up(&fixture, 9).await;
    let writes = fixture.calls(CallKind::SetCapacity);
    fixture.until("the capacity is raised back", |fixture| fixture.capacity("g") == 7).await;
    sleep(Duration::from_secs(10)).await;
    let writes = fixture.calls(CallKind::SetCapacity) - writes;
    assert!((1..=3).contains(&writes), "{writes} writes in 10 s, while reads lag by 3 s");
    fixture.no_instance_was_killed();
}

/// AWS's reads lag by seconds behind its writes.
async fn lagging(seconds: u64, plan: GroupPlan) -> Fixture {
    let fixture = Fixture::with([plan]).await;
    let lag = Duration::from_secs(seconds);
    fixture.cloud().faults(|faults| faults.read_lags.insert("g".to_owned(), lag));
    // What was before is not remembered.
    sleep(lag * 2).await;
    fixture
}

#[tokio::test(start_paused = true)]
async fn scale_ups_after_deletions_add_up_although_reads_lag() {
    for lag in [1, 2, 3] {
        let fixture = lagging(lag, GroupPlan::aws("g").sized(0, 100, 10).launch_time(seconds(1))).await;
        let victims = fixture.instances("g", InstanceState::Running)[..2].to_vec();
        for victim in &victims {
            fixture.delete("g", std::slice::from_ref(victim)).await.expect("accepted");
        }
        for _ in 0..2 {
            // One that cannot be read in time is refused, and CA asks again.
            while fixture.increase("g", 2).await.is_err() {}
        }
        sleep(Duration::from_secs(90)).await;
        assert_eq!((fixture.target("g"), fixture.capacity("g")), (12, 12), "lag {lag} s");
        fixture.no_instance_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn a_scale_up_on_a_read_that_lags_behind_the_last_one_adds_to_it() {
    let fixture = lagging(1, GroupPlan::aws("g").sized(0, 100, 10).launch_time(seconds(1))).await;
    let victim = fixture.cloud().world(|world, _| {
        let mut members = world.group("g").expect("exists").members();
        members.next().expect("runs").id.clone()
    });
    let terminated = fixture.cloud().world(|world, now| world.terminate(now, "g", &victim, true));
    assert!(terminated.is_ok(), "another client lowers the capacity to 9");
    sleep(Duration::from_millis(500)).await;
    fixture.increase("g", 2).await.expect("computed on 10, which nobody can know to be wrong");
    assert_eq!(fixture.capacity("g"), 12);
    // Now reads show 9.
    sleep(Duration::from_millis(600)).await;
    fixture.increase("g", 2).await.expect("read again");
    assert_eq!(fixture.capacity("g"), 14);
    sleep(Duration::from_secs(60)).await;
    fixture.no_instance_was_killed();
}

#[tokio::test(start_paused = true)]
async fn a_deletion_after_a_scale_up_leaves_no_phantom_although_reads_lag() {
    let fixture = lagging(2, GroupPlan::aws("g").sized(0, 6, 5).launch_time(seconds(1))).await;
    fixture.increase("g", 1).await.expect("accepted");
    sleep(Duration::from_secs(1)).await;
    let victim = fixture.instances("g", InstanceState::Running)[..1].to_vec();
    fixture.delete("g", &victim).await.expect("accepted");
    sleep(Duration::from_secs(8)).await;
    assert_eq!((fixture.target("g"), fixture.capacity("g")), (5, 5));
    fixture.increase("g", 1).await.expect("there is room for one");
    assert_eq!(fixture.capacity("g"), 6);
}

#[tokio::test(start_paused = true)]
async fn growth_in_one_batch_with_a_deletion_is_computed_from_a_read_after_the_deletion() {
    let fixture = Fixture::with([GroupPlan::aws("g").sized(0, 20, 6)]).await;
    let victim = fixture.instances("g", InstanceState::Running)[..1].to_vec();
    // The second reading, by which the deletion would be seen, fails.
    fixture.cloud().faults(|faults| {
        faults.script(Some(CallKind::Observe), None, 1, CallFault::Slow(Duration::from_millis(1)));
        faults.script(Some(CallKind::Observe), None, 1, CallFault::Unreachable);
    });
    let (deleted, grown) = tokio::join!(fixture.delete("g", &victim), fixture.increase("g", 2));
    deleted.expect("accepted");
    grown.expect("accepted");
    assert_eq!((fixture.target("g"), fixture.capacity("g")), (7, 7));
}

#[tokio::test(start_paused = true)]
async fn deletions_without_a_response_make_no_room_for_a_scale_up() {
    for (kind, plan) in kinds() {
        let fixture = Fixture::with([plan.sized(0, 8, 6)]).await;
        let victims = fixture.instances("g", InstanceState::Running)[..4].to_vec();
        fixture
            .cloud()
            .faults(|faults| faults.script(Some(CallKind::DeleteInstances), None, 1, CallFault::Unreachable));
        let error = fixture.delete("g", &victims).await.expect_err("no response");
        assert!(matches!(error, FleetError::OutcomeUnknown { .. }), "{kind}: {error}");
        assert_eq!(fixture.target("g"), 2, "{kind}: they count as being deleted");
        let error = fixture.increase("g", 4).await.expect_err("they may still be live");
        assert!(matches!(error, FleetError::Contended { .. }), "{kind}: {error}");
        fixture.increase("g", 2).await.expect("room for them and all other instances");
        fixture.until("a read shows that they are live", |fixture| fixture.target("g") == 8).await;
        assert_eq!(fixture.capacity("g"), 8, "{kind}");
        fixture.no_instance_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn a_scale_up_waits_while_a_write_without_a_response_may_take_effect() {
    let fixture = Fixture::with([GroupPlan::aws("g").sized(0, 20, 4).launch_time(seconds(1))]).await;
    fixture.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), None, 1, CallFault::Unreachable));
    fixture.increase("g", 2).await.expect_err("no response");
    let error = fixture.increase("g", 1).await.expect_err("the first one may still take effect");
    assert!(matches!(error, FleetError::OutcomeUnknown { .. }), "{error}");
    sleep(Duration::from_secs(35)).await;
    fixture.increase("g", 1).await.expect("it can no longer take effect");
    assert_eq!(fixture.capacity("g"), 5);
}

/// Grows a group from 3 to 8, all of which run.
async fn grown_to_eight() -> Fixture {
    let mut plan = GroupPlan::aws("g").sized(0, 20, 3).launch_time(seconds(1));
    plan.acts_after = Duration::from_millis(1500)..=Duration::from_millis(1600);
    plan.scale_in_lag = seconds(3600);
    let fixture = Fixture::with([plan]).await;
    fixture.increase("g", 5).await.expect("accepted");
    fixture.until("they run", |fixture| fixture.instances("g", InstanceState::Running).len() == 8).await;
    fixture
}

#[tokio::test(start_paused = true)]
async fn an_instance_launched_since_shows_that_a_read_does_not_lag() {
    let fixture = grown_to_eight().await;
    let began = fixture.cloud().elapsed();
    fixture.cloud().set_desired_externally("g", 3).expect("exists");
    fixture.until("three is true", |fixture| fixture.target("g") == 3).await;
    let took = fixture.cloud().elapsed() - began;
    assert!(took < Duration::from_secs(20), "one listing, one read of the activities and a second read: {took:?}");
    fixture.no_instance_was_killed();
}

#[tokio::test(start_paused = true)]
async fn a_group_below_its_minimum_that_cannot_grow_is_offered_to_nobody() {
    let mut plan = GroupPlan::aws("g").sized(5, 10, 2);
    plan.growth = Permit::Withheld("its Launch process is suspended".to_owned());
    let fixture = Fixture::with([plan]).await;
    let snapshot = fixture.fleet.snapshot();
    let (_, view) = snapshot.group("g").expect("served");
    assert_eq!((view.min, view.status.target, view.max), (5, 2, 2));
}
