//! Capacity of a scale set that no instance fills.

use super::super::refusal::Refusal;
use super::*;

impl Group {
    /// What a list of a scale set shows in which nothing runs, or something does.
    fn see_set(&mut self, is_quiet: bool, without_id: u32, (desired, live): (u32, u32)) {
        self.now = self.now + Duration::from_secs(60);
        let mut observation = self.tagged(&format!("\"{desired}-{live}-{is_quiet}\""), desired, running(0..live));
        observation.reading.without_id = without_id;
        if is_quiet {
            observation.reading.provisioning = Provisioning::Succeeded;
        }
        self.state.observe(observation);
    }

    fn set(live: u32) -> Self {
        let mut group = Self::new(live, running(0..live));
        group.see_set(true, 0, (live, live));
        group
    }
}

#[test]
fn unfilled_capacity_takes_room_below_the_maximum_while_a_nominal_set_is_not_quiet() {
    let mut group = Group::set(9);
    group.capacity_is = CapacityIs::Nominal;
    group.see_set(true, 0, (13, 9));
    assert_eq!((group.state.unfilled(), group.state.taken_by_unfilled()), (4, 0));
    group.see_set(false, 0, (13, 9));
    assert_eq!((group.state.unfilled(), group.state.taken_by_unfilled()), (4, 4), "growth above it is refused now");
}

#[test]
fn machines_being_deleted_make_room_beside_unfilled_capacity() {
    let mut group = Group::set(99);
    group.see_set(true, 0, (100, 99));
    assert_eq!(group.state.unfilled(), 1);
    group.delete(0..3);
    assert_eq!(group.target(), 96);
    assert_eq!(plan::increase(&group.state, 3, None, 0), Ok(()), "as the maximum that is served says");
    let refused = plan::increase(&group.state, 4, None, 0);
    assert!(matches!(refused, Err(Refusal::Unfilled { unfilled: 1, .. })), "{refused:?}");
}

#[test]
fn what_is_still_to_be_lowered_takes_room_below_the_maximum() {
    let mut group = Group::set(97);
    group.capacity_is = CapacityIs::Actual;
    group.see_set(false, 0, (99, 97));
    let given_up = group.placeholders().into_iter().collect();
    assert_eq!(group.state.cancel(&given_up), 2);
    assert_eq!((group.target(), group.state.deferred(), group.state.unfilled()), (97, 2, 0));
    assert_eq!(plan::increase(&group.state, 1, None, 0), Ok(()), "the maximum is 100");
    let refused = plan::increase(&group.state, 2, None, 0);
    assert!(matches!(refused, Err(Refusal::NotLoweredYet { unfilled: 2, .. })), "a write of 101: {refused:?}");
    assert_eq!(group.state.taken_by_unfilled(), 2, "so that CA does not ask for it");
}

#[test]
fn machines_without_an_id_are_not_taken_out_of_the_target() {
    let mut group = Group::set(10);
    group.see_set(true, 1, (10, 9));
    assert_eq!((group.target(), group.state.unfilled()), (10, 0));
    group.see_set(true, 1, (10, 8));
    assert_eq!((group.target(), group.state.unfilled()), (9, 1), "one of two that are missing has no ID");
}

/// A set of six after a scale-up by two over three unfilled made so many live, and `beside` happened as well.
fn grown(live: u32, beside: impl FnOnce(&mut Group)) -> Group {
    let mut group = Group::set(6);
    group.see_set(true, 0, (9, 6));
    assert_eq!(group.state.unfilled(), 3);
    let operation = group.write(9, 11, Some("op"));
    beside(&mut group);
    group.state.succeed(operation, group.now);
    for _ in 0..3 {
        group.see_set(true, 0, (11, live));
    }
    group
}

#[test]
fn only_a_scale_up_that_went_well_shows_how_a_set_counts() {
    let shows = |live, beside: &dyn Fn(&mut Group)| grown(live, beside).state.is_nominal();
    assert!(shows(8, &|_| {}), "two were made");
    assert!(!shows(11, &|_| {}), "the unfilled ones, too");
    let deletes = |group: &mut Group| {
        group.delete_with(0..1, Some(OperationHandle("delete".to_owned())));
    };
    assert!(!shows(8, &deletes), "less lives than it made");
    let evicts = |group: &mut Group| group.see_set(false, 0, (11, 5));
    assert!(!shows(8, &evicts));

    let mut failing = Group::set(6);
    failing.see_set(true, 0, (9, 6));
    let operation = failing.write(9, 11, Some("op"));
    failing.now = failing.now + Duration::from_secs(60);
    let mut seen = failing.tagged("\"failed\"", 11, running(0..8));
    seen.reading.provisioning = Provisioning::Running;
    failing.fail_with(operation, seen);
    assert!(!failing.state.is_nominal(), "three of the five that it made failed");
}

/// Nothing tells how the scale-up ended, or another operation carries it out.
#[test]
fn only_a_quiet_set_shows_how_it_counts() {
    let made_so_far = |provisioning| {
        let mut group = Group::set(6);
        group.see_set(true, 0, (9, 6));
        let operation = group.write(9, 11, Some("op"));
        group.state.stop_polling(operation, group.now);
        group.now = group.now + Duration::from_secs(60);
        let mut seen = group.tagged("\"made so far\"", 11, running(0..8));
        seen.reading.provisioning = provisioning;
        group.state.observe(seen);
        group
    };
    assert!(made_so_far(Provisioning::Succeeded).state.is_nominal(), "two were made");
    let mut running = made_so_far(Provisioning::Running);
    assert!(!running.state.is_nominal(), "more may come");
    running.see_set(true, 0, (11, 11));
    assert!(!running.state.is_nominal(), "the unfilled ones, too");
    let mut running = made_so_far(Provisioning::Running);
    running.see_set(true, 0, (11, 8));
    assert!(running.state.is_nominal(), "no more came");
    let mut failed = made_so_far(Provisioning::Failed);
    assert!(!failed.state.is_nominal(), "three of the five may have failed");
    failed.see_set(true, 0, (11, 8));
    assert!(!failed.state.is_nominal());
}

/// One is evicted while something runs, and the capacity stays.
#[test]
fn what_was_missing_before_a_scale_up_is_unfilled_once_all_that_it_made_are_there() {
    let mut group = Group::set(6);
    group.see_set(false, 0, (6, 5));
    assert_eq!(group.target(), 6, "another client may be launching it");
    let operation = group.write(6, 8, Some("op"));
    group.see_set(false, 0, (8, 5));
    group.state.succeed(operation, group.now);
    group.see_set(true, 0, (8, 7));
    group.see_set(true, 0, (8, 7));
    assert_eq!((group.target(), group.state.unfilled()), (7, 1), "{:?}", group.state.placeholders());
}

#[test]
fn what_the_configuration_says_of_a_set_wins_over_what_it_has_shown() {
    let mut group = grown(8, |_| {});
    group.capacity_is = CapacityIs::Actual;
    group.see_set(true, 0, (11, 8));
    assert!(!group.state.is_nominal());
}

#[test]
fn a_scale_set_without_an_etag_is_not_raised_back() {
    let reading = |desired, seconds| {
        let mut observation =
            observation(desired, running(0..10), Time::default() + Duration::from_secs(seconds), seconds);
        observation.reading.consistency = Consistency::SCALE_SET_WITHOUT_ETAG;
        observation
    };
    let state = GroupState::new(reading(10, 1));
    let now = Time::default() + Duration::from_secs(2);
    let mut group = Group { state, now, operations: 0, capacity_is: CapacityIs::Unknown };
    let operation = group.delete_with(0..3, Some(OperationHandle("delete".to_owned())));
    group.fail_with(operation, reading(7, 5));
    assert_eq!(group.state.undone_capacity(Some(&OwnLaunches::default())), None, "its VMs live by themselves");
}
