//! The real fleet over the simulated cloud, on a paused clock: what CA is told, and what is written, in each situation.

use std::sync::Arc;
use std::time::Duration;

use headcount::cloud::simulated::{
    Accounting, CallKind, DeleteOutcome, Distortion, GroupPlan, LaunchOutcome, Mishap, Overlap, Pick, PlannedFailure,
    Simulated,
};
use headcount::cloud::{InstanceState, ProviderId, SharedCloud};
use headcount::fleet::{Ask, Fleet, FleetError, NamedNode, Policies, Refusal, Settings, TimeLimit};
use headcount::instance_types::Catalog;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// A fleet over simulated sources.
struct Bed {
    fleet: Arc<Fleet>,
    clouds: Vec<Arc<Simulated>>,
}

impl Bed {
    /// A fleet over one source with these groups, ready to be asked.
    async fn with(plans: impl IntoIterator<Item = GroupPlan>) -> Self {
        let bed = Self::cold([("sim", Simulated::with_groups(7, plans))]);
        bed.ready().await;
        bed
    }

    fn cold(sources: impl IntoIterator<Item = (&'static str, Simulated)>) -> Self {
        let sources: Vec<_> = sources.into_iter().map(|(name, cloud)| (name, Arc::new(cloud))).collect();
        let settings = Settings {
            sources: sources.iter().map(|(name, cloud)| (Arc::from(*name), Arc::clone(cloud) as SharedCloud)).collect(),
            refresh_interval: Duration::from_secs(5),
            catalog: Arc::new(Catalog::new(Vec::new())),
            policies: Arc::new(Policies::default()),
        };
        let clouds = sources.into_iter().map(|(_, cloud)| cloud).collect();
        Self { fleet: Arc::new(Fleet::start(settings)), clouds }
    }

    async fn ready(&self) {
        self.fleet.wait_ready(Instant::now() + Duration::from_secs(90)).await.expect("ready in time");
    }

    fn cloud(&self) -> &Simulated {
        &self.clouds[0]
    }

    fn target(&self, group: &str) -> u32 {
        self.fleet.snapshot().group(group).expect("served").1.tally.target
    }

    fn instances(&self, group: &str, state: InstanceState) -> Vec<ProviderId> {
        let snapshot = self.fleet.snapshot();
        let (_, view) = snapshot.group(group).expect("served");
        view.tally.instances.iter().filter(|one| one.state == state).map(|one| one.id.clone()).collect()
    }

    fn failed(&self, group: &str) -> Vec<ProviderId> {
        let snapshot = self.fleet.snapshot();
        let (_, view) = snapshot.group(group).expect("served");
        view.tally.instances.iter().filter(|one| one.failure.is_some()).map(|one| one.id.clone()).collect()
    }

    async fn increase(&self, group: &str, delta: u32) -> Result<(), FleetError> {
        self.fleet.mutate(group, Ask::Increase(delta), limit(5)).await
    }

    async fn decrease(&self, group: &str, number: u32) -> Result<(), FleetError> {
        self.fleet.mutate(group, Ask::Decrease(number), limit(5)).await
    }

    async fn delete(&self, group: &str, ids: &[ProviderId]) -> Result<(), FleetError> {
        self.fleet.mutate(group, Ask::Delete(named(ids)), limit(5)).await
    }

    fn calls(&self, kind: CallKind) -> usize {
        self.cloud().calls().iter().filter(|call| call.kind == kind).count()
    }

    fn capacity(&self, group: &str) -> u32 {
        self.cloud().world(|world, _| world.view(group).expect("exists").capacity())
    }

    /// Lets simulated time pass until something holds.
    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let wait = async {
            while !holds(self) {
                sleep(Duration::from_millis(200)).await;
            }
        };
        timeout(Duration::from_secs(600), wait).await.unwrap_or_else(|_| panic!("never: {what}"));
    }

    fn nobody_was_killed(&self) {
        for cloud in &self.clouds {
            assert_eq!(cloud.killed_unnamed(), [], "a write cost instances their life that nobody named");
        }
    }
}

fn limit(seconds: u64) -> TimeLimit {
    let answer_by = Instant::now() + Duration::from_secs(seconds);
    TimeLimit { send_by: answer_by - Duration::from_millis(500), answer_by }
}

fn named(ids: &[ProviderId]) -> Vec<NamedNode> {
    ids.iter().map(|id| NamedNode { id: id.clone(), create_error: false }).collect()
}

fn no_capacity() -> PlannedFailure {
    PlannedFailure::out_of_resources("InsufficientInstanceCapacity", "no capacity here")
}

fn seconds(seconds: u64) -> headcount::cloud::simulated::Span {
    Duration::from_secs(seconds)..=Duration::from_secs(seconds)
}

/// A group of each kind and accounting habit.
fn kinds() -> [(&'static str, GroupPlan); 3] {
    [
        ("an Auto Scaling group", GroupPlan::aws("g")),
        ("a scale set that counts what it deletes", GroupPlan::azure("g").accounting(Accounting::WhenGone)),
        ("a scale set that does not", GroupPlan::azure("g").accounting(Accounting::OnAccept)),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_group_grows_and_shrinks_and_every_answer_is_visible_at_once() {
    for (kind, plan) in kinds() {
        let bed = Bed::with([plan.sized(0, 10, 2)]).await;
        assert_eq!(bed.target("g"), 2, "{kind}");
        bed.increase("g", 3).await.expect(kind);
        assert_eq!(bed.target("g"), 5, "{kind}");
        assert_eq!(bed.instances("g", InstanceState::Creating).len(), 3, "{kind}");
        bed.until("five run", |bed| bed.instances("g", InstanceState::Running).len() == 5).await;

        let victim = bed.instances("g", InstanceState::Running)[1].clone();
        bed.delete("g", std::slice::from_ref(&victim)).await.expect(kind);
        assert_eq!(bed.target("g"), 4, "{kind}");
        assert_eq!(bed.instances("g", InstanceState::Deleting), std::slice::from_ref(&victim), "{kind}");
        bed.until("it is gone", |bed| bed.instances("g", InstanceState::Deleting).is_empty()).await;
        assert_eq!((bed.target("g"), bed.capacity("g")), (4, 4), "{kind}");
        assert!(!bed.instances("g", InstanceState::Running).contains(&victim), "{kind}");
        bed.nobody_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn fifty_concurrent_scale_ups_stop_exactly_at_the_maximum() {
    for (kind, plan) in kinds() {
        let bed = Bed::with([plan.sized(0, 40, 5)]).await;
        let mut calls = JoinSet::new();
        for _ in 0..50 {
            let fleet = Arc::clone(&bed.fleet);
            calls.spawn(async move { fleet.mutate("g", Ask::Increase(1), limit(5)).await });
        }
        let outcomes = calls.join_all().await;
        let accepted = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!(accepted, 35, "{kind}");
        let above = |error: &FleetError| {
            matches!(error, FleetError::Refused { refusal: Refusal::AboveMax { max: 40, .. }, .. })
        };
        assert!(outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).all(above), "{kind}: {outcomes:?}");
        assert_eq!((bed.target("g"), bed.capacity("g")), (40, 40), "{kind}");
        assert!(bed.calls(CallKind::SetCapacity) <= 3, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn fifty_concurrent_deletes_of_one_node_are_a_few_calls_and_take_just_those() {
    for (kind, plan) in kinds() {
        let bed = Bed::with([plan.sized(0, 100, 80)]).await;
        let running = bed.instances("g", InstanceState::Running);
        let (victims, survivors) = running.split_at(50);
        let mut calls = JoinSet::new();
        for victim in victims.iter().cloned() {
            let fleet = Arc::clone(&bed.fleet);
            calls.spawn(async move { fleet.mutate("g", Ask::Delete(named(&[victim])), limit(5)).await });
        }
        for outcome in calls.join_all().await {
            outcome.expect(kind);
        }
        assert_eq!(bed.target("g"), 30, "{kind}");
        assert!(bed.calls(CallKind::DeleteInstances) <= 2, "{kind}");
        bed.until("they are gone", |bed| bed.instances("g", InstanceState::Deleting).is_empty()).await;
        assert_eq!(bed.instances("g", InstanceState::Running), survivors, "{kind}");
        assert_eq!((bed.target("g"), bed.capacity("g")), (30, 30), "{kind}");
        bed.nobody_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn deletes_that_fail_later_leave_no_wrong_count_behind() {
    for habit in [Accounting::WhenGone, Accounting::OnAccept] {
        let failure = PlannedFailure::other("CannotAllocateRemainingVMsInAvailabilitySet", "cannot");
        let plan = GroupPlan::azure("g").sized(1, 200, 86).accounting(habit);
        let bed = Bed::with([plan.deletions(Pick::Always, DeleteOutcome::FailsLater(failure))]).await;
        for round in 0..3 {
            let victims = bed.instances("g", InstanceState::Running)[..38].to_vec();
            bed.delete("g", &victims).await.expect("accepted");
            assert_eq!(bed.target("g"), 48, "{habit:?}, round {round}");
            bed.until("all run again", |bed| bed.instances("g", InstanceState::Running).len() == 86).await;
            assert_eq!(bed.target("g"), 86, "{habit:?}, round {round}");
        }
        bed.increase("g", 5).await.expect("accepted");
        assert_eq!((bed.target("g"), bed.capacity("g")), (91, 91), "{habit:?}");
        bed.nobody_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn a_scale_up_during_deletions_keeps_both() {
    for (kind, plan) in kinds() {
        let bed = Bed::with([plan.sized(1, 200, 86).delete_time(seconds(120))]).await;
        let victims = bed.instances("g", InstanceState::Running)[..38].to_vec();
        bed.delete("g", &victims).await.expect(kind);
        bed.increase("g", 2).await.expect(kind);
        assert_eq!(bed.target("g"), 50, "{kind}");
        bed.until("all is done", |bed| bed.instances("g", InstanceState::Running).len() == 50).await;
        bed.until("the capacity agrees", |bed| bed.capacity("g") == 50).await;
        assert_eq!(bed.target("g"), 50, "{kind}");
        bed.nobody_was_killed();
    }
}

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
async fn a_capacity_read_as_zero_is_neither_published_nor_written_on() {
    for (kind, plan) in kinds() {
        let bed = Bed::with([plan.sized(0, 200, 90)]).await;
        bed.cloud().faults(|faults| faults.distort(None, "g", 1, Distortion::Capacity(0)));
        bed.increase("g", 1).await.expect(kind);
        assert_eq!((bed.target("g"), bed.capacity("g")), (91, 91), "{kind}");
        bed.cloud().faults(|faults| faults.distort(None, "g", 1, Distortion::Capacity(0)));
        for _ in 0..100 {
            sleep(Duration::from_millis(100)).await;
            assert_eq!(bed.target("g"), 91, "{kind}");
        }
        bed.nobody_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_group_is_reported_once_two_readings_say_so() {
    let bed = Bed::with([GroupPlan::azure("g").sized(0, 200, 20)]).await;
    bed.cloud().set_desired_externally("g", 0).expect("exists");
    bed.until("it is empty", |bed| bed.target("g") == 0 && bed.instances("g", InstanceState::Running).is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_is_lost_is_found_out_about() {
    for mishap in [Mishap::LostAnswer, Mishap::Garbled] {
        for (kind, plan) in kinds() {
            let bed = Bed::with([plan.sized(0, 10, 4)]).await;
            bed.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), None, 1, mishap.clone()));
            bed.increase("g", 2).await.expect(kind);
            assert_eq!((bed.target("g"), bed.capacity("g")), (6, 6), "{kind}");
            bed.until("six run", |bed| bed.instances("g", InstanceState::Running).len() == 6).await;

            bed.cloud().faults(|faults| faults.script(Some(CallKind::DeleteInstances), None, 1, mishap.clone()));
            let victim = bed.instances("g", InstanceState::Running)[0].clone();
            bed.delete("g", &[victim]).await.expect(kind);
            assert_eq!(bed.target("g"), 5, "{kind}");
            assert_eq!(bed.calls(CallKind::DeleteInstances), 1, "{kind}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_changes_nothing_and_says_so() {
    let mishaps = [Mishap::Throttled { retry_after: None }, Mishap::Unreachable, Mishap::Denied, Mishap::Refused];
    for mishap in mishaps {
        let bed = Bed::with([GroupPlan::aws("g").sized(0, 10, 4)]).await;
        bed.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), None, 1, mishap.clone()));
        let error = bed.increase("g", 2).await.expect_err("it was not written");
        assert!(matches!(error, FleetError::Cloud { .. }), "{error}");
        assert_eq!((bed.target("g"), bed.capacity("g")), (4, 4), "{mishap:?}");
        assert!(bed.instances("g", InstanceState::Creating).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_computed_again_from_a_new_reading() {
    let bed = Bed::with([GroupPlan::azure("g").sized(0, 100, 4)]).await;
    bed.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), None, 2, Mishap::Conflict));
    bed.cloud().set_desired_externally("g", 9).expect("exists");
    bed.increase("g", 2).await.expect("the third attempt is accepted");
    assert_eq!((bed.target("g"), bed.capacity("g")), (11, 11), "growth from outside is kept");

    bed.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), None, 3, Mishap::Conflict));
    let error = bed.increase("g", 1).await.expect_err("at most twice again");
    assert!(matches!(error, FleetError::Contended { .. }), "{error}");
    assert_eq!(bed.capacity("g"), 11);
}

#[tokio::test(start_paused = true)]
async fn growth_from_outside_is_read_before_a_write_is_computed() {
    for (kind, plan) in kinds() {
        let bed = Bed::with([plan.sized(0, 100, 4)]).await;
        bed.cloud().set_desired_externally("g", 9).expect("exists");
        assert_eq!(bed.target("g"), 4, "{kind}: not listed again yet");
        bed.increase("g", 2).await.expect(kind);
        assert_eq!((bed.target("g"), bed.capacity("g")), (11, 11), "{kind}");
        bed.nobody_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn growth_from_outside_under_a_write_is_kept() {
    let bed = Bed::with([GroupPlan::azure("g").sized(0, 100, 4)]).await;
    let slow = Mishap::Slow(Duration::from_secs(2));
    bed.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), None, 1, slow));
    let somebody_else = async {
        bed.until("the write is on its way", |bed| bed.calls(CallKind::SetCapacity) == 1).await;
        bed.cloud().set_desired_externally("g", 9).expect("exists");
    };
    let (outcome, ()) = tokio::join!(bed.increase("g", 2), somebody_else);
    outcome.expect("read again, computed again");
    assert_eq!((bed.target("g"), bed.capacity("g")), (11, 11));
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

#[tokio::test(start_paused = true)]
async fn what_was_not_sent_in_time_is_never_sent() {
    let bed = Bed::with([GroupPlan::aws("g").sized(0, 10, 4)]).await;
    let slow = Mishap::Slow(Duration::from_secs(10));
    bed.cloud().faults(|faults| faults.script(Some(CallKind::Observe), None, 1, slow));
    let asked = Instant::now();
    let error = bed.increase("g", 1).await.expect_err("no time");
    assert!(matches!(error, FleetError::NotSent { .. }), "{error}");
    assert!(asked.elapsed() < Duration::from_secs(5));
    sleep(Duration::from_secs(60)).await;
    assert_eq!((bed.target("g"), bed.calls(CallKind::SetCapacity)), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_is_finished_though_its_caller_has_gone() {
    let bed = Bed::with([GroupPlan::aws("g").sized(0, 10, 4)]).await;
    let slow = Mishap::Slow(Duration::from_secs(10));
    bed.cloud().faults(|faults| faults.script(Some(CallKind::SetCapacity), None, 1, slow));
    let error = bed.increase("g", 1).await.expect_err("too slow to be answered");
    assert!(matches!(error, FleetError::StillRunning { .. }), "{error}");
    bed.until("it shows", |bed| bed.target("g") == 5).await;

    let call = bed.fleet.mutate("g", Ask::Increase(1), limit(5));
    let _gone = timeout(Duration::from_millis(1), call).await;
    bed.until("it shows", |bed| bed.target("g") == 6).await;
}

#[tokio::test(start_paused = true)]
async fn while_the_cloud_is_down_reads_go_on_and_writes_say_so() {
    let bed = Bed::with([GroupPlan::aws("g").sized(0, 10, 4)]).await;
    bed.cloud().faults(|faults| faults.down = true);
    for _ in 0..5 {
        sleep(Duration::from_secs(10)).await;
        assert_eq!(bed.target("g"), 4);
        bed.fleet.refresh(Instant::now() + Duration::from_secs(4)).await.expect("fresh enough to go on with");
        let error = bed.increase("g", 1).await.expect_err("the cloud is down");
        assert!(matches!(error, FleetError::Cloud { .. }), "{error}");
    }
    sleep(Duration::from_secs(120)).await;
    let error = bed.fleet.refresh(Instant::now() + Duration::from_secs(4)).await.expect_err("nothing is fresh enough");
    assert!(matches!(error, FleetError::Stale { .. }), "{error}");
    assert_eq!(bed.target("g"), 4, "what is known is served all the same");
    bed.cloud().faults(|faults| faults.down = false);
    bed.until("it is read again", |bed| bed.fleet.problems().is_empty()).await;
    bed.fleet.refresh(Instant::now() + Duration::from_secs(4)).await.expect("fresh again");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_never_could_be_read_is_waited_for_and_then_left_out() {
    let broken = Simulated::with_groups(1, [GroupPlan::aws("lost")]);
    broken.faults(|faults| faults.down = true);
    let healthy = Simulated::with_groups(2, [GroupPlan::aws("g").sized(0, 9, 3)]);
    let bed = Bed::cold([("down", broken), ("up", healthy)]);
    let error = bed.fleet.wait_ready(Instant::now() + Duration::from_secs(4)).await.expect_err("one is missing");
    assert!(error.to_string().contains("down: "), "{error}");
    bed.ready().await;
    assert_eq!(bed.target("g"), 3);
    assert!(bed.fleet.snapshot().group("lost").is_none());
    bed.cloud().faults(|faults| faults.down = false);
    bed.until("the other one joins", |bed| bed.fleet.snapshot().group("lost").is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn a_group_that_vanishes_goes_alone_and_comes_back_with_its_instances() {
    let bed = Bed::with([GroupPlan::aws("a").sized(0, 9, 2), GroupPlan::aws("b").sized(0, 9, 3)]).await;
    bed.cloud().faults(|faults| faults.distort(None, "a", 1, Distortion::Missing));
    sleep(Duration::from_secs(20)).await;
    assert_eq!(bed.target("a"), 2, "one reading without it is not enough");
    bed.cloud().remove_group("a");
    bed.until("it is gone", |bed| bed.fleet.snapshot().group("a").is_none()).await;
    assert_eq!(bed.target("b"), 3);
    assert!(matches!(bed.increase("a", 1).await, Err(FleetError::UnknownGroup { .. })));
    bed.cloud().restore_group("a");
    bed.until("it is back", |bed| bed.fleet.snapshot().group("a").is_some()).await;
    assert_eq!(bed.target("a"), 2);
}

#[tokio::test(start_paused = true)]
async fn two_groups_of_one_name_are_told_apart_by_their_source() {
    let group = |size| Simulated::with_groups(1, [GroupPlan::aws("g").sized(0, 9, size)]);
    let bed = Bed::cold([("one", group(2)), ("two", group(3))]);
    bed.ready().await;
    assert_eq!((bed.target("one/g"), bed.target("two/g")), (2, 3));
    assert!(bed.fleet.snapshot().group("g").is_none());
    let node = bed.instances("two/g", InstanceState::Running)[0].clone();
    let snapshot = bed.fleet.snapshot();
    let owner = snapshot.group_of(node.as_str()).map(|(id, _)| id.to_string());
    assert!(owner.is_some_and(|owner| owner.ends_with("/g")));
    drop(snapshot);
    bed.clouds[1].remove_group("g");
    bed.until("one name is free again", |bed| bed.fleet.snapshot().group("g").is_some()).await;
    assert_eq!(bed.target("g"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_node_keeps_its_group_for_a_while_after_its_instance_is_gone() {
    let bed = Bed::with([GroupPlan::azure("g").sized(0, 9, 3)]).await;
    let node = bed.instances("g", InstanceState::Running)[0].clone();
    bed.delete("g", std::slice::from_ref(&node)).await.expect("accepted");
    bed.until("it is gone", |bed| bed.instances("g", InstanceState::Deleting).is_empty()).await;
    let owner = |bed: &Bed, id: &str| bed.fleet.snapshot().group_of(id).map(|(id, _)| id.to_string());
    assert_eq!(owner(&bed, node.as_str()).as_deref(), Some("g"));
    assert_eq!(owner(&bed, &node.as_str().to_uppercase()).as_deref(), Some("g"), "in any case");
    sleep(Duration::from_secs(11 * 60)).await;
    assert_eq!(owner(&bed, node.as_str()), None);
}

#[tokio::test(start_paused = true)]
async fn nodes_of_other_groups_and_clouds_are_refused_and_nothing_is_done() {
    let bed = Bed::with([GroupPlan::azure("g").sized(0, 9, 3), GroupPlan::azure("h").sized(0, 9, 3)]).await;
    let own = bed.instances("g", InstanceState::Running)[0].clone();
    let other = bed.instances("h", InstanceState::Running)[0].clone();
    for foreign in [other, ProviderId::from(""), ProviderId::from("gce://p/z/i"), ProviderId::from("garbage")] {
        let error = bed.delete("g", &[own.clone(), foreign.clone()]).await.expect_err("foreign");
        assert!(matches!(error, FleetError::Malformed(_)), "{foreign}: {error}");
    }
    let many: Vec<ProviderId> = std::iter::repeat_n(own, 10_000).collect();
    assert!(matches!(bed.delete("g", &many).await, Err(FleetError::Malformed(_))));
    assert_eq!((bed.target("g"), bed.target("h"), bed.calls(CallKind::DeleteInstances)), (3, 3, 0));
}

#[tokio::test(start_paused = true)]
async fn deletes_are_judged_whole_in_the_order_of_arrival_while_there_is_room() {
    let bed = Bed::with([GroupPlan::aws("g").sized(3, 9, 5)]).await;
    let running = bed.instances("g", InstanceState::Running);
    let (three, two) = running.split_at(3);
    let (whole, fits) = tokio::join!(bed.delete("g", three), bed.delete("g", two));
    let refused = matches!(whole, Err(FleetError::Refused { refusal: Refusal::BelowMin { .. }, .. }));
    assert!(refused && fits.is_ok(), "{whole:?} {fits:?}");
    assert_eq!(bed.target("g"), 3);
    bed.until("two are gone", |bed| bed.instances("g", InstanceState::Running).len() == 3).await;
    assert_eq!(bed.instances("g", InstanceState::Running), three);
}

#[tokio::test(start_paused = true)]
async fn single_deletes_that_together_would_break_the_minimum_stop_at_it() {
    for (kind, plan) in kinds() {
        let bed = Bed::with([plan.sized(3, 9, 5)]).await;
        let running = bed.instances("g", InstanceState::Running);
        let outcomes = futures_util::future::join_all(running.chunks(1).map(|one| bed.delete("g", one))).await;
        let is_done: Vec<bool> = outcomes.iter().map(Result::is_ok).collect();
        assert_eq!(is_done, [true, true, false, false, false], "{kind}: in the order of arrival");
        assert_eq!(bed.target("g"), 3, "{kind}");
        bed.until("two are gone", |bed| bed.instances("g", InstanceState::Deleting).is_empty()).await;
        assert_eq!(bed.instances("g", InstanceState::Running), running[2..], "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_cloud_says_is_gone_is_told_so_though_reads_lag_behind() {
    for (kind, plan) in kinds() {
        let bed = Bed::with([plan.sized(0, 9, 5)]).await;
        let lag = Distortion::Stale(Duration::from_secs(3));
        bed.cloud().faults(|faults| faults.distort(Some(CallKind::Observe), "g", 2, lag));
        sleep(Duration::from_secs(6)).await;
        let gone = bed.cloud().evict("g", 1).expect("exists");
        assert!(bed.instances("g", InstanceState::Running).contains(&gone[0]), "{kind}: nobody has looked");
        bed.delete("g", &gone).await.expect(kind);
        assert!(!bed.instances("g", InstanceState::Running).contains(&gone[0]), "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn part_of_a_batch_that_the_cloud_refuses_is_named_and_the_rest_is_done() {
    let refused = DeleteOutcome::Refused(PlannedFailure::other("ResourceContention", "busy"));
    let bed = Bed::with([GroupPlan::aws("g").sized(0, 9, 5).deletions(Pick::First(1), refused)]).await;
    let running = bed.instances("g", InstanceState::Running);
    let error = bed.delete("g", &running[..3]).await.expect_err("one is refused");
    assert!(matches!(&error, FleetError::PartlyRefused { refused, .. } if refused.len() == 1), "{error}");
    assert!(error.to_string().contains(running[0].as_str()), "{error}");
    assert_eq!(bed.target("g"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_restart_in_the_middle_of_deletions_tells_the_truth_from_the_first_answer() {
    for (kind, plan) in kinds() {
        let bed = Bed::with([plan.sized(0, 100, 40).delete_time(seconds(300))]).await;
        let victims = bed.instances("g", InstanceState::Running)[..15].to_vec();
        bed.delete("g", &victims).await.expect(kind);
        let Bed { fleet, clouds } = bed;
        drop(fleet);
        let settings = Settings {
            sources: vec![(Arc::from("sim"), Arc::clone(&clouds[0]) as SharedCloud)],
            refresh_interval: Duration::from_secs(5),
            catalog: Arc::new(Catalog::new(Vec::new())),
            policies: Arc::new(Policies::default()),
        };
        let bed = Bed { fleet: Arc::new(Fleet::start(settings)), clouds };
        bed.ready().await;
        assert_eq!(bed.target("g"), 25, "{kind}");
        assert_eq!(bed.instances("g", InstanceState::Deleting).len(), 15, "{kind}");
        bed.increase("g", 1).await.expect(kind);
        assert_eq!(bed.target("g"), 26, "{kind}");
        bed.nobody_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn deletions_that_were_preempted_are_asked_for_again_together() {
    let plan = GroupPlan::azure("g").sized(0, 20, 6).overlap(Overlap::Preempt).delete_time(seconds(10));
    let bed = Bed::with([plan]).await;
    let running = bed.instances("g", InstanceState::Running);
    for victim in &running[..2] {
        bed.delete("g", std::slice::from_ref(victim)).await.expect("accepted");
    }
    // The second has made the first void, and this makes the second void.
    bed.cloud().set_desired_externally("g", 7).expect("exists");
    let of_first =
        |bed: &Bed| bed.instances("g", InstanceState::Running).iter().filter(|id| running.contains(id)).count();
    sleep(Duration::from_secs(60)).await;
    bed.until("the other one runs", |bed| bed.instances("g", InstanceState::Running).len() == 5).await;
    assert_eq!((of_first(&bed), bed.calls(CallKind::DeleteInstances)), (4, 3), "two deletions, and one of both");
    assert_eq!((bed.target("g"), bed.capacity("g")), (5, 5));
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_began_before_a_write_says_nothing_of_it() {
    let bed = Bed::with([GroupPlan::aws("g").sized(0, 20, 4)]).await;
    bed.cloud().faults(|faults| {
        faults.script(Some(CallKind::List), None, 1, Mishap::Slow(Duration::from_secs(3)));
        faults.distort(Some(CallKind::List), "g", 1, Distortion::Stale(Duration::from_secs(4)));
    });
    let listings = bed.calls(CallKind::List);
    bed.until("a listing has begun", |bed| bed.calls(CallKind::List) > listings).await;
    bed.cloud().set_desired_externally("g", 5).expect("exists");
    bed.increase("g", 1).await.expect("computed from a reading of its own");
    bed.until("the listing has come", |bed| !bed.cloud().faults(|faults| faults.is_distorting())).await;
    for _ in 0..20 {
        assert_eq!(bed.target("g"), 6);
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn growth_in_one_batch_with_a_deletion_is_computed_from_a_reading_after_it() {
    let bed = Bed::with([GroupPlan::aws("g").sized(0, 20, 6)]).await;
    let victim = bed.instances("g", InstanceState::Running)[..1].to_vec();
    // The second reading, by which the deletion would be seen, fails.
    bed.cloud().faults(|faults| {
        faults.script(Some(CallKind::Observe), None, 1, Mishap::Slow(Duration::from_millis(1)));
        faults.script(Some(CallKind::Observe), None, 1, Mishap::Unreachable);
    });
    let (deleted, grown) = tokio::join!(bed.delete("g", &victim), bed.increase("g", 2));
    deleted.expect("accepted");
    grown.expect("accepted");
    assert_eq!((bed.target("g"), bed.capacity("g")), (7, 7));
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_gone_when_it_is_read_for_a_write_is_not_written_to() {
    let bed = Bed::with([GroupPlan::aws("g").sized(0, 9, 2)]).await;
    let victim = bed.instances("g", InstanceState::Running)[..1].to_vec();
    bed.cloud().remove_group("g");
    let outcome = bed.delete("g", &victim).await;
    assert!(matches!(outcome, Err(FleetError::UnknownGroup { .. })), "{outcome:?}");
    assert_eq!(bed.calls(CallKind::DeleteInstances), 0);
}
