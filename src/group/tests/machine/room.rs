//! Whether a scale-up leaves room for every VM that may live.

use super::super::all;
use super::*;
use crate::group::limits::READ_SOON;

/// What a scale-up writes once its reads and polls show the same as before.
fn grown(mut machine: Machine, number: u32, read: &GroupReading) -> Option<u32> {
    let mut effects = machine.request(Mutation::Increase(number));
    for _ in 0..4 {
        let event = if polls(&effects) {
            polled(Vec::new(), None)
        } else if reads(&effects, Scope::Instances) {
            Event::Read(machine.read(Ok(read.clone())))
        } else if reads(&effects, Scope::Capacity) {
            Event::Read(machine.read(Ok(GroupReading { instances: None, ..read.clone() })))
        } else {
            return written(&effects);
        };
        effects = machine.step(event);
    }
    None
}

/// Deletions of an earlier process have failed, and another one runs.
#[test]
fn a_running_scale_set_that_a_start_finds_below_its_vms_is_raised_to_no_less_than_live() {
    let listed = all(&[running(0..9), deleting(9..10, Counts::UntilDeleted)]);
    let found = of_scale_set("1", Provisioning::Running, reading(7, Some(listed)));
    assert_eq!(grown(Machine::new(found.clone()), 1, &found), None, "9 live");
    assert_eq!(grown(Machine::new(found.clone()), 2, &found), Some(9));
    let mut machine = Machine::new(found);
    machine.pass(5);
    let quiet = of_scale_set("2", Provisioning::Succeeded, reading(7, Some(running(0..9))));
    machine.step(Event::Listed(machine.read(Ok(quiet.clone())), ListingKey(1)));
    assert_eq!(grown(machine, 1, &quiet), Some(10), "the 9 are there to stay");
    // They have all ended, and a scale-up of an earlier process runs.
    let growing = of_scale_set("1", Provisioning::Running, reading(10, Some(running(0..13))));
    assert_eq!(grown(Machine::new(growing.clone()), 1, &growing), None, "11 would delete two of 13");
    assert_eq!(grown(Machine::new(growing.clone()), 3, &growing), Some(13));
}

/// Another client's deletions fail while ours run.
#[test]
fn a_capacity_that_fell_while_our_own_deletion_runs_is_raised_to_no_less_than_live() {
    let listed = all(&[running(0..48), deleting(48..86, Counts::UntilDeleted)]);
    let fallen = of_scale_set("3", Provisioning::Running, reading(46, Some(listed)));
    for (number, capacity) in [(1, None), (2, Some(48))] {
        let mut machine = with_deletions();
        for key in 1..3 {
            machine.pass(2);
            machine.step(Event::Listed(machine.read(Ok(fallen.clone())), ListingKey(key)));
        }
        assert_eq!(grown(machine, number, &fallen), capacity, "48 live");
    }
}

/// A scale-up is under way, and the list shows none of its VMs yet.
#[test]
fn a_deletion_that_fails_before_a_list_shows_what_was_launched_is_left_room_for() {
    let handle = |name: &str| Some(OperationHandle(name.to_owned()));
    let at_first = |etag, capacity| of_scale_set(etag, Provisioning::Running, reading(capacity, Some(running(0..6))));
    let first = of_scale_set("1", Provisioning::Succeeded, reading(6, Some(running(0..6))));
    let mut machine = Machine::new(first.clone());
    machine.request(Mutation::Increase(3));
    machine.step(Event::Read(machine.read(Ok(first))));
    machine.step(Event::CapacityWritten(Ok(Acceptance { handle: handle("grow") })));
    let nodes = ids(0..3).into_iter().map(|id| NamedNode { id, kind: NodeKind::Registered }).collect();
    machine.request(Mutation::Delete(nodes));
    machine.step(Event::Read(machine.read(Ok(at_first("2", 9)))));
    let deletion = Deletion { accepted: ids(0..3), handle: handle("delete"), ..Deletion::default() };
    machine.step(Event::Deleted(Ok(deletion)));
    assert_eq!(machine.group.state().status().target, 6);

    machine.request(Mutation::Increase(1));
    let fallen = GroupReading { instances: None, ..at_first("3", 6) };
    let effects = machine.step(Event::Read(machine.read(Ok(fallen))));
    assert!(written(&effects).is_none() && polls(&effects), "there may be 9: {effects:?}");
    let failed = PollEnd::Failed(shortage(wall(machine.seconds)));
    let effects = machine.step(polled(vec![(OperationId(2), failed)], None));
    assert!(written(&effects).is_none() && reads(&effects, Scope::Instances), "{effects:?}");
    assert_eq!(written(&machine.step(Event::Read(machine.read(Ok(at_first("3", 6)))))), None, "there may be 9");
    machine.pass(31);
    let all = of_scale_set("3", Provisioning::Running, reading(6, Some(running(0..9))));
    machine.step(Event::Woke);
    machine.step(Event::Read(machine.read(Ok(all.clone()))));
    assert_eq!(grown(machine, 1, &all), Some(10));
}

/// Deletes these of a scale set of as many VMs, and reads the set that is left.
fn deleted(machine: &mut Machine, numbers: std::ops::Range<u32>, before: &GroupReading, after: &GroupReading) {
    let nodes = ids(numbers.clone()).into_iter().map(|id| NamedNode { id, kind: NodeKind::Registered }).collect();
    machine.request(Mutation::Delete(nodes));
    machine.step(Event::Read(machine.read(Ok(before.clone()))));
    let handle = Some(OperationHandle("delete".to_owned()));
    machine.step(Event::Deleted(Ok(Deletion { accepted: ids(numbers), handle, ..Deletion::default() })));
    machine.read_beside(after);
}

/// Polls tell that the last deletion has failed, and the set is read.
fn failed(machine: &mut Machine, after: &GroupReading) {
    let deletion = machine.group.state().in_flight().running_deletions().last().expect("it runs").0;
    machine.step(Event::Polled(deletion, PollEnd::Failed(shortage(wall(machine.seconds)))));
    machine.pass(1);
    machine.read_beside(after);
}

#[test]
fn vms_whose_deletion_failed_are_made_room_for_while_they_are_listed_without_an_id() {
    let ten = of_scale_set("1", Provisioning::Succeeded, reading(10, Some(running(0..10))));
    let lacking = |etag, provisioning| GroupReading {
        without_id: 3,
        ..of_scale_set(etag, provisioning, reading(7, Some(running(0..7))))
    };
    let mut machine = Machine::new(ten.clone());
    deleted(&mut machine, 7..10, &ten, &lacking("2", Provisioning::Running));
    let after = lacking("3", Provisioning::Running);
    failed(&mut machine, &after);
    assert_eq!(grown(machine, 1, &after), None, "10 live");
}

/// The response to a scale-up was lost, and a read showed that it took effect.
#[test]
fn vms_of_a_lost_scale_up_that_no_list_shows_yet_are_made_room_for() {
    let listed = |etag: &str, capacity, live| {
        of_scale_set(etag, Provisioning::Running, reading(capacity, Some(running(0..live))))
    };
    let six = of_scale_set("1", Provisioning::Succeeded, reading(6, Some(running(0..6))));
    let mut machine = Machine::new(six.clone());
    machine.request(Mutation::Increase(3));
    machine.step(Event::Read(machine.read(Ok(six))));
    machine.step(Event::CapacityWritten(Err(CloudError::unreachable("write", "g", "no response"))));
    machine.step(Event::Read(machine.read(Ok(listed("2", 9, 6)))));
    deleted(&mut machine, 0..3, &listed("2", 9, 6), &listed("3", 6, 6));
    failed(&mut machine, &listed("4", 6, 6));
    assert_eq!(grown(machine, 1, &listed("4", 6, 6)), None, "9 live");
}

/// Another process's deletion failed between two listings of this one.
#[test]
fn a_capacity_that_fell_in_a_scale_set_at_rest_leaves_no_refusal_behind() {
    let mut machine = Machine::new(of_scale_set("1", Provisioning::Succeeded, reading(10, Some(running(0..10)))));
    let fallen = of_scale_set("2", Provisioning::Failed, reading(7, Some(running(0..10))));
    for key in 1..4 {
        machine.pass(2);
        machine.step(Event::Listed(machine.read(Ok(fallen.clone())), ListingKey(key)));
    }
    assert_eq!(machine.group.state().status().target, 10);
    assert_eq!(grown(machine, 1, &fallen), Some(11));
}

/// Azure refuses an ID that it no longer knows, and the others with it.
#[test]
fn a_preempted_deletion_is_sent_again_without_what_is_deleted_and_still_listed() {
    let listed =
        |etag: &str, capacity| of_scale_set(etag, Provisioning::Running, reading(capacity, Some(running(0..4))));
    let mut machine = Machine::new(of_scale_set("1", Provisioning::Succeeded, reading(4, Some(running(0..4)))));
    deleted(&mut machine, 2..3, &listed("1", 4), &listed("2", 3));
    let first = machine.group.state().in_flight().running_deletions()[0].0;
    machine.step(Event::Polled(first, PollEnd::Succeeded));
    deleted(&mut machine, 3..4, &listed("3", 3), &listed("4", 2));
    let second = machine.group.state().in_flight().running_deletions()[0].0;
    machine.step(Event::Polled(second, PollEnd::Preempted));
    machine.pass(1);
    machine.read_beside(&listed("5", 2));
    let effects = machine.step(Event::Read(machine.read(Ok(listed("5", 2)))));
    let sent =
        effects.into_iter().find_map(|effect| if let Effect::Delete { ids, .. } = effect { Some(ids) } else { None });
    assert_eq!(sent, Some(ids(3..4)));
}

/// What is written once reads and activities show the same as this read. The first one may be in doubt.
fn raised_back(machine: &mut Machine, read: &GroupReading) -> Option<u32> {
    let asks = |machine: &mut Machine| asks_for_activity(&machine.read_beside(read));
    if !asks(machine) && !asks(machine) {
        return None;
    }
    machine.step(Event::Activity(Ok(LaunchActivity::default())));
    written(&machine.step(Event::Read(machine.read(Ok(read.clone())))))
}

/// Deletes the first of four instances, which was going already: another client's call lowers the capacity as well.
fn delete_one_that_is_going(machine: &mut Machine) {
    let nodes = ids(0..1).into_iter().map(|id| NamedNode { id, kind: NodeKind::Registered }).collect();
    machine.request(Mutation::Delete(nodes));
    machine.step(Event::Read(machine.read(Ok(reading(4, Some(counted(0..4)))))));
    machine.step(Event::Deleted(Ok(Deletion { accepted: ids(0..1), ..Deletion::default() })));
    machine.pass(1);
}

/// A capacity write gets no response, and the read after it shows this.
fn lose_write(machine: &mut Machine, read: &GroupReading) {
    machine.step(Event::CapacityWritten(Err(CloudError::unreachable("set_capacity", "g", "no response"))));
    machine.step(Event::Read(machine.read(Ok(read.clone()))));
    machine.pass(3);
}

#[test]
fn a_capacity_is_raised_back_again_while_that_has_no_response() {
    let mut machine = Machine::new(reading(4, Some(counted(0..4))));
    delete_one_that_is_going(&mut machine);
    let below_live = |live| reading(2, Some(all(&[deleting(0..1, Counts::No), live])));
    assert_eq!(raised_back(&mut machine, &below_live(counted(1..4))), Some(3));
    lose_write(&mut machine, &below_live(counted(1..4)));
    assert_eq!(raised_back(&mut machine, &below_live(counted(1..4))), Some(3), "AWS deletes one after 20 s");
    lose_write(&mut machine, &below_live(counted(1..4)));
    assert_eq!(raised_back(&mut machine, &below_live(counted(1..5))), Some(4), "another one came up");
}

#[test]
fn a_capacity_is_not_raised_back_to_less_than_a_write_without_a_response_may_have_set() {
    let mut machine = Machine::new(reading(4, Some(counted(0..4))));
    machine.request(Mutation::Increase(3));
    let effects = machine.step(Event::Read(machine.read(Ok(reading(4, Some(counted(0..4)))))));
    assert_eq!(written(&effects), Some(7));
    lose_write(&mut machine, &reading(4, Some(counted(0..4))));
    delete_one_that_is_going(&mut machine);
    let below_live = reading(2, Some(all(&[deleting(0..1, Counts::No), counted(1..4)])));
    assert_eq!(raised_back(&mut machine, &below_live), Some(7), "the write may take effect before this one does");
}

#[test]
fn a_group_is_read_at_once_where_the_read_after_a_write_without_a_response_fails() {
    let mut machine = Machine::new(reading(4, Some(counted(0..4))));
    machine.request(Mutation::Increase(3));
    let effects = machine.step(Event::Read(machine.read(Ok(reading(4, Some(counted(0..4)))))));
    assert_eq!(written(&effects), Some(7));
    let lost = || CloudError::unreachable("set_capacity", "g", "no response");
    machine.step(Event::CapacityWritten(Err(lost())));
    machine.pass(30);
    machine.step(Event::Read(machine.read(Err(lost()))));
    assert_eq!(machine.group.wake_at(), Some(machine.now + READ_SOON));
}

/// Only a list tells of another client's deletions, and Azure has asked for a long pause in lists of VMs.
#[test]
fn a_scale_set_that_needs_a_list_to_grow_is_served_as_full_while_none_can_be_read() {
    let throttled = || {
        let CloudError::Refused(fault) = CloudError::refused("list", "g", "too many requests") else { unreachable!() };
        CloudError::Throttled { retry_after: Some(Duration::from_secs(1800)), fault }
    };
    let going = all(&[running(0..48), deleting(48..86, Counts::UntilDeleted)]);
    let found = of_scale_set("2", Provisioning::Running, reading(48, Some(going)));
    let mut machine = Machine::new(found.clone());
    machine.pass(1);
    machine.step(Event::Listed(machine.read(Ok(GroupReading { instances: None, ..found.clone() })), ListingKey(1)));
    assert!(machine.reads_beside);
    machine.step(Event::ReadBeside(machine.read(Err(throttled())), Some(ListingKey(1))));

    machine.request(Mutation::Increase(1));
    let effects = machine.step(Event::Read(machine.read(Ok(GroupReading { instances: None, ..found.clone() }))));
    assert!(reads(&effects, Scope::Instances), "{effects:?}");
    let effects = machine.step(Event::Read(machine.read(Err(throttled()))));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Respond(_, Err(_)))), "{effects:?}");

    let mut listed = Machine { group: machine.group.clone(), ..machine };
    is_served_as_full(machine, "no list shows how that ends");
    listed.pass(61);
    listed.step(Event::ReadBeside(listed.read(Ok(found)), None));
    assert_eq!(listed.group.growth(None), Permit::Granted, "a list can be read again");
}
