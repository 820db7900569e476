//! How often a source is listed: 5 s apart while it is busy, 20 s at rest, 100 s on a standby.

use std::time::Duration;

use headcount::clouds::simulated::{CallFault, CallKind, GroupPlan, LaunchOutcome, Pick};
use tokio::time::{Instant, sleep};

use super::fixture::{Fixture, kinds, no_capacity, seconds};

/// Long enough for a source to come to rest.
const REST: Duration = Duration::from_secs(130);

/// How many listings begin in this time, while the Cluster Autoscaler calls `Refresh` every 10 s.
async fn listings_during(fixture: &Fixture, time: Duration) -> usize {
    let (before, end) = (fixture.calls(CallKind::List), Instant::now() + time);
    while Instant::now() < end {
        call(fixture).await;
        fixture.fleet.refresh(Instant::now() + Duration::from_secs(5)).await.expect("fresh");
        sleep(Duration::from_secs(10)).await;
    }
    fixture.calls(CallKind::List) - before
}

async fn call(fixture: &Fixture) {
    fixture.fleet.note_call(Instant::now() + Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_source_is_listed_less_often_even_if_refresh_is_called() {
    let fixture = Fixture::with([GroupPlan::aws("g").sized(0, 20, 4)]).await;
    let busy = listings_during(&fixture, Duration::from_secs(100)).await;
    sleep(REST).await;
    let idle = listings_during(&fixture, Duration::from_secs(100)).await;
    assert!((18..=21).contains(&busy), "{busy} listings in 100 s");
    assert!((4..=6).contains(&idle), "{idle} listings in 100 s");
}

#[tokio::test(start_paused = true)]
async fn refresh_does_not_fail_because_one_listing_of_an_idle_source_did() {
    let fixture = Fixture::listed_every(Duration::from_secs(60), [GroupPlan::aws("g").sized(0, 20, 4)]).await;
    sleep(REST).await;
    fixture.cloud().faults(|faults| faults.down = true);
    let (down, mut fails_after) = (Instant::now(), None);
    while down.elapsed() < Duration::from_secs(15 * 60) && fails_after.is_none() {
        call(&fixture).await;
        let refreshed = fixture.fleet.refresh(Instant::now() + Duration::from_secs(5)).await;
        fails_after = refreshed.is_err().then(|| down.elapsed());
        sleep(Duration::from_secs(10)).await;
    }
    // At rest it is listed every four minutes: its last listing may be that old when the cloud fails. From when the next
    // one was due, it may fail for two more minutes.
    let after = fails_after.expect("in the end");
    assert!((110..380).contains(&after.as_secs()), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_launch_in_an_idle_source_is_seen_within_15_s() {
    let fixture = Fixture::with([GroupPlan::aws("g").sized(0, 20, 4)]).await;
    sleep(REST).await;
    let fails = LaunchOutcome::fails(no_capacity(), seconds(3));
    fixture.cloud().replan("g", |plan| plan.launches_now(Pick::Always, fails)).expect("exists");
    fixture.increase("g", 2).await.expect("accepted");
    let written = Instant::now();
    fixture.until("the failure is listed", |fixture| fixture.failed("g").len() == 2).await;
    assert!(written.elapsed() <= Duration::from_secs(15), "{:?}", written.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_failed_launch_is_listed_before_the_next_loop_of_the_autoscaler() {
    let long = Duration::from_secs(600);
    let plan = GroupPlan::aws("g").sized(0, 20, 4);
    let fixture =
        Fixture::listed_every(long, [plan.launches(Pick::Always, LaunchOutcome::fails(no_capacity(), seconds(6)))])
            .await;
    for increase in 1..=3 {
        let listings = fixture.calls(CallKind::List);
        fixture.increase("g", 2).await.expect("accepted");
        let written = Instant::now();
        fixture.until("the failure is listed", |fixture| fixture.failed("g").len() == 2 * increase).await;
        assert!(written.elapsed() < Duration::from_secs(10), "{:?}", written.elapsed());
        assert_eq!(fixture.calls(CallKind::List), listings, "no listing showed it");
        sleep(Duration::from_secs(40)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_by_another_client_makes_a_source_busy() {
    let fixture = Fixture::with([GroupPlan::aws("g").sized(0, 20, 4)]).await;
    sleep(REST).await;
    fixture.cloud().set_desired_externally("g", 6).expect("exists");
    fixture.until("it is seen", |fixture| fixture.target("g") == 6).await;
    let busy = listings_during(&fixture, Duration::from_secs(50)).await;
    assert!(busy >= 9, "{busy} listings in 50 s");
}

#[tokio::test(start_paused = true)]
async fn a_group_whose_calls_are_slow_delays_the_reading_of_no_other() {
    for (kind, plan) in kinds() {
        let plan = plan.sized(0, 20, 4);
        let mut slow = plan.clone();
        slow.name = "slow".to_owned();
        let fixture = Fixture::with([plan, slow]).await;
        let hangs = CallFault::Slow(Duration::from_secs(25));
        fixture.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), Some("slow"), 1, hangs));
        let another_client = async {
            fixture.until("the write is on its way", |fixture| fixture.calls(CallKind::SetCapacity) == 1).await;
            let listings = fixture.calls(CallKind::List);
            fixture.until("a listing waits for it", |fixture| fixture.calls(CallKind::List) > listings).await;
            fixture.cloud().set_desired_externally("g", 6).expect("exists");
            let changed = Instant::now();
            fixture.until("the change is seen", |fixture| fixture.target("g") == 6).await;
            changed.elapsed()
        };
        let (_, seen_after) = tokio::join!(fixture.increase("slow", 1), another_client);
        assert!(seen_after <= Duration::from_secs(12), "{kind}: {seen_after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_is_listed_rarely_and_its_first_call_waits_for_a_listing() {
    let fixture = Fixture::with([GroupPlan::aws("g").sized(0, 20, 4)]).await;
    call(&fixture).await;
    sleep(Duration::from_secs(601)).await;
    let before = fixture.calls(CallKind::List);
    sleep(Duration::from_secs(1000)).await;
    let listings = fixture.calls(CallKind::List) - before;
    assert!((9..=11).contains(&listings), "{listings} listings in 1000 s");
    fixture.until("a listing has just been made", |fixture| fixture.calls(CallKind::List) > before + listings).await;
    sleep(Duration::from_secs(5)).await;
    fixture.cloud().set_desired_externally("g", 6).expect("exists");
    call(&fixture).await;
    assert_eq!(fixture.target("g"), 6, "the next regular listing was 95 s away");
}

#[tokio::test(start_paused = true)]
async fn a_refresh_after_half_a_minute_of_silence_lists_what_another_replica_may_have_changed() {
    let fixture = Fixture::with([GroupPlan::aws("g").sized(0, 20, 4)]).await;
    let sees = async |silence: Duration, capacity: u32| {
        sleep(REST).await;
        call(&fixture).await;
        sleep(silence).await;
        let listed = fixture.calls(CallKind::List);
        fixture.until("a listing has just been made", |fixture| fixture.calls(CallKind::List) > listed).await;
        sleep(Duration::from_secs(1)).await;
        fixture.cloud().set_desired_externally("g", capacity).expect("exists");
        call(&fixture).await;
        fixture.fleet.refresh(Instant::now() + Duration::from_secs(5)).await.expect("fresh");
        fixture.target("g") == capacity
    };
    assert!(!sees(Duration::ZERO, 5).await, "the caller is the leader, and the next listing is 19 s away");
    assert!(sees(Duration::from_secs(31), 6).await);
}
