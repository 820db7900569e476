//! Placeholders of missing instances.

use super::super::operation::Failed;
use super::*;

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
    group.now = group.now + Duration::from_secs(16 * 60);
    group.see(3, running(0..3));
    assert_eq!(group.target(), 3);
}

#[test]
fn reinstating_cancelled_placeholders_needs_no_write() {
    let mut group = Group::new(5, running(0..2));
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.cancel(&named);
    assert_eq!(group.state.reinstate(2, None, wall(50)), 2);
    assert_eq!(group.target(), 4);
    assert!(group.state.status().instances.iter().all(|one| !named.contains(&one.id)));
}

#[test]
fn a_decrease_takes_failed_placeholders_first_and_never_an_instance() {
    let mut group = Group::new(4, running(0..2));
    let failures = vec![shortage(wall(10_000))];
    group.state.learn_activity(LaunchActivity { failures, under_way: 1, ..LaunchActivity::default() });
    let none = DeletePlan::default();
    let one = plan::decrease(&group.state, 1, None, &none);
    let failed =
        group.state.placeholders().iter().find(|placeholder| placeholder.failure.is_some()).expect("one failed");
    assert_eq!(one, BTreeSet::from([failed.id.clone()]));
    assert_eq!(plan::decrease(&group.state, 40, None, &none).len(), 2);
    let claimed = DeletePlan { placeholders: one, ..DeletePlan::default() };
    assert_eq!(plan::decrease(&group.state, 40, None, &claimed).len(), 1);
}

#[test]
fn instances_that_activities_name_and_the_list_lacks_are_still_to_come() {
    let mut group = Group::new(5, running(0..1));
    let failures = vec![shortage(wall(100)); 4];
    let launched = |number: u32| Launched { instance: format!("i-{number}"), at: wall(1) };
    let launched = vec![launched(0), launched(7), launched(8)];
    group.state.learn_activity(LaunchActivity { failures, launched, ..LaunchActivity::default() });
    assert_eq!(group.failed(), 2, "of four missing ones, two have been launched");
}

/// Both polls tell before CA's next loop.
#[test]
fn all_that_two_overlapping_scale_ups_failed_to_make_has_failed() {
    for is_listed_between in [true, false] {
        let listed = |group: &Group| group.tagged("\"3\"", 10, running(0..5));
        let mut group = Group::new(5, running(0..5));
        group.see_etag("\"1\"", 5, running(0..5));
        let first = group.write(5, 8, Some("first"));
        let second = group.write(8, 10, Some("second"));
        group.now = group.now + Duration::from_secs(30);
        group.fail_with(first, listed(&group));
        assert_eq!((group.target(), group.failed()), (10, 3));
        if is_listed_between {
            group.see_etag("\"3\"", 10, running(0..5));
        }
        group.fail_with(second, listed(&group));
        assert_eq!((group.target(), group.failed()), (10, 5));
    }
}

/// Azure carries out the later of two new capacities, and with it what the earlier one asked for.
#[test]
fn a_scale_up_that_preempted_another_one_fails_for_both() {
    let mut group = Group::new(5, running(0..5));
    group.see_etag("\"1\"", 5, running(0..5));
    let first = group.write(5, 8, Some("first"));
    let second = group.write(8, 10, Some("second"));
    // The poll of the one that failed may tell first.
    let mut failed_first = group.clone();
    let report = Failed { failure: shortage(wall(1)), reported: group.now, resend: BTreeSet::new() };
    failed_first.state.report_failed(second, report);
    failed_first.state.preempt(first, group.now);
    let kept = group.tagged("\"3\"", 10, running(0..5));
    failed_first.fail_with(second, kept.clone());
    assert_eq!((failed_first.target(), failed_first.failed()), (10, 5));
    group.state.preempt(first, group.now);
    let taken_back = group.tagged("\"4\"", 5, running(0..5));
    for failed in [kept, taken_back] {
        let mut group = group.clone();
        group.fail_with(second, failed);
        assert_eq!((group.target(), group.failed()), (10, 5));
    }
    group.see_etag("\"3\"", 10, running(0..8));
    group.fail_with(second, group.tagged("\"3\"", 10, running(0..8)));
    assert_eq!((group.target(), group.failed()), (10, 2), "what was preempted was launched");
}

#[test]
fn what_was_evicted_meanwhile_is_not_what_a_scale_up_failed_to_make() {
    let mut group = Group::new(5, running(0..5));
    let scale_up = group.write(5, 8, Some("scale-up"));
    group.see(6, running(0..3));
    group.fail(scale_up, 4, all(&[running(0..3), running(5..6)]));
    assert_eq!((group.target(), group.failed()), (6, 2), "it made one of three");
}
