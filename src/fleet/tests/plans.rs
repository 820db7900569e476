//! What is done for each request, and which observations are believed.

use super::super::doubt::{Doubt, doubt, doubt_first};
use super::super::error::Refusal;
use super::super::plan::NamedNode;
use super::*;

fn named(numbers: std::ops::Range<u32>) -> Vec<NamedNode> {
    ids(numbers).into_iter().map(|id| NamedNode { id, create_error: false }).collect()
}

#[test]
fn a_call_that_would_break_the_minimum_is_refused_as_a_whole() {
    let group = Group::new(4, running(0..4));
    let none = DeletePlan::default();
    let judge = |nodes: &[NamedNode], claimed| plan::delete(&group.state, nodes, claimed);
    assert_eq!(judge(&named(0..4), &none), Err(Refusal::BelowMin { asked: 4, room: 3, min: 1 }));
    let first = judge(&named(0..3), &none).expect("there is room for three");
    assert_eq!(first.instances, ids(0..3));
    assert_eq!(judge(&named(3..4), &first), Err(Refusal::BelowMin { asked: 1, room: 0, min: 1 }));
    assert_eq!(judge(&named(0..3), &first), Ok(first.clone()), "requested already; both get one response");
}

#[test]
fn deleting_an_instance_that_is_gone_or_being_deleted_succeeds_without_a_call() {
    let group = Group::new(4, all(&[running(0..4), deleting(4..5, Counts::No)]));
    let plan = plan::delete(&group.state, &named(4..9), &DeletePlan::default());
    assert_eq!(plan, Ok(DeletePlan::default()));
}

#[test]
fn failed_instances_can_be_deleted_at_the_minimum_and_healthy_ones_cannot() {
    let mut machines = running(0..2);
    machines[1].failure = Some(shortage(wall(0)));
    let group = Group::new(2, machines);
    let judge = |nodes: &[NamedNode]| plan::delete(&group.state, nodes, &DeletePlan::default());
    assert_eq!(judge(&named(1..2)).map(|plan| plan.instances), Ok(ids(1..2)));
    assert_eq!(judge(&named(0..1)), Err(Refusal::BelowMin { asked: 1, room: 0, min: 1 }));
    let create_error = [NamedNode { id: id(0), create_error: true }];
    assert_eq!(judge(&create_error).map(|plan| plan.instances), Ok(ids(0..1)));
}

#[test]
fn ids_match_in_any_case_and_the_cloud_gets_its_own_spelling() {
    let group = Group::new(2, running(0..2));
    let shouted = [NamedNode { id: ProviderId::from("I-1"), create_error: false }];
    let plan = plan::delete(&group.state, &shouted, &DeletePlan::default());
    assert_eq!(plan.map(|plan| plan.instances), Ok(vec![id(1)]));
}

#[test]
fn growth_stops_at_the_maximum_and_where_the_group_cannot_grow() {
    let group = Group::new(98, running(0..98));
    assert_eq!(plan::increase(&group.state, 2, 0), Ok(()));
    let refused = plan::increase(&group.state, 1, 2);
    assert_eq!(refused, Err(Refusal::AboveMax { delta: 1, target: 100, max: 100 }));
    let mut group = group;
    let mut suspended = group.observation().clone();
    suspended.reading.growth = Permit::Withheld("Launch is suspended".into());
    group.state.observe(suspended, &name);
    assert!(matches!(plan::increase(&group.state, 1, 0), Err(Refusal::GrowthWithheld { .. })));
}

#[test]
fn no_group_grows_beyond_the_largest_capacity_of_any_group() {
    let mut group = Group::new(98, running(0..98));
    let mut boundless = group.observation().clone();
    boundless.reading.max = u32::MAX;
    group.state.observe(boundless, &name);
    let refused = plan::increase(&group.state, i32::MAX.unsigned_abs(), u32::MAX);
    let refusal = refused.expect_err("far too many");
    assert!(refusal.to_string().contains("above its maximum of 100000"), "{refusal}");
}

#[test]
fn a_surplus_that_the_cloud_launched_permits_a_scale_up() {
    let mut group = Group::new(10, running(0..10));
    group.see(10, running(0..14));
    assert_eq!(plan::raised_capacity(&group.state, 2), Some(12));
}

#[test]
fn a_surplus_found_at_the_start_permits_a_scale_up_unless_more_than_twice_the_capacity_live() {
    assert_eq!(plan::raised_capacity(&Group::new(10, running(0..14)).state, 2), Some(12));
    assert_eq!(plan::raised_capacity(&Group::new(1, running(0..90)).state, 2), None);
    assert_eq!(
        plan::raised_capacity(&Group::new(0, running(0..90)).state, 90),
        Some(90),
        "that is room for all of them"
    );
}

#[test]
fn no_scale_up_is_written_below_the_live_instances_after_the_capacity_fell() {
    let mut group = Group::new(90, running(0..90));
    group.see(0, running(0..90));
    assert_eq!(plan::raised_capacity(&group.state, 1), None);
    group.see(0, running(0..2));
    assert_eq!(plan::raised_capacity(&group.state, 2), Some(2), "once there is room for what lives");
}

#[test]
fn contradictory_observations_are_doubted_until_a_second_one_confirms_them() {
    let group = Group::new(90, running(0..90));
    let doubted = |desired, instances| {
        let reading = group.reading(desired, instances);
        doubt(&group.state, &reading)
    };
    assert_eq!(doubted(0, running(0..90)), Some(Doubt::CapacityBelowLive { capacity: 0, live: 90 }));
    assert_eq!(doubted(0, vec![]), Some(Doubt::CapacityFell { before: 90, after: 0 }));
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
}

#[test]
fn a_capacity_explained_by_a_scale_up_is_doubted_once_the_scale_up_has_settled() {
    let mut group = Group::new(0, vec![]);
    group.write(0, 3, None);
    group.see(0, running(0..2));
    assert_eq!(group.target(), 3, "the reading lags");
    assert_eq!(doubt(&group.state, &group.reading(0, running(0..2))), None);
    group.now += Duration::from_secs(40);
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
    group.state.observe(reading, &name);
    assert_eq!((group.target(), group.reported(InstanceState::Creating)), (4, 2), "two are still missing");
}

#[test]
fn an_instance_that_comes_up_under_a_reduction_raises_the_capacity_back() {
    let mut group = Group::new(7, running(0..6));
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.cancel(&named);
    group.write(7, 6, None);
    assert_eq!(plan::healed_capacity(&group.state), None);
    let late = group.reading(6, running(0..7));
    assert_eq!(doubt(&group.state, &late), None);
    group.see(6, running(0..7));
    assert_eq!(plan::healed_capacity(&group.state), Some(7));
    group.now += Duration::from_secs(40);
    group.see(6, running(0..7));
    assert_eq!(plan::healed_capacity(&group.state), None, "another client's doing by now");
}

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

#[test]
fn a_scale_up_that_undid_a_larger_one_of_another_client_is_healed() {
    let mut group = Group::new(3, running(0..3));
    group.write(3, 5, None);
    group.see(5, running(0..3));
    assert!(!group.state.is_watched(group.now), "nothing to watch for");
    group.see(5, running(0..9));
    assert_eq!(plan::healed_capacity(&group.state), Some(9));
    group.see(2, running(0..9));
    assert_eq!(plan::healed_capacity(&group.state), None, "lower than what was written");
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
    assert_eq!(plan::healed_capacity(&group.state), Some(5), "deletions lowered it further");
    group.write(4, 5, None);
    group.see(5, running(2..8));
    assert_eq!(plan::healed_capacity(&group.state), Some(6), "one more came up");
    group.see(3, running(2..8));
    assert_eq!(plan::healed_capacity(&group.state), None, "lower than anything of ours explains");
}

#[test]
fn a_start_raises_nothing() {
    assert_eq!(plan::healed_capacity(&Group::new(10, running(0..14)).state), None);
}

#[test]
fn a_surplus_is_never_raised_above_the_capacity_before_our_reduction_or_the_maximum() {
    let mut group = Group::new(12, running(0..10));
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.cancel(&named);
    group.write(12, 10, None);
    group.see(10, running(0..15));
    assert_eq!(plan::healed_capacity(&group.state), Some(12));
    group.write_heal(10, 12);
    group.see(12, running(0..15));
    assert_eq!(plan::healed_capacity(&group.state), None, "a heal does not raise its own bound");
    let mut group = Group::new(98, running(0..98));
    group.write(98, 100, None);
    group.see(100, running(0..105));
    assert_eq!(plan::healed_capacity(&group.state), None, "never above the maximum");
}

#[test]
fn the_capacity_is_raised_back_for_deletions_that_failed_after_it_dropped_them() {
    let mut group = Group::new(8, running(0..8));
    let delete = group.delete(0..3);
    group.see(5, all(&[deleting(0..3, Counts::UntilDeleted), running(3..8)]));
    assert_eq!(plan::healed_capacity(&group.state), None);
    group.fail(delete, 5, running(0..8));
    assert_eq!(plan::healed_capacity(&group.state), Some(8));
    group.see(5, running(0..10));
    assert_eq!(plan::healed_capacity(&group.state), Some(8), "at most to what it was before the deletion");
}

#[test]
fn a_deletion_without_a_response_counts_as_done_until_a_read_settles_it() {
    let lost = || {
        let mut group = Group::new(5, running(0..5));
        group.state.lose_deletion(OperationId(9), ids(0..2).into_iter().collect(), group.now);
        assert_eq!((group.target(), group.reported(InstanceState::Deleting)), (3, 2));
        group
    };
    let mut group = lost();
    group.see(5, running(0..5));
    assert_eq!(group.target(), 3, "a read may lag behind");
    assert!(group.state.in_flight().is_unsettled(&id(0)));
    group.now += Duration::from_secs(31);
    group.see(5, running(0..5));
    assert_eq!((group.target(), group.reported(InstanceState::Deleting)), (5, 0), "it did not take effect");
    assert!(!group.state.in_flight().has_unsettled());

    let mut group = lost();
    group.see(4, all(&[deleting(0..1, Counts::No), running(1..5)]));
    assert!(!group.state.in_flight().is_unsettled(&id(0)), "it took effect for this one");
    assert!(group.state.in_flight().is_unsettled(&id(1)));
    assert_eq!(group.target(), 3);
    group.see(3, running(2..5));
    assert!(!group.state.in_flight().has_unsettled());
    assert_eq!(group.target(), 3);
}

#[test]
fn instances_that_the_cloud_reports_as_leaving_are_leaving() {
    let mut group = Group::new(5, running(0..5));
    group.state.note_leaving(OperationId(99), &ids(0..1), group.now);
    group.see(5, running(0..5));
    assert_eq!(group.target(), 4);
    group.now += Duration::from_secs(40);
    group.see(5, running(0..5));
    assert_eq!(group.target(), 5, "unless the readings go on to say otherwise");
}

#[test]
fn a_heal_that_was_refused_is_tried_again() {
    let mut group = Group::new(7, running(0..6));
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.cancel(&named);
    group.write(7, 6, None);
    group.see(6, running(0..7));
    group.state.send_capacity((6, 7), WriteReason::Heal, false, group.now);
    assert_eq!(plan::healed_capacity(&group.state), Some(7));
    group.write_heal(6, 7);
    group.see(7, running(0..7));
    assert_eq!(plan::healed_capacity(&group.state), None, "until one is accepted");
}

#[test]
fn a_reduction_by_another_client_is_not_undone() {
    let mut group = Group::new(7, running(0..7));
    group.see(6, running(0..7));
    assert_eq!(plan::healed_capacity(&group.state), None);
}

#[test]
fn the_target_is_derived_again_from_each_observation() {
    let mut group = Group::new(5, running(0..5));
    for _ in 0..10 {
        let delete = group.delete(0..2);
        group.see(5, running(0..5));
        assert_eq!(group.target(), 3);
        group.fail(delete, 5, running(0..5));
        assert_eq!(group.target(), 5, "a failed operation leaves nothing behind");
    }
    assert_eq!(census(group.observation(), group.state.in_flight()).shortfall, 0);
}

#[test]
fn one_empty_list_does_not_settle_a_deletion_without_a_response() {
    let mut group = Group::new(1, running(0..1));
    let ended = group.now;
    group.state.lose_deletion(OperationId(9), ids(0..1).into_iter().collect(), ended);
    assert_eq!((group.target(), group.state.may_live_on()), (0, 1));
    group.now += Duration::from_secs(1);
    let empty = group.reading(1, vec![]);
    let doubted = doubt(&group.state, &empty);
    assert_eq!(
        doubted,
        Some(Doubt::InstancesGone { before: 1, after: 0 }),
        "the list may be wrong, and the instance live"
    );
    group.see(0, deleting(0..1, Counts::UntilDeleted));
    let empty = group.reading(0, vec![]);
    assert_eq!(doubt(&group.state, &empty), None, "it was seen being deleted");
}
