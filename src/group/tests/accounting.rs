//! Whether the capacity still counts instances being deleted.

use super::super::accounting::Accounting;
use super::*;

#[test]
fn a_deletion_that_the_capacity_still_counts_leaves_the_target_at_once_and_comes_back_when_it_fails() {
    let mut group = Group::new(86, running(0..86));
    let delete = group.delete(0..38);
    group.see(86, all(&[deleting(0..38, Counts::UntilDeleted), running(38..86)]));
    assert_eq!(group.target(), 48);
    assert_eq!(group.reported(InstanceState::Deleting), 38);

    group.fail(delete, 86, running(0..86));
    assert_eq!((group.target(), group.reported(InstanceState::Running)), (86, 86));
    assert_eq!(plan::raised_capacity(&group.state, 5), Some(91));
}

#[test]
fn a_deletion_that_the_capacity_no_longer_counts_is_not_subtracted_twice() {
    let mut group = Group::new(86, running(0..86));
    group.delete(0..38);
    group.see(48, all(&[deleting(0..38, Counts::UntilDeleted), running(38..86)]));
    assert_eq!(group.target(), 48);
    assert_eq!(plan::raised_capacity(&group.state, 2), Some(50));
}

#[test]
fn a_surplus_that_begins_during_deletions_does_not_hide_that_the_capacity_counts_them() {
    let leaving = deleting(0..3, Counts::UntilDeleted);
    let mut group = Group::new(7, running(0..7));
    group.delete(0..3);
    // Eight live instances alone would account for the capacity, but four of them are the cloud's own.
    group.see(7, all(&[leaving.clone(), running(3..11)]));
    assert_eq!(group.target(), 4);
    group.see(4, running(3..11));
    assert_eq!(group.target(), 4);

    let mut group = Group::new(7, running(0..7));
    group.delete(0..3);
    group.see(7, all(&[leaving.clone(), running(3..7)]));
    group.see(4, all(&[leaving, running(3..7)]));
    assert_eq!(group.target(), 4, "the list lags: the three are gone");
}

#[test]
fn instances_of_a_deletion_that_has_ended_take_nothing_from_the_capacity_however_long_they_are_listed() {
    let mut group = Group::new(10, running(0..10));
    let delete = group.delete(0..3);
    let leaving = deleting(0..3, Counts::UntilDeleted);
    group.see(10, all(&[leaving.clone(), running(3..10)]));
    group.write(10, 16, Some("raise"));
    group.state.succeed(delete, group.now);
    group.see(13, all(&[leaving, running(3..16)]));
    assert_eq!(group.target(), 13);
}

#[test]
fn a_read_that_shows_a_deletion_does_not_lag_behind_the_scale_up_before_it() {
    let mut group = Group::new(5, counted(0..5));
    group.write(5, 6, None);
    group.delete(0..1);
    group.see(5, all(&[deleting(0..1, Counts::No), counted(1..6)]));
    assert_eq!((group.target(), group.placeholders().len()), (5, 0));
}

#[test]
fn an_instance_that_a_list_lacked_takes_nothing_from_the_capacity_read_with_that_list() {
    let mut group = Group::new(2, running(0..2));
    group.see(2, running(0..4));
    // CA names three more. The last list lacks them, and the next one shows that it was a stale one.
    group.state.note_leaving(OperationId(9), &ids(4..7), wall(1), group.now);
    group.see(2, all(&[running(0..2), running(4..7)]));
    assert_eq!(group.target(), 2);
}

#[test]
fn the_observation_after_the_acceptance_shows_the_accounting() {
    let shows = |desired, instances| {
        let mut group = Group::new(10, running(0..10));
        group.delete(0..4);
        group.see(desired, instances);
        group.state.in_flight().accounting(&id(3))
    };
    let going = all(&[deleting(0..4, Counts::UntilDeleted), running(4..10)]);
    assert_eq!(shows(10, going.clone()), Accounting::Counted);
    assert_eq!(shows(6, going.clone()), Accounting::GivenUp);
    assert_eq!(shows(8, going), Accounting::Unknown, "neither explains it");
    // Two instances are gone already, and the capacity has fallen by them: it still counts the other two.
    let half = all(&[deleting(2..4, Counts::UntilDeleted), running(4..10)]);
    assert_eq!(shows(8, half), Accounting::Counted);
    // Four others have left as well: the capacity may have fallen by them, or by those that were named.
    assert_eq!(shows(6, all(&[deleting(0..4, Counts::UntilDeleted), running(8..10)])), Accounting::Unknown);
}

#[test]
fn a_read_that_is_older_than_the_one_before_brings_nothing_back_that_was_deleted() {
    for has_response in [true, false] {
        let mut group = Group::new(6, counted(0..6));
        if has_response {
            group.delete_with(0..2, None);
        } else {
            let lost = ids(0..2).into_iter().collect();
            group.state.lose_deletion(OperationId(9), lost, wall(1), group.now);
        }
        group.see(4, all(&[deleting(0..2, Counts::No), counted(2..6)]));
        assert!(!group.state.may_be_outdated());
        group.see(6, counted(0..6));
        assert_eq!((group.target(), group.reported(InstanceState::Deleting)), (4, 2), "response: {has_response}");
        assert!(group.state.may_be_outdated(), "no write is computed on it");
        group.see(4, counted(2..6));
        assert_eq!((group.target(), group.state.may_be_outdated()), (4, false));
    }
}

#[test]
fn an_older_read_brings_nothing_back_of_two_deletions_that_one_read_shows() {
    let mut group = Group::new(6, counted(0..6));
    group.delete_with(0..1, None);
    group.see(6, counted(0..6));
    group.delete_with(1..2, None);
    group.see(4, all(&[deleting(0..2, Counts::No), counted(2..6)]));
    group.see(6, counted(0..6));
    assert_eq!((group.target(), group.reported(InstanceState::Deleting)), (4, 2));
    assert!(group.state.may_be_outdated(), "no write is computed on it");
}

#[test]
fn after_a_restart_instances_being_deleted_are_not_in_the_target_under_either_accounting() {
    let list = all(&[deleting(0..3, Counts::UntilDeleted), running(3..10)]);
    for desired in [10, 7] {
        assert_eq!(Group::new(desired, list.clone()).target(), 7, "capacity {desired}");
    }
}

#[test]
fn terminating_instances_hide_no_shortfall_where_the_capacity_never_counts_them() {
    let group = Group::new(5, all(&[running(0..2), deleting(2..5, Counts::No)]));
    assert_eq!((group.target(), group.placeholders().len()), (5, 3));
    assert_eq!(group.reported(InstanceState::Deleting), 3);
}

#[test]
fn instances_that_the_capacity_was_seen_not_to_count_hide_no_failed_launch() {
    let mut group = Group::new(8, running(0..8));
    let leaving = deleting(0..8, Counts::UntilDeleted);
    group.see(0, leaving.clone());
    group.write(0, 7, Some("raise"));
    // One launch of seven has failed by then.
    group.see(7, all(&[leaving.clone(), running(8..14)]));
    assert_eq!((group.target(), group.placeholders().len()), (7, 1));
    // The failure of a deletion is recognised.
    group.see(8, all(&[running(0..1), leaving[1..].to_vec(), running(8..14)]));
    assert_eq!((group.target(), group.placeholders().len()), (8, 1));
}

#[test]
fn instances_that_the_capacity_was_seen_not_to_count_are_not_counted_after_another_clients_scale_up() {
    let mut group = Group::new(8, running(0..8));
    let leaving = deleting(0..8, Counts::UntilDeleted);
    group.see(0, leaving.clone());
    group.see(7, all(&[leaving, running(8..14)]));
    assert_eq!((group.target(), group.placeholders().len()), (7, 1), "one launch of seven is missing");
}

#[test]
fn instances_read_before_the_capacity_fell_do_not_show_what_it_counts() {
    let mut group = Group::new(8, all(&[running(0..5), deleting(5..8, Counts::UntilDeleted)]));
    // Three were evicted between the instances and the capacity, which still counts those on their way out.
    group.see_etag("2", 5, all(&[running(0..5), deleting(5..8, Counts::UntilDeleted)]));
    group.see_etag("2", 5, all(&[running(0..2), deleting(5..8, Counts::UntilDeleted)]));
    assert_eq!((group.target(), group.placeholders().len()), (2, 0));
}

#[test]
fn deleting_as_many_as_were_just_added_shows_at_once() {
    let mut group = Group::new(2, running(0..2));
    group.write(2, 4, None);
    group.see(4, running(0..4));
    group.delete(0..2);
    group.see(2, all(&[deleting(0..2, Counts::No), running(2..4)]));
    assert_eq!((group.target(), group.placeholders().len()), (2, 0));
}

#[test]
fn what_a_read_showed_of_a_deletion_holds_after_a_scale_up_whose_response_was_lost() {
    let mut group = Group::new(8, running(0..8));
    group.delete(0..7);
    // Reads for a write show the capacity alone; the instances are those from before the deletion.
    group.see_capacity(1);
    assert_eq!(group.target(), 1, "the capacity dropped them at once");
    group.state.send_capacity();
    group.see_capacity(7);
    assert_eq!(group.target(), 7);
}

#[test]
fn a_deletion_during_a_surplus_leaves_the_target_at_once_under_either_accounting() {
    let mut group = Group::new(10, running(0..14));
    group.delete(0..1);
    assert_eq!(group.target(), 9);
    group.see(10, all(&[deleting(0..1, Counts::UntilDeleted), running(1..14)]));
    assert_eq!(group.target(), 9, "the capacity still counts it, although more instances live than it has room for");
    group.see(9, running(1..14));
    assert_eq!(group.target(), 9);
    group.delete(1..2);
    group.see(8, all(&[deleting(1..2, Counts::UntilDeleted), running(2..14)]));
    assert_eq!(group.target(), 8, "this time the capacity has given it up at once");
}

#[test]
fn a_cloud_that_removes_its_own_surplus_does_not_lower_the_target() {
    let mut group = Group::new(12, running(0..16));
    group.see(12, all(&[running(0..11), deleting(12..16, Counts::UntilDeleted)]));
    assert_eq!((group.target(), group.reported(InstanceState::Creating)), (12, 1), "one was evicted");
    group.see(12, all(&[running(0..11), deleting(13..16, Counts::UntilDeleted)]));
    assert_eq!(group.target(), 12);
}

#[test]
fn a_scale_up_makes_no_room_for_instances_that_the_capacity_had_no_room_for() {
    let shrunk = || {
        let mut group = Group::new(6, running(0..6));
        group.see_etag("a", 6, running(0..6));
        // Another client lowers the capacity. Whether it counts the two is not known: it changed between two reads.
        group.see_etag("b", 4, all(&[deleting(0..2, Counts::UntilDeleted), running(2..6)]));
        assert_eq!(group.target(), 4);
        group
    };
    let after = || all(&[deleting(0..2, Counts::UntilDeleted), running(2..6)]);
    let mut group = shrunk();
    group.write(4, 6, None);
    assert_eq!(group.target(), 6);
    group.see_etag("c", 6, after());
    assert_eq!(group.target(), 6, "the two new ones are not the two that are leaving");

    let mut group = shrunk();
    let write = group.capacity_write(4, 6, None);
    group.see_etag("c", 6, after());
    group.state.finish_capacity(write);
    assert_eq!(group.target(), 6, "its response was lost, and the read after it shows it");
}

#[test]
fn a_scale_up_leaves_instances_in_the_capacity_that_it_had_room_for() {
    let mut group = Group::new(6, running(0..6));
    group.see_etag("a", 6, running(0..6));
    group.see_etag("b", 6, all(&[deleting(0..2, Counts::UntilDeleted), running(2..6)]));
    assert_eq!(group.target(), 4, "the capacity has room for the two that are leaving");
    group.write(6, 8, None);
    group.see_etag("c", 8, all(&[deleting(0..2, Counts::UntilDeleted), running(2..6)]));
    assert_eq!(group.target(), 6);
}

#[test]
fn a_capacity_read_later_than_the_instances_has_lost_those_that_are_gone() {
    let mut group = Group::new(6, running(0..6));
    group.delete(0..3);
    group.see(6, all(&[deleting(0..3, Counts::UntilDeleted), running(3..6)]));
    group.see_capacity(4);
    group.write(4, 10, Some("grow"));
    assert_eq!(group.target(), 9, "three live, six are new, and one of the three deleted is still counted");
}

#[test]
fn a_scale_up_whose_polls_stop_explains_no_capacity_that_a_later_deletion_left() {
    let mut group = Group::new(1, running(0..1));
    let growth = group.write(1, 2, Some("grow"));
    group.see(2, running(0..2));
    group.delete(1..2);
    group.see(1, all(&[running(0..1), deleting(1..2, Counts::UntilDeleted)]));
    group.state.stop_polling(growth, group.now);
    group.see(1, running(0..1));
    assert_eq!(plan::raised_capacity(&group.state, 5), Some(6));
}
