//! Which readings are used, and what is served while there is none.

use std::sync::Arc;
use std::time::Duration;

use headcount::cloud::{InstanceState, ProviderId};
use headcount::clouds::simulated::{CallFault, CallKind, GroupPlan, LaunchOutcome, Pick, ReadFault, Simulated};
use headcount::fleet::{FleetError, Mutation};
use tokio::time::{Instant, sleep};

use super::fixture::{Fixture, kinds, limit, no_capacity, seconds};

#[tokio::test(start_paused = true)]
async fn a_capacity_read_as_zero_is_neither_published_nor_used_for_a_write() {
    for (kind, plan) in kinds() {
        let fixture = Fixture::with([plan.sized(0, 200, 90)]).await;
        fixture.cloud().faults(|faults| faults.script_read(None, "g", 1, ReadFault::Capacity(0)));
        fixture.increase("g", 1).await.expect(kind);
        assert_eq!((fixture.target("g"), fixture.capacity("g")), (91, 91), "{kind}");
        fixture.cloud().faults(|faults| faults.script_read(None, "g", 1, ReadFault::Capacity(0)));
        for _ in 0..100 {
            sleep(Duration::from_millis(100)).await;
            assert_eq!(fixture.target("g"), 91, "{kind}");
        }
        fixture.no_instance_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_group_is_reported_once_two_reads_show_it() {
    let fixture = Fixture::with([GroupPlan::azure("g").sized(0, 200, 20)]).await;
    fixture.cloud().set_desired_externally("g", 0).expect("exists");
    fixture
        .until("it is empty", |fixture| {
            fixture.target("g") == 0 && fixture.instances("g", InstanceState::Running).is_empty()
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_fall_that_a_write_met_is_confirmed_without_waiting_for_a_listing() {
    let fixture = Fixture::with([GroupPlan::aws("g").sized(0, 20, 13)]).await;
    let listings = fixture.calls(CallKind::List);
    fixture.until("a listing has begun", |fixture| fixture.calls(CallKind::List) > listings).await;
    sleep(Duration::from_millis(500)).await;
    fixture.cloud().set_desired_externally("g", 5).expect("exists");
    let error =
        fixture.fleet.mutate("g", Mutation::Increase(1), limit(1)).await.expect_err("no time for a second read");
    assert!(matches!(error, FleetError::Contended { .. }), "{error}");
    fixture.until("the fall is confirmed", |fixture| fixture.target("g") == 5).await;
    assert_eq!(fixture.calls(CallKind::List), listings + 1, "no other listing was needed");
}

#[tokio::test(start_paused = true)]
async fn two_wrong_reads_at_the_same_moment_do_not_confirm_each_other() {
    let fixture = Fixture::with([GroupPlan::aws("g").sized(0, 20, 13)]).await;
    fixture.cloud().faults(|faults| faults.script_read(Some(CallKind::List), "g", 1, ReadFault::Capacity(0)));
    let are_all_read = |fixture: &Fixture| !fixture.cloud().faults(|faults| faults.has_scripted_reads());
    fixture.until("a listing shows 0", are_all_read).await;
    // The write reads twice before it waits.
    fixture.cloud().faults(|faults| faults.script_read(Some(CallKind::Observe), "g", 2, ReadFault::Capacity(0)));
    let watch = async {
        for _ in 0..20 {
            sleep(Duration::from_millis(100)).await;
            assert!(fixture.target("g") >= 13, "{}", fixture.target("g"));
        }
    };
    let (written, ()) = tokio::join!(fixture.increase("g", 1), watch);
    written.expect("read again");
    assert!(are_all_read(&fixture), "the write read both");
    assert_eq!((fixture.target("g"), fixture.capacity("g")), (14, 14));
    fixture.no_instance_was_killed();
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_began_before_a_write_does_not_replace_it() {
    let fixture = Fixture::with([GroupPlan::aws("g").sized(0, 20, 4)]).await;
    fixture.cloud().faults(|faults| {
        faults.script(Some(CallKind::List), None, 1, CallFault::Slow(Duration::from_secs(3)));
        faults.script_read(Some(CallKind::List), "g", 1, ReadFault::Stale(Duration::from_secs(4)));
    });
    let listings = fixture.calls(CallKind::List);
    fixture.until("a listing has begun", |fixture| fixture.calls(CallKind::List) > listings).await;
    fixture.cloud().set_desired_externally("g", 5).expect("exists");
    fixture.increase("g", 1).await.expect("computed from a reading of its own");
    fixture
        .until("the listing has arrived", |fixture| !fixture.cloud().faults(|faults| faults.has_scripted_reads()))
        .await;
    for _ in 0..20 {
        assert_eq!(fixture.target("g"), 6);
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_cloud_is_down_reads_continue_and_writes_fail() {
    let fixture = Fixture::with([GroupPlan::aws("g").sized(0, 10, 4)]).await;
    fixture.cloud().faults(|faults| faults.down = true);
    for _ in 0..5 {
        sleep(Duration::from_secs(10)).await;
        assert_eq!(fixture.target("g"), 4);
        fixture.fleet.refresh(Instant::now() + Duration::from_secs(4)).await.expect("fresh enough");
        let error = fixture.increase("g", 1).await.expect_err("the cloud is down");
        assert!(matches!(error, FleetError::Cloud { .. }), "{error}");
    }
    sleep(Duration::from_secs(120)).await;
    let error =
        fixture.fleet.refresh(Instant::now() + Duration::from_secs(4)).await.expect_err("nothing is fresh enough");
    assert!(matches!(error, FleetError::Stale { .. }), "{error}");
    assert_eq!(fixture.target("g"), 4, "the last known size is still served");
    fixture.cloud().faults(|faults| faults.down = false);
    fixture.until("it is read again", |fixture| fixture.fleet.problems().is_empty()).await;
    fixture.fleet.refresh(Instant::now() + Duration::from_secs(4)).await.expect("fresh again");
}

#[tokio::test(start_paused = true)]
async fn groups_of_a_source_that_is_down_are_served_as_full() {
    let lost = Simulated::with_groups(1, [GroupPlan::aws("lost").sized(0, 9, 3)]);
    let healthy = Simulated::with_groups(2, [GroupPlan::aws("g").sized(0, 9, 3)]);
    let fixture = Fixture::cold([("down", lost), ("up", healthy)]);
    fixture.ready().await;
    let max = |id: &str| {
        let snapshot = Arc::clone(&fixture.fleet.snapshot());
        let (_, view) = snapshot.group(id).expect("it is served");
        fixture.fleet.max(&fixture.fleet.headrooms(&snapshot), view)
    };
    assert_eq!((max("lost"), max("g")), (9, 9));
    fixture.cloud().faults(|faults| faults.down = true);
    fixture.until("it cannot be listed", |fixture| !fixture.fleet.problems().is_empty()).await;
    assert_eq!(max("lost"), 9, "it may be over in a moment");
    sleep(Duration::from_secs(150)).await;
    assert_eq!((max("lost"), max("g")), (3, 9), "so that CA turns to the other one");
    fixture.cloud().faults(|faults| faults.down = false);
    fixture.until("it is listed again", |_| max("lost") == 9).await;
}

#[tokio::test(start_paused = true)]
async fn a_source_that_could_never_be_read_is_left_out_after_a_wait() {
    let broken = Simulated::with_groups(1, [GroupPlan::aws("lost")]);
    broken.faults(|faults| faults.down = true);
    let healthy = Simulated::with_groups(2, [GroupPlan::aws("g").sized(0, 9, 3)]);
    let fixture = Fixture::cold([("down", broken), ("up", healthy)]);
    let error = fixture.fleet.wait_ready(Instant::now() + Duration::from_secs(4)).await.expect_err("one is missing");
    assert!(error.to_string().contains("down: "), "{error}");
    fixture.ready().await;
    assert_eq!(fixture.target("g"), 3);
    assert!(fixture.fleet.snapshot().group("lost").is_none());
    fixture.cloud().faults(|faults| faults.down = false);
    fixture.until("the other one joins", |fixture| fixture.fleet.snapshot().group("lost").is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_keeps_its_group_for_a_while_after_its_instance_is_gone() {
    let fixture = Fixture::with([GroupPlan::azure("g").sized(0, 9, 3)]).await;
    let node = fixture.instances("g", InstanceState::Running)[0].clone();
    fixture.delete("g", std::slice::from_ref(&node)).await.expect("accepted");
    fixture.until("it is gone", |fixture| fixture.instances("g", InstanceState::Deleting).is_empty()).await;
    let owner = |fixture: &Fixture, id: &str| fixture.fleet.snapshot().group_of(id).map(|(id, _)| id.to_string());
    assert_eq!(owner(&fixture, node.as_str()).as_deref(), Some("g"));
    assert_eq!(owner(&fixture, &node.as_str().to_uppercase()).as_deref(), Some("g"), "in any case");
    sleep(Duration::from_secs(11 * 60)).await;
    assert_eq!(owner(&fixture, node.as_str()), None);
    let in_capitals = ProviderId::from(node.as_str().to_uppercase());
    fixture.delete("g", &[node, in_capitals]).await.expect("gone, in any case");
    assert_eq!(fixture.calls(CallKind::DeleteInstances), 1);
}

#[tokio::test(start_paused = true)]
async fn two_groups_of_one_name_are_distinguished_by_their_source() {
    let group = |size| Simulated::with_groups(1, [GroupPlan::aws("g").sized(0, 9, size)]);
    let fixture = Fixture::cold([("one", group(2)), ("two", group(3))]);
    fixture.ready().await;
    assert_eq!((fixture.target("one/g"), fixture.target("two/g")), (2, 3));
    assert!(fixture.fleet.snapshot().group("g").is_none());
    let node = fixture.instances("two/g", InstanceState::Running)[0].clone();
    let snapshot = fixture.fleet.snapshot();
    let owner = snapshot.group_of(node.as_str()).map(|(id, _)| id.to_string());
    assert!(owner.is_some_and(|owner| owner.ends_with("/g")));
    drop(snapshot);
    fixture.clouds[1].remove_group("g");
    fixture.until("one name is free again", |fixture| fixture.fleet.snapshot().group("g").is_some()).await;
    assert_eq!(fixture.target("g"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_vanishes_affects_no_other_and_returns_with_its_instances() {
    let fixture = Fixture::with([GroupPlan::aws("a").sized(0, 9, 2), GroupPlan::aws("b").sized(0, 9, 3)]).await;
    fixture.cloud().faults(|faults| faults.script_read(None, "a", 1, ReadFault::Missing));
    sleep(Duration::from_secs(20)).await;
    assert_eq!(fixture.target("a"), 2, "one reading without it is not enough");
    fixture.cloud().remove_group("a");
    fixture.until("it is gone", |fixture| fixture.fleet.snapshot().group("a").is_none()).await;
    assert_eq!(fixture.target("b"), 3);
    assert!(matches!(fixture.increase("a", 1).await, Err(FleetError::UnknownGroup { .. })));
    fixture.cloud().restore_group("a");
    fixture.until("it is back", |fixture| fixture.fleet.snapshot().group("a").is_some()).await;
    assert_eq!(fixture.target("a"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_gone_when_it_is_read_for_a_write_is_not_written_to() {
    let fixture = Fixture::with([GroupPlan::aws("g").sized(0, 9, 2)]).await;
    let victim = fixture.instances("g", InstanceState::Running)[..1].to_vec();
    fixture.cloud().remove_group("g");
    let outcome = fixture.delete("g", &victim).await;
    assert!(matches!(outcome, Err(FleetError::UnknownGroup { .. })), "{outcome:?}");
    assert_eq!(fixture.calls(CallKind::DeleteInstances), 0);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_vanishes_while_a_placeholder_is_deleted_is_not_served_again() {
    let plan =
        GroupPlan::azure("g").sized(0, 9, 2).launches(Pick::Always, LaunchOutcome::fails(no_capacity(), seconds(2)));
    let fixture = Fixture::that_lowers([plan]).await;
    fixture.increase("g", 2).await.expect("accepted");
    fixture.until("they have failed", |fixture| fixture.failed("g").len() == 2).await;
    let placeholders = fixture.failed("g");
    let latency = Duration::from_millis(50);
    fixture.cloud().faults(|faults| faults.rates.latency = latency..=latency);
    let vanish = async {
        // Once the placeholders are out of the target, the instances are read to lower the capacity.
        while !fixture.failed("g").is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
        fixture.cloud().remove_group("g");
    };
    let (outcome, ()) = tokio::join!(fixture.delete("g", &placeholders), vanish);
    assert!(matches!(outcome, Err(FleetError::UnknownGroup { .. })), "{outcome:?}");
    assert!(fixture.fleet.snapshot().group("g").is_none(), "by the time that the caller knows");
    sleep(Duration::from_secs(60)).await;
    assert!(fixture.fleet.snapshot().group("g").is_none());
}

#[tokio::test(start_paused = true)]
async fn not_found_responses_do_not_prevent_a_write_if_another_read_finds_the_group() {
    // The capacity is read first, and then the instances.
    for not_found in [1, 2] {
        let fixture = Fixture::with([GroupPlan::aws("g").sized(0, 9, 2)]).await;
        fixture
            .cloud()
            .faults(|faults| faults.script_read(Some(CallKind::Observe), "g", not_found, ReadFault::Missing));
        fixture.increase("g", 1).await.expect("it exists");
        assert_eq!((fixture.target("g"), fixture.capacity("g")), (3, 3));
    }
}

#[tokio::test(start_paused = true)]
async fn new_instances_are_in_the_target_at_once_and_listed_some_seconds_later() {
    for (kind, plan) in kinds() {
        let fixture = Fixture::with([plan.sized(0, 20, 2).launch_time(seconds(20))]).await;
        let listed = |fixture: &Fixture| {
            let snapshot = fixture.fleet.snapshot();
            let (_, view) = snapshot.group("g").expect("served");
            view.listed(Instant::now()).map(|reported| reported.id.clone()).collect::<Vec<_>>()
        };
        assert_eq!(listed(&fixture).len(), 2, "{kind}: instances that exist at the start are listed at once");
        fixture.increase("g", 3).await.expect(kind);
        assert_eq!((fixture.target("g"), listed(&fixture).len()), (5, 2), "{kind}");
        let coming = fixture.instances("g", InstanceState::Creating)[0].clone();
        assert!(fixture.fleet.snapshot().group_of(coming.as_str()).is_some(), "{kind}: a node of it has a group");
        sleep(Duration::from_millis(5500)).await;
        assert_eq!(listed(&fixture).len(), 2, "{kind}: not in three loops that are 2 s apart");
        // An instance that replaces a placeholder is new again.
        fixture.until("they are listed", |fixture| listed(fixture).len() == 5).await;
        let victim = fixture.instances("g", InstanceState::Running)[0].clone();
        fixture.delete("g", &[victim]).await.expect(kind);
        fixture.until("it is gone", |fixture| fixture.instances("g", InstanceState::Deleting).is_empty()).await;
        assert_eq!((fixture.target("g"), listed(&fixture).len()), (4, 4), "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_launch_is_listed_at_once() {
    let outcome = LaunchOutcome::fails(no_capacity(), seconds(1));
    let fixture = Fixture::with([GroupPlan::aws("g").sized(0, 9, 0).launches(Pick::Always, outcome)]).await;
    fixture.increase("g", 1).await.expect("accepted");
    fixture.until("the failure is known", |fixture| !fixture.failed("g").is_empty()).await;
    let snapshot = fixture.fleet.snapshot();
    let (_, view) = snapshot.group("g").expect("served");
    assert_eq!(view.listed(Instant::now()).count(), 1, "CA backs the group off in its next loop");
}
