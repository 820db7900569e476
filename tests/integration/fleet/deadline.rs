//! What a caller's deadline means for its request.

use std::time::Duration;

use headcount::clouds::simulated::{CallFault, CallKind, GroupPlan};
use headcount::fleet::{FleetError, Mutation};
use tokio::time::{Instant, sleep, timeout};

use super::fixture::{Fixture, limit};

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

#[tokio::test(start_paused = true)]
async fn a_write_that_was_sent_is_finished_after_its_caller_has_gone() {
    let fixture = Fixture::with([GroupPlan::aws("g").sized(0, 10, 4)]).await;
    let slow = CallFault::Slow(Duration::from_secs(10));
    fixture.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), None, 1, slow));
    let error = fixture.increase("g", 1).await.expect_err("the response comes too late");
    assert!(matches!(error, FleetError::StillRunning { .. }), "{error}");
    fixture.until("it shows", |fixture| fixture.target("g") == 5).await;

    let call = fixture.fleet.mutate("g", Mutation::Increase(1), limit(5));
    let _gone = timeout(Duration::from_millis(1), call).await;
    fixture.until("it shows", |fixture| fixture.target("g") == 6).await;
}
