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
    group.now += Duration::from_secs(6);
    group.see(7, running(0..3));
    assert_eq!(plan::reduced_capacity(&group.state, 0), Some(3));
}

#[test]
fn the_capacity_is_not_lowered_on_instances_read_before_it_was_raised() {
    let mut group = Group::new(7, running(0..7));
    let mut see = |desired, etag: &str| {
        group.now += Duration::from_secs(10);
        let mut observation = group.reading(desired, running(0..7));
        observation.reading.etag = Some(etag.to_owned());
        group.state.observe(observation, &name);
        let named: BTreeSet<_> = group.placeholders().into_iter().collect();
        group.state.cancel(&named);
        plan::reduced_capacity(&group.state, 0)
    };
    assert_eq!(see(7, "1"), None);
    assert_eq!(see(9, "2"), None, "two may be there that were not listed yet");
    assert_eq!(see(9, "2"), Some(7));
}

#[test]
fn the_capacity_is_not_lowered_just_after_another_client_raised_it() {
    let mut group = Group::new(5, running(0..3));
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.cancel(&named);
    group.see(9, running(0..3));
    assert_eq!(plan::reduced_capacity(&group.state, 0), None);
    group.now += Duration::from_secs(6);
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
