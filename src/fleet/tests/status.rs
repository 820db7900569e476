//! What is reported to CA, on hand-made observations.

use super::super::accounting::Accounting;
use super::*;

#[test]
fn a_deletion_that_the_capacity_still_counts_leaves_the_target_at_once_and_comes_back_when_it_fails() {
    let mut group = Group::new(86, running(0..86));
    let delete = group.delete(0..38);
    group.see(86, all(&[deleting(0..38, Counts::UntilDeleted), running(38..86)]));
    assert_eq!(group.target(), 48);
    assert_eq!(group.reported(InstanceState::Deleting), 38);

    group.fail(delete, 86, running(0..86));
    assert_eq!((group.target(), group.reported(InstanceState::Running)), (86, 86));
    assert_eq!(plan::raised_capacity(&group.state, 5), Some(91));
}

#[test]
fn a_deletion_that_the_capacity_no_longer_counts_is_not_subtracted_twice() {
    let mut group = Group::new(86, running(0..86));
    group.delete(0..38);
    group.see(48, all(&[deleting(0..38, Counts::UntilDeleted), running(38..86)]));
    assert_eq!(group.target(), 48);
    assert_eq!(plan::raised_capacity(&group.state, 2), Some(50));
}

#[test]
fn the_observation_after_the_acceptance_shows_the_accounting() {
    let shows = |desired, instances| {
        let mut group = Group::new(10, running(0..10));
        group.delete(0..4);
        group.see(desired, instances);
        group.state.in_flight().accounting(&id(3))
    };
    let going = all(&[deleting(0..4, Counts::UntilDeleted), running(4..10)]);
    assert_eq!(shows(10, going.clone()), Accounting::Counted);
    assert_eq!(shows(6, going.clone()), Accounting::NotCounted);
    assert_eq!(shows(8, going), Accounting::Unknown, "neither explains it");
    // Two machines are gone already, and the capacity with them: it still counts the other two.
    let half = all(&[deleting(2..4, Counts::UntilDeleted), running(4..10)]);
    assert_eq!(shows(8, half), Accounting::Counted);
    // Four others have left as well: the capacity may have fallen by them, or by those that were named.
    assert_eq!(shows(6, all(&[deleting(0..4, Counts::UntilDeleted), running(8..10)])), Accounting::Unknown);
}

#[test]
fn after_a_restart_instances_being_deleted_are_not_in_the_target_under_either_accounting() {
    let list = all(&[deleting(0..3, Counts::UntilDeleted), running(3..10)]);
    for desired in [10, 7] {
        assert_eq!(Group::new(desired, list.clone()).target(), 7, "capacity {desired}");
    }
}

#[test]
fn terminating_instances_hide_no_shortfall_where_the_capacity_never_counts_them() {
    let group = Group::new(5, all(&[running(0..2), deleting(2..5, Counts::No)]));
    assert_eq!((group.target(), group.placeholders().len()), (5, 3));
    assert_eq!(group.reported(InstanceState::Deleting), 3);
}

#[test]
fn standby_instances_are_listed_but_not_part_of_the_target_or_the_shortfall() {
    let standby = vec![instance(9, InstanceState::Running, Counts::No)];
    let group = Group::new(2, all(&[running(0..2), standby]));
    assert_eq!((group.target(), group.placeholders().len(), group.reported(InstanceState::Running)), (2, 0, 3));
}

#[test]
fn a_write_shows_in_the_target_before_any_read_does() {
    let mut group = Group::new(3, running(0..3));
    group.write(3, 5, None);
    assert_eq!((group.target(), group.reported(InstanceState::Creating)), (5, 2));
    group.see(3, running(0..3)); // a read that lags behind
    assert_eq!(group.target(), 5);
    group.see(5, running(0..3));
    assert_eq!(group.target(), 5);
    group.see(3, running(0..3)); // a replica that lags behind even further
    assert_eq!(group.target(), 5);
}

#[test]
fn an_accepted_deletion_shows_in_the_target_and_the_states_before_any_read_does() {
    let mut group = Group::new(3, running(0..3));
    group.delete(0..1);
    assert_eq!((group.target(), group.reported(InstanceState::Deleting)), (2, 1));
    group.see(3, running(0..3)); // a read that lags behind
    assert_eq!((group.target(), group.reported(InstanceState::Deleting)), (2, 1));
}

#[test]
fn a_scale_up_is_fully_in_the_target_beside_deletions_by_another_client() {
    // Somebody else has lowered the group from 7 to 2, and five of its instances are on their way out.
    let mut group = Group::new(2, all(&[running(0..2), deleting(2..7, Counts::UntilDeleted)]));
    assert_eq!(group.target(), 2);
    group.write(2, 7, Some("resize"));
    assert_eq!(group.target(), 7, "before any read");
    // One of them may still be part of a capacity of 3, and no more than that.
    let mut group = Group::new(3, all(&[running(0..2), deleting(2..7, Counts::UntilDeleted)]));
    assert_eq!(group.target(), 2);
    group.write(3, 8, Some("resize"));
    assert_eq!(group.target(), 7, "before any read");
}

#[test]
fn instances_that_the_capacity_was_seen_not_to_count_hide_no_failed_launch() {
    let mut group = Group::new(8, running(0..8));
    let leaving = deleting(0..8, Counts::UntilDeleted);
    group.see(0, leaving.clone());
    group.write(0, 7, Some("raise"));
    // One launch of seven has failed by then.
    group.see(7, all(&[leaving.clone(), running(8..14)]));
    assert_eq!((group.target(), group.placeholders().len()), (7, 1));
    // A deletion that failed is seen as what it is.
    group.see(8, all(&[running(0..1), leaving[1..].to_vec(), running(8..14)]));
    assert_eq!((group.target(), group.placeholders().len()), (8, 1));
}

#[test]
fn instances_read_before_the_capacity_fell_do_not_show_what_it_counts() {
    let mut group = Group::new(8, all(&[running(0..5), deleting(5..8, Counts::UntilDeleted)]));
    // Three were evicted between the instances and the capacity, which still counts those on their way out.
    group.see_etag("2", 5, all(&[running(0..5), deleting(5..8, Counts::UntilDeleted)]));
    group.see_etag("2", 5, all(&[running(0..2), deleting(5..8, Counts::UntilDeleted)]));
    assert_eq!((group.target(), group.placeholders().len()), (2, 0));
}

#[test]
fn deleting_as_many_as_were_just_added_shows_at_once() {
    let mut group = Group::new(2, running(0..2));
    group.write(2, 4, None);
    group.see(4, running(0..4));
    group.delete(0..2);
    group.see(2, all(&[deleting(0..2, Counts::No), running(2..4)]));
    assert_eq!((group.target(), group.placeholders().len()), (2, 0));
}

#[test]
fn a_scale_up_is_never_computed_from_a_read_that_lags_behind() {
    let mut group = Group::new(5, running(0..5));
    group.write(5, 10, None);
    group.see(5, running(0..5));
    assert_eq!(plan::raised_capacity(&group.state, 2), Some(12));
}

#[test]
fn a_change_by_another_client_shows_at_once_with_or_without_operations() {
    let mut group = Group::new(9, running(0..9));
    group.write(9, 10, Some("scale-up"));
    group.see(10, running(0..9));
    group.see(8, running(0..7)); // two were evicted
    assert_eq!(group.target(), 8);
}

#[test]
fn placeholders_keep_their_ids_and_disappear_as_instances_appear() {
    let mut group = Group::new(2, running(0..2));
    group.write(2, 5, None);
    let named = group.placeholders();
    assert_eq!(named.len(), 3);
    group.see(5, running(0..3));
    assert_eq!(group.placeholders(), named[1..]);
    group.see(5, running(0..5));
    assert!(group.placeholders().is_empty());
}

#[test]
fn a_scale_up_that_fails_again_has_new_placeholders() {
    let mut group = Group::new(1, running(0..1));
    group.write(1, 3, None);
    let first: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.cancel(&first);
    group.write(3, 1, None);
    assert_eq!((group.target(), group.placeholders().len()), (1, 0));
    group.write(1, 3, None);
    let second: BTreeSet<_> = group.placeholders().into_iter().collect();
    assert_eq!(second.len(), 2);
    assert!(first.is_disjoint(&second));
}

#[test]
fn only_failures_since_the_shortfall_began_explain_it() {
    let mut group = Group::new(2, running(0..2));
    group.write(2, 4, None);
    let since = group.state.placeholders()[0].since;
    group.see(4, running(0..2));
    let week = Duration::from_secs(7 * 24 * 3600);
    let mut activity = LaunchActivity { failures: vec![shortage(since - week)], ..LaunchActivity::default() };
    group.state.learn_activity(activity.clone());
    assert_eq!(group.failed(), 0);

    activity.failures.insert(0, shortage(since + Duration::from_secs(1)));
    activity.under_way = 1;
    group.state.learn_activity(activity);
    assert_eq!(group.failed(), 1, "one launch is still under way");
}

#[test]
fn capacity_that_the_cloud_took_back_stays_in_the_target_until_its_placeholders_are_deleted() {
    let mut group = Group::new(3, running(0..3));
    let scale_up = group.write(3, 8, Some("scale-up"));
    group.see(8, running(0..3));
    group.fail(scale_up, 3, running(0..3));
    assert_eq!((group.target(), group.failed()), (8, 5));

    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.cancel(&named);
    assert_eq!((group.target(), group.failed()), (3, 0));
    assert_eq!(plan::reduced_capacity(&group.state, 0), None, "there is nothing to write");
}

#[test]
fn instances_that_vanish_while_being_created_are_a_failed_scale_up_and_not_an_eviction() {
    let creating = |numbers: std::ops::Range<u32>| -> Vec<Instance> {
        numbers.map(|number| instance(number, InstanceState::Creating, Counts::UntilDeleted)).collect()
    };
    let mut group = Group::new(2, running(0..2));
    let scale_up = group.write(2, 5, Some("scale-up"));
    group.see(5, all(&[running(0..2), creating(2..5)]));
    group.see(2, running(0..2)); // rolled back, and not reported yet
    group.fail(scale_up, 2, running(0..2));
    assert_eq!((group.target(), group.failed()), (5, 3));
}

#[test]
fn capacity_that_the_cloud_took_back_is_forgotten_after_a_while() {
    let mut group = Group::new(3, running(0..3));
    let scale_up = group.write(3, 8, Some("scale-up"));
    group.fail(scale_up, 3, running(0..3));
    group.now += Duration::from_secs(16 * 60);
    group.see(3, running(0..3));
    assert_eq!(group.target(), 3);
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
    group.state.observe(observation.clone(), &name);
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.cancel(&named);
    assert_eq!(plan::reduced_capacity(&group.state, 0), Some(30));
    group.write(35, 30, None);
    assert_eq!((group.target(), group.reported(InstanceState::Creating)), (1, 0));
    assert_eq!(plan::reduced_capacity(&group.state, 0), None);

    observation.reading.desired = 30;
    observation.instances = running(0..2);
    group.state.observe(observation, &name);
    assert_eq!(group.target(), 2, "an instance came all the same");
}

#[test]
fn reinstating_cancelled_placeholders_needs_no_write() {
    let mut group = Group::new(5, running(0..2));
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.cancel(&named);
    assert_eq!(group.state.reinstate(2, wall(50), &name), 2);
    assert_eq!(group.target(), 4);
    assert!(group.state.status().instances.iter().all(|one| !named.contains(&one.id)));
}

#[test]
fn a_decrease_takes_failed_placeholders_first_and_never_an_instance() {
    let mut group = Group::new(4, running(0..2));
    let failures = vec![shortage(wall(10_000))];
    group.state.learn_activity(LaunchActivity { failures, under_way: 1 });
    let none = DeletePlan::default();
    let one = plan::decrease(&group.state, 1, &none);
    let failed =
        group.state.placeholders().iter().find(|placeholder| placeholder.failure.is_some()).expect("one failed");
    assert_eq!(one, BTreeSet::from([failed.id.clone()]));
    assert_eq!(plan::decrease(&group.state, 40, &none).len(), 2);
    let claimed = DeletePlan { placeholders: one, ..DeletePlan::default() };
    assert_eq!(plan::decrease(&group.state, 40, &claimed).len(), 1);
}

#[test]
fn an_observation_after_a_failure_counts_even_if_the_operation_has_settled() {
    let mut group = Group::new(5, running(0..5));
    group.fail(OperationId(99), 9, running(0..9));
    assert_eq!(group.target(), 9);
    assert_eq!(plan::raised_capacity(&group.state, 1), Some(10), "a write is computed on what was read last");
}

#[test]
fn a_deletion_during_a_surplus_leaves_the_target_at_once_under_either_accounting() {
    let mut group = Group::new(10, running(0..14));
    group.delete(0..1);
    assert_eq!(group.target(), 9);
    group.see(10, all(&[deleting(0..1, Counts::UntilDeleted), running(1..14)]));
    assert_eq!(group.target(), 9, "the capacity still counts it, although more instances live than it has room for");
    group.see(9, running(1..14));
    assert_eq!(group.target(), 9);
    group.delete(1..2);
    group.see(8, all(&[deleting(1..2, Counts::UntilDeleted), running(2..14)]));
    assert_eq!(group.target(), 8, "this time the capacity has given it up at once");
}

#[test]
fn a_cloud_that_removes_its_own_surplus_does_not_lower_the_target() {
    let mut group = Group::new(12, running(0..16));
    group.see(12, all(&[running(0..11), deleting(12..16, Counts::UntilDeleted)]));
    assert_eq!((group.target(), group.reported(InstanceState::Creating)), (12, 1), "one was evicted");
    group.see(12, all(&[running(0..11), deleting(13..16, Counts::UntilDeleted)]));
    assert_eq!(group.target(), 12);
}

#[test]
fn a_marked_node_whose_deletion_failed_is_left_out_until_the_mark_goes_or_it_is_named_again() {
    let mut group = Group::new(5, running(0..5));
    let marked: BTreeSet<ProviderId> = ids(0..2).into_iter().collect();
    let shown = |group: &Group, marked: &BTreeSet<ProviderId>| {
        let status = group.state.status_with_marked(marked);
        (status.target, status.in_state(InstanceState::Deleting))
    };
    assert_eq!(shown(&group, &marked), (5, 0), "a mark alone says nothing: CA may be about to delete it");
    let operation = group.delete(0..1);
    group.fail(operation, 5, running(0..5));
    assert_eq!(shown(&group, &marked), (4, 1), "CA would take it for upcoming, and wait for it");
    assert_eq!(shown(&group, &BTreeSet::new()), (5, 0), "CA knows that it lives");
    let named = plan::delete(
        &group.state,
        &[plan::NamedNode { id: id(0), kind: plan::NodeKind::Registered }],
        &DeletePlan::default(),
    );
    assert_eq!(named.map(|plan| plan.instances), Ok(ids(0..1)), "naming it again deletes it again");
    group.delete(0..1);
    group.see(4, running(1..5));
    assert_eq!(shown(&group, &marked), (4, 0));
}

#[test]
fn what_a_read_showed_of_a_deletion_holds_after_a_scale_up_whose_response_was_lost() {
    let mut group = Group::new(8, running(0..8));
    group.delete(0..7);
    // Reads for a write show the capacity alone; the instances are those from before the deletion.
    group.see_capacity(1);
    assert_eq!(group.target(), 1, "the capacity dropped them at once");
    group.state.send_capacity((1, 7), WriteReason::Requested, true, group.now);
    group.see_capacity(7);
    assert_eq!(group.target(), 7);
}
