//! The outcomes of a deletion, for every response of the cloud.

use super::super::doubt::{Doubt, doubt};
use super::*;

#[test]
fn a_deletion_without_a_response_counts_as_done_until_a_read_settles_it() {
    let lost = || {
        let mut group = Group::new(5, running(0..5));
        group.state.lose_deletion(OperationId(9), ids(0..2).into_iter().collect(), wall(1), group.now);
        assert_eq!((group.target(), group.reported(InstanceState::Deleting)), (3, 2));
        group
    };
    let mut group = lost();
    group.see(5, running(0..5));
    assert_eq!(group.target(), 3, "a read may lag behind");
    assert!(group.state.in_flight().is_unsettled(&id(0)));
    group.now = group.now + Duration::from_secs(31);
    group.see(5, running(0..5));
    assert_eq!((group.target(), group.reported(InstanceState::Deleting)), (5, 0), "it did not take effect");
    assert!(!group.state.in_flight().has_unsettled());

    let mut group = lost();
    group.see(4, all(&[deleting(0..1, Counts::No), running(1..5)]));
    assert!(!group.state.in_flight().is_unsettled(&id(0)), "it took effect for this one");
    assert!(group.state.in_flight().is_unsettled(&id(1)));
    assert_eq!(group.target(), 3);
    group.see(3, running(2..5));
    assert!(!group.state.in_flight().has_unsettled());
    assert_eq!(group.target(), 3);
}

#[test]
fn many_calls_for_instances_that_are_gone_push_out_no_deletion_that_runs() {
    let mut group = Group::new(5, running(0..5));
    group.delete(0..1);
    for number in 0..300 {
        group.state.note_leaving(
            OperationId(100 + u64::from(number)),
            &ids(10 + number..11 + number),
            wall(1),
            group.now,
        );
    }
    assert_eq!((group.target(), group.reported(InstanceState::Deleting)), (4, 1));
}

#[test]
fn instances_that_the_cloud_reports_as_leaving_are_leaving() {
    let mut group = Group::new(5, running(0..5));
    group.state.note_leaving(OperationId(99), &ids(0..1), wall(1), group.now);
    group.see(5, running(0..5));
    assert_eq!(group.target(), 4);
    group.now = group.now + Duration::from_secs(40);
    group.see(5, running(0..5));
    assert_eq!(group.target(), 5, "unless the readings go on to say otherwise");
}

#[test]
fn a_deletion_stays_until_a_list_of_instances_is_read() {
    for is_polled in [true, false] {
        let mut group = Group::new(10, running(0..10));
        let delete = group.delete(0..1);
        match is_polled {
            true => group.state.succeed(delete, group.now),
            false => group.state.stop_polling(delete, group.now),
        }
        group.now = group.now + Duration::from_secs(120);
        group.see_capacity(9);
        let shown = (group.target(), group.reported(InstanceState::Deleting));
        assert_eq!(shown, (9, 1), "the list is older than the deletion (polled: {is_polled})");
        group.see(9, running(1..10));
        assert_eq!((group.target(), group.reported(InstanceState::Deleting)), (9, 0));
    }
}

#[test]
fn the_target_is_derived_again_from_each_observation() {
    let mut group = Group::new(5, running(0..5));
    for _ in 0..10 {
        let delete = group.delete(0..2);
        group.see(5, running(0..5));
        assert_eq!(group.target(), 3);
        group.fail(delete, 5, running(0..5));
        assert_eq!(group.target(), 5, "a failed operation leaves nothing behind");
    }
    assert_eq!(census(group.observation(), group.state.in_flight()).shortfall, 0);
}

#[test]
fn instances_of_a_deletion_that_cannot_be_polled_may_live_on_if_they_are_listed_as_running() {
    let mut group = Group::new(5, running(0..5));
    group.see_etag("a", 5, running(0..5));
    let deletion = group.delete(0..2);
    group.state.stop_polling(deletion, group.now);
    assert_eq!((group.target(), group.state.may_live_on()), (3, 0), "the list is older than the deletion");
    group.see_etag("b", 5, all(&[deleting(0..2, Counts::UntilDeleted), running(2..5)]));
    assert_eq!((group.target(), group.state.may_live_on()), (3, 0));
    group.see_etag("b", 5, running(0..5));
    assert_eq!((group.target(), group.state.may_live_on()), (3, 2), "it failed, or the list lags");
    group.see(5, running(0..5));
    assert_eq!((group.target(), group.state.may_live_on()), (3, 0), "a cloud without etags has nothing to poll");
}

#[test]
fn one_empty_list_does_not_settle_a_deletion_without_a_response() {
    let mut group = Group::new(1, running(0..1));
    let ended = group.now;
    group.state.lose_deletion(OperationId(9), ids(0..1).into_iter().collect(), wall(1), ended);
    assert_eq!((group.target(), group.state.may_live_on()), (0, 1));
    group.now = group.now + Duration::from_secs(1);
    let empty = group.reading(1, vec![]);
    let doubted = doubt(&group.state, &empty);
    assert_eq!(
        doubted,
        Some(Doubt::InstancesGone { before: 1, after: 0 }),
        "the list may be wrong, and the instance live"
    );
    group.see(0, deleting(0..1, Counts::UntilDeleted));
    let empty = group.reading(0, vec![]);
    assert_eq!(doubt(&group.state, &empty), None, "it was seen being deleted");
}

/// Three instances, of which the first is this VM.
fn three_with(vm: &str) -> Vec<Instance> {
    let mut instances = running(0..3);
    instances[0].identity = Some(Identity::of(&[vm]));
    instances
}

#[test]
fn an_instance_that_has_the_id_of_a_deleted_one_is_not_being_deleted() {
    let mut group = Group::new(3, running(0..3));
    group.see_etag("1", 3, three_with("old"));
    let operation = group.delete(0..1);
    assert_eq!((group.target(), group.reported(InstanceState::Deleting)), (2, 1));
    group.see_etag("2", 3, three_with("new"));
    assert_eq!((group.target(), group.reported(InstanceState::Deleting)), (3, 0));
    assert!(!group.state.in_flight().deletes(&id(0)));
    let observation = group.tagged("2", 3, three_with("new"));
    group.fail_with(operation, observation);
    assert_eq!((group.target(), group.reported(InstanceState::Running)), (3, 3), "the old deletion has ended");
}

#[test]
fn an_instance_that_has_the_id_of_one_that_was_gone_for_a_while_is_not_being_deleted() {
    let mut group = Group::new(3, running(0..3));
    group.see_etag("1", 3, three_with("old"));
    group.delete(0..1);
    group.see_etag("2", 2, running(1..3));
    group.see_etag("3", 3, three_with("old"));
    assert_eq!(group.reported(InstanceState::Deleting), 1, "the list lagged");
    group.see_etag("4", 2, running(1..3));
    group.see_etag("5", 3, three_with("new"));
    assert_eq!((group.target(), group.reported(InstanceState::Deleting)), (3, 0));
}
