//! When a capacity may be lowered.

use super::*;

#[test]
fn the_capacity_is_not_lowered_while_a_scale_up_may_not_have_begun_to_launch() {
    let mut group = Group::new(3, running(0..3));
    group.write(3, 7, None);
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.cancel(&named);
    group.see(7, running(0..3));
    assert_eq!(group.target(), 3, "the target shows it at once");
    assert_eq!(plan::reduced_capacity(&group.state, 0), None);
    group.now = group.now + Duration::from_secs(6);
    group.see(7, running(0..3));
    assert_eq!(plan::reduced_capacity(&group.state, 0), Some(3));
}

#[test]
fn the_capacity_is_not_lowered_on_instances_read_before_it_was_raised() {
    let mut group = Group::new(7, running(0..7)).with_actual_capacity();
    let mut see = |desired, etag: &str| {
        group.now = group.now + Duration::from_secs(10);
        let observation = group.tagged(etag, desired, running(0..7));
        group.state.observe(observation);
        let named: BTreeSet<_> = group.placeholders().into_iter().collect();
        group.state.cancel(&named);
        plan::reduced_capacity(&group.state, 0)
    };
    assert_eq!(see(7, "1"), None);
    assert_eq!(see(9, "2"), None, "two may be there that were not listed yet");
    assert_eq!(see(9, "2"), None, "the list may lag by 30 s");
    assert_eq!((see(9, "2"), see(9, "2")), (None, Some(7)));
}

#[test]
fn the_capacity_is_not_lowered_on_instances_read_before_the_etag_changed() {
    let mut group = Group::new(9, running(0..7)).with_actual_capacity();
    let mut see = |etag: &str| {
        group.see_etag(etag, 9, running(0..7));
        let named: BTreeSet<_> = group.placeholders().into_iter().collect();
        group.state.cancel(&named);
        plan::reduced_capacity(&group.state, 0)
    };
    assert_eq!((see("1"), see("1")), (None, Some(7)));
    assert_eq!(
        see("2"),
        None,
        "another client may have lowered and raised it, and two may be there that were not listed yet"
    );
    assert_eq!(see("2"), Some(7));
}

#[test]
fn the_capacity_of_a_scale_set_is_not_lowered_while_its_list_may_lack_what_a_scale_up_made() {
    let mut group = Group::new(3, running(0..3)).with_actual_capacity();
    group.see_etag("1", 3, running(0..3));
    let operation = group.write(3, 6, Some("grow"));
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.cancel(&named);
    let lowered = |group: &mut Group, instances| {
        group.see_etag("2", 6, instances);
        group.see_etag("2", 6, running(0..3));
        assert_eq!(group.target(), 3, "the target shows it at once");
        plan::reduced_capacity(&group.state, 0)
    };
    group.now = group.now + Duration::from_secs(300);
    assert_eq!(lowered(&mut group, running(0..3)), None, "it may still launch");
    let observation = group.tagged("2", 6, running(0..3));
    group.state.succeed(operation, group.now);
    assert_eq!(lowered(&mut group, running(0..3)), None, "three that it made are not listed yet");
    group.now = group.now + Duration::from_secs(31);
    assert_eq!(lowered(&mut group, running(0..3)), Some(3));
    group.see_etag("2", 6, running(0..4));
    assert_eq!(plan::reduced_capacity(&group.state, 0), Some(4), "it came late");
    let operation = group.write(6, 8, Some("grow"));
    group.state.fail(operation, &shortage(wall(group.seconds())), observation);
    assert!(group.state.may_lack_instances(), "it may have made some before it failed");
    group.now = group.now + Duration::from_secs(31);
    group.see_etag("2", 6, running(0..4));
    assert!(!group.state.may_lack_instances());
}

#[test]
fn the_capacity_is_not_lowered_just_after_another_client_raised_it() {
    let mut group = Group::new(5, running(0..3));
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.cancel(&named);
    group.see(9, running(0..3));
    assert_eq!(plan::reduced_capacity(&group.state, 0), None);
    group.now = group.now + Duration::from_secs(6);
    group.see(9, running(0..3));
    assert_eq!(plan::reduced_capacity(&group.state, 0), Some(7));
}

#[test]
fn the_capacity_is_not_lowered_below_instances_being_deleted_that_a_read_omits() {
    let mut group = Group::new(4, running(0..3));
    group.delete(2..3);
    group.see(4, running(0..2));
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    assert_eq!(group.state.cancel(&named), 2, "one of them is only missing from the reading");
    assert_eq!(plan::reduced_capacity(&group.state, 0), Some(3), "three are there");
}

#[test]
fn capacity_that_the_cloud_kept_after_a_failure_can_be_lowered_to_the_live_instances() {
    let mut group = Group::new(3, running(0..3));
    let scale_up = group.write(3, 8, Some("scale-up"));
    group.see(8, running(0..4));
    group.fail(scale_up, 8, running(0..4));
    assert_eq!((group.target(), group.failed()), (8, 4));
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.cancel(&named);
    assert_eq!(group.target(), 4);
    assert_eq!(plan::reduced_capacity(&group.state, 0), Some(4));
}

#[test]
fn a_reduction_never_goes_below_the_listed_instances_including_those_being_deleted() {
    let mut group = Group::new(8, all(&[running(0..3), deleting(3..6, Counts::UntilDeleted)]));
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    assert_eq!(named.len(), 2);
    group.state.cancel(&named);
    assert_eq!(group.target(), 3, "it shows in the target at once");
    assert_eq!(plan::reduced_capacity(&group.state, 0), Some(6));
    assert_eq!(plan::reduced_capacity(&group.state, 1), Some(7), "one is being launched");
}

#[test]
fn a_reduction_does_not_wait_for_terminating_instances_that_the_cloud_does_not_count() {
    let standby = vec![instance(6, InstanceState::Running, Counts::No)];
    let mut group = Group::new(8, all(&[running(0..3), deleting(3..6, Counts::No)]));
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    assert_eq!(named.len(), 5);
    group.state.cancel(&named);
    assert_eq!(group.target(), 3, "it shows in the target at once");
    assert_eq!(plan::reduced_capacity(&group.state, 0), Some(3));
    assert_eq!(plan::reduced_capacity(&group.state, 1), Some(4), "one is being launched");
    group.see(8, all(&[running(0..3), deleting(3..6, Counts::No), standby]));
    assert_eq!(plan::reduced_capacity(&group.state, 0), Some(4), "an instance in standby holds its place");
}

#[test]
fn a_reduction_never_goes_below_the_minimum_and_the_rest_stays_out_of_the_target() {
    let mut group = Group::new(35, running(0..1));
    let mut observation = group.reading(35, running(0..1));
    observation.reading.min = 30;
    observation.reading.floor = 30;
    group.state.observe(observation.clone());
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.cancel(&named);
    assert_eq!(plan::reduced_capacity(&group.state, 0), Some(30));
    group.write(35, 30, None);
    assert_eq!((group.target(), group.reported(InstanceState::Creating)), (1, 0));
    assert_eq!(plan::reduced_capacity(&group.state, 0), None);

    observation.reading.desired = 30;
    observation.instances = running(0..2);
    group.state.observe(observation);
    assert_eq!(group.target(), 2, "an instance came all the same");
}

#[test]
fn instances_read_before_the_etag_changed_stay_outdated_until_they_are_read_again() {
    let mut group = Group::new(7, running(0..7));
    group.see_etag("1", 9, running(0..7));
    group.now = group.now + Duration::from_secs(1);
    let mut reading = group.tagged("1", 9, vec![]).reading;
    reading.instances = None;
    let capacity = group.observation().with_capacity_of(reading, group.now, wall(group.seconds()));
    group.state.observe(capacity);
    assert!(!group.state.is_steady(), "two may be there that were not listed yet");
    group.see_etag("1", 9, running(0..9));
    assert!(group.state.is_steady());
}
