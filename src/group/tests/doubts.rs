//! Observations that contradict themselves.

use super::super::doubt::{Doubt, doubt, doubt_first};
use super::*;

#[test]
fn contradictory_observations_are_doubted_until_a_second_one_confirms_them() {
    let group = Group::new(90, running(0..90));
    let doubted = |desired, instances| {
        let reading = group.reading(desired, instances);
        doubt(&group.state, &reading)
    };
    assert_eq!(doubted(0, running(0..90)), Some(Doubt::CapacityBelowLive { capacity: 0, live: 90 }));
    assert_eq!(doubted(0, vec![]), Some(Doubt::CapacityFell { before: 90, after: 0, listed: 0 }));
    assert_eq!(doubted(90, vec![]), Some(Doubt::InstancesGone { before: 90, after: 0 }));
    assert_eq!(doubted(88, running(0..88)), None);
    assert_eq!(doubted(120, running(0..90)), None);
    let fell = doubted(0, running(0..90)).expect("doubted");
    assert!(fell.is_confirmed_by(&doubted(0, running(0..95)).expect("doubted")), "a surplus may move");
    assert!(!fell.is_confirmed_by(&doubted(0, vec![]).expect("doubted")));
    assert!(!fell.is_confirmed_by(&doubted(1, running(0..90)).expect("doubted")));
}

#[test]
fn a_first_observation_is_doubted_too() {
    let group = Group::new(5, running(0..5));
    let reading = group.reading(0, running(0..90));
    assert_eq!(doubt_first(&reading), Some(Doubt::CapacityBelowLive { capacity: 0, live: 90 }));
    assert_eq!(doubt_first(&group.reading(90, running(0..90))), None);
    // Nothing deletes instances that are protected, so they may live beyond any capacity.
    let mut protected = reading;
    protected.instances.iter_mut().for_each(|one| one.is_protected = true);
    assert_eq!(doubt_first(&protected), None);
}

#[test]
fn a_capacity_explained_by_a_scale_up_is_doubted_once_the_scale_up_has_settled() {
    let mut group = Group::new(0, vec![]);
    group.write(0, 3, None);
    group.see(0, running(0..2));
    assert_eq!(group.target(), 3, "the reading lags");
    assert_eq!(doubt(&group.state, &group.reading(0, running(0..2))), None);
    group.now = group.now + Duration::from_secs(40);
    let reading = group.reading(0, running(0..2));
    assert_eq!(doubt(&group.state, &reading), Some(Doubt::CapacityBelowLive { capacity: 0, live: 2 }));
}

#[test]
fn a_surplus_is_no_contradiction_and_a_capacity_that_falls_further_is_one() {
    let mut group = Group::new(2, running(0..4));
    assert_eq!(doubt(&group.state, &group.reading(2, running(0..4))), None, "confirmed before");
    assert_eq!(doubt(&group.state, &group.reading(2, running(0..5))), None, "the cloud launches it itself");
    group.see(2, running(0..5));
    let reading = group.reading(1, running(0..5));
    assert_eq!(doubt(&group.state, &reading), Some(Doubt::CapacityBelowLive { capacity: 1, live: 5 }));
}

#[test]
fn a_surplus_that_stays_is_no_contradiction_while_deletions_lower_the_capacity() {
    let mut group = Group::new(7, running(0..7));
    group.see(7, running(0..10));
    group.delete(0..2);
    group.see(7, all(&[deleting(0..2, Counts::UntilDeleted), running(2..10)]));
    // Too long ago for the deletion to explain every lower capacity.
    group.now = group.now + Duration::from_secs(40);
    assert_eq!(doubt(&group.state, &group.reading(5, running(2..10))), None);
    let reading = group.reading(4, running(2..10));
    assert_eq!(doubt(&group.state, &reading), Some(Doubt::CapacityBelowLive { capacity: 4, live: 8 }));
}

#[test]
fn a_capacity_of_0_is_doubted_until_a_list_shows_what_became_of_the_deletions() {
    let mut group = Group::new(6, running(0..6));
    group.delete(0..6);
    group.now = group.now + Duration::from_secs(1);
    let mut reading = group.reading(0, vec![]).reading;
    reading.instances = None;
    let unseen = group.observation().with_capacity_of(reading, group.now, wall(group.seconds()));
    assert_eq!(doubt(&group.state, &unseen), Some(Doubt::CapacityFell { before: 6, after: 0, listed: 0 }));
    let seen = group.reading(0, deleting(2..6, Counts::UntilDeleted));
    assert_eq!(doubt(&group.state, &seen), None);
}

#[test]
fn instances_that_come_up_under_a_capacity_of_0_are_no_surplus() {
    let mut group = Group::new(0, vec![]);
    let reading = group.reading(0, running(0..6));
    assert_eq!(doubt(&group.state, &reading), Some(Doubt::CapacityBelowLive { capacity: 0, live: 6 }));
    group.see(0, running(0..6));
    assert_eq!(doubt(&group.state, &group.reading(0, running(0..6))), None, "confirmed before");
}

#[test]
fn deletions_by_headcount_are_no_contradiction() {
    let mut group = Group::new(10, running(0..10));
    group.delete(0..9);
    let reading = group.reading(1, running(9..10));
    assert_eq!(doubt(&group.state, &reading), None);
}

#[test]
fn a_capacity_that_falls_by_the_instances_being_deleted_is_no_contradiction() {
    // Two of eight are missing; four are deleted, and the capacity no longer counts them at once.
    let mut group = Group::new(8, running(0..6));
    group.delete(0..4);
    let reading = group.reading(4, all(&[deleting(0..4, Counts::UntilDeleted), running(4..6)]));
    assert_eq!(doubt(&group.state, &reading), None);
    group.state.observe(reading);
    assert_eq!((group.target(), group.reported(InstanceState::Creating)), (4, 2), "two are still missing");
}

#[test]
fn a_fall_that_goes_on_is_confirmed_and_a_second_fall_by_half_is_not() {
    let fell = |after| Doubt::CapacityFell { before: 60, after, listed: 60 };
    let gone = |after| Doubt::InstancesGone { before: 60, after };
    for doubt in [&fell as &dyn Fn(u32) -> Doubt, &gone] {
        let first = doubt(27);
        assert!(first.is_confirmed_by(&doubt(27)) && first.is_confirmed_by(&doubt(25)));
        for second in [28, 13, 0] {
            assert!(!first.is_confirmed_by(&doubt(second)), "{second} after 27");
        }
    }
    assert!(!fell(27).is_confirmed_by(&gone(27)));
}

#[test]
fn a_fall_of_the_capacity_is_not_confirmed_by_a_list_that_lost_half_of_its_instances() {
    let group = Group::new(29, running(0..29));
    let fell = |listed| doubt(&group.state, &group.reading(7, running(0..listed))).expect("doubted");
    let first = fell(7);
    assert!(first.is_confirmed_by(&fell(7)) && first.is_confirmed_by(&fell(6)));
    assert!(!first.is_confirmed_by(&fell(0)) && !first.is_confirmed_by(&fell(3)), "a doubt of its own");
    assert!(fell(0).is_confirmed_by(&first), "the list was wrong before");
    let below = |listed| doubt(&group.state, &group.reading(0, running(0..listed))).expect("doubted");
    assert!(below(29).is_confirmed_by(&below(20)) && !below(29).is_confirmed_by(&below(9)));
}
