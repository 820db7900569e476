//! The deciding code by itself: every rule of the tally on hand-made observations.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::census::{census, habit};
use super::doubt::{Doubt, confirms, doubt};
use super::error::Refusal;
use super::observation::Observation;
use super::operation::OperationId;
use super::plan::{self, DeletePlan, NamedNode};
use super::state::{CapacityWrite, GroupState};
use crate::cloud::{
    Acceptance, Counts, Failure, FailureClass, GroupHints, GroupReading, Instance, InstanceState, LaunchActivity,
    OperationHandle, Permit, ProviderId,
};

/// A group under test: a clock, a state, and short words for what happens to it.
struct Group {
    state: GroupState,
    now: Instant,
    operations: u64,
}

fn id(number: u32) -> ProviderId {
    ProviderId::from(format!("i-{number}"))
}

fn ids(numbers: std::ops::Range<u32>) -> Vec<ProviderId> {
    numbers.map(id).collect()
}

fn running(numbers: std::ops::Range<u32>) -> Vec<Instance> {
    numbers.map(|number| instance(number, InstanceState::Running, Counts::UntilDeleted)).collect()
}

fn deleting(numbers: std::ops::Range<u32>, counts: Counts) -> Vec<Instance> {
    numbers.map(|number| instance(number, InstanceState::Deleting, counts)).collect()
}

fn instance(number: u32, state: InstanceState, counts: Counts) -> Instance {
    Instance { id: id(number), state, counts, failure: None }
}

fn wall(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
}

fn name(label: &str) -> ProviderId {
    ProviderId::from(format!("placeholder-{label}"))
}

fn shortage(at: SystemTime) -> Failure {
    let code = "InsufficientInstanceCapacity".to_owned();
    Failure { class: FailureClass::OutOfResources, code, message: "none left".to_owned(), at }
}

fn all(parts: &[Vec<Instance>]) -> Vec<Instance> {
    parts.concat()
}

impl Group {
    fn new(desired: u32, instances: Vec<Instance>) -> Self {
        let mut group = Self { state: GroupState::default(), now: Instant::now(), operations: 0 };
        group.see(desired, instances);
        group
    }

    fn reading(&self, desired: u32, instances: Vec<Instance>) -> Observation {
        let reading = GroupReading {
            name: "g".into(),
            min: 1,
            max: 100,
            floor: 0,
            desired,
            version: None,
            growth: Permit::Granted,
            removal: Permit::Granted,
            instances: Some(instances),
            hints: Arc::new(GroupHints::default()),
            recipe: 0,
        };
        Observation::new(reading, self.now, wall(self.seconds())).expect("it has instances")
    }

    fn seconds(&self) -> u64 {
        self.now.elapsed().as_secs() + self.operations
    }

    fn see(&mut self, desired: u32, instances: Vec<Instance>) {
        self.now += Duration::from_secs(1);
        let observation = self.reading(desired, instances);
        self.state.observe(observation, &name);
    }

    fn write(&mut self, from: u32, to: u32, handle: Option<&str>) -> OperationId {
        self.operations += 1;
        let operation = OperationId(self.operations);
        let write = CapacityWrite { from, to, accepted: self.now, sent: wall(self.seconds()) };
        self.state.send_capacity(from, to, self.now);
        let acceptance = Acceptance { handle: handle.map(|handle| OperationHandle(handle.to_owned())) };
        self.state.accept_capacity(operation, write, acceptance, &name);
        operation
    }

    fn delete(&mut self, numbers: std::ops::Range<u32>) -> OperationId {
        self.operations += 1;
        let operation = OperationId(self.operations);
        let handle = Some(OperationHandle("delete".into()));
        self.state.accept_delete(operation, &ids(numbers), self.now, handle, false);
        operation
    }

    fn fail(&mut self, operation: OperationId, desired: u32, instances: Vec<Instance>) {
        self.now += Duration::from_secs(1);
        let observation = self.reading(desired, instances);
        self.state.fail(operation, &shortage(wall(self.seconds())), observation, &name);
    }

    fn target(&self) -> u32 {
        self.state.tally().expect("observed").target
    }

    fn reported(&self, state: InstanceState) -> u32 {
        self.state.tally().expect("observed").in_state(state)
    }

    fn failed(&self) -> u32 {
        self.state.tally().expect("observed").failed()
    }

    fn observation(&self) -> &Observation {
        self.state.observation().expect("observed")
    }

    fn placeholders(&self) -> Vec<ProviderId> {
        self.state.slots().iter().map(|slot| slot.id.clone()).collect()
    }
}

#[test]
fn a_deletion_that_the_capacity_still_counts_leaves_the_target_at_once_and_comes_back_when_it_fails() {
    let mut group = Group::new(86, running(0..86));
    let delete = group.delete(0..38);
    group.see(86, all(&[deleting(0..38, Counts::UntilDeleted), running(38..86)]));
    group.state.note_habit(delete, true);
    assert_eq!(group.target(), 48);
    assert_eq!(group.reported(InstanceState::Deleting), 38);

    group.fail(delete, 86, running(0..86));
    assert_eq!((group.target(), group.reported(InstanceState::Running)), (86, 86));
    assert_eq!(plan::raised_capacity(&group.state, group.observation(), 5), Some(91));
}

#[test]
fn a_deletion_that_the_capacity_no_longer_counts_is_not_subtracted_twice() {
    let mut group = Group::new(86, running(0..86));
    let delete = group.delete(0..38);
    group.see(48, all(&[deleting(0..38, Counts::UntilDeleted), running(38..86)]));
    group.state.note_habit(delete, false);
    assert_eq!(group.target(), 48);
    assert_eq!(plan::raised_capacity(&group.state, group.observation(), 2), Some(50));
}

#[test]
fn the_habit_is_what_the_read_after_the_acceptance_shows() {
    let group = Group::new(10, running(0..10));
    let gone = ids(0..4);
    let going = all(&[deleting(0..4, Counts::UntilDeleted), running(4..10)]);
    assert!(habit(10, &gone, &group.reading(10, going.clone())));
    assert!(!habit(10, &gone, &group.reading(6, going)));
    // Two machines are gone already, and the capacity with them: it still counts the other two.
    let half = all(&[deleting(2..4, Counts::UntilDeleted), running(4..10)]);
    assert!(habit(10, &gone, &group.reading(8, half)));
}

#[test]
fn after_a_restart_deleting_instances_are_out_of_the_target_whatever_the_habit() {
    let list = all(&[deleting(0..3, Counts::UntilDeleted), running(3..10)]);
    for desired in [10, 7] {
        assert_eq!(Group::new(desired, list.clone()).target(), 7, "capacity {desired}");
    }
}

#[test]
fn terminating_instances_mask_no_shortfall_where_the_capacity_never_counts_them() {
    let group = Group::new(5, all(&[running(0..2), deleting(2..5, Counts::No)]));
    assert_eq!((group.target(), group.placeholders().len()), (5, 3));
    assert_eq!(group.reported(InstanceState::Deleting), 3);
}

#[test]
fn standby_instances_are_listed_and_are_no_part_of_the_target_or_the_shortfall() {
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
    assert_eq!(plan::raised_capacity(&group.state, group.observation(), 2), Some(12));
}

#[test]
fn a_change_from_outside_shows_at_once_operations_or_not() {
    let mut group = Group::new(9, running(0..9));
    group.write(9, 10, Some("scale-up"));
    group.see(10, running(0..9));
    group.see(8, running(0..7)); // two were evicted
    assert_eq!(group.target(), 8);
}

#[test]
fn placeholders_keep_their_ids_and_go_as_instances_come() {
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
    group.state.forgo(&first);
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
    let since = group.state.slots()[0].since;
    let mut observation = group.reading(4, running(0..2));
    let week = Duration::from_secs(7 * 24 * 3600);
    observation.activity = LaunchActivity { failures: vec![shortage(since - week)], under_way: 0 };
    group.state.observe(observation.clone(), &name);
    assert_eq!(group.failed(), 0);

    observation.activity.failures.insert(0, shortage(since + Duration::from_secs(1)));
    observation.activity.under_way = 1;
    group.state.observe(observation, &name);
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
    group.state.forgo(&named);
    assert_eq!((group.target(), group.failed()), (3, 0));
    assert_eq!(plan::reduced_capacity(&group.state, group.observation(), 0), None, "there is nothing to write");
}

#[test]
fn machines_that_vanish_while_they_are_created_are_a_failed_scale_up_and_no_eviction() {
    let creating = |numbers: std::ops::Range<u32>| -> Vec<Instance> {
        numbers.map(|number| instance(number, InstanceState::Creating, Counts::UntilDeleted)).collect()
    };
    let mut group = Group::new(2, running(0..2));
    let scale_up = group.write(2, 5, Some("scale-up"));
    group.see(5, all(&[running(0..2), creating(2..5)]));
    group.see(2, running(0..2)); // rolled back, and nobody has said so yet
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
fn capacity_that_the_cloud_kept_after_a_failure_can_be_lowered_to_what_lives() {
    let mut group = Group::new(3, running(0..3));
    let scale_up = group.write(3, 8, Some("scale-up"));
    group.see(8, running(0..4));
    group.fail(scale_up, 8, running(0..4));
    assert_eq!((group.target(), group.failed()), (8, 4));
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.forgo(&named);
    assert_eq!(group.target(), 4);
    assert_eq!(plan::reduced_capacity(&group.state, group.observation(), 0), Some(4));
}

#[test]
fn a_reduction_never_goes_below_what_is_listed_deleting_instances_included() {
    let mut group = Group::new(8, all(&[running(0..3), deleting(3..6, Counts::No)]));
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    assert_eq!(named.len(), 5);
    group.state.forgo(&named);
    assert_eq!(group.target(), 3, "it shows in the target at once");
    assert_eq!(plan::reduced_capacity(&group.state, group.observation(), 0), Some(6));
    assert_eq!(plan::reduced_capacity(&group.state, group.observation(), 1), Some(7), "one is being launched");
    group.write(8, 6, None);
    assert_eq!(group.target(), 3);
    group.see(6, running(0..3));
    assert_eq!(group.target(), 3);
    assert_eq!(plan::reduced_capacity(&group.state, group.observation(), 0), Some(3), "now it is safe");
}

#[test]
fn a_reduction_never_goes_below_the_minimum_and_what_is_left_out_stays_out_of_the_target() {
    let mut group = Group::new(35, running(0..1));
    let mut observation = group.reading(35, running(0..1));
    observation.reading.min = 30;
    observation.reading.floor = 30;
    group.state.observe(observation.clone(), &name);
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.forgo(&named);
    assert_eq!(plan::reduced_capacity(&group.state, group.observation(), 0), Some(30));
    group.write(35, 30, None);
    assert_eq!((group.target(), group.reported(InstanceState::Creating)), (1, 0));
    assert_eq!(plan::reduced_capacity(&group.state, group.observation(), 0), None);

    observation.reading.desired = 30;
    observation.instances = running(0..2);
    group.state.observe(observation, &name);
    assert_eq!(group.target(), 2, "an instance came all the same");
}

#[test]
fn wanting_forgone_capacity_again_needs_no_write() {
    let mut group = Group::new(5, running(0..2));
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.forgo(&named);
    assert_eq!(group.state.want_again(2, wall(50), &name), 2);
    assert_eq!(group.target(), 4);
    assert!(group.state.tally().is_some_and(|tally| tally.instances.iter().all(|one| !named.contains(&one.id))));
}

#[test]
fn a_decrease_takes_failed_placeholders_first_and_never_an_instance() {
    let mut group = Group::new(4, running(0..2));
    let mut observation = group.reading(4, running(0..2));
    observation.activity.failures = vec![shortage(wall(10_000))];
    observation.activity.under_way = 1;
    group.state.observe(observation, &name);
    let none = DeletePlan::default();
    let one = plan::decrease(&group.state, 1, &none);
    let failed = group.state.slots().iter().find(|slot| slot.failure.is_some()).expect("one failed");
    assert_eq!(one, BTreeSet::from([failed.id.clone()]));
    assert_eq!(plan::decrease(&group.state, 40, &none).len(), 2);
    let claimed = DeletePlan { placeholders: one, ..DeletePlan::default() };
    assert_eq!(plan::decrease(&group.state, 40, &claimed).len(), 1);
}

fn named(numbers: std::ops::Range<u32>) -> Vec<NamedNode> {
    ids(numbers).into_iter().map(|id| NamedNode { id, create_error: false }).collect()
}

#[test]
fn a_batch_is_judged_whole_against_the_minimum() {
    let group = Group::new(4, running(0..4));
    let none = DeletePlan::default();
    let judge = |nodes: &[NamedNode], claimed| plan::delete(&group.state, group.observation(), nodes, claimed);
    assert_eq!(judge(&named(0..4), &none), Err(Refusal::BelowMin { asked: 4, room: 3, min: 1 }));
    let first = judge(&named(0..3), &none).expect("there is room for three");
    assert_eq!(first.instances, ids(0..3));
    assert_eq!(judge(&named(3..4), &first), Err(Refusal::BelowMin { asked: 1, room: 0, min: 1 }));
    assert_eq!(judge(&named(0..3), &first), Ok(DeletePlan::default()), "asked for already");
}

#[test]
fn deleting_what_is_gone_or_going_is_fine_and_costs_nothing() {
    let group = Group::new(4, all(&[running(0..4), deleting(4..5, Counts::No)]));
    let plan = plan::delete(&group.state, group.observation(), &named(4..9), &DeletePlan::default());
    assert_eq!(plan, Ok(DeletePlan::default()));
}

#[test]
fn failed_machines_can_be_deleted_at_the_minimum_and_healthy_ones_cannot() {
    let mut machines = running(0..2);
    machines[1].failure = Some(shortage(wall(0)));
    let group = Group::new(2, machines);
    let judge = |nodes: &[NamedNode]| plan::delete(&group.state, group.observation(), nodes, &DeletePlan::default());
    assert_eq!(judge(&named(1..2)).map(|plan| plan.instances), Ok(ids(1..2)));
    assert_eq!(judge(&named(0..1)), Err(Refusal::BelowMin { asked: 1, room: 0, min: 1 }));
    let create_error = [NamedNode { id: id(0), create_error: true }];
    assert_eq!(judge(&create_error).map(|plan| plan.instances), Ok(ids(0..1)));
}

#[test]
fn names_match_in_any_case_and_the_cloud_is_told_its_own() {
    let group = Group::new(2, running(0..2));
    let shouted = [NamedNode { id: ProviderId::from("I-1"), create_error: false }];
    let plan = plan::delete(&group.state, group.observation(), &shouted, &DeletePlan::default());
    assert_eq!(plan.map(|plan| plan.instances), Ok(vec![id(1)]));
}

#[test]
fn growth_stops_at_the_maximum_and_where_the_group_cannot_grow() {
    let group = Group::new(98, running(0..98));
    assert_eq!(plan::increase(&group.state, group.observation(), 2, 0), Ok(()));
    let refused = plan::increase(&group.state, group.observation(), 1, 2);
    assert_eq!(refused, Err(Refusal::AboveMax { delta: 1, target: 100, max: 100 }));
    let mut suspended = group.observation().clone();
    suspended.reading.growth = Permit::Withheld("Launch is suspended".into());
    assert!(matches!(plan::increase(&group.state, &suspended, 1, 0), Err(Refusal::GrowthWithheld { .. })));
}

#[test]
fn no_scale_up_is_written_below_what_lives() {
    let mut group = Group::new(90, running(0..90));
    group.see(0, running(0..90));
    assert_eq!(plan::raised_capacity(&group.state, group.observation(), 1), None);
}

#[test]
fn readings_that_contradict_themselves_are_doubted_until_a_second_one_agrees() {
    let group = Group::new(90, running(0..90));
    let doubted = |desired, instances| {
        let reading = group.reading(desired, instances);
        doubt(&group.state, &reading)
    };
    assert_eq!(doubted(0, running(0..90)), Some(Doubt::CapacityBelowLive { desired: 0, live: 90 }));
    assert_eq!(doubted(0, vec![]), Some(Doubt::CapacityFell { before: 90, after: 0 }));
    assert_eq!(doubted(90, vec![]), Some(Doubt::InstancesGone { before: 90, after: 0 }));
    assert_eq!(doubted(88, running(0..88)), None);
    assert_eq!(doubted(120, running(0..90)), None);
    assert!(confirms(&group.reading(0, vec![]), &group.reading(0, vec![])));
    assert!(!confirms(&group.reading(0, vec![]), &group.reading(90, running(0..90))));
}

#[test]
fn a_first_reading_is_doubted_too() {
    let group = Group::new(5, running(0..5));
    let reading = group.reading(0, running(0..90));
    let unread = GroupState::default();
    assert_eq!(doubt(&unread, &reading), Some(Doubt::CapacityBelowLive { desired: 0, live: 90 }));
    assert_eq!(doubt(&unread, &group.reading(90, running(0..90))), None);
}

#[test]
fn what_headcount_deletes_itself_is_no_contradiction() {
    let mut group = Group::new(10, running(0..10));
    group.delete(0..9);
    let reading = group.reading(1, running(9..10));
    assert_eq!(doubt(&group.state, &reading), None);
}

#[test]
fn an_instance_that_comes_up_under_a_reduction_raises_the_capacity_back() {
    let mut group = Group::new(7, running(0..6));
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.forgo(&named);
    group.write(7, 6, None);
    assert_eq!(plan::healed_capacity(&group.state, group.observation()), None);
    let late = group.reading(6, running(0..7));
    assert_eq!(doubt(&group.state, &late), None);
    group.see(6, running(0..7));
    assert_eq!(plan::healed_capacity(&group.state, group.observation()), Some(7));
    group.now += Duration::from_secs(40);
    group.see(6, running(0..7));
    assert_eq!(plan::healed_capacity(&group.state, group.observation()), None, "somebody else's doing by now");
}

#[test]
fn nothing_is_lowered_while_a_scale_up_may_not_have_begun_to_launch() {
    let mut group = Group::new(3, running(0..3));
    group.write(3, 7, None);
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.forgo(&named);
    group.see(7, running(0..3));
    assert_eq!(group.target(), 3, "the target shows it at once");
    assert_eq!(plan::reduced_capacity(&group.state, group.observation(), 0), None);
    group.now += Duration::from_secs(6);
    group.see(7, running(0..3));
    assert_eq!(plan::reduced_capacity(&group.state, group.observation(), 0), Some(3));
}

#[test]
fn a_raise_that_was_refused_is_tried_again() {
    let mut group = Group::new(7, running(0..6));
    let named: BTreeSet<_> = group.placeholders().into_iter().collect();
    group.state.forgo(&named);
    group.write(7, 6, None);
    group.see(6, running(0..7));
    group.state.send_capacity(6, 7, group.now);
    assert_eq!(plan::healed_capacity(&group.state, group.observation()), Some(7));
    group.write(6, 7, None);
    assert_eq!(group.state.recent_reduction(group.now), None, "until one is accepted");
}

#[test]
fn a_shrinkage_from_outside_is_not_undone() {
    let mut group = Group::new(7, running(0..7));
    group.see(6, running(0..7));
    assert_eq!(plan::healed_capacity(&group.state, group.observation()), None);
}

#[test]
fn the_numbers_are_derived_anew_each_time() {
    let mut group = Group::new(5, running(0..5));
    for _ in 0..10 {
        let delete = group.delete(0..2);
        group.see(5, running(0..5));
        assert_eq!(group.target(), 3);
        group.fail(delete, 5, running(0..5));
        assert_eq!(group.target(), 5, "a failed operation leaves nothing behind");
    }
    assert_eq!(census(group.observation(), group.state.operations()).shortfall, 0);
}
