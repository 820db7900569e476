//! When a capacity that our own write left too low is raised back, and how far (law 11).

use super::super::doubt::doubt;
use super::super::undo::Own;
use super::*;
use crate::cloud::GrowsBy;

/// Instances that the cloud launched for reasons of its own, newest first.
fn launched<const N: usize>(numbers: [u32; N]) -> OwnLaunches {
    OwnLaunches { instances: numbers.map(|number| id(number).to_string()).to_vec(), replacing: 0 }
}

/// Instances as AWS lists them: the capacity counts those that live.
pub(super) fn live(numbers: std::ops::Range<u32>) -> Vec<Instance> {
    numbers.map(|number| instance(number, InstanceState::Running, Counts::Yes)).collect()
}

pub(super) fn going(numbers: std::ops::Range<u32>) -> Vec<Instance> {
    deleting(numbers, Counts::No)
}

impl Group {
    /// The capacity that is raised back to, where activities show nothing that the cloud launched for reasons of its
    /// own.
    pub(super) fn undone(&self) -> Option<u32> {
        self.state.undone_capacity(Some(&OwnLaunches::default()))
    }

    /// The same, where these are the cloud's own.
    fn undone_with(&self, own: &OwnLaunches) -> Option<u32> {
        self.state.undone_capacity(Some(own))
    }

    /// Sends a deletion that the cloud accepts, as AWS does.
    pub(super) fn terminate(&mut self, numbers: std::ops::Range<u32>) {
        let operation = self.delete(numbers);
        self.state.stop_polling(operation, self.now);
    }
}

#[test]
fn an_instance_that_comes_up_under_a_reduction_raises_the_capacity_back() {
    let mut group = Group::new(7, live(0..6));
    group.write(7, 6, None);
    assert_eq!(group.undone(), None);
    let late = group.reading(6, live(0..7));
    assert_eq!(doubt(&group.state, &late), None, "our own write explains it");
    group.see(6, live(0..7));
    assert_eq!(group.undone(), Some(7));
    group.see(5, live(0..7));
    assert_eq!(group.undone(), None, "another client lowered it further");
    group.now = group.now + Duration::from_secs(40);
    group.see(6, live(0..7));
    assert_eq!(group.undone(), None, "another client's doing by now");
}

#[test]
fn a_start_raises_nothing() {
    assert_eq!(Group::new(10, live(0..14)).undone(), None);
}

#[test]
fn a_reduction_by_another_client_is_not_undone() {
    let mut group = Group::new(7, live(0..7));
    group.see(6, live(0..7));
    assert_eq!(group.undone(), None);
}

#[test]
fn what_another_client_raised_between_the_read_and_the_write_is_not_raised_back() {
    let mut group = Group::new(3, live(0..3));
    group.write(3, 5, None);
    group.see(5, live(0..9));
    assert_eq!(group.undone(), None, "no read showed more than 3, and 2 were requested");
}

#[test]
fn a_raise_that_a_read_showed_is_raised_back_to() {
    let mut group = Group::new(3, live(0..3));
    group.write(3, 5, None);
    group.see(9, live(0..9));
    group.see(5, live(0..9));
    assert_eq!(group.undone(), Some(9));
}

#[test]
fn an_instance_that_was_going_already_gave_up_no_place() {
    // Another client terminated it just before, and AWS lowers the capacity for each call.
    let mut group = Group::new(5, live(0..5));
    group.terminate(0..1);
    group.see(3, all(&[going(0..1), live(1..5)]));
    assert_eq!(group.undone(), Some(4));
    // The group replaced it just before.
    let mut group = Group::new(5, live(0..5));
    group.terminate(0..1);
    group.see(4, all(&[going(0..1), live(1..6)]));
    assert_eq!(group.undone(), Some(5));
    let replacement = OwnLaunches { replacing: 1, ..launched([5]) };
    assert_eq!(group.undone_with(&replacement), Some(5), "it replaces one, and is not too many");
}

#[test]
fn no_room_is_made_for_an_instance_that_came_up_after_the_activities_were_read() {
    let mut group = Group::new(5, live(0..5));
    group.terminate(0..1);
    group.see(4, all(&[going(0..1), live(1..5)]));
    let own = Own::new(OwnLaunches::default(), group.observation());
    group.see(4, all(&[going(0..1), live(1..6)]));
    assert_eq!(group.undone(), Some(5), "it looks like the replacement of the one that was going");
    assert_eq!(group.undone_with(&own.with_new(group.observation())), None, "the next activities tell");
}

#[test]
fn at_most_one_more_is_lowered_for_each_instance_named() {
    let mut group = Group::new(9, live(0..9));
    group.terminate(0..2);
    group.see(5, all(&[going(0..2), live(2..9)]));
    assert_eq!(group.undone(), Some(7));
    group.see(4, all(&[going(0..2), live(2..9)]));
    assert_eq!(group.undone(), None, "nothing of ours explains this number");
}

#[test]
fn what_was_deleted_since_lowers_how_far_it_is_raised_back() {
    let mut group = Group::new(7, live(0..6));
    group.write(7, 6, None);
    group.see(6, live(0..6));
    group.terminate(0..2);
    group.see(4, live(2..7));
    assert_eq!(group.undone(), Some(5), "one came up under the reduction");
    group.write(4, 5, None);
    group.see(5, live(2..8));
    assert_eq!(group.undone(), Some(6));
}

#[test]
fn a_refused_deletion_takes_nothing_from_what_is_raised_back() {
    let mut group = Group::new(3, live(0..2));
    group.write(3, 2, None);
    let named = ids(0..2);
    group.state.send_deletion(&named, BTreeSet::new(), group.now);
    group.state.refuse_deletion(&named);
    group.see(2, live(0..3));
    assert_eq!(group.undone(), Some(3));
    group.see(2, live(0..6));
    assert_eq!(group.undone(), Some(3), "never above what a read showed");
    group.see(1, live(0..3));
    assert_eq!(group.undone(), None, "another client lowered it");
}

#[test]
fn a_raise_does_not_raise_its_own_bound() {
    let mut group = Group::new(7, live(0..6));
    group.write(7, 6, None);
    group.see(6, live(0..7));
    group.write_undo(6, 7);
    group.see(7, live(0..9));
    assert_eq!(group.undone(), None);
}

#[test]
fn a_read_that_lags_behind_a_later_scale_up_raises_nothing_back() {
    let mut group = Group::new(7, live(0..6));
    group.write(7, 6, None);
    group.see(6, live(0..7));
    assert_eq!(group.undone(), Some(7));
    group.write(6, 11, None);
    group.see(6, live(0..7));
    assert_eq!(group.undone(), None, "it would undo the scale-up");
}

#[test]
fn a_read_that_lags_behind_a_scale_up_and_a_deletion_after_it_raises_nothing_back() {
    let mut group = Group::new(6, live(0..6));
    group.write(6, 11, None);
    group.see(11, live(0..11));
    group.terminate(0..4);
    group.see(6, live(0..7));
    assert_eq!(group.undone(), None, "it would undo the scale-up");
}

#[test]
fn what_the_cloud_launched_for_reasons_of_its_own_is_left_to_it() {
    let mut group = Group::new(8, live(0..8));
    group.write(8, 6, None);
    group.see(6, live(0..8));
    assert_eq!(group.undone(), Some(8), "all of them had room before");
    let mut group = Group::new(8, live(0..6));
    group.write(8, 6, None);
    group.see(6, live(0..10));
    assert_eq!(group.undone(), Some(8), "never above the capacity before");
    let mut group = Group::new(5, live(0..5));
    group.see(5, live(0..8));
    group.write(5, 6, None);
    group.see(6, live(0..9));
    assert_eq!(group.undone(), None, "a scale-up during a surplus raises nothing");
}

#[test]
fn without_activities_only_instances_that_had_room_are_certain() {
    let mut group = Group::new(6, live(0..6));
    group.see(6, live(0..8));
    group.terminate(0..1);
    group.see(4, all(&[going(0..1), live(1..8)]));
    assert_eq!(group.state.undone_capacity(None), Some(5), "five had room and were not named");
}

#[test]
fn without_activities_another_processs_launch_is_not_raised_back() {
    let raised_back = |grows_by| {
        let mut group = Group::new(6, live(0..6));
        group.terminate(0..1);
        group.now = group.now + Duration::from_secs(1);
        // Two more were launched, and the capacity does not show them yet.
        let mut observation = group.reading(5, all(&[going(0..1), live(1..8)]));
        observation.reading.consistency.grows_by = grows_by;
        group.state.observe(observation);
        group.state.undone_capacity(None)
    };
    assert_eq!(raised_back(GrowsBy::Launch), None, "the five that were there have room");
    assert_eq!(raised_back(GrowsBy::Capacity), Some(6), "by their number");
}

#[test]
fn nothing_is_raised_above_the_maximum() {
    let mut group = Group::new(102, live(0..102));
    group.terminate(0..2);
    group.see(99, all(&[going(0..2), live(2..120)]));
    assert_eq!(group.undone(), Some(100));
}

#[test]
fn a_write_without_a_response_holds_everything_until_a_read_shows_it() {
    let mut group = Group::new(10, live(0..8));
    group.lose(10, 8);
    assert!(group.state.awaits_lost_write());
    group.see(10, live(0..10));
    assert_eq!(group.undone(), None);
    group.see(8, live(0..10));
    assert!(!group.state.awaits_lost_write(), "it took effect");
    assert_eq!(group.undone(), Some(10));
}

#[test]
fn a_later_write_of_the_same_capacity_does_not_show_one_without_a_response() {
    let mut group = Group::new(10, live(0..12));
    group.lose(10, 12);
    group.see_at(12, 10, live(0..12));
    group.write_undo(10, 12);
    group.see_at(14, 12, live(0..12));
    assert!(group.state.awaits_lost_write(), "it may still undo what is written next");
    group.see_at(40, 12, live(0..12));
    assert!(!group.state.awaits_lost_write());
}

#[test]
fn what_a_write_without_a_response_may_have_undone_is_written_once_more() {
    let lowered = |lose: bool| {
        let mut group = Group::new(10, live(0..10));
        if lose {
            group.lose(10, 12);
        }
        group.see_at(12, 10, live(0..12));
        group.write_undo(10, 12);
        group.see_at(13, 12, live(0..14));
        group.write_undo(12, 14);
        // The write without a response takes effect now, or the read lags.
        group.see_at(15, 12, live(0..14));
        group.undone()
    };
    assert_eq!(lowered(true), Some(14), "it changes nothing if the read lags");
    assert_eq!(lowered(false), None, "the read lags");
}

/// A launch in flight adds to what is raised back, and nothing to what was written.
#[test]
fn with_a_launch_in_flight_no_less_is_written_than_before() {
    let mut group = Group::new(13, live(0..13));
    group.see(13, live(0..18));
    group.launch(6);
    group.lose(13, 15);
    group.see_at(12, 15, live(0..18));
    group.write_undo(15, 17);
    // The read lags behind both writes.
    group.see_at(15, 13, live(0..18));
    assert_eq!(group.undone(), Some(17), "15 would undo it");
}

#[test]
fn a_write_without_a_response_can_no_longer_take_effect_after_a_while() {
    let mut group = Group::new(10, live(0..8));
    group.lose(10, 8);
    group.now = group.now + Duration::from_secs(31);
    group.see(10, live(0..10));
    assert!(!group.state.awaits_lost_write());
    group.see(8, live(0..10));
    assert_eq!(group.undone(), None, "another client's doing by now");
}

#[test]
fn a_write_without_a_response_that_lands_after_a_raise_of_another_client_is_raised_back_as_far() {
    let mut group = Group::new(2, live(0..1));
    group.lose(2, 1);
    group.see(3, live(0..2));
    group.see(1, live(0..3));
    assert_eq!(group.undone(), Some(3));
    group.see(1, live(0..4));
    assert_eq!(group.undone(), Some(3), "no read showed more");
}

#[test]
fn a_deletion_after_a_raise_counts_from_what_it_was_raised_to() {
    let mut group = Group::new(4, live(0..6));
    group.terminate(0..3);
    group.see(1, all(&[going(0..3), live(3..6)]));
    assert_eq!(group.undone(), Some(3));
    group.write_undo(1, 3);
    group.see(3, live(3..7));
    // One of the two was going already.
    group.terminate(3..5);
    group.see(1, all(&[going(3..5), live(5..7)]));
    assert_eq!(group.undone(), Some(2));
}

#[test]
fn a_surplus_that_a_deletion_makes_is_raised_back_before_a_read_shows_the_deletion() {
    let mut group = Group::new(6, live(0..6));
    group.see(7, live(0..6));
    group.see(6, live(0..6));
    group.terminate(0..1);
    group.see(6, live(0..7));
    assert_eq!((group.state.census().unread, group.state.census().live), (1, 6), "the read is older than the deletion");
    assert_eq!(group.undone(), Some(6), "the capacity is 5 by now");
    group.see(6, live(0..6));
    assert_eq!(group.undone(), None, "all that live have room");
}

#[test]
fn a_deletion_keeps_the_capacity_that_too_many_live_for() {
    let mut group = Group::new(8, live(0..8));
    // Another client lowers the capacity, and AWS has not begun to terminate.
    group.see(5, live(0..8));
    assert_eq!(plan::not_lowering(&group.state, &ids(0..2)), ids(0..2).into_iter().collect());
    assert_eq!(plan::not_lowering(&group.state, &ids(0..4)), ids(0..3).into_iter().collect(), "five have room");
    let mut group = Group::new(5, live(0..5));
    group.see(5, live(0..8));
    assert!(
        plan::not_lowering(&group.state, &ids(0..2)).is_empty(),
        "the cloud launched them, and removes them itself"
    );
}

/// Our writes follow each other for longer than a read can lag, and another client sets the capacity between two of them.
#[test]
fn a_deletion_counts_from_what_another_client_set_since_our_earlier_writes() {
    let lower_twice = |group: &mut Group| {
        group.see_at(20, 30, live(1..31));
        group.terminate(1..2);
        group.see_at(40, 24, live(7..31));
        // It was going already.
        group.terminate(7..8);
        group.see_at(41, 22, all(&[going(7..8), live(8..31)]));
        group.undone()
    };
    let mut group = Group::new(25, live(1..26));
    group.write(25, 30, None);
    assert_eq!(lower_twice(&mut group), Some(23), "after a scale-up");
    let mut group = Group::new(31, live(0..31));
    group.terminate(0..1);
    assert_eq!(lower_twice(&mut group), Some(23), "after a deletion");
}

#[test]
fn what_another_client_lowered_between_our_writes_is_not_raised_back() {
    let mut group = Group::new(25, live(0..25));
    group.write(25, 30, None);
    group.see_at(20, 30, live(0..30));
    group.terminate(0..1);
    group.see_at(40, 24, live(6..30));
    group.write(24, 25, None);
    group.see_at(41, 25, live(6..33));
    assert_eq!(group.undone(), None, "no read since has shown more than 25");
}

/// Each deletion can lower the capacity twice, but only while it is in flight.
#[test]
fn after_minutes_of_deletions_another_clients_reduction_is_not_raised_back() {
    let mut group = Group::new(40, live(0..40));
    for first in [0, 5, 10, 15] {
        group.terminate(first..first + 5);
        group.now = group.now + Duration::from_secs(24);
        group.see(35 - first, live(first + 5..40));
    }
    group.see(12, live(20..40));
    assert_eq!(group.undone(), None, "five deletions of the last 30 s explain 15, and no more");
    group.see(15, live(20..40));
    assert_eq!(group.undone(), Some(20));
}

#[test]
fn an_instance_in_standby_gives_up_no_capacity() {
    let standby = || (7..9).map(|number| instance(number, InstanceState::Running, Counts::No)).collect();
    let mut group = Group::new(3, all(&[live(0..3), standby()]));
    group.write(3, 5, None);
    group.see(5, all(&[live(0..5), standby()]));
    group.terminate(7..9);
    assert_eq!((group.target(), plan::raised_capacity(&group.state, 1)), (5, Some(6)));
    let lower = group.reading(3, live(0..5));
    assert!(doubt(&group.state, &lower).is_some(), "no deletion lowered it");
    group.see(3, all(&[live(0..3), going(7..9)]));
    assert_eq!(plan::raised_capacity(&group.state, 1), Some(6), "the read lags: 4 would delete two that nobody named");
}

#[test]
fn instances_of_the_clouds_own_keep_the_room_that_they_had() {
    let mut group = Group::new(5, live(0..5));
    group.terminate(0..1);
    group.see(4, all(&[going(0..1), live(1..6)]));
    assert_eq!(group.undone_with(&launched([4])), Some(5), "it had room before");
    let mut group = Group::new(8, live(0..6));
    group.write(8, 6, None);
    group.see(6, live(0..8));
    assert_eq!(group.undone_with(&launched([7, 6])), Some(8), "our own reduction took their room");
}

#[test]
fn only_instances_that_were_read_after_the_write_are_made_room_for() {
    let mut group = Group::new(7, live(0..7));
    group.now = group.now + Duration::from_secs(1);
    group.write(7, 6, None);
    group.see_capacity(6);
    assert_eq!(group.undone(), None, "which of them live by now is not known");
    group.see(6, live(0..7));
    assert_eq!(group.undone(), Some(7));
}

#[test]
fn nothing_is_lowered_while_a_write_without_a_response_may_take_effect() {
    let mut group = Group::new(10, live(0..6));
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.cancel(&named);
    group.lose(10, 12);
    group.see(10, live(0..6));
    assert_eq!(plan::reduced_capacity(&group.state, 0), None);
    group.now = group.now + Duration::from_secs(31);
    group.see(10, live(0..6));
    assert_eq!(plan::reduced_capacity(&group.state, 0), Some(6));
}

/// That one read is younger than our write says nothing of the next, which may lag again.
#[test]
fn a_read_that_lags_after_one_that_was_dated_by_a_launch_undoes_no_scale_up() {
    let mut group = Group::new(10, live(0..10));
    let sent = group.seconds();
    group.write(10, 13, None);
    let launched = (10..13).map(|number| Launched { instance: id(number).instance().to_owned(), at: wall(sent + 3) });
    group.state.learn_activity(LaunchActivity { launched: launched.collect(), ..LaunchActivity::default() });
    group.now = group.now + Duration::from_secs(5);
    group.see(13, live(0..13));
    assert_eq!(plan::raised_capacity(&group.state, 1), Some(14));
    group.see(10, live(0..10));
    assert_eq!((group.target(), plan::raised_capacity(&group.state, 1)), (13, Some(14)), "it lags");
    group.see(10, live(0..13));
    assert_eq!(group.target(), 10, "this one does not: another client has set 10");
}

/// It was launched before the write took effect, for another reason.
#[test]
fn an_instance_that_was_launched_after_a_late_write_was_sent_does_not_show_it() {
    let mut group = Group::new(10, live(0..9));
    let sent = group.seconds();
    group.lose(10, 12);
    let launched = vec![Launched { instance: id(9).instance().to_owned(), at: wall(sent + 5) }];
    group.state.learn_activity(LaunchActivity { launched, ..LaunchActivity::default() });
    let mut see = |desired, after: u64| {
        group.now = group.now + Duration::from_secs(after);
        let seen = observation(desired, live(0..10), group.now, group.now.since(Time::default()).as_secs() + sent);
        group.state.observe(seen);
        plan::raised_capacity(&group.state, 1)
    };
    assert_eq!(see(12, 13), Some(13), "it took effect");
    assert_eq!(see(10, 1), Some(13), "this read lags");
}

/// Its launch began while the write was on its way.
#[test]
fn an_instance_that_was_launched_before_a_write_was_answered_does_not_show_it() {
    let mut group = Group::new(10, live(0..10));
    let write = CapacityWrite { answered: wall(5), ..group.capacity_write(10, 13, None) };
    group.state.send_capacity();
    group.state.accept_capacity(OperationId(1), write);
    let launched = vec![Launched { instance: id(9).instance().to_owned(), at: wall(3) }];
    group.state.learn_activity(LaunchActivity { launched, ..LaunchActivity::default() });
    group.see_at(6, 10, live(0..10));
    assert_eq!(plan::raised_capacity(&group.state, 1), Some(14), "the read may lag behind the write");
}
