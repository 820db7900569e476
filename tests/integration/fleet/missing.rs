//! Instances that should be and are not: launches that fail, and capacity that is taken back.

use std::time::Duration;

use headcount::cloud::InstanceState;
use headcount::cloud::simulated::{Accounting, CallKind, GroupPlan, LaunchOutcome, Mishap, Pick};
use headcount::fleet::FleetError;
use tokio::time::sleep;

use super::bed::{Bed, kinds, no_capacity, seconds};

#[tokio::test(start_paused = true)]
async fn launches_that_fail_are_listed_with_the_reason_until_their_placeholders_are_deleted() {
    for (kind, plan) in kinds() {
        let plan = plan.sized(0, 10, 2).launches(Pick::Always, LaunchOutcome::fails(no_capacity(), seconds(4)));
        let bed = Bed::with([plan]).await;
        bed.increase("g", 3).await.expect(kind);
        bed.until("three have failed", |bed| bed.failed("g").len() == 3).await;
        assert_eq!(bed.target("g"), 5, "{kind}");
        let placeholders = bed.failed("g");
        bed.until("another refresh", |bed| bed.cloud().elapsed() > Duration::from_secs(60)).await;
        assert_eq!(bed.failed("g"), placeholders, "{kind}: the IDs stay");

        bed.delete("g", &placeholders).await.expect(kind);
        assert_eq!((bed.target("g"), bed.failed("g").len()), (2, 0), "{kind}");
        bed.until("the capacity is back at what lives", |bed| bed.capacity("g") == 2).await;
        bed.delete("g", &placeholders).await.expect("again is fine");
        assert_eq!(bed.target("g"), 2, "{kind}");
        bed.nobody_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn capacity_that_the_cloud_rolls_back_stays_in_the_target_until_its_placeholders_are_deleted() {
    let outcome = LaunchOutcome::rolls_back(no_capacity(), seconds(4));
    let bed = Bed::with([GroupPlan::azure("g").sized(0, 10, 2).launches(Pick::Always, outcome)]).await;
    bed.increase("g", 3).await.expect("accepted");
    bed.until("three have failed", |bed| bed.failed("g").len() == 3).await;
    assert_eq!((bed.target("g"), bed.capacity("g")), (5, 2));
    let placeholders = bed.failed("g");
    bed.delete("g", &placeholders).await.expect("accepted");
    assert_eq!(bed.target("g"), 2);
}

#[tokio::test(start_paused = true)]
async fn placeholders_below_the_minimum_are_forgone_without_a_write() {
    let plan =
        GroupPlan::aws("g").sized(30, 50, 30).launches(Pick::Always, LaunchOutcome::fails(no_capacity(), seconds(2)));
    let bed = Bed::with([plan]).await;
    bed.increase("g", 5).await.expect("accepted");
    bed.cloud().evict("g", 29).expect("exists");
    bed.until("34 are missing", |bed| bed.failed("g").len() == 34).await;
    let placeholders = bed.failed("g");
    bed.delete("g", &placeholders).await.expect("accepted");
    assert_eq!((bed.target("g"), bed.capacity("g")), (1, 30));
    let writes = bed.calls(CallKind::SetCapacity);
    bed.delete("g", &placeholders).await.expect("again is fine");
    assert_eq!(bed.calls(CallKind::SetCapacity), writes, "and costs no call");
    assert_eq!(bed.target("g"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_decrease_takes_back_what_is_missing_and_nothing_else() {
    for (kind, plan) in kinds() {
        let bed = Bed::with([plan.sized(0, 10, 4).launch_time(seconds(3600))]).await;
        bed.increase("g", 1).await.expect(kind);
        bed.decrease("g", 6).await.expect(kind);
        bed.until("capacity and target agree", |bed| bed.target("g") == bed.capacity("g")).await;
        assert!(bed.instances("g", InstanceState::Running).len() == 4, "{kind}");
        bed.nobody_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_comes_up_under_a_reduction_is_kept() {
    let plan =
        GroupPlan::aws("g").sized(0, 10, 6).launches(Pick::First(1), LaunchOutcome::fails(no_capacity(), seconds(2)));
    let bed = Bed::with([plan]).await;
    bed.increase("g", 1).await.expect("accepted");
    bed.until("one has failed", |bed| bed.failed("g").len() == 1).await;
    let placeholder = bed.failed("g");
    // The group tries again 20 s after the failure, which was seen up to 5 s late: while the write is on its way.
    sleep(Duration::from_secs(14)).await;
    let slow = Mishap::Slow(Duration::from_secs(10));
    bed.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), None, 1, slow));
    let outcome = bed.delete("g", &placeholder).await;
    assert!(matches!(outcome, Err(FleetError::StillRunning { .. })), "{outcome:?}");
    // Up, down, and up again as soon as the reading after the reduction shows the instance.
    bed.until("it is lowered and raised back", |bed| bed.calls(CallKind::SetCapacity) == 3).await;
    bed.until("the capacity is back", |bed| bed.capacity("g") == 7).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!((bed.target("g"), bed.instances("g", InstanceState::Running).len()), (7, 7));
    bed.nobody_was_killed();
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_lowered_while_deletions_are_pending_is_lowered_after_them() {
    for plan in [GroupPlan::aws("g"), GroupPlan::azure("g").accounting(Accounting::OnAccept)] {
        let failing = LaunchOutcome::fails(no_capacity(), seconds(2));
        let plan = plan.sized(0, 20, 6).delete_time(seconds(60)).launches(Pick::Always, failing);
        let bed = Bed::with([plan]).await;
        bed.increase("g", 2).await.expect("accepted");
        bed.until("two have failed", |bed| bed.failed("g").len() == 2).await;
        let running = bed.instances("g", InstanceState::Running);
        bed.delete("g", &running[..4]).await.expect("accepted");
        assert_eq!((bed.target("g"), bed.failed("g").len()), (4, 2), "what failed is still to be taken back");
        bed.delete("g", &bed.failed("g")).await.expect("accepted");
        assert_eq!((bed.target("g"), bed.capacity("g")), (2, 4), "six are listed, so nothing is lowered yet");
        bed.until("it is lowered", |bed| bed.capacity("g") == 2).await;
        assert_eq!(bed.instances("g", InstanceState::Running), running[4..]);
        bed.nobody_was_killed();
    }
}
