//! When a capacity is raised back, and how far.

use super::super::doubt::doubt;
use super::super::plan::healed_capacity;
use super::*;

#[test]
fn an_instance_that_comes_up_under_a_reduction_raises_the_capacity_back() {
    let mut group = Group::new(7, running(0..6));
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.cancel(&named);
    group.write(7, 6, None);
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), None);
    let late = group.reading(6, running(0..7));
    assert_eq!(doubt(&group.state, &late), None);
    group.see(6, running(0..7));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), Some(7));
    group.now += Duration::from_secs(40);
    group.see(6, running(0..7));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), None, "another client's doing by now");
}

#[test]
fn a_scale_up_that_undid_a_larger_one_of_another_client_is_healed() {
    let mut group = Group::new(3, running(0..3));
    group.write(3, 5, None);
    group.see(5, running(0..3));
    assert!(!group.state.is_watched(group.now), "nothing to watch for");
    group.see(5, running(0..9));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), Some(9));
    group.see(2, running(0..9));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), None, "lower than what was written");
}

#[test]
fn a_reduction_is_healed_after_deletions_and_scale_ups_too() {
    let mut group = Group::new(7, running(0..6));
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.cancel(&named);
    group.write(7, 6, None);
    group.see(6, running(0..6));
    group.delete(0..2);
    group.see(4, running(2..7));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), Some(5), "deletions lowered it further");
    group.write(4, 5, None);
    group.see(5, running(2..8));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), Some(6), "one more came up");
    group.see(3, running(2..8));
    assert_eq!(
        plan::healed_capacity(&group.state, &OwnLaunches::default()),
        None,
        "lower than anything of ours explains"
    );
}

#[test]
fn a_start_raises_nothing() {
    assert_eq!(plan::healed_capacity(&Group::new(10, running(0..14)).state, &OwnLaunches::default()), None);
}

#[test]
fn the_capacity_is_raised_back_for_deletions_that_failed_after_it_dropped_them() {
    let mut group = Group::new(8, running(0..8));
    let delete = group.delete(0..3);
    group.see(5, all(&[deleting(0..3, Counts::UntilDeleted), running(3..8)]));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), None);
    group.fail(delete, 5, running(0..8));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), Some(8));
    group.see(5, running(0..10));
    assert_eq!(
        plan::healed_capacity(&group.state, &OwnLaunches::default()),
        Some(8),
        "at most to what it was before the deletion"
    );
}

#[test]
fn a_heal_that_was_refused_is_tried_again() {
    let mut group = Group::new(7, running(0..6));
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.cancel(&named);
    group.write(7, 6, None);
    group.see(6, running(0..7));
    group.state.send_capacity((6, 7), WriteReason::Heal, false, group.now);
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), Some(7));
    group.write_heal(6, 7);
    group.see(7, running(0..7));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), None, "until one is accepted");
}

#[test]
fn a_reduction_by_another_client_is_not_undone() {
    let mut group = Group::new(7, running(0..7));
    group.see(6, running(0..7));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), None);
}

#[test]
fn a_refused_deletion_neither_takes_room_from_a_heal_nor_adds_to_it() {
    let mut group = Group::new(3, running(0..2));
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.cancel(&named);
    group.write(3, 2, None);
    group.see(2, running(0..3));
    group.state.send_deletion(3);
    group.state.refuse_deletion(3);
    group.see(2, running(0..3));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), Some(3), "one came up under the decrease");
    group.state.send_deletion(5);
    group.state.refuse_deletion(5);
    group.see(2, running(0..6));
    assert_eq!(
        plan::healed_capacity(&group.state, &OwnLaunches::default()),
        Some(3),
        "never above the capacity before the decrease"
    );
}

#[test]
fn a_scale_up_without_a_response_that_takes_effect_after_a_later_one_is_raised_back() {
    let mut group = Group::new(10, running(0..12));
    group.state.send_capacity((10, 13), WriteReason::Requested, false, group.now);
    group.state.lose_capacity(13, group.now);
    group.write(10, 15, None);
    group.see(15, running(0..16));
    group.see(13, running(0..17));
    assert_eq!(
        plan::healed_capacity(&group.state, &OwnLaunches::default()),
        Some(16),
        "one was beyond the capacity before, and still is"
    );
    group.see(12, running(0..17));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), None, "another client lowered it");
}

#[test]
fn a_scale_up_without_a_response_that_a_smaller_one_undid_is_raised_back() {
    for surplus in [0, 1] {
        let mut group = Group::new(20, running(0..20));
        group.see(20, running(0..20 + surplus));
        group.state.send_capacity((20, 27), WriteReason::Requested, false, group.now);
        group.state.lose_capacity(27, group.now);
        // The write took effect, and the read that the next one was computed on lagged behind it.
        group.write(20, 23, None);
        group.see(23, running(0..27 + surplus));
        assert_eq!(
            plan::healed_capacity(&group.state, &OwnLaunches::default()),
            Some(27),
            "with a surplus of {surplus}"
        );
        group.see(19, running(0..27 + surplus));
        assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), None, "another client lowered it");
    }
}

#[test]
fn a_surplus_before_a_scale_up_without_a_response_is_not_made_room_for() {
    let mut group = Group::new(20, running(0..20));
    group.see(20, running(0..21));
    group.state.send_capacity((20, 27), WriteReason::Requested, false, group.now);
    group.state.lose_capacity(27, group.now);
    group.see(27, running(0..28));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), None);
}

#[test]
fn a_read_that_lags_behind_a_later_scale_up_raises_nothing_back() {
    let mut group = Group::new(7, running(0..6));
    group.write(7, 6, None);
    group.see(6, running(0..7));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), Some(7));
    group.write(6, 11, None);
    group.see(6, running(0..7));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), None, "it would undo the scale-up");
}

#[test]
fn what_another_client_lowered_during_a_failed_deletion_is_not_raised_back() {
    for (desired, healed) in [(9, Some(10)), (6, None)] {
        let mut group = Group::new(10, running(0..10));
        let delete = group.delete(0..1);
        group.fail(delete, desired, running(0..10));
        assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), healed, "read as {desired}");
    }
}

#[test]
fn instances_whose_deletion_got_no_response_are_made_room_for_while_they_are_listed() {
    let mut group = Group::new(10, running(0..10));
    group.write(10, 12, None);
    group.see(12, running(0..12));
    group.state.send_deletion(4);
    group.state.lose_deletion(OperationId(9), ids(0..4).into_iter().collect(), group.now);
    group.see(12, running(0..12));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), None);
    // Two of the four are being terminated. The other two stay live, and the capacity is lower by all four.
    group.see(8, all(&[deleting(0..2, Counts::No), running(2..12)]));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), Some(10));
}

#[test]
fn a_deletion_without_a_response_takes_nothing_from_the_ceiling_of_a_heal_until_it_begins() {
    let mut group = Group::new(10, running(0..11));
    group.state.send_capacity((10, 11), WriteReason::Requested, false, group.now);
    group.state.lose_capacity(11, group.now);
    group.write(10, 13, None);
    group.see(13, running(0..14));
    group.state.send_deletion(1);
    group.state.lose_deletion(OperationId(9), ids(0..1).into_iter().collect(), group.now);
    group.see(11, running(0..14));
    assert_eq!(
        plan::healed_capacity(&group.state, &OwnLaunches::default()),
        Some(13),
        "the named one lives, and has its place"
    );
    group.see(11, all(&[deleting(0..1, Counts::No), running(1..14)]));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), Some(12));
}

#[test]
fn a_write_without_a_response_raises_the_ceiling_of_a_heal_after_later_deletions() {
    let mut group = Group::new(11, running(0..11));
    group.state.send_capacity((10, 11), WriteReason::Heal, false, group.now);
    group.state.lose_capacity(11, group.now);
    group.state.send_deletion(3);
    group.write_heal(10, 8);
    // The write took effect after the deletion, and a write that was computed on a read that lags undid it (seed 190822).
    group.see(10, all(&[deleting(0..3, Counts::No), running(3..15)]));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), Some(11), "one more is not ours");
}

#[test]
fn instances_of_a_failed_deletion_that_are_gone_are_no_room_for_others() {
    let mut group = Group::new(8, running(0..8));
    let delete = group.delete(0..3);
    group.fail(delete, 5, running(1..10));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), Some(7), "one of the three is gone");
}

#[test]
fn what_was_deleted_after_a_deletion_that_failed_is_not_raised_back() {
    let mut group = Group::new(10, running(0..10));
    let first = group.delete(0..2);
    group.see(8, all(&[deleting(0..2, Counts::No), running(2..10)]));
    group.delete(2..5);
    group.see(5, all(&[deleting(0..5, Counts::No), running(5..10)]));
    group.fail(first, 5, all(&[running(0..2), deleting(2..5, Counts::No), running(5..12)]));
    assert_eq!(
        plan::healed_capacity(&group.state, &OwnLaunches::default()),
        Some(7),
        "nine live: two outlived it, and two are the cloud's own"
    );
}

#[test]
fn a_deletion_that_failed_is_raised_back_only_once_its_instances_are_read_again() {
    let mut group = Group::new(7, running(0..7));
    let delete = group.delete(0..4);
    group.now += Duration::from_secs(1);
    let mut reading = group.reading(5, vec![]).reading;
    reading.instances = None;
    let observation = group.observation().with_capacity_of(reading, group.now, wall(group.seconds()));
    group.state.fail(delete, &shortage(wall(group.seconds())), observation, &name);
    assert_eq!(
        plan::healed_capacity(&group.state, &OwnLaunches::default()),
        None,
        "which of the four live is not known"
    );
    group.see(5, running(1..7));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), Some(6));
}

#[test]
fn a_lost_reduction_that_lands_after_another_one_is_raised_back() {
    let mut group = Group::new(10, running(0..6));
    group.state.send_capacity((10, 6), WriteReason::Requested, false, group.now);
    group.state.lose_capacity(6, group.now);
    group.write(10, 9, None);
    group.see(6, running(0..7));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), Some(7));
}

#[test]
fn a_lost_reduction_that_lands_after_a_raise_of_another_client_is_raised_back_as_far() {
    let mut group = Group::new(2, running(0..1));
    group.state.send_capacity((2, 1), WriteReason::Requested, false, group.now);
    group.state.lose_capacity(1, group.now);
    group.see(3, running(0..2));
    group.see(1, running(0..3));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), Some(3));
    group.see(1, running(0..4));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), Some(3), "no read showed more");
}

#[test]
fn a_surplus_that_a_deletion_makes_is_raised_back_before_a_read_shows_the_deletion() {
    // As on AWS: what is listed as running counts, and a deletion is over once it is accepted.
    let live = |number| (0..number).map(|one| instance(one, InstanceState::Running, Counts::Yes)).collect::<Vec<_>>();
    let mut group = Group::new(5, live(5));
    group.write(5, 6, None);
    group.see(6, live(6));
    let deletion = group.delete(0..1);
    group.state.stop_polling(deletion, group.now);
    group.see(6, live(7));
    assert_eq!((group.state.census().unread, group.state.census().live), (1, 6), "the read is older than the deletion");
    assert_eq!(healed_capacity(&group.state, &OwnLaunches::default()), Some(6), "the capacity is 5 by now");
    group.see(6, live(6));
    assert_eq!(healed_capacity(&group.state, &OwnLaunches::default()), None, "all that live have room");
}
