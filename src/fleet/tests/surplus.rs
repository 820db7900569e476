//! What is raised back while live instances exceed the capacity, and which of them are the cloud's own.

use super::*;

/// Instances that the cloud launched for reasons of its own, newest first.
fn launched<const N: usize>(numbers: [u32; N]) -> OwnLaunches {
    OwnLaunches { instances: numbers.map(|number| id(number).to_string()).to_vec(), replacing: 0 }
}

#[test]
fn what_the_cloud_launched_for_reasons_of_its_own_is_no_reason_for_a_heal() {
    let mut group = Group::new(5, running(0..5));
    group.write(5, 6, None);
    group.see(6, running(0..8));
    assert_eq!(
        plan::healed_capacity(&group.state, &OwnLaunches::default()),
        Some(8),
        "another client's scale-up may have been undone"
    );
    let own = launched([7, 6]);
    assert_eq!(plan::healed_capacity(&group.state, &launched([6])), Some(7));
    assert_eq!(plan::healed_capacity(&group.state, &own), None);
    let gone = launched([99, 98]);
    assert_eq!(plan::healed_capacity(&group.state, &gone), Some(8), "they are not there any more");
}

#[test]
fn a_surplus_that_the_cloud_has_removed_hides_no_instance_that_a_late_write_left_too_many() {
    let mut group = Group::new(17, running(0..17));
    group.see(17, running(0..22));
    group.state.send_capacity((17, 20), WriteReason::Requested, false, group.now);
    group.state.lose_capacity(20, group.now);
    // Another client raises the capacity by six.
    group.see(23, running(0..28));
    // The cloud removes the five that it launched itself, and the lost write takes effect.
    group.see(20, all(&[running(0..17), running(22..28)]));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), Some(23));
}

#[test]
fn a_capacity_that_a_late_write_undid_is_put_back_although_the_clouds_own_instances_fill_it() {
    let own = launched([13, 12, 11]);
    let mut group = Group::new(11, running(0..11));
    group.see(11, running(0..14));
    group.state.send_capacity((11, 12), WriteReason::Requested, false, group.now);
    group.state.lose_capacity(12, group.now);
    group.write(11, 13, None);
    // The cloud keeps two of its own for the two requested, removes one, and the lost write takes effect.
    group.see(12, running(1..14));
    assert_eq!(plan::healed_capacity(&group.state, &own), Some(13));
}

#[test]
fn what_the_cloud_launched_by_itself_takes_the_places_of_what_it_removed() {
    let own = launched([12, 11, 10]);
    let mut group = Group::new(10, running(0..10));
    group.state.send_capacity((10, 12), WriteReason::Requested, false, group.now);
    group.state.lose_capacity(12, group.now);
    group.see(10, running(0..13));
    assert_eq!(plan::healed_capacity(&group.state, &own), None);
    // The cloud removes three others. Another client raises the capacity by three, and the lost write undoes a part of that.
    group.see(12, running(3..16));
    assert_eq!(plan::healed_capacity(&group.state, &own), Some(13));
}

#[test]
fn an_instance_of_the_clouds_own_that_was_named_is_no_reason_for_a_heal() {
    let mut group = Group::new(5, running(0..5));
    group.write(5, 6, None);
    group.see(6, running(0..8));
    group.delete(7..8);
    group.see(5, all(&[running(0..7), deleting(7..8, Counts::No)]));
    let own = launched([7, 6]);
    assert_eq!(plan::healed_capacity(&group.state, &own), None);
}

#[test]
fn an_instance_of_the_clouds_own_that_the_capacity_had_room_for_is_made_room_for() {
    for within_capacity in [true, false] {
        let mut group = Group::new(7, running(0..6));
        if within_capacity {
            group.see(7, running(0..7));
        }
        group.state.send_capacity((7, 6), WriteReason::Requested, false, group.now);
        group.state.lose_capacity(6, group.now);
        group.see(6, running(0..7));
        let healed = plan::healed_capacity(&group.state, &launched([6]));
        assert_eq!(healed, within_capacity.then_some(7), "the capacity had room for it: {within_capacity}");
    }
}

#[test]
fn replacements_that_the_cloud_makes_one_after_another_raise_nothing_back() {
    let mut group = Group::new(20, running(0..20));
    group.write(20, 22, None);
    group.see(22, running(0..22));
    // Each replacement is launched before the old instance is terminated.
    for number in 0..5 {
        group.see(22, running(number..23 + number));
        let instances = (22..=22 + number).rev().map(|number| id(number).to_string()).collect();
        let own = OwnLaunches { instances, replacing: usize::try_from(number).expect("small") };
        assert_eq!(plan::healed_capacity(&group.state, &own), None, "{number} replaced");
        group.see(22, running(number + 1..23 + number));
    }
    // Several at once, so that some are beyond the capacity all the time.
    group.see(22, running(5..29));
    group.see(22, running(6..30));
    let instances = (22..30).rev().map(|number| id(number).to_string()).collect();
    let own = OwnLaunches { instances, replacing: 6 };
    assert_eq!(plan::healed_capacity(&group.state, &own), None);
    // One more that the cloud did not launch by itself is another client's.
    group.see(22, running(6..31));
    assert_eq!(plan::healed_capacity(&group.state, &own), Some(23));
}

#[test]
fn a_scale_up_during_a_surplus_that_undid_another_clients_is_raised_back() {
    let mut group = Group::new(4, running(0..4));
    group.see(4, running(0..7));
    // Another client has raised the capacity to 24, which no read shows yet.
    group.write(4, 8, None);
    group.see(8, running(0..27));
    for own in [OwnLaunches::default(), launched([6, 5, 4])] {
        assert_eq!(
            plan::healed_capacity(&group.state, &own),
            Some(24),
            "but for the three that were beyond the capacity"
        );
    }
    let mut group = Group::new(4, running(0..4));
    group.see(4, running(0..7));
    group.write(4, 8, None);
    group.see(8, running(0..7));
    group.see(8, running(0..11));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), None, "nobody else raised it");
}

#[test]
fn a_surplus_is_never_raised_above_the_capacity_before_our_reduction_or_the_maximum() {
    let mut group = Group::new(12, running(0..10));
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.cancel(&named);
    group.write(12, 10, None);
    group.see(10, running(0..15));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), Some(12));
    group.write_heal(10, 12);
    group.see(12, running(0..15));
    assert_eq!(
        plan::healed_capacity(&group.state, &OwnLaunches::default()),
        None,
        "a heal does not raise its own bound"
    );
    let mut group = Group::new(98, running(0..98));
    group.write(98, 100, None);
    group.see(100, running(0..105));
    assert_eq!(plan::healed_capacity(&group.state, &OwnLaunches::default()), None, "never above the maximum");
}
