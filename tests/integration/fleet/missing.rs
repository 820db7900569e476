//! Missing instances: launches that fail, and capacity that is taken back.

use std::time::Duration;

use headcount::cloud::{CapacityIs, InstanceState};
use headcount::clouds::simulated::{
    Accounting, CallFault, CallKind, GroupPlan, LaunchOutcome, Overlap, Pick, Simulated, Sizing,
};
use headcount::fleet::{FleetError, Policy, Refusal};
use tokio::time::sleep;

use super::fixture::{Fixture, kinds, no_capacity, seconds};

#[tokio::test(start_paused = true)]
async fn launches_that_fail_are_listed_with_the_reason_until_their_placeholders_are_deleted() {
    for (kind, plan) in kinds() {
        let plan = plan.sized(0, 10, 2).launches(Pick::Always, LaunchOutcome::fails(no_capacity(), seconds(4)));
        let fixture = Fixture::that_lowers([plan]).await;
        fixture.increase("g", 3).await.expect(kind);
        fixture.until("three have failed", |fixture| fixture.failed("g").len() == 3).await;
        assert_eq!(fixture.target("g"), 5, "{kind}");
        let placeholders = fixture.failed("g");
        fixture.until("another refresh", |fixture| fixture.cloud().elapsed() > Duration::from_secs(60)).await;
        assert_eq!(fixture.failed("g"), placeholders, "{kind}: the IDs stay");

        fixture.delete("g", &placeholders).await.expect(kind);
        assert_eq!((fixture.target("g"), fixture.failed("g").len()), (2, 0), "{kind}");
        fixture.until("the capacity equals the live instances", |fixture| fixture.capacity("g") == 2).await;
        fixture.delete("g", &placeholders).await.expect("a repeated deletion is a success");
        assert_eq!(fixture.target("g"), 2, "{kind}");
        fixture.no_instance_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn the_capacity_of_a_scale_set_is_not_lowered() {
    for sizing in [Sizing::Actual, Sizing::Nominal] {
        let plan = GroupPlan::azure("g").sized(0, 10, 2).sizing(sizing);
        let plan = plan.launches(Pick::First(3), LaunchOutcome::fails(no_capacity(), seconds(4)));
        let fixture = Fixture::with([plan]).await;
        fixture.increase("g", 3).await.expect("accepted");
        fixture.until("three have failed", |fixture| fixture.failed("g").len() == 3).await;
        fixture.delete("g", &fixture.failed("g")).await.expect("nothing to delete in the cloud");
        fixture.until("another refresh", |fixture| fixture.cloud().elapsed() > Duration::from_secs(60)).await;
        assert_eq!((fixture.target("g"), fixture.capacity("g"), fixture.unfilled("g")), (2, 5, 3), "{sizing:?}");

        fixture.increase("g", 1).await.expect("accepted");
        assert_eq!((fixture.target("g"), fixture.capacity("g")), (3, 6), "{sizing:?}");
        // Where new capacities are compared with the live instances, Azure launches what was unfilled as well.
        let (running, unfilled) = if sizing == Sizing::Nominal { (3, 3) } else { (6, 0) };
        fixture.until("they run", |fixture| fixture.instances("g", InstanceState::Running).len() == running).await;
        let target = u32::try_from(running).expect("small");
        assert_eq!((fixture.target("g"), fixture.unfilled("g")), (target, unfilled), "{sizing:?}");
        fixture.no_instance_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_that_has_shown_that_it_is_nominal_grows_beyond_its_maximum_by_what_is_unfilled() {
    let fixture = Fixture::with([GroupPlan::azure("g").sized(0, 10, 9).sizing(Sizing::Nominal)]).await;
    fixture.cloud().evict("g", 4).expect("exists");
    fixture.until("five are left", |fixture| fixture.target("g") == 5).await;
    assert_eq!(fixture.unfilled("g"), 4);
    let above = fixture.increase("g", 2).await.expect_err("it may make six");
    assert!(matches!(above, FleetError::Refused { refusal: Refusal::Unfilled { unfilled: 4, .. }, .. }), "{above}");
    fixture.increase("g", 1).await.expect("accepted");
    fixture.until("six run", |fixture| fixture.instances("g", InstanceState::Running).len() == 6).await;
    // Lists may lag by 30 s; after that they show what the scale-up made.
    fixture.until("it is known", |fixture| fixture.max("g") == 10).await;
    fixture.increase("g", 3).await.expect("nine live, whatever the capacity says");
    assert_eq!((fixture.target("g"), fixture.capacity("g")), (9, 13));
    fixture.until("nine run", |fixture| fixture.instances("g", InstanceState::Running).len() == 9).await;
    fixture.no_instance_was_killed();
}

#[tokio::test(start_paused = true)]
async fn only_a_list_that_is_younger_than_a_failed_scale_up_shows_what_it_made() {
    let failing = LaunchOutcome::fails(no_capacity(), seconds(4));
    let plan = GroupPlan::azure("g").sized(0, 10, 1).launch_time(seconds(4)).launches(Pick::First(2), failing);
    let fixture = Fixture::with([plan]).await;
    fixture.increase("g", 4).await.expect("accepted");
    let hangs = CallFault::Slow(Duration::from_secs(3600));
    fixture.cloud().faults(|faults| faults.script(Some(CallKind::ListInstances), None, 8, hangs));
    let reported = fixture.cloud().elapsed() + Duration::from_secs(10);
    fixture.until("the failure was polled", |fixture| fixture.cloud().elapsed() > reported).await;
    // The capacity can be read, but not which two of the four launches succeeded.
    fixture.increase("g", 1).await.expect_err("the instances cannot be read");
    assert_eq!((fixture.target("g"), fixture.failed("g").len()), (5, 0));

    fixture.until("two have failed", |fixture| fixture.failed("g").len() == 2).await;
    assert_eq!((fixture.target("g"), fixture.instances("g", InstanceState::Running).len()), (5, 3));
}

#[tokio::test(start_paused = true)]
async fn a_scale_up_that_another_one_replaces_has_not_failed() {
    let plan = GroupPlan::azure("g").sized(0, 10, 0).overlap(Overlap::Preempt).launch_time(seconds(120));
    let fixture = Fixture::with([plan]).await;
    fixture.increase("g", 2).await.expect("accepted");
    // Their placeholders stand for them until they are listed.
    fixture.cloud().hide_ids("g", 2, Duration::from_secs(60)).expect("exists");
    fixture.increase("g", 1).await.expect("accepted");
    for _ in 0..40 {
        assert_eq!((fixture.target("g"), fixture.failed("g")), (3, Vec::new()));
        sleep(Duration::from_secs(1)).await;
    }
    fixture.until("all run", |fixture| fixture.instances("g", InstanceState::Running).len() == 3).await;
}

#[tokio::test(start_paused = true)]
async fn capacity_that_the_cloud_rolls_back_stays_in_the_target_until_its_placeholders_are_deleted() {
    let outcome = LaunchOutcome::rolls_back(no_capacity(), seconds(4));
    let fixture = Fixture::with([GroupPlan::azure("g").sized(0, 10, 2).launches(Pick::Always, outcome)]).await;
    fixture.increase("g", 3).await.expect("accepted");
    fixture.until("three have failed", |fixture| fixture.failed("g").len() == 3).await;
    assert_eq!((fixture.target("g"), fixture.capacity("g")), (5, 2));
    let placeholders = fixture.failed("g");
    fixture.delete("g", &placeholders).await.expect("accepted");
    assert_eq!(fixture.target("g"), 2);
}

#[tokio::test(start_paused = true)]
async fn placeholders_below_the_minimum_are_cancelled_without_a_write() {
    let plan =
        GroupPlan::aws("g").sized(30, 50, 30).launches(Pick::Always, LaunchOutcome::fails(no_capacity(), seconds(2)));
    let fixture = Fixture::with([plan]).await;
    fixture.increase("g", 5).await.expect("accepted");
    fixture.cloud().evict("g", 29).expect("exists");
    fixture.until("34 are missing", |fixture| fixture.failed("g").len() == 34).await;
    let placeholders = fixture.failed("g");
    fixture.delete("g", &placeholders).await.expect("accepted");
    assert_eq!((fixture.target("g"), fixture.capacity("g")), (1, 30));
    let writes = fixture.calls(CallKind::SetCapacity);
    fixture.delete("g", &placeholders).await.expect("a repeated deletion is a success");
    assert_eq!(fixture.calls(CallKind::SetCapacity), writes, "and costs no call");
    assert_eq!(fixture.target("g"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_reduction_that_meets_conflicts_or_is_denied_is_deferred() {
    let faults = [CallFault::Conflict, CallFault::Denied];
    for (fault, (kind, plan)) in
        faults.into_iter().flat_map(|fault| kinds().into_iter().map(move |kind| (fault.clone(), kind)))
    {
        let plan = plan.sized(0, 10, 2).launches(Pick::Always, LaunchOutcome::fails(no_capacity(), seconds(4)));
        let fixture = Fixture::that_lowers([plan]).await;
        fixture.increase("g", 3).await.expect(kind);
        fixture.until("three have failed", |fixture| fixture.failed("g").len() == 3).await;
        fixture.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), None, 20, fault));
        fixture.delete("g", &fixture.failed("g")).await.expect(kind);
        assert_eq!((fixture.target("g"), fixture.capacity("g")), (2, 5), "{kind}");
        fixture.until("the capacity is lowered", |fixture| fixture.capacity("g") == 2).await;
        assert_eq!(fixture.target("g"), 2, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_decrease_removes_missing_capacity_and_nothing_else() {
    for (kind, plan) in kinds() {
        let fixture = Fixture::with([plan.sized(0, 10, 4).launch_time(seconds(3600))]).await;
        fixture.increase("g", 1).await.expect(kind);
        fixture.decrease("g", 6).await.expect(kind);
        fixture.until("capacity and target agree", |fixture| fixture.target("g") == fixture.capacity("g")).await;
        assert!(fixture.instances("g", InstanceState::Running).len() == 4, "{kind}");
        fixture.no_instance_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_comes_up_under_a_reduction_is_kept() {
    let plan =
        GroupPlan::aws("g").sized(0, 10, 6).launches(Pick::First(1), LaunchOutcome::fails(no_capacity(), seconds(2)));
    let fixture = Fixture::with([plan]).await;
    fixture.increase("g", 1).await.expect("accepted");
    fixture.until("one has failed", |fixture| fixture.failed("g").len() == 1).await;
    let placeholder = fixture.failed("g");
    // The group tries again 20 s after the failure, which was seen up to 5 s late: while the write is on its way.
    sleep(Duration::from_secs(14)).await;
    let slow = CallFault::Slow(Duration::from_secs(10));
    fixture.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), None, 1, slow));
    let outcome = fixture.delete("g", &placeholder).await;
    assert!(matches!(outcome, Err(FleetError::StillRunning { .. })), "{outcome:?}");
    // Up, down, and up again as soon as the reading after the reduction shows the instance.
    fixture.until("it is lowered and raised back", |fixture| fixture.calls(CallKind::SetCapacity) == 3).await;
    fixture.until("the capacity is back", |fixture| fixture.capacity("g") == 7).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!((fixture.target("g"), fixture.instances("g", InstanceState::Running).len()), (7, 7));
    fixture.no_instance_was_killed();
}

#[tokio::test(start_paused = true)]
async fn capacity_that_cannot_be_lowered_while_deletions_are_pending_is_lowered_after_them() {
    // An Auto Scaling group does not count instances being terminated: nothing waits for them. A scale set may count
    // them.
    for (plan, lowered) in [(GroupPlan::aws("g"), 2), (GroupPlan::azure("g").accounting(Accounting::OnAccept), 4)] {
        let failing = LaunchOutcome::fails(no_capacity(), seconds(2));
        let plan = plan.sized(0, 20, 6).delete_time(seconds(60)).launches(Pick::Always, failing);
        let fixture = Fixture::that_lowers([plan]).await;
        fixture.increase("g", 2).await.expect("accepted");
        fixture.until("two have failed", |fixture| fixture.failed("g").len() == 2).await;
        let running = fixture.instances("g", InstanceState::Running);
        fixture.delete("g", &running[..4]).await.expect("accepted");
        assert_eq!(
            (fixture.target("g"), fixture.failed("g").len()),
            (4, 2),
            "the failed instances are still to be \
        taken back"
        );
        fixture.delete("g", &fixture.failed("g")).await.expect("accepted");
        assert_eq!((fixture.target("g"), fixture.capacity("g")), (2, lowered));
        fixture.until("it is lowered", |fixture| fixture.capacity("g") == 2).await;
        assert_eq!(fixture.instances("g", InstanceState::Running), running[4..]);
        fixture.no_instance_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_configuration_says_of_scale_sets_keeps_no_auto_scaling_group_from_being_lowered() {
    let plan =
        GroupPlan::aws("g").sized(0, 10, 3).launches(Pick::Always, LaunchOutcome::fails(no_capacity(), seconds(4)));
    let nominal = Policy { capacity_is: Some(CapacityIs::Nominal), ..Policy::of_all() };
    let fixture = Fixture::with_policies([("sim", Simulated::with_groups(7, [plan]))], vec![nominal]);
    fixture.ready().await;
    fixture.increase("g", 2).await.expect("accepted");
    fixture.until("both have failed", |fixture| fixture.failed("g").len() == 2).await;
    fixture.decrease("g", 2).await.expect("given back");
    fixture.until("it is lowered", |fixture| fixture.capacity("g") == 3).await;
}
