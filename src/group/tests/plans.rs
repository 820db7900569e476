//! The plan for each request.

use super::super::plan::Replacing;
use super::super::refusal::Refusal;
use super::super::request::{NamedNode, NodeKind};
use super::*;
use crate::cloud::GrowsBy;

fn named(numbers: std::ops::Range<u32>) -> Vec<NamedNode> {
    ids(numbers).into_iter().map(|id| NamedNode { id, kind: NodeKind::Registered }).collect()
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
fn a_preempted_deletion_claims_its_room_until_it_is_sent_again() {
    let mut group = Group::new(4, running(0..4));
    group.see(4, running(0..4));
    let pending = ids(0..2).into_iter().map(|id| (id, group.now)).collect();
    let claimed = plan::pending(&group.state, &pending);
    let node = |number| NamedNode { id: id(number), kind: NodeKind::Registered };
    // The minimum is 1.
    assert!(plan::delete(&group.state, &[node(2)], &claimed).is_ok());
    assert!(plan::delete(&group.state, &[node(2), node(3)], &claimed).is_err());
    assert!(plan::delete(&group.state, &[node(0), node(2)], &claimed).is_ok(), "one of them is claimed already");
    assert!(plan::permits_again(&group.state, &pending).is_ok());
    group.see(2, running(0..2));
    assert!(plan::permits_again(&group.state, &pending).is_err(), "the others have left meanwhile");
}

#[test]
fn nothing_is_lowered_on_a_read_that_is_older_than_our_own_writes() {
    let mut group = Group::new(10, counted(0..8));
    group.now = group.now + Duration::from_secs(60);
    group.see(10, counted(0..8));
    let missing = group.placeholders().into_iter().collect();
    group.state.cancel(&missing);
    assert_eq!(plan::reduced_capacity(&group.state, 0), Some(8));
    group.operations += 1;
    let write = DeletionWrite {
        sent: wall(1),
        ids: ids(0..1).into_iter().collect(),
        accepted: group.now,
        handle: None,
        attempt: Attempt::First,
    };
    group.state.accept_deletion(OperationId(group.operations), write);
    group.see(10, counted(0..8));
    assert_eq!(plan::reduced_capacity(&group.state, 0), None, "the read is older than the deletion");
    group.see(9, all(&[deleting(0..1, Counts::No), counted(1..8)]));
    assert_eq!(plan::reduced_capacity(&group.state, 0), Some(7));
}

#[test]
fn nothing_is_lowered_while_a_deletion_without_a_response_may_still_lower_the_capacity() {
    let mut group = Group::new(10, counted(0..8));
    group.now = group.now + Duration::from_secs(60);
    group.see(10, counted(0..8));
    let missing = group.placeholders().into_iter().collect();
    group.state.cancel(&missing);
    group.state.lose_deletion(OperationId(9), ids(0..2).into_iter().collect(), wall(1), group.now);
    group.see(10, counted(0..8));
    assert_eq!(plan::reduced_capacity(&group.state, 0), None);
    group.see(8, counted(2..8));
    assert_eq!(plan::reduced_capacity(&group.state, 0), Some(6));
}

/// Running instances of a cloud that says which ones its capacity counts.
fn counted(numbers: std::ops::Range<u32>) -> Vec<Instance> {
    numbers.map(|number| instance(number, InstanceState::Running, Counts::Yes)).collect()
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
    machines[1].failure = Some(shortage(wall(0)).into());
    let group = Group::new(2, machines);
    let judge = |nodes: &[NamedNode]| plan::delete(&group.state, nodes, &DeletePlan::default());
    assert_eq!(judge(&named(1..2)).map(|plan| plan.instances), Ok(ids(1..2)));
    assert_eq!(judge(&named(0..1)), Err(Refusal::BelowMin { asked: 1, room: 0, min: 1 }));
    let create_error = [NamedNode { id: id(0), kind: NodeKind::CreateError }];
    assert_eq!(judge(&create_error).map(|plan| plan.instances), Ok(ids(0..1)));
}

#[test]
fn placeholders_that_are_given_up_leave_no_room_for_nodes() {
    // The minimum is 1, and two of five are missing.
    let group = Group::new(5, running(0..3));
    let missing: Vec<NamedNode> =
        group.placeholders().into_iter().map(|id| NamedNode { id, kind: NodeKind::Unregistered }).collect();
    assert_eq!(missing.len(), 2);
    let judge = |nodes: &[NamedNode], claimed: &DeletePlan| plan::delete(&group.state, nodes, claimed);
    let below = Err(Refusal::BelowMin { asked: 3, room: 2, min: 1 });
    let both = [missing.clone(), named(0..3)].concat();
    assert_eq!(judge(&both, &DeletePlan::default()), below, "in one call");
    let claimed = judge(&missing, &DeletePlan::default()).expect("they are no instances");
    assert_eq!(judge(&named(0..3), &claimed), below, "in two calls of a batch");
    assert!(judge(&named(0..2), &claimed).is_ok());
}

#[test]
fn instances_that_never_became_nodes_are_replaced_at_the_minimum() {
    let group = Group::new(3, running(0..3));
    let unregistered = |numbers: std::ops::Range<u32>| -> Vec<NamedNode> {
        named(numbers).into_iter().map(|node| NamedNode { kind: NodeKind::Unregistered, ..node }).collect()
    };
    let judge = |nodes: &[NamedNode], claimed: &DeletePlan| plan::delete(&group.state, nodes, claimed);
    // The minimum is 1: two can go, and the third one is replaced.
    let plan = judge(&unregistered(0..3), &DeletePlan::default()).expect("allowed");
    assert_eq!((plan.instances.len(), plan.replaced.len()), (3, 1));
    let two = judge(&named(0..2), &DeletePlan::default()).expect("there is room");
    assert_eq!(judge(&unregistered(2..3), &two).map(|plan| plan.replaced), Ok(ids(2..3).into_iter().collect()));
    assert_eq!(judge(&named(2..3), &two), Err(Refusal::BelowMin { asked: 1, room: 0, min: 1 }), "a node is not");

    // Where nothing is launched, nothing is replaced. Neither is it where it would come up in another zone.
    let (mut suspended, mut zone) = (group.observation().clone(), group.observation().clone());
    suspended.reading.growth = Permit::Withheld("Launch is suspended".into());
    zone.reading.consistency.grows_by = GrowsBy::LaunchInZone;
    for observation in [suspended, zone] {
        let mut group = group.clone();
        group.state.observe(observation);
        let refused = plan::delete(&group.state, &unregistered(0..3), &DeletePlan::default());
        assert_eq!(refused, Err(Refusal::BelowMin { asked: 3, room: 2, min: 1 }));
    }
}

#[test]
fn room_for_replacements_is_made_first_unless_the_maximum_leaves_none() {
    let mut group = Group::new(3, running(0..3));
    group.see_etag("1", 3, running(0..3));
    assert_eq!(plan::replacing(&group.observation().reading), Some(Replacing::ByRaising));
    assert_eq!(plan::raised_first(&group.state, 2), Ok(2));
    let at_max = |max: u32| {
        let mut group = group.clone();
        let mut observation = group.tagged("2", 3, running(0..3));
        observation.reading.max = max;
        group.state.observe(observation);
        plan::raised_first(&group.state, 2)
    };
    assert_eq!((at_max(5), at_max(4), at_max(3)), (Ok(2), Ok(0), Ok(0)));

    // Without a precondition, nothing is raised that nobody asked for.
    let mut reading = group.observation().reading.clone();
    reading.consistency = Consistency::SCALE_SET_WITHOUT_ETAG;
    assert_eq!(plan::replacing(&reading), None);
}

#[test]
fn what_is_owed_for_deleted_instances_is_in_the_target_until_it_is_launched_or_the_deletion_fails() {
    let mut group = Group::new(3, running(0..3));
    group.see_etag("1", 3, running(0..3));
    let deletion = group.delete(0..2);
    assert_eq!(group.target(), 1);
    group.state.owe(deletion, 2);
    assert_eq!((group.target(), group.state.in_flight().owed_now()), (3, 2));
    let mut failed = group.clone();
    let observation = failed.tagged("2", 3, running(0..3));
    failed.fail_with(deletion, observation);
    assert_eq!((failed.target(), failed.state.in_flight().owed()), (3, 0), "they live");
    group.see_etag("2", 3, all(&[deleting(0..2, Counts::UntilDeleted), running(2..3)]));
    group.write(3, 5, Some("raise"));
    group.state.settle_owed();
    assert_eq!((group.target(), group.state.in_flight().owed()), (3, 0), "they are launched");
}

#[test]
fn ids_match_in_any_case_and_the_cloud_gets_its_own_spelling() {
    let group = Group::new(2, running(0..2));
    let shouted = [NamedNode { id: ProviderId::from("I-1"), kind: NodeKind::Registered }];
    let plan = plan::delete(&group.state, &shouted, &DeletePlan::default());
    assert_eq!(plan.map(|plan| plan.instances), Ok(vec![id(1)]));
}

#[test]
fn growth_stops_at_the_maximum_and_where_the_group_cannot_grow() {
    let group = Group::new(98, running(0..98));
    assert_eq!(plan::increase(&group.state, 2, None, 0), Ok(()));
    let refused = plan::increase(&group.state, 1, None, 2);
    assert_eq!(refused, Err(Refusal::AboveMax { delta: 1, target: 100, max: 100 }));
    let mut group = group;
    let mut suspended = group.observation().clone();
    suspended.reading.growth = Permit::Withheld("Launch is suspended".into());
    group.state.observe(suspended);
    assert!(matches!(plan::increase(&group.state, 1, None, 0), Err(Refusal::GrowthWithheld { .. })));
}

#[test]
fn what_we_wrote_before_another_client_lowered_it_takes_no_growth_above_the_maximum() {
    let mut group = Group::new(95, running(0..95));
    group.write(95, 98, None);
    group.see(96, running(0..95));
    assert_eq!(group.target(), 96);
    assert_eq!(plan::raised_capacity(&group.state, 1), Some(99), "the read may be older than our write");
    assert_eq!(plan::raised_capacity(&group.state, 4), Some(100));

    let mut lowered = group.reading(96, running(0..95));
    lowered.reading.max = 97;
    group.state.observe(lowered);
    assert_eq!(plan::raised_capacity(&group.state, 1), None, "98 may be the capacity, and 97 would delete one");
}

#[test]
fn no_group_grows_beyond_the_largest_capacity_of_any_group() {
    let mut group = Group::new(98, running(0..98));
    let mut boundless = group.observation().clone();
    boundless.reading.max = u32::MAX;
    group.state.observe(boundless);
    let refused = plan::increase(&group.state, i32::MAX.unsigned_abs(), None, u32::MAX);
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

fn protected(numbers: std::ops::Range<u32>) -> Vec<Instance> {
    let of = |number| Instance { is_protected: true, ..instance(number, InstanceState::Running, Counts::Yes) };
    numbers.map(of).collect()
}

/// AWS terminates the others, and these are there to stay.
#[test]
fn protected_instances_beyond_a_capacity_that_fell_are_made_room_for() {
    let mut group = Group::new(10, all(&[protected(0..5), counted(5..10)]));
    group.see(3, all(&[protected(0..5), counted(5..10)]));
    assert_eq!(plan::raised_capacity(&group.state, 1), None, "some are about to go");
    group.see(3, protected(0..5));
    assert_eq!((group.target(), plan::raised_capacity(&group.state, 1)), (5, Some(6)));
}

#[test]
fn instances_that_the_capacity_no_longer_counted_explain_no_lower_one() {
    let standby = (10..13).map(|number| instance(number, InstanceState::Running, Counts::No)).collect();
    for uncounted in [deleting(10..13, Counts::No), standby] {
        let mut group = Group::new(10, all(&[protected(0..10), uncounted]));
        // They go, and another client lowers the capacity, which deletes no protected instance.
        group.see(8, protected(0..10));
        assert_eq!((group.target(), plan::raised_capacity(&group.state, 1)), (10, Some(11)), "ten stay");
    }
}
