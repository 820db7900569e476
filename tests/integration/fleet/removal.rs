//! Deleting the nodes that are named, and only those.

use std::sync::Arc;
use std::time::Duration;

use headcount::cloud::{Cloud as _, InstanceState, ProviderId, SharedCloud, WritableCloud as _};
use headcount::clouds::simulated::{
    Accounting, CallFault, CallKind, DeleteOutcome, GroupPlan, LaunchOutcome, Overlap, Pick, PlannedFailure, ReadFault,
};
use headcount::fleet::{Cadence, Fleet, FleetError, Mutation, Policies, Refusal, Settings};
use headcount::instance_types::Catalog;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::fixture::{Fixture, kinds, limit, named, no_capacity, seconds};

#[tokio::test(start_paused = true)]
async fn fifty_concurrent_deletes_of_one_node_each_take_few_calls_and_delete_only_those_nodes() {
    for (kind, plan) in kinds() {
        let fixture = Fixture::with([plan.sized(0, 100, 80)]).await;
        let running = fixture.instances("g", InstanceState::Running);
        let (victims, survivors) = running.split_at(50);
        let mut calls = JoinSet::new();
        for victim in victims.iter().cloned() {
            let fleet = Arc::clone(&fixture.fleet);
            calls.spawn(async move { fleet.mutate("g", Mutation::Delete(named(&[victim])), limit(5)).await });
        }
        for outcome in calls.join_all().await {
            outcome.expect(kind);
        }
        assert_eq!(fixture.target("g"), 30, "{kind}");
        assert!(fixture.calls(CallKind::DeleteInstances) <= 2, "{kind}");
        fixture.until("they are gone", |fixture| fixture.instances("g", InstanceState::Deleting).is_empty()).await;
        assert_eq!(fixture.instances("g", InstanceState::Running), survivors, "{kind}");
        assert_eq!((fixture.target("g"), fixture.capacity("g")), (30, 30), "{kind}");
        fixture.no_instance_was_killed();
    }
}

/// Names nodes of a scale set one after another, as the autoscaler does in a drain. Returns how many calls delete them.
async fn drain(nodes: usize, time: u64) -> usize {
    let fixture = Fixture::with([GroupPlan::azure("g").sized(0, 100, 40)]).await;
    let victims = fixture.instances("g", InstanceState::Running)[..nodes].to_vec();
    let mut calls = JoinSet::new();
    for victim in victims {
        let fleet = Arc::clone(&fixture.fleet);
        calls.spawn(async move { fleet.mutate("g", Mutation::Delete(named(&[victim])), limit(time)).await });
        sleep(Duration::from_millis(200)).await;
    }
    for outcome in calls.join_all().await {
        outcome.expect("within its caller's time");
    }
    fixture.until("they are gone", |fixture| fixture.instances("g", InstanceState::Deleting).is_empty()).await;
    assert_eq!(fixture.instances("g", InstanceState::Running).len(), 40 - nodes);
    fixture.no_instance_was_killed();
    fixture.calls(CallKind::DeleteInstances)
}

#[tokio::test(start_paused = true)]
async fn a_drain_of_29_nodes_of_a_scale_set_takes_at_most_ten_calls() {
    let calls = drain(29, 5).await;
    assert!(calls <= 10, "{calls} calls");
}

#[tokio::test(start_paused = true)]
async fn callers_with_little_time_do_not_wait_for_others() {
    assert_eq!(drain(3, 1).await, 3, "none waits for longer than a quarter of its time");
}

#[tokio::test(start_paused = true)]
async fn at_the_minimum_an_auto_scaling_group_replaces_an_instance_that_never_became_a_node() {
    let fixture = Fixture::with([GroupPlan::aws("g").sized(3, 10, 3)]).await;
    let before = fixture.instances("g", InstanceState::Running);
    fixture.delete("g", &before[..1]).await.expect_err("a node, at the minimum");
    fixture.delete_unregistered("g", &before[..1]).await.expect("replaced");
    assert_eq!((fixture.target("g"), fixture.capacity("g")), (3, 3), "the minimum never falls");
    assert_eq!(fixture.instances("g", InstanceState::Deleting), before[..1]);
    fixture.until("another one runs", |fixture| fixture.instances("g", InstanceState::Running).len() == 3).await;
    let after = fixture.instances("g", InstanceState::Running);
    assert!(!after.contains(&before[0]) && after.contains(&before[1]) && after.contains(&before[2]), "{after:?}");
    assert_eq!((fixture.calls(CallKind::DeleteInstances), fixture.calls(CallKind::SetCapacity)), (1, 0));
    fixture.no_instance_was_killed();
}

#[tokio::test(start_paused = true)]
async fn deletions_that_fail_later_leave_the_count_right() {
    for accounting in [Accounting::WhenGone, Accounting::OnAccept] {
        let failure = PlannedFailure::other("CannotAllocateRemainingVMsInAvailabilitySet", "cannot");
        let plan = GroupPlan::azure("g").sized(1, 200, 86).accounting(accounting);
        let fixture = Fixture::with([plan.deletions(Pick::Always, DeleteOutcome::FailsLater(failure))]).await;
        for round in 0..3 {
            let victims = fixture.instances("g", InstanceState::Running)[..38].to_vec();
            fixture.delete("g", &victims).await.expect("accepted");
            assert_eq!(fixture.target("g"), 48, "{accounting:?}, round {round}");
            fixture.until("all run again", |fixture| fixture.instances("g", InstanceState::Running).len() == 86).await;
            assert_eq!(fixture.target("g"), 86, "{accounting:?}, round {round}");
        }
        fixture.increase("g", 5).await.expect("accepted");
        assert_eq!((fixture.target("g"), fixture.capacity("g")), (91, 91), "{accounting:?}");
        fixture.no_instance_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_of_other_groups_and_clouds_are_refused_and_nothing_is_deleted() {
    let fixture = Fixture::with([GroupPlan::azure("g").sized(0, 9, 3), GroupPlan::azure("h").sized(0, 9, 3)]).await;
    let own = fixture.instances("g", InstanceState::Running)[0].clone();
    let other = fixture.instances("h", InstanceState::Running)[0].clone();
    for foreign in [other, ProviderId::from(""), ProviderId::from("gce://p/z/i"), ProviderId::from("garbage")] {
        let error = fixture.delete("g", &[own.clone(), foreign.clone()]).await.expect_err("foreign");
        assert!(matches!(error, FleetError::Malformed(_)), "{foreign}: {error}");
    }
    let many: Vec<ProviderId> = std::iter::repeat_n(own, 10_000).collect();
    assert!(matches!(fixture.delete("g", &many).await, Err(FleetError::Malformed(_))));
    assert_eq!((fixture.target("g"), fixture.target("h"), fixture.calls(CallKind::DeleteInstances)), (3, 3, 0));
}

#[tokio::test(start_paused = true)]
async fn each_delete_call_is_judged_as_a_whole_in_order_of_arrival() {
    let fixture = Fixture::with([GroupPlan::aws("g").sized(3, 9, 5)]).await;
    let running = fixture.instances("g", InstanceState::Running);
    let (three, two) = running.split_at(3);
    let (whole, fits) = tokio::join!(fixture.delete("g", three), fixture.delete("g", two));
    let refused = matches!(whole, Err(FleetError::Refused { refusal: Refusal::BelowMin { .. }, .. }));
    assert!(refused && fits.is_ok(), "{whole:?} {fits:?}");
    assert_eq!(fixture.target("g"), 3);
    fixture.until("two are gone", |fixture| fixture.instances("g", InstanceState::Running).len() == 3).await;
    assert_eq!(fixture.instances("g", InstanceState::Running), three);
}

#[tokio::test(start_paused = true)]
async fn single_deletes_that_together_would_break_the_minimum_stop_at_it() {
    for (kind, plan) in kinds() {
        let fixture = Fixture::with([plan.sized(3, 9, 5)]).await;
        let running = fixture.instances("g", InstanceState::Running);
        let outcomes = futures_util::future::join_all(running.chunks(1).map(|one| fixture.delete("g", one))).await;
        let is_done: Vec<bool> = outcomes.iter().map(Result::is_ok).collect();
        assert_eq!(is_done, [true, true, false, false, false], "{kind}: in the order of arrival");
        assert_eq!(fixture.target("g"), 3, "{kind}");
        fixture.until("two are gone", |fixture| fixture.instances("g", InstanceState::Deleting).is_empty()).await;
        assert_eq!(fixture.instances("g", InstanceState::Running), running[2..], "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn instances_that_the_cloud_reports_as_gone_are_not_listed_while_reads_lag_behind() {
    for (kind, plan) in kinds() {
        let fixture = Fixture::with([plan.sized(0, 9, 5)]).await;
        let lag = ReadFault::Stale(Duration::from_secs(3));
        fixture.cloud().faults(|faults| faults.script_read(Some(CallKind::Observe), "g", 2, lag));
        sleep(Duration::from_secs(6)).await;
        let gone = fixture.cloud().evict("g", 1).expect("exists");
        assert!(fixture.instances("g", InstanceState::Running).contains(&gone[0]), "{kind}: not read yet");
        fixture.delete("g", &gone).await.expect(kind);
        assert!(!fixture.instances("g", InstanceState::Running).contains(&gone[0]), "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_a_read_showed_as_gone_is_not_listed_by_a_read_that_lags_behind() {
    let fixture = Fixture::with([GroupPlan::aws("g").sized(0, 9, 5)]).await;
    let lag = ReadFault::Stale(Duration::from_secs(15));
    fixture.cloud().faults(|faults| faults.script_read(Some(CallKind::List), "g", 1, lag));
    let listings = fixture.calls(CallKind::List);
    sleep(Duration::from_secs(1)).await;
    let gone = fixture.cloud().evict("g", 1).expect("exists");
    fixture.delete("g", &gone).await.expect("it is gone already");
    assert_eq!((fixture.calls(CallKind::List), fixture.calls(CallKind::DeleteInstances)), (listings, 0));
    fixture.until("a listing lags behind", |fixture| fixture.calls(CallKind::List) > listings).await;
    sleep(Duration::from_secs(1)).await;
    assert!(!fixture.instances("g", InstanceState::Running).contains(&gone[0]));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_launched_since_the_last_read_is_deleted() {
    let listed = |fixture: &Fixture| -> Vec<ProviderId> {
        let instances = fixture.cloud().world(|world, _| world.group("g").expect("exists").instances());
        instances.into_iter().filter(|one| one.state == InstanceState::Running).map(|one| one.id).collect()
    };
    for (kind, plan) in kinds() {
        let fixture = Fixture::with([plan.sized(0, 9, 5).launch_time(seconds(1))]).await;
        let known = fixture.instances("g", InstanceState::Running);
        let slow = CallFault::Slow(Duration::from_secs(60));
        fixture.cloud().faults(|faults| faults.script(Some(CallKind::List), None, 100, slow));
        sleep(Duration::from_secs(6)).await;
        fixture.cloud().set_desired_externally("g", 6).expect("exists");
        fixture.until("one was launched", |fixture| listed(fixture).len() == 6).await;
        let launched: Vec<_> = listed(&fixture).into_iter().filter(|id| !known.contains(id)).collect();
        assert_eq!(fixture.instances("g", InstanceState::Running), known, "{kind}: not read since");
        fixture.delete("g", &launched).await.expect(kind);
        fixture.until("it is gone", |fixture| !listed(fixture).contains(&launched[0])).await;
        fixture.no_instance_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_of_a_batch_that_the_cloud_refuses_is_named_and_the_rest_is_deleted() {
    let refused = DeleteOutcome::Refused(PlannedFailure::other("ResourceContention", "busy"));
    let fixture = Fixture::with([GroupPlan::aws("g").sized(0, 9, 5).deletions(Pick::First(1), refused)]).await;
    let running = fixture.instances("g", InstanceState::Running);
    let error = fixture.delete("g", &running[..3]).await.expect_err("one is refused");
    assert!(matches!(&error, FleetError::PartlyRefused { refused, .. } if refused.len() == 1), "{error}");
    assert!(error.to_string().contains(running[0].as_str()), "{error}");
    assert_eq!(fixture.target("g"), 3);
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_during_deletions_the_first_response_is_right() {
    for (kind, plan) in kinds() {
        let fixture = Fixture::with([plan.sized(0, 100, 40).delete_time(seconds(300))]).await;
        let victims = fixture.instances("g", InstanceState::Running)[..15].to_vec();
        fixture.delete("g", &victims).await.expect(kind);
        let Fixture { fleet, clouds } = fixture;
        drop(fleet);
        let settings = Settings {
            sources: vec![(Arc::from("sim"), Arc::clone(&clouds[0]) as SharedCloud)],
            cadence: Cadence::new(Duration::from_secs(5), None),
            catalog: Arc::new(Catalog::new(Vec::new())),
            policies: Arc::new(Policies::default()),
            read_only: false,
        };
        let fixture = Fixture { fleet: Arc::new(Fleet::start(settings)), clouds };
        fixture.ready().await;
        assert_eq!(fixture.target("g"), 25, "{kind}");
        assert_eq!(fixture.instances("g", InstanceState::Deleting).len(), 15, "{kind}");
        fixture.increase("g", 1).await.expect(kind);
        assert_eq!(fixture.target("g"), 26, "{kind}");
        fixture.no_instance_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn preempted_deletions_are_sent_again_together() {
    let plan = GroupPlan::azure("g").sized(0, 20, 6).overlap(Overlap::Preempt).delete_time(seconds(10));
    let fixture = Fixture::with([plan]).await;
    let running = fixture.instances("g", InstanceState::Running);
    for victim in &running[..2] {
        fixture.delete_unregistered("g", std::slice::from_ref(victim)).await.expect("accepted");
    }
    // The second has made the first void, and this makes the second void.
    fixture.cloud().set_desired_externally("g", 7).expect("exists");
    let of_first = |fixture: &Fixture| {
        fixture.instances("g", InstanceState::Running).iter().filter(|id| running.contains(id)).count()
    };
    sleep(Duration::from_secs(60)).await;
    fixture.until("the other one runs", |fixture| fixture.instances("g", InstanceState::Running).len() == 5).await;
    assert_eq!(
        (of_first(&fixture), fixture.calls(CallKind::DeleteInstances)),
        (4, 3),
        "two deletions, and one of both"
    );
    assert_eq!((fixture.target("g"), fixture.capacity("g")), (5, 5));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_our_own_later_ones_preempt_again_and_again_is_carried_out() {
    let plan = GroupPlan::azure("g").sized(0, 20, 8).overlap(Overlap::Preempt).delete_time(seconds(10));
    let fixture = Fixture::with([plan]).await;
    let victims = fixture.instances("g", InstanceState::Running)[..5].to_vec();
    // Each voids the ones before it, also those that were sent again.
    for victim in &victims {
        fixture.delete_unregistered("g", std::slice::from_ref(victim)).await.expect("accepted");
        sleep(Duration::from_secs(5)).await;
    }
    fixture.until("all are gone", |fixture| fixture.instances("g", InstanceState::Deleting).is_empty()).await;
    let left = fixture.instances("g", InstanceState::Running);
    assert!(victims.iter().all(|victim| !left.contains(victim)), "{left:?} are left of {victims:?}");
    assert_eq!((fixture.target("g"), fixture.capacity("g")), (3, 3));
    fixture.no_instance_was_killed();
}

#[tokio::test(start_paused = true)]
async fn a_preempted_deletion_whose_second_attempt_failed_is_not_sent_a_third_time() {
    let failure = PlannedFailure::other("CannotDelete", "not now");
    let plan = GroupPlan::azure("g").sized(2, 20, 4).overlap(Overlap::Preempt).delete_time(seconds(10));
    let plan = plan.deletions(Pick::Always, DeleteOutcome::FailsLater(failure));
    let fixture = Fixture::with([plan]).await;
    let victims = fixture.instances("g", InstanceState::Running)[..2].to_vec();
    for victim in &victims {
        fixture.delete_unregistered("g", std::slice::from_ref(victim)).await.expect("accepted");
    }
    fixture.until("they are sent together", |fixture| fixture.calls(CallKind::DeleteInstances) == 3).await;
    let sent = fixture.calls(CallKind::DeleteInstances);
    // No list shows the end of the second one before the third has failed.
    fixture.cloud().faults(|faults| faults.denied.insert(CallKind::ListInstances));
    sleep(Duration::from_secs(30)).await;
    fixture.cloud().faults(|faults| faults.denied.clear());
    fixture.until("both live on", |fixture| fixture.instances("g", InstanceState::Running).len() == 4).await;
    sleep(Duration::from_secs(120)).await;
    assert_eq!(fixture.calls(CallKind::DeleteInstances), sent, "the autoscaler has to name them again");
    assert_eq!((fixture.target("g"), fixture.capacity("g")), (4, 4));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_without_a_response_is_not_sent_with_a_preempted_one() {
    let plan = GroupPlan::azure("g").sized(0, 20, 6).overlap(Overlap::Preempt).delete_time(seconds(10));
    let fixture = Fixture::with([plan]).await;
    let victims = fixture.instances("g", InstanceState::Running)[..2].to_vec();
    fixture.delete_unregistered("g", &victims[..1]).await.expect("accepted");
    fixture.cloud().faults(|faults| faults.script(Some(CallKind::DeleteInstances), None, 1, CallFault::Unreachable));
    let lost = fixture.delete_unregistered("g", &victims[1..]).await;
    assert!(matches!(lost, Err(FleetError::OutcomeUnknown { .. })), "{lost:?}");
    fixture.cloud().set_desired_externally("g", 7).expect("exists");
    fixture
        .until("the first is gone", |fixture| !fixture.instances("g", InstanceState::Running).contains(&victims[0]))
        .await;
    sleep(Duration::from_secs(120)).await;
    assert!(
        fixture.instances("g", InstanceState::Running).contains(&victims[1]),
        "its caller was told that it may live on"
    );
}

#[tokio::test(start_paused = true)]
async fn a_preempted_deletion_is_sent_until_the_cloud_accepts_it() {
    for fault in [CallFault::Conflict, CallFault::Throttled { retry_after: Some(Duration::from_secs(12)) }] {
        let plan = GroupPlan::azure("g").sized(0, 20, 6).overlap(Overlap::Preempt).delete_time(seconds(10));
        let fixture = Fixture::with([plan]).await;
        let victims = fixture.instances("g", InstanceState::Running)[..1].to_vec();
        fixture.delete_unregistered("g", &victims).await.expect("accepted");
        fixture.cloud().faults(|faults| faults.script(Some(CallKind::DeleteInstances), None, 3, fault));
        fixture.cloud().set_desired_externally("g", 7).expect("exists");
        let is_gone = |fixture: &Fixture| {
            let view = fixture.fleet.snapshot();
            let (_, view) = view.group("g").expect("served");
            view.status.instances.iter().all(|one| one.id != victims[0])
        };
        fixture.until("it is gone", is_gone).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_resubmitted_deletion_that_our_own_scale_up_preempts_is_carried_out() {
    let plan = GroupPlan::azure("g").sized(0, 20, 8).overlap(Overlap::Preempt).delete_time(seconds(10));
    let fixture = Fixture::with([plan]).await;
    let victims = fixture.instances("g", InstanceState::Running)[..1].to_vec();
    fixture.delete_unregistered("g", &victims).await.expect("accepted");
    for _ in 0..4 {
        sleep(Duration::from_secs(6)).await;
        fixture.increase("g", 1).await.expect("accepted");
    }
    sleep(Duration::from_secs(120)).await;
    let left = fixture.instances("g", InstanceState::Running);
    assert!(!left.contains(&victims[0]), "its caller got OK");
    assert_eq!((fixture.target("g"), left.len()), (11, 11));
    fixture.no_instance_was_killed();
}

#[tokio::test(start_paused = true)]
async fn a_wrong_capacity_after_a_failed_deletion_is_confirmed_before_a_scale_up() {
    let fails = DeleteOutcome::FailsLater(PlannedFailure::other("CannotDelete", "not now"));
    for accounting in [Accounting::OnAccept, Accounting::WhenGone] {
        let plan = GroupPlan::azure("g").sized(0, 90, 10).accounting(accounting);
        let fixture = Fixture::with([plan.delete_time(seconds(3)).deletions(Pick::First(3), fails.clone())]).await;
        let named = fixture.instances("g", InstanceState::Running)[..3].to_vec();
        let _failed = fixture.delete("g", &named).await.expect_err("it fails after 3 s");
        fixture.until("all are back", |fixture| fixture.target("g") == 10).await;
        fixture.cloud().faults(|faults| faults.script_read(None, "g", 1, ReadFault::Capacity(7)));
        fixture.increase("g", 1).await.expect("read again");
        assert_eq!((fixture.target("g"), fixture.capacity("g")), (11, 11), "{accounting:?}");
        fixture.no_instance_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_whose_polls_hang_or_make_no_sense_is_judged_by_what_reads_show() {
    for fault in [CallFault::Malformed, CallFault::Slow(Duration::from_secs(3600))] {
        let fails = DeleteOutcome::FailsLater(PlannedFailure::other("CannotDelete", "not now"));
        let plan = GroupPlan::azure("g").sized(0, 9, 6).delete_time(seconds(8)).deletions(Pick::Always, fails);
        let fixture = Fixture::with([plan]).await;
        let running = fixture.instances("g", InstanceState::Running);
        fixture.cloud().faults(|faults| faults.script(Some(CallKind::Follow), None, u32::MAX, fault));
        let began = Instant::now();
        fixture.delete_unregistered("g", &running[..1]).await.expect("accepted");
        fixture.until("it is back in the target", |fixture| fixture.target("g") == 6).await;
        assert!(began.elapsed() < Duration::from_secs(240), "{:?}", began.elapsed());
        assert_eq!(fixture.instances("g", InstanceState::Running), running);
    }
}

/// Azure asks for pauses of minutes. A poll that is not sent meanwhile says nothing about the operation.
#[tokio::test(start_paused = true)]
async fn a_pause_that_the_cloud_asks_for_does_not_end_the_polls() {
    let pause = CallFault::Throttled { retry_after: Some(Duration::from_secs(100)) };
    let plan =
        GroupPlan::azure("g").sized(0, 9, 6).launches(Pick::Always, LaunchOutcome::fails(no_capacity(), seconds(250)));
    let fixture = Fixture::with([plan]).await;
    fixture.cloud().faults(|faults| faults.script(Some(CallKind::Follow), None, 3, pause));
    fixture.increase("g", 1).await.expect("accepted");
    fixture.until("it has failed", |fixture| fixture.failed("g").len() == 1).await;
    assert_eq!(fixture.calls(CallKind::Follow), 4, "the last poll tells why");
}

#[tokio::test(start_paused = true)]
async fn a_scale_up_right_after_a_failed_deletion_reads_the_instances_first() {
    let fails = DeleteOutcome::FailsLater(PlannedFailure::other("CannotDelete", "not now"));
    let plan = GroupPlan::azure("g").sized(0, 90, 10).delete_time(seconds(6)).deletions(Pick::Always, fails);
    let fixture = Fixture::with([plan]).await;
    let named = fixture.instances("g", InstanceState::Running)[..3].to_vec();
    fixture.delete_unregistered("g", &named).await.expect("accepted");
    fixture
        .until("it has failed", |fixture| {
            fixture.cloud().world(|world, _| world.group("g").expect("exists").live()) == 10
        })
        .await;
    // The failure is known after the next poll, and the read beside the keeper that it calls for takes long.
    let slow = CallFault::Slow(Duration::from_secs(2));
    fixture.cloud().faults(|faults| faults.script(Some(CallKind::ListInstances), None, 1, slow));
    let polls = fixture.calls(CallKind::Follow);
    fixture.until("it was polled", |fixture| fixture.calls(CallKind::Follow) > polls).await;
    let began = fixture.cloud().elapsed();
    fixture.increase("g", 1).await.expect("accepted");
    let calls = fixture.cloud().calls();
    let since = calls.iter().filter(|call| call.at >= began);
    let reads =
        since.take_while(|call| call.kind != CallKind::SetCapacity).filter(|call| call.kind == CallKind::ListInstances);
    assert!(reads.count() > 0, "a list that is younger than the failure: {calls:?}");
    assert_eq!((fixture.target("g"), fixture.capacity("g")), (11, 11));
}

#[tokio::test(start_paused = true)]
async fn the_accounting_is_learned_even_if_the_first_read_after_a_deletion_fails() {
    for (accounting, capacity) in [(Accounting::OnAccept, 5), (Accounting::WhenGone, 7)] {
        // Two are missing, so that the numbers alone do not show the accounting.
        let failing = LaunchOutcome::fails(no_capacity(), seconds(4));
        let plan = GroupPlan::azure("g").accounting(accounting).overlap(Overlap::Together).sized(0, 7, 5);
        let fixture = Fixture::with([plan.launches(Pick::Always, failing)]).await;
        fixture.increase("g", 2).await.expect("accepted");
        fixture.until("two have failed", |fixture| fixture.failed("g").len() == 2).await;
        let victims = fixture.instances("g", InstanceState::Running)[..2].to_vec();
        // The first reading is the one before the deletion.
        fixture.cloud().faults(|faults| {
            faults.script(Some(CallKind::Observe), None, 1, CallFault::Slow(Duration::from_millis(1)));
            faults.script(Some(CallKind::Observe), None, 1, CallFault::Unreachable);
        });
        fixture.delete("g", &victims).await.expect("accepted");
        assert_eq!((fixture.target("g"), fixture.capacity("g")), (5, capacity));
        let refused = fixture.increase("g", 3).await;
        let refusal = Refusal::AboveMax { delta: 3, target: 5, max: 7 };
        assert!(
            matches!(&refused, Err(FleetError::Refused { refusal: returned, .. }) if *returned == refusal),
            "{refused:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_another_process_deletes_meanwhile_is_not_deleted_twice() {
    for (kind, plan) in kinds() {
        let plan = plan.sized(0, 10, 4).launches(Pick::Always, LaunchOutcome::fails(no_capacity(), seconds(4)));
        let fixture = Fixture::that_lowers([plan]).await;
        fixture.increase("g", 1).await.expect(kind);
        fixture.until("it has failed", |fixture| fixture.failed("g").len() == 1).await;
        // Nothing is lowered while its operation seems to run, nor while a list may lack what it made.
        sleep(Duration::from_secs(35)).await;
        let victim = fixture.instances("g", InstanceState::Running)[0].clone();
        let both = [fixture.failed("g")[0].clone(), victim.clone()];
        // The capacity is lowered by the placeholder first. The other process deletes the instance during that call.
        let slow = CallFault::Slow(Duration::from_secs(1));
        fixture.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), Some("g"), 1, slow));
        let other = async {
            let lowers = |fixture: &Fixture| fixture.calls(CallKind::SetCapacity) == 2;
            fixture.until("the capacity is being lowered", lowers).await;
            let basis = fixture.cloud().observe(&"g".into()).await.expect("no fault").expect("exists");
            fixture.cloud().delete_instances(&basis, std::slice::from_ref(&victim)).await.expect("accepted");
        };
        let (outcome, ()) = tokio::join!(fixture.delete("g", &both), other);
        outcome.expect(kind);
        assert_eq!(fixture.calls(CallKind::DeleteInstances), 1, "{kind}: the other process has made the one call");
        fixture.until("it is gone", |fixture| fixture.instances("g", InstanceState::Deleting).is_empty()).await;
        assert_eq!(fixture.instances("g", InstanceState::Running).len(), 3, "{kind}");
        fixture.no_instance_was_killed();
    }
}
