//! The response to a deletion that the cloud finishes later.

use std::time::Duration;

use headcount::cloud::InstanceState;
use headcount::clouds::simulated::{CallFault, CallKind, DeleteOutcome, GroupPlan, Overlap, Pick, PlannedFailure};
use tokio::time::Instant;

use super::fixture::{Fixture, seconds};

fn fails() -> DeleteOutcome {
    DeleteOutcome::FailsLater(PlannedFailure::other("CannotDelete", "not now"))
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_early_is_returned_as_an_error() {
    let plan = GroupPlan::azure("g").sized(0, 9, 6).delete_time(seconds(3)).deletions(Pick::Always, fails());
    let fixture = Fixture::with([plan]).await;
    let running = fixture.instances("g", InstanceState::Running);
    let error = fixture.delete("g", &running[..1]).await.expect_err("it fails after 3 s");
    assert!(error.to_string().contains("CannotDelete"), "{error}");
    fixture.until("it is back in the target", |fixture| fixture.target("g") == 6).await;
    assert_eq!(fixture.instances("g", InstanceState::Running), running);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_for_one_instance_is_an_error_for_that_one_only() {
    let plan = GroupPlan::azure("g").sized(0, 9, 6).delete_time(seconds(2)).deletions(Pick::First(1), fails());
    let fixture = Fixture::with([plan]).await;
    let running = fixture.instances("g", InstanceState::Running);
    let calls = running[..3].iter().map(|id| fixture.delete("g", std::slice::from_ref(id)));
    let responses = futures_util::future::join_all(calls).await;
    assert_eq!(fixture.calls(CallKind::DeleteInstances), 1, "one operation for all");
    let error = responses[0].as_ref().expect_err("it lives on");
    assert!(error.to_string().contains("CannotDelete"), "{error}");
    assert!(responses[1..].iter().all(Result::is_ok), "the others are gone: {responses:?}");
    assert_eq!(fixture.target("g"), 4);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_fails_for_one_of_its_instances_names_that_one() {
    let plan = GroupPlan::azure("g").sized(0, 9, 6).delete_time(seconds(2)).deletions(Pick::First(1), fails());
    let fixture = Fixture::with([plan]).await;
    let running = fixture.instances("g", InstanceState::Running);
    let error = fixture.delete("g", &running[..3]).await.expect_err("one lives on");
    let text = error.to_string();
    assert!(text.contains(running[0].as_str()) && !text.contains(running[1].as_str()), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_takes_long_is_ok_500_ms_before_the_deadline() {
    let fixture = Fixture::with([GroupPlan::azure("g").sized(0, 9, 6).delete_time(seconds(30))]).await;
    let running = fixture.instances("g", InstanceState::Running);
    let began = Instant::now();
    fixture.delete("g", &running[..1]).await.expect("under way");
    assert_eq!(began.elapsed(), Duration::from_millis(4500));
    assert_eq!(fixture.target("g"), 5);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_succeeds_is_ok_as_soon_as_it_does() {
    let fixture = Fixture::with([GroupPlan::azure("g").sized(0, 9, 6).delete_time(seconds(1))]).await;
    let running = fixture.instances("g", InstanceState::Running);
    let began = Instant::now();
    fixture.delete("g", &running[..1]).await.expect("done");
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_main_loop_of_the_autoscaler_never_waits_for_an_outcome() {
    let plan = GroupPlan::azure("g").sized(0, 9, 6).delete_time(seconds(3)).deletions(Pick::Always, fails());
    let fixture = Fixture::with([plan]).await;
    let running = fixture.instances("g", InstanceState::Running);
    let began = Instant::now();
    fixture.delete_unregistered("g", &running[..1]).await.expect("accepted");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn auto_scaling_groups_respond_at_once() {
    let fixture = Fixture::with([GroupPlan::aws("g").sized(0, 9, 6).delete_time(seconds(30))]).await;
    let running = fixture.instances("g", InstanceState::Running);
    let began = Instant::now();
    fixture.delete("g", &running[..1]).await.expect("accepted");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_held_response_neither_delays_another_write_nor_waits_for_it() {
    let plan = GroupPlan::azure("g").sized(0, 9, 6).delete_time(seconds(30)).overlap(Overlap::Together);
    let fixture = Fixture::with([plan]).await;
    let running = fixture.instances("g", InstanceState::Running);
    let slow = CallFault::Slow(Duration::from_secs(4));
    let began = Instant::now();
    let grow = async {
        fixture.until("the deletion is sent", |fixture| fixture.calls(CallKind::DeleteInstances) == 1).await;
        fixture.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), None, 1, slow));
        fixture.increase("g", 1).await.map(|()| began.elapsed())
    };
    let delete = async { fixture.delete("g", &running[..1]).await.map(|()| began.elapsed()) };
    let (grown, deleted) = tokio::join!(grow, delete);
    assert_eq!(deleted.expect("under way"), Duration::from_millis(4500), "although the keeper is writing");
    let grown = grown.expect("accepted");
    assert!(grown < Duration::from_secs(6), "{grown:?}: 4 s of it are the cloud's");
    assert_eq!(fixture.target("g"), 6);
}
