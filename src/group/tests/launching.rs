//! Launches: what they add to a read that does not show them, and nothing else.

use super::*;

impl Group {
    pub(super) fn launch(&mut self, number: u32) -> OperationId {
        self.operations += 1;
        let operation = OperationId(self.operations);
        self.state.start_launch(operation, (number, None), (self.now, wall(self.seconds())));
        operation
    }

    /// A launch has ended with these instances. Returns how many were not launched.
    fn end(&mut self, operation: OperationId, numbers: std::ops::Range<u32>) -> u32 {
        let instances: Vec<String> = numbers.map(|number| id(number).instance().to_owned()).collect();
        self.state.end_launch(operation, &instances, self.now)
    }

    fn pass(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
    }
}

#[test]
fn a_launch_counts_once_whichever_of_capacity_and_instances_shows_first() {
    for (capacity, instances) in [(3, 0..3), (5, 0..3), (3, 0..5), (5, 0..5)] {
        let mut group = Group::new(3, running(0..3));
        let launch = group.launch(2);
        assert_eq!((group.target(), group.placeholders().len()), (5, 2));
        group.see(capacity, running(instances.clone()));
        assert_eq!(group.target(), 5, "under way: {capacity} {instances:?}");
        assert_eq!(group.end(launch, 3..5), 0);
        assert_eq!(group.target(), 5, "answered: {capacity} {instances:?}");
        group.see(capacity, running(instances.clone()));
        assert_eq!(group.target(), 5, "read: {capacity} {instances:?}");
        group.see(5, running(0..5));
        assert_eq!((group.target(), group.placeholders().len()), (5, 0));
    }
}

#[test]
fn a_launch_is_relative_to_what_others_do_meanwhile() {
    let mut group = Group::new(3, running(0..3));
    let launch = group.launch(2);
    // Another client lowers the capacity, and nothing of the launch shows.
    group.see(1, running(0..1));
    assert_eq!(group.target(), 3);
    group.end(launch, 3..5);
    let all = all(&[running(0..1), running(3..5)]);
    // Whether it has raised the capacity, or another client has lowered it less, only time tells.
    group.pass(11);
    group.see(3, all.clone());
    assert_eq!(group.target(), 3);
    group.see(2, all);
    assert_eq!(group.target(), 2);
}

#[test]
fn a_read_that_lags_behind_a_launch_takes_nothing_back() {
    let mut group = Group::new(3, running(0..3));
    let launch = group.launch(2);
    group.end(launch, 3..5);
    group.see(5, running(0..5));
    group.see(3, running(0..3));
    assert_eq!(group.target(), 5, "it lists none of the instances, so it is older");
    group.pass(31);
    group.see(3, running(0..3));
    assert_eq!(group.target(), 3, "no read lags so long");
}

#[test]
fn a_read_that_lags_behind_a_capacity_that_was_shown_takes_nothing_back() {
    let mut group = Group::new(3, running(0..3));
    let (first, second) = (group.launch(1), group.launch(1));
    group.end(first, 3..4);
    group.see(4, running(0..4));
    group.see(3, running(0..4));
    assert_eq!(group.target(), 5, "it lists the first one, and is from before the capacity was raised");
    group.end(second, 4..5);
    group.see(5, running(0..5));
    assert_eq!(group.target(), 5);
}

#[test]
fn a_read_that_lags_behind_a_later_launch_takes_the_earlier_one_back_neither() {
    let mut group = Group::new(1, running(0..1));
    let first = group.launch(1);
    group.end(first, 1..2);
    group.see(1, running(0..2));
    group.launch(1);
    assert_eq!(group.target(), 3);
    group.pass(11);
    group.see(1, running(0..2));
    assert_eq!(group.target(), 3, "as the second launch was computed: the capacity did not count the first one yet");
}

#[test]
fn a_read_that_lags_behind_a_deletion_takes_no_launch_after_it_back() {
    let mut group = Group::new(3, counted(0..3));
    group.delete_with(0..1, None);
    group.see(2, all(&[deleting(0..1, Counts::No), counted(1..3)]));
    group.launch(1);
    assert_eq!(group.target(), 3);
    group.see(3, counted(0..3));
    assert_eq!(group.target(), 3, "it shows neither the deletion nor the launch");
}

#[test]
fn instances_that_the_capacity_does_not_count_in_time_are_a_surplus() {
    let mut group = Group::new(3, running(0..3));
    let launch = group.launch(2);
    group.end(launch, 3..5);
    group.pass(11);
    group.see(3, running(0..5));
    assert_eq!(group.state.census().capacity, 3, "the group is about to terminate two");
}

#[test]
fn a_capacity_that_is_raised_back_leaves_out_launches_in_flight() {
    let mut group = Group::new(5, counted(0..5));
    let launch = group.launch(2);
    group.delete_with(0..1, None);
    // The named instance was going already, and AWS lowers the capacity for each call.
    group.see(3, all(&[deleting(0..1, Counts::No), counted(1..5)]));
    let own = OwnLaunches::default();
    assert_eq!(group.state.undone_capacity(Some(&own)), Some(4), "the launch adds two by itself");
    group.write_undo(3, 4);
    assert_eq!(group.target(), 6);
    group.see(4, counted(1..5));
    assert_eq!(group.target(), 6, "the launch goes on");
    group.end(launch, 5..7);
    group.see(4, counted(1..7));
    assert_eq!((group.target(), group.state.undone_capacity(Some(&own))), (6, None), "it may add them later");
    // It had added them just before that write, which undid it.
    group.pass(11);
    group.see(4, counted(1..7));
    assert_eq!(group.state.undone_capacity(Some(&own)), Some(6));
}

/// A group of five in which two are being launched, after a deletion that the capacity fell by twice.
fn launching_below_live() -> (Group, OperationId) {
    let mut group = Group::new(5, counted(0..5));
    let launch = group.launch(2);
    group.delete_with(0..1, None);
    group.see(3, all(&[deleting(0..1, Counts::No), counted(1..5)]));
    (group, launch)
}

/// What the capacity is raised back to, where the cloud launched nothing for reasons of its own.
fn undone(group: &Group) -> Option<u32> {
    group.state.undone_capacity(Some(&OwnLaunches::default()))
}

/// The capacity lacks two launches that came after that as much as the one that it undid.
#[test]
fn a_launch_that_a_capacity_write_undid_is_missed_in_time_whatever_is_launched_after_it() {
    let (mut group, launch) = launching_below_live();
    group.write_undo(3, 4);
    group.end(launch, 5..7);
    group.see(4, counted(1..7));
    let (second, third) = (group.launch(2), group.launch(1));
    group.end(second, 7..9);
    group.end(third, 9..10);
    for capacity in [4, 5, 6, 7] {
        group.see(capacity, counted(1..10));
        assert_eq!(group.target(), 9, "capacity {capacity}: each may follow");
    }
    group.launch(1);
    group.pass(6);
    group.see(7, counted(1..10));
    for _ in 0..2 {
        assert_eq!(undone(&group), Some(9), "the last launch adds one by itself");
        group.see(7, counted(1..10));
    }
    group.write_undo(7, 9);
    group.see(9, counted(1..11));
    assert_eq!((undone(&group), group.target()), (None, 10), "the last one has come, and may raise it at any moment");
}

#[test]
fn a_raise_back_that_is_due_stays_so_whatever_is_launched_meanwhile() {
    let mut group = Group::new(5, counted(0..5));
    let shown = group.launch(2);
    group.end(shown, 20..22);
    for _ in 0..2 {
        group.see(7, all(&[counted(0..5), counted(20..22)]));
        group.pass(9);
    }
    let second = group.launch(2);
    group.delete_with(0..1, None);
    let now = |live| all(&[deleting(0..1, Counts::No), counted(live), counted(20..22)]);
    group.see(5, now(1..5));
    group.write_undo(5, 6);
    group.end(second, 5..7);
    group.see(6, now(1..7));
    group.launch(1);
    group.pass(9);
    group.see(6, now(1..7));
    assert_eq!(undone(&group), Some(8));
    group.launch(3);
    group.see(6, now(1..8));
    assert_eq!(undone(&group), Some(8), "one of the launches has come");
}

#[test]
fn a_launch_that_the_capacity_was_seen_to_include_is_not_taken_for_one_that_was_undone() {
    let mut group = Group::new(3, counted(0..5));
    let first = group.launch(2);
    group.write_undo(3, 4);
    group.end(first, 5..7);
    group.see(6, counted(0..7));
    let second = group.launch(2);
    group.pass(11);
    group.end(second, 7..9);
    // An older read: what it lacks is the second launch, and one instance is more than the capacity had room for.
    group.see(6, counted(0..9));
    group.write_undo(6, 7);
    group.see(7, counted(0..9));
    assert_eq!(group.target(), 9, "the second launch may follow");
    group.pass(10);
    group.see(7, counted(0..9));
    assert_eq!(undone(&group), Some(9));
}

#[test]
fn instances_beyond_the_capacity_are_not_those_of_a_launch_that_may_still_raise_it() {
    let mut group = Group::new(3, counted(0..3));
    let (first, second, third) = (group.launch(2), group.launch(2), group.launch(1));
    group.end(second, 5..7);
    group.pass(2);
    group.end(first, 3..5);
    group.pass(1);
    group.end(third, 7..8);
    group.see(8, counted(0..8));
    group.delete_with(0..1, None);
    group.delete_with(7..8, None);
    group.pass(3);
    // Both were going already, and AWS lowers the capacity for each call.
    let fallen = || all(&[deleting(0..1, Counts::No), counted(1..7), deleting(7..8, Counts::No)]);
    group.see(4, fallen());
    assert_eq!(undone(&group), Some(6), "the time of the second launch is up");
    group.launch(3);
    group.see(4, fallen());
    assert_eq!((undone(&group), group.state.in_flight().unshown()), (Some(5), 4), "the third launch and the last one");
}

#[test]
fn of_two_launches_that_may_be_undone_the_one_whose_time_is_up_first_is_missed() {
    let (mut group, first) = launching_below_live();
    let second = group.launch(2);
    group.write_undo(3, 4);
    group.end(first, 5..7);
    group.see(4, counted(1..7));
    group.pass(6);
    group.end(second, 7..9);
    group.see(6, counted(1..9));
    group.pass(4);
    group.see(6, counted(1..9));
    assert_eq!(undone(&group), Some(8), "11 s after the first one");
}

#[test]
fn a_launch_that_a_write_without_a_response_undid_is_missed_in_time() {
    let (mut group, launch) = launching_below_live();
    group.lose(3, 4);
    group.end(launch, 5..7);
    group.see(4, counted(1..7));
    let second = group.launch(2);
    group.end(second, 7..9);
    group.pass(5);
    group.see(6, counted(1..9));
    assert_eq!((undone(&group), group.target()), (None, 8), "it may follow");
    group.see(6, counted(1..9));
    assert_eq!(undone(&group), Some(8));
}

#[test]
fn what_another_client_lowers_after_a_launch_that_failed_in_part_is_not_raised_back() {
    let (mut group, launch) = launching_below_live();
    group.write_undo(3, 4);
    assert_eq!(group.end(launch, 5..6), 1);
    group.pass(11);
    group.see(4, counted(1..6));
    assert_eq!(undone(&group), Some(5), "the write undid the one that was launched");
    group.see(3, counted(1..6));
    assert_eq!(undone(&group), None, "nothing of ours leads to 3");
}

#[test]
fn a_launch_that_adds_to_one_that_was_undone_is_not_waited_for() {
    let (mut group, launch) = launching_below_live();
    group.write_undo(3, 4);
    group.end(launch, 5..7);
    group.see(4, counted(1..7));
    let second = group.launch(2);
    group.pass(11);
    group.see(4, counted(1..7));
    assert_eq!(group.target(), 6, "the second one is still to add two");
    group.end(second, 7..9);
    group.see(6, counted(1..9));
    assert_eq!(undone(&group), Some(8));
}

#[test]
fn a_launch_that_nothing_shows_has_not_raised_the_capacity_before_one_that_may_be_undone() {
    let (mut group, launch) = launching_below_live();
    group.write_undo(3, 4);
    group.end(launch, 5..7);
    group.see(4, counted(1..7));
    group.launch(3);
    group.see(6, counted(1..7));
    group.pass(11);
    group.see(6, counted(1..7));
    assert_eq!((group.target(), undone(&group)), (9, None), "the write came before the launch raised the capacity");
}

#[test]
fn a_slow_launch_stays_in_the_target_after_a_younger_one_has_come() {
    let mut group = Group::new(4, running(0..4));
    let (_slow, fast) = (group.launch(2), group.launch(2));
    group.end(fast, 4..6);
    group.see(6, running(0..6));
    group.pass(11);
    group.see(6, running(0..6));
    assert_eq!((group.target(), group.placeholders().len()), (8, 2));
}

#[test]
fn what_a_launch_made_is_to_stay_whatever_else_the_cloud_launches() {
    let mut group = Group::new(5, counted(0..5));
    // The cloud launches two for reasons of its own.
    group.see(5, all(&[counted(0..5), counted(10..12)]));
    let launch = group.launch(2);
    group.delete_with(0..1, None);
    group.see(3, all(&[deleting(0..1, Counts::No), counted(1..5), counted(10..12)]));
    group.write_undo(3, 4);
    // The launch raised the capacity just before, and that write undid it. Activities cannot be read.
    group.end(launch, 5..7);
    group.pass(11);
    group.see(4, all(&[counted(1..7), counted(10..12)]));
    assert_eq!(group.state.undone_capacity(None), Some(6), "four of before, and two of the launch");
}

#[test]
fn a_launch_adds_to_a_capacity_that_is_written_meanwhile() {
    let mut group = Group::new(3, running(0..3));
    let launch = group.launch(2);
    group.write_undo(3, 4);
    assert_eq!(group.target(), 6);
    group.see(4, running(0..4));
    assert_eq!(group.target(), 6);
    group.end(launch, 4..6);
    group.see(6, running(0..6));
    assert_eq!((group.target(), group.placeholders().len()), (6, 0));
}

/// Both look like a capacity that does not show the launch yet.
#[test]
fn a_surplus_taken_for_a_launch_explains_no_lower_capacity() {
    let mut group = Group::new(5, counted(0..5));
    let launch = group.launch(2);
    group.end(launch, 5..7);
    group.pass(5);
    group.see(7, counted(0..9));
    assert_eq!(group.state.in_flight().unshown(), 2, "the cloud launched two for reasons of its own");
    group.delete_with(0..1, None);
    group.pass(3);
    // The named instance was going already, and AWS lowers the capacity for each call.
    group.see(5, all(&[deleting(0..1, Counts::No), counted(1..9)]));
    let own = OwnLaunches { instances: vec![id(8).to_string(), id(7).to_string()], replacing: 0 };
    assert_eq!(group.state.undone_capacity(Some(&own)), Some(6), "six nodes were to stay");
}

#[test]
fn deletions_during_a_launch_are_not_made_up_for() {
    let mut group = Group::new(3, running(0..3));
    let launch = group.launch(2);
    group.delete(0..1);
    assert_eq!(group.target(), 4);
    group.see(2, all(&[deleting(0..1, Counts::No), running(1..3)]));
    assert_eq!(group.target(), 4);
    group.end(launch, 3..5);
    group.see(4, running(1..5));
    assert_eq!(group.target(), 4);
}

#[test]
fn a_later_launch_is_counted_from_what_the_one_before_it_made() {
    let mut group = Group::new(3, running(0..3));
    let (first, second) = (group.launch(2), group.launch(4));
    assert_eq!(group.target(), 9);
    assert_eq!(group.end(first, 3..4), 1);
    assert_eq!(group.target(), 8);
    group.see(4, running(0..4));
    assert_eq!(group.target(), 8, "the first one shows");
    assert_eq!(group.end(second, 4..8), 0);
    group.see(8, running(0..8));
    assert_eq!((group.target(), group.placeholders().len()), (8, 0));
}

#[test]
fn a_capacity_that_shows_one_of_two_launches_lacks_the_other_one_once() {
    let mut group = Group::new(3, running(0..3));
    let (first, second) = (group.launch(2), group.launch(1));
    group.end(first, 3..5);
    group.end(second, 5..6);
    for (capacity, lacking) in [(3, 3), (4, 2), (5, 1), (6, 0)] {
        group.see(capacity, running(0..6));
        assert_eq!((group.target(), group.state.in_flight().unshown()), (6, lacking), "capacity {capacity}");
    }
}

#[test]
fn what_was_not_launched_leaves_the_target_unless_it_is_listed_as_failed() {
    let mut group = Group::new(3, running(0..3));
    let launch = group.launch(3);
    assert_eq!(group.end(launch, 3..4), 2);
    assert_eq!((group.target(), group.placeholders().len()), (4, 1));
    let moment = (group.now, wall(group.seconds()));
    group.state.list_failed((2, None), &[shortage(wall(1))], moment);
    assert_eq!((group.target(), group.failed()), (6, 2));
    group.see(4, running(0..4));
    assert_eq!((group.target(), group.failed()), (6, 2), "until the autoscaler deletes them");
}

#[test]
fn what_a_launch_did_not_make_is_expected_no_longer() {
    let mut group = Group::new(3, running(0..3));
    let launch = group.launch(3);
    group.see(4, running(0..3));
    assert_eq!(group.target(), 6, "the capacity shows one, and two may follow");
    assert_eq!(group.end(launch, 3..4), 2);
    assert_eq!(group.target(), 4, "the capacity shows all that was launched");
}

#[test]
fn nothing_is_lowered_until_reads_show_a_launch() {
    let mut group = Group::new(5, running(0..3)).with_actual_capacity();
    group.pass(60);
    group.see(5, running(0..3));
    let given_back = group.placeholders().into_iter().collect();
    group.state.cancel(&given_back);
    assert_eq!(plan::reduced_capacity(&group.state, 0), Some(3));
    let launch = group.launch(1);
    group.see(5, running(0..3));
    assert_eq!(plan::reduced_capacity(&group.state, 0), None, "it may be raised at any moment");
    group.end(launch, 3..4);
    group.see(5, running(0..4));
    assert_eq!(plan::reduced_capacity(&group.state, 0), None, "it is to be raised");
}

/// A capacity written now may undo what the launch has just raised.
#[test]
fn nothing_is_raised_back_while_a_launch_is_about_to_raise_the_capacity() {
    let mut group = Group::new(5, counted(0..5));
    let launch = group.launch(2);
    group.end(launch, 5..7);
    group.delete_with(0..1, None);
    // It was going already, and AWS lowers the capacity for each call.
    let listed = || all(&[deleting(0..1, Counts::No), counted(1..7)]);
    group.see(3, listed());
    assert_eq!(undone(&group), None, "the launch may have raised it a moment ago");
    group.see(5, listed());
    assert_eq!(undone(&group), Some(6), "it has raised it, so nothing more is to come");
}

/// It would be read every 50 ms otherwise.
#[test]
fn a_launch_in_flight_leaves_a_read_dated() {
    let mut group = Group::new(3, counted(0..3));
    group.write(3, 4, None);
    group.launch(2);
    let launched = vec![Launched { instance: id(3).instance().to_owned(), at: wall(10) }];
    group.state.learn_activity(LaunchActivity { launched, ..LaunchActivity::default() });
    group.see_at(12, 3, counted(0..3));
    assert!(group.state.undated_since().is_some(), "it may be older than the write");
    group.see_at(15, 4, counted(0..4));
    assert_eq!(group.state.undated_since(), None, "the instance was launched after the write");
}

/// A launch raises the capacity at once, by all that it launched.
#[test]
fn the_capacity_lacks_the_launch_of_just_the_number_that_it_lacks() {
    let mut group = Group::new(3, counted(0..3));
    let (first, second) = (group.launch(2), group.launch(3));
    group.end(second, 5..8);
    group.end(first, 3..5);
    group.see(6, counted(0..8));
    let (in_flight, read) = (group.state.in_flight(), group.observation().begun);
    assert_eq!(
        (in_flight.is_raising(read), in_flight.to_be_raised(read)),
        (true, 2),
        "the first one is about to raise it"
    );
}
