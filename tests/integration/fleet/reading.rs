//! What is believed of a reading, and what is served while there is none.

use std::time::Duration;

use headcount::cloud::InstanceState;
use headcount::cloud::simulated::{CallKind, Distortion, GroupPlan, Mishap, Simulated};
use headcount::fleet::FleetError;
use tokio::time::{Instant, sleep};

use super::bed::{Bed, kinds};

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
async fn a_group_that_is_gone_when_it_is_read_for_a_write_is_not_written_to() {
    let bed = Bed::with([GroupPlan::aws("g").sized(0, 9, 2)]).await;
    let victim = bed.instances("g", InstanceState::Running)[..1].to_vec();
    bed.cloud().remove_group("g");
    let outcome = bed.delete("g", &victim).await;
    assert!(matches!(outcome, Err(FleetError::UnknownGroup { .. })), "{outcome:?}");
    assert_eq!(bed.calls(CallKind::DeleteInstances), 0);
}

#[tokio::test(start_paused = true)]
async fn one_answer_that_there_is_no_such_group_keeps_no_write_from_it() {
    let bed = Bed::with([GroupPlan::aws("g").sized(0, 9, 2)]).await;
    bed.cloud().faults(|faults| faults.distort(Some(CallKind::Observe), "g", 1, Distortion::Missing));
    bed.increase("g", 1).await.expect("it exists");
    assert_eq!((bed.target("g"), bed.capacity("g")), (3, 3));
}
