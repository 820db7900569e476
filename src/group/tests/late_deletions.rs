//! Deletions without a response, and what they make of the capacity when they take effect (laws 7 and 11).

use super::undo::{going, live};
use super::*;

impl Group {
    /// A deletion that gets no response within ten seconds.
    fn lose_deletion(&mut self, numbers: std::ops::Range<u32>) {
        let (named, sent) = (ids(numbers), wall(self.seconds()));
        self.state.send_deletion(&named, BTreeSet::new(), self.now);
        self.now = self.now + Duration::from_secs(10);
        self.state.lose_deletion(OperationId(9), named.into_iter().collect(), sent, self.now);
    }
}

#[test]
fn instances_whose_deletion_got_no_response_are_made_room_for_while_they_are_listed() {
    let mut group = Group::new(12, live(0..12));
    let named = ids(0..4);
    group.state.send_deletion(&named, BTreeSet::new(), group.now);
    group.state.lose_deletion(OperationId(9), named.into_iter().collect(), wall(1), group.now);
    group.see(12, live(0..12));
    assert_eq!(group.undone(), None);
    // Two of the four are being terminated. The other two stay live, and the capacity is lower by all four.
    group.see(8, all(&[going(0..2), live(2..12)]));
    assert_eq!(group.undone(), Some(10));
}

#[test]
fn a_deletion_without_a_response_lowers_what_a_later_scale_up_set() {
    let mut group = Group::new(9, live(0..9));
    let named = ids(0..5);
    group.state.send_deletion(&named, BTreeSet::new(), group.now);
    group.state.lose_deletion(OperationId(9), named.into_iter().collect(), wall(0), group.now);
    group.see(9, live(0..9));
    group.write(9, 11, None);
    group.see(11, live(0..11));
    // Three of the five were going already, by another client's calls. Each call lowers the capacity.
    group.see(3, all(&[going(0..5), live(5..11)]));
    assert_eq!(group.undone(), Some(6));
}

#[test]
fn a_deletion_without_a_response_is_undone_however_late_it_takes_effect() {
    let mut group = Group::new(6, live(0..6));
    group.lose_deletion(0..2);
    // Another client's calls, each of which lowers the capacity. Then each of ours does.
    group.see_at(25, 4, all(&[going(0..2), live(2..6)]));
    group.see_at(35, 2, all(&[going(0..2), live(2..6)]));
    assert_eq!(group.undone(), Some(4));
}

#[test]
fn a_deletion_without_a_response_that_lowers_what_another_client_set_is_undone() {
    let mut group = Group::new(9, live(0..9));
    group.lose_deletion(0..3);
    // Another client lowers the capacity, and AWS terminates seven: among them the three.
    group.see_at(32, 2, live(0..9));
    group.see_at(36, 2, all(&[going(0..7), live(7..9)]));
    group.see_at(38, 0, all(&[going(0..7), live(7..9)]));
    assert_eq!(group.undone(), Some(2));
}

/// AWS lowers the capacity for each call, also where the instance is going for another reason.
#[test]
fn a_deletion_without_a_response_that_lowers_what_a_later_reduction_set_is_undone() {
    let mut group = Group::new(6, live(0..6));
    group.lose_deletion(0..1);
    group.see_at(12, 6, all(&[going(0..1), live(1..6)]));
    group.write(6, 5, None);
    group.see_at(14, 4, all(&[going(0..1), live(1..6)]));
    assert_eq!(group.undone(), Some(5));
    group.see_at(16, 3, all(&[going(0..1), live(1..6)]));
    assert_eq!(group.undone(), None, "one deletion lowers it by one");
}

#[test]
fn what_a_deletion_without_a_response_lowers_after_a_raise_is_raised_back_once_more() {
    let lowered_again = |group: &mut Group| {
        group.see_at(12, 8, all(&[going(0..3), live(3..14)]));
        assert_eq!(group.undone(), Some(11));
        group.write_undo(8, 11);
        // The deletion takes effect, or the read is older than the raise: in that case, 11 changes nothing.
        group.see_at(14, 8, all(&[going(0..3), live(3..14)]));
        group.undone()
    };
    let mut group = Group::new(11, live(0..11));
    group.lose_deletion(0..3);
    assert_eq!(lowered_again(&mut group), Some(11));
    let mut group = Group::new(11, live(0..11));
    group.terminate(0..3);
    assert_eq!(lowered_again(&mut group), None, "the response came, so the read lags");
}

#[test]
fn a_read_that_is_not_used_shows_how_high_the_capacity_was() {
    for (seconds, undone) in [(0, None), (1, Some(9))] {
        let mut group = Group::new(5, live(0..5));
        group.write(5, 6, None);
        group.state.note_unused(9, wall(seconds));
        group.see(6, live(0..10));
        assert_eq!(group.undone(), undone, "read after {seconds} s; the write was sent after one");
    }
}

#[test]
fn a_deletion_that_was_shown_to_take_effect_late_explains_no_more_than_one_further_reduction() {
    for (capacity, undone) in [(5, Some(6)), (4, None)] {
        let mut group = Group::new(6, live(0..6));
        group.lose_deletion(0..1);
        group.write(6, 7, None);
        group.see_at(14, 6, all(&[going(0..1), live(1..7)]));
        group.see_at(16, capacity, all(&[going(0..1), live(1..7)]));
        assert_eq!(group.undone(), undone, "a capacity of {capacity}");
    }
}

#[test]
fn an_instance_that_was_gone_already_lowers_nothing_late() {
    let mut group = Group::new(6, live(0..6));
    group.state.note_leaving(OperationId(9), &ids(0..1), wall(0), group.now);
    group.see_at(12, 6, all(&[going(0..1), live(1..6)]));
    group.write(6, 5, None);
    group.see_at(14, 4, all(&[going(0..1), live(1..6)]));
    assert_eq!(group.undone(), None, "another client lowered it");
}

#[test]
fn a_raise_back_with_room_for_what_may_live_on_is_not_exceeded_by_the_next_one() {
    let mut group = Group::new(8, live(0..8));
    group.lose_deletion(0..2);
    group.see_at(12, 7, live(0..8));
    assert_eq!(group.undone(), Some(8), "two may live on, and one has lowered the capacity");
    group.write_undo(7, 8);
    group.see_at(14, 8, live(0..11));
    assert_eq!(group.undone(), None, "the capacity has room for both already");
}

#[test]
fn a_deletion_lowers_what_another_client_set_after_our_last_write() {
    let lowered_to = |capacity, deleted| {
        let mut group = Group::new(7, live(0..7));
        group.write(7, 8, None);
        group.see(17, live(0..17));
        group.terminate(0..deleted);
        group.see(capacity, all(&[going(0..7), live(7..18)]));
        group.undone()
    };
    assert_eq!(lowered_to(10, 7), Some(11), "one of the seven was going already, and another was launched");
    assert_eq!(lowered_to(11, 7), None);
    assert_eq!(lowered_to(10, 0), None, "another client lowered it");
}

#[test]
fn a_deletion_without_a_response_that_lowers_a_reduction_with_room_for_more_is_undone() {
    let mut group = Group::new(6, live(0..6));
    group.lose_deletion(0..2);
    group.see_at(12, 6, all(&[going(0..2), live(2..6)]));
    group.write(6, 5, None);
    group.see_at(14, 3, all(&[going(0..2), live(2..6)]));
    assert_eq!(group.undone(), Some(5), "four live, and five changes nothing if the read lags");
}

#[test]
fn a_read_that_is_not_used_does_not_show_deletions_that_were_sent_after_it() {
    let mut group = Group::new(5, live(0..5));
    group.write(5, 6, None);
    group.see_at(3, 6, live(0..6));
    group.terminate(0..2);
    group.state.note_unused(9, wall(1));
    group.see_at(5, 4, all(&[going(0..2), live(2..13)]));
    assert_eq!(group.undone(), Some(9));
}

#[test]
fn an_instance_that_was_gone_already_does_not_lower_what_an_unused_read_showed() {
    let mut group = Group::new(5, live(0..5));
    group.write(5, 6, None);
    group.state.note_leaving(OperationId(9), &ids(0..1), wall(2), group.now);
    group.state.note_unused(9, wall(1));
    group.see(6, all(&[going(0..1), live(1..11)]));
    assert_eq!(group.undone(), Some(9));
}

#[test]
fn a_deletion_without_a_response_lowers_what_another_client_had_set_before_it_took_effect() {
    let mut group = Group::new(9, live(0..9));
    group.write(9, 10, None);
    group.see_at(20, 30, live(0..30));
    group.lose_deletion(0..3);
    group.see_at(36, 20, live(0..20));
    // One of the three was going already.
    group.see_at(40, 16, all(&[going(0..3), live(3..20)]));
    assert_eq!(group.undone(), Some(17));
}

#[test]
fn what_a_launch_is_about_to_raise_does_not_lower_what_we_wrote() {
    let mut group = Group::new(12, live(0..12));
    group.lose_deletion(0..7);
    group.see_at(12, 12, live(0..12));
    group.write_undo(12, 12);
    group.launch(3);
    // The deletion took effect before that write, and the read lags; or after it.
    group.see_at(14, 4, all(&[going(0..7), live(7..12)]));
    assert_eq!(group.undone(), Some(12), "5 would be enough for eight, and would lower what we wrote if the read lags");
}

#[test]
fn a_read_that_shows_a_late_deletion_does_not_lag_behind_a_scale_up_that_was_shown_before() {
    let lowered = |shown: u32| {
        let mut group = Group::new(10, live(0..10));
        group.lose_deletion(0..3);
        group.see_at(12, 10, live(0..10));
        group.write(10, 13, None);
        group.see_at(14, shown, live(0..13));
        group.see_at(16, 10, all(&[going(0..3), live(3..14)]));
        group.undone()
    };
    assert_eq!(lowered(13), Some(11), "the deletion lowered the capacity to what it was before");
    assert_eq!(lowered(10), Some(13), "the read may be older than the scale-up, and 13 changes nothing then");
}

#[test]
fn a_late_deletion_that_looks_like_a_read_that_lags_is_raised_back_to_what_we_wrote() {
    let mut group = Group::new(6, live(0..6));
    group.lose_deletion(0..3);
    group.see_at(12, 6, live(0..6));
    group.write(6, 9, None);
    group.see_at(14, 6, all(&[going(0..3), live(3..10)]));
    assert_eq!(group.undone(), Some(9), "seven live, and nine changes nothing if the read lags");
}

/// A read from before its deletion lists it, too.
#[test]
fn an_instance_that_a_warm_pool_returned_dates_no_read_that_lacks_what_was_launched_with_it() {
    let mut group = Group::new(10, live(0..10));
    group.terminate(0..1);
    group.see_at(3, 9, all(&[going(0..1), live(1..10)]));
    group.see_at(8, 9, live(1..10));
    group.operations = 10;
    group.write(9, 12, None);
    let launched = |number: u32| Launched { instance: id(number).instance().to_owned(), at: wall(14) };
    let launched = [0, 20, 21].map(launched).to_vec();
    group.state.learn_activity(LaunchActivity { launched, ..LaunchActivity::default() });
    // It shows the group as it was before the deletion.
    group.see_at(18, 10, live(0..10));
    assert_eq!(plan::raised_capacity(&group.state, 1), Some(13));
    group.see_at(20, 12, all(&[live(0..10), live(20..22)]));
    assert_eq!(plan::raised_capacity(&group.state, 1), Some(13));
}

/// What a list shows of a launch without a response may be what the cloud launched in the place of instances that were
/// going.
#[test]
fn a_capacity_that_fell_twice_is_not_left_to_a_launch_that_may_have_raised_nothing() {
    let mut group = Group::new(5, live(0..5));
    group.launch(3);
    group.terminate(0..5);
    let listed = || all(&[going(0..5), live(5..9)]);
    group.see_at(3, 1, listed());
    assert_eq!((group.target(), group.undone()), (4, None), "the launch may be about to raise it");
    group.see_at(11, 1, listed());
    assert_eq!((group.target(), group.undone()), (4, Some(4)), "it would have done so by now");
}
