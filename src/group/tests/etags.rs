//! Groups with an etag: Azure changes it when it accepts a capacity write, and carries the write out at once.

use super::super::doubt::{Doubt, doubt};
use super::*;

impl Group {
    /// A group of `size` running instances that a read has shown with the etag "1".
    fn with_etag(size: u32) -> Self {
        let mut group = Self::new(size, running(0..size));
        group.see_etag("1", size, running(0..size));
        group
    }

    fn fail_tagged(&mut self, operation: OperationId, etag: &str, desired: u32, instances: Vec<Instance>) {
        self.now = self.now + Duration::from_secs(1);
        let observation = self.tagged(etag, desired, instances);
        self.fail_with(operation, observation);
    }
}

#[test]
fn a_failed_deletion_that_lowered_nothing_explains_no_lower_capacity() {
    let mut group = Group::with_etag(86);
    let operation = group.delete(0..38);
    group.see_etag("1", 86, all(&[deleting(0..38, Counts::UntilDeleted), running(38..86)]));
    group.fail_tagged(operation, "1", 86, running(0..86));
    let wrong = group.tagged("1", 48, running(0..86));
    assert_eq!(doubt(&group.state, &wrong), Some(Doubt::CapacityBelowLive { capacity: 48, live: 86 }));
}

#[test]
fn a_scale_up_after_a_failed_deletion_is_added_to_what_lives() {
    let mut group = Group::with_etag(10);
    let operation = group.delete(0..3);
    group.see_etag("2", 7, all(&[deleting(0..3, Counts::UntilDeleted), running(3..10)]));
    group.fail_tagged(operation, "2", 7, running(0..10));
    assert_eq!(group.state.undone_capacity(Some(&OwnLaunches::default())), None, "the next scale-up makes room");
    assert_eq!(group.target(), 10, "they live for good");
    assert_eq!(plan::raised_capacity(&group.state, 1), Some(11), "8 would delete two instances that nobody named");
    group.now = group.now + Duration::from_secs(40);
    group.see_etag("2", 7, running(0..10));
    assert_eq!((group.target(), plan::raised_capacity(&group.state, 1)), (10, Some(11)), "however late it comes");
    group.write(7, 11, Some("capacity"));
    group.see_etag("3", 11, running(0..11));
    assert_eq!((group.target(), plan::raised_capacity(&group.state, 1)), (11, Some(12)), "and then it counts all");
}

#[test]
fn instances_that_live_again_although_no_failure_was_reported_are_no_surplus() {
    let mut group = Group::with_etag(10);
    let operation = group.delete(0..3);
    group.see_etag("2", 7, all(&[deleting(0..3, Counts::UntilDeleted), running(3..10)]));
    group.state.stop_polling(operation, group.now);
    group.now = group.now + Duration::from_secs(40);
    group.see_etag("2", 7, running(0..10));
    assert_eq!((group.target(), plan::raised_capacity(&group.state, 1)), (10, Some(11)));
}

#[test]
fn instances_that_live_again_beside_a_surplus_are_no_part_of_it() {
    let mut group = Group::with_etag(10);
    group.see_etag("1", 10, running(0..11));
    assert_eq!(plan::raised_capacity(&group.state, 1), Some(11), "an upgrade's surge");
    let operation = group.delete(0..3);
    group.see_etag("2", 7, all(&[deleting(0..3, Counts::UntilDeleted), running(3..11)]));
    group.state.stop_polling(operation, group.now);
    group.now = group.now + Duration::from_secs(40);
    group.see_etag("2", 7, running(0..11));
    assert_eq!(plan::raised_capacity(&group.state, 1), Some(12), "8 would delete three that nobody named");
}

#[test]
fn instances_that_were_listed_without_an_id_while_they_were_deleted_are_no_surplus() {
    let mut group = Group::with_etag(10);
    group.see_etag("2", 7, all(&[deleting(0..3, Counts::UntilDeleted), running(3..10)]));
    let mut hidden = group.tagged("2", 7, running(3..10));
    hidden.reading.without_id = 3;
    group.state.observe(hidden);
    group.see_etag("2", 7, running(0..10));
    assert_eq!((group.target(), plan::raised_capacity(&group.state, 1)), (10, Some(11)));
}

#[test]
fn a_nominal_capacity_rises_by_what_was_asked_for_however_many_live() {
    let mut group = Group::with_etag(10);
    group.capacity_is = CapacityIs::Nominal;
    let operation = group.delete(0..3);
    group.see_etag("2", 7, all(&[deleting(0..3, Counts::UntilDeleted), running(3..10)]));
    let failed = group.tagged("2", 7, running(0..10));
    group.fail_with(operation, failed);
    assert_eq!((group.target(), plan::raised_capacity(&group.state, 1)), (10, Some(8)), "11 would make four");
}

#[test]
fn a_scale_up_after_a_reduction_is_the_least_that_the_reduction_explains() {
    let mut group = Group::new(10, running(0..5)).with_actual_capacity();
    group.see_etag("1", 10, running(0..5));
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.cancel(&named);
    group.write(10, 5, Some("capacity"));
    group.see_etag("2", 5, running(0..5));
    let lower = group.tagged("2", 4, running(0..5));
    assert!(doubt(&group.state, &lower).is_some(), "lower than the reduction");
    group.write(5, 8, Some("capacity"));
    group.see_etag("3", 8, running(0..8));
    let wrong = group.tagged("3", 5, running(0..8));
    assert_eq!(doubt(&group.state, &wrong), Some(Doubt::CapacityBelowLive { capacity: 5, live: 8 }));
}

#[test]
fn a_read_with_a_new_etag_shows_a_scale_up_and_what_happened_since() {
    let scaled_up = || {
        let mut group = Group::with_etag(10);
        group.delete(0..5);
        group.write(10, 15, Some("capacity"));
        group
    };
    let mut group = scaled_up();
    // The deletion has ended since, and the capacity no longer counts its instances.
    group.see_etag("3", 10, running(5..10));
    assert_eq!((group.target(), plan::raised_capacity(&group.state, 1)), (10, Some(11)));
    let mut group = scaled_up();
    group.see_etag("1", 10, running(0..10));
    assert_eq!(group.target(), 10, "a read that lags: 15, less the five that are being deleted");
    assert_eq!(plan::raised_capacity(&group.state, 1), Some(16));
}
