//! Which deletions are judged, and responded to, in which way.

use super::*;
use crate::cloud::{FailureClass, Identity};
use crate::group::Foreign;
use crate::group::refusal::{Refusal, WriteError};

/// A scale set of four VMs, and which one has the last name.
fn four(etag: &str, vm: &str) -> GroupReading {
    let mut listed = running(0..4);
    listed[3].identity = Some(Identity::of(&[vm]));
    of_scale_set(etag, Provisioning::Succeeded, reading(4, Some(listed)))
}

/// The responses among these effects.
fn responses(effects: &[Effect]) -> Vec<&Result<(), WriteError>> {
    let responses = effects.iter().filter_map(|effect| match effect {
        Effect::Respond(_, outcome) => Some(outcome),
        _ => None,
    });
    responses.collect()
}

fn is_done(effects: &[Effect]) -> bool {
    matches!(responses(effects)[..], [Ok(())])
}

fn delete(ids: Vec<ProviderId>, kind: NodeKind) -> Mutation {
    Mutation::Delete(ids.into_iter().map(|id| NamedNode { id, kind }).collect())
}

#[test]
fn only_a_call_for_nodes_waits_for_the_outcome_of_its_deletion() {
    let all = of_scale_set("1", Provisioning::Succeeded, reading(5, Some(running(0..5))));
    for (kind, is_held) in [
        (NodeKind::Registered, true),
        (NodeKind::Joined, false),
        (NodeKind::Unregistered, false),
        (NodeKind::CreateError, false),
    ] {
        let mut machine = Machine::new(all.clone());
        machine.request(delete(ids(0..1), kind));
        machine.step(Event::Read(machine.read(Ok(all.clone()))));
        let handle = Some(OperationHandle("delete".to_owned()));
        let deletion = Deletion { accepted: ids(0..1), handle, ..Deletion::default() };
        let effects = machine.step(Event::Deleted(Ok(deletion)));
        assert_eq!(responses(&effects).is_empty(), is_held, "{kind:?}");
        // The group is gone, and the node with it.
        let effects = machine.step(Event::ReadBeside(
            ReadResult { reading: Ok(None), begun: machine.now + Duration::from_secs(1), at: wall(machine.seconds) },
            None,
        ));
        assert_eq!(is_done(&effects), is_held, "{kind:?}");
    }
}

/// It was a node, of whichever cluster.
#[test]
fn an_evicted_instance_of_another_cluster_is_not_deleted() {
    for is_eviction in [true, false] {
        let mut listed = running(0..3);
        let failure = Failure { class: FailureClass::Other, is_eviction, ..shortage(wall(0)) };
        listed[0].failure = Some(Arc::new(failure));
        let all = of_scale_set("1", Provisioning::Succeeded, reading(3, Some(listed)));
        let mut machine = Machine::new(all.clone());
        let send_by = machine.now + Duration::from_secs(5);
        let mut request = Request::new(RequestKey(1), delete(ids(0..1), NodeKind::Registered), send_by);
        let instances = ids(0..1).into_iter().collect();
        request.foreign = Some(Foreign { instances, reason: "its tags name it".to_owned() });
        machine.step(Event::Requested(vec![request]));
        machine.pass(1);
        machine.step(Event::Woke);
        let effects = machine.step(Event::Read(machine.read(Ok(all))));
        let refused = matches!(responses(&effects)[..], [Err(WriteError::Refused(Refusal::Foreign { .. }))]);
        assert_eq!(refused, is_eviction);
    }
}

/// At its minimum, the capacity is raised first for a VM that never became a node.
#[test]
fn a_vm_whose_replacement_was_requested_is_deleted_though_its_caller_has_given_up() {
    let at_min = |etag: &str, desired| {
        let read = reading(desired, Some(running(0..2)));
        of_scale_set(etag, Provisioning::Succeeded, GroupReading { min: 2, ..read })
    };
    let mut machine = Machine::new(at_min("1", 2));
    machine.request(delete(ids(0..1), NodeKind::Unregistered));
    assert_eq!(written(&machine.step(Event::Read(machine.read(Ok(at_min("1", 2)))))), Some(3));
    machine.pass(3);
    machine.step(Event::CapacityWritten(Ok(Acceptance { handle: Some(OperationHandle("raise".to_owned())) })));
    machine.pass(3);
    let effects = machine.step(Event::Read(machine.read(Ok(at_min("2", 3)))));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Delete { ids, .. } if *ids == super::ids(0..1))));
}

#[test]
fn a_preempted_deletion_is_not_sent_again_to_another_vm_with_its_name() {
    // Whether a list shows the other VM before or after the poll tells of the preemption.
    for is_listed_before in [true, false] {
        let mut machine = Machine::new(four("1", "old"));
        machine.request(delete(ids(3..4), NodeKind::Registered));
        machine.step(Event::Read(machine.read(Ok(four("1", "old")))));
        let handle = Some(OperationHandle("delete".to_owned()));
        machine.step(Event::Deleted(Ok(Deletion { accepted: ids(3..4), handle, ..Deletion::default() })));
        let operation = machine.group.state().in_flight().operations()[0].id;
        if is_listed_before {
            machine.pass(20);
            machine.read_beside(&four("2", "new"));
        }
        let mut effects = machine.step(Event::Polled(operation, PollEnd::Preempted));
        for _ in 0..30 {
            machine.pass(1);
            effects.extend(machine.step(Event::Woke));
            let listed = machine.read(Ok(four("3", "new")));
            if machine.reads_beside {
                effects.extend(machine.step(Event::ReadBeside(listed.clone(), None)));
            }
            if reads(&effects, Scope::Instances) {
                effects.extend(machine.step(Event::Read(listed)));
            }
        }
        assert!(!effects.iter().any(|effect| matches!(effect, Effect::Delete { .. })), "{effects:?}");
        assert_eq!(machine.group.state().status().target, 4);
    }
}

/// Deletes the last VM of this scale set of four. The response is held.
fn delete_last(machine: &mut Machine, four: &GroupReading) -> OperationId {
    machine.request(delete(ids(3..4), NodeKind::Registered));
    machine.step(Event::Read(machine.read(Ok(four.clone()))));
    let handle = Some(OperationHandle("delete".to_owned()));
    machine.step(Event::Deleted(Ok(Deletion { accepted: ids(3..4), handle, ..Deletion::default() })));
    machine.group.state().in_flight().operations()[0].id
}

#[test]
fn of_a_preempted_deletion_only_what_was_not_replaced_is_sent_again() {
    let mut machine = Machine::new(four("1", "old"));
    machine.request(delete(ids(2..4), NodeKind::Registered));
    machine.step(Event::Read(machine.read(Ok(four("1", "old")))));
    let handle = Some(OperationHandle("delete".to_owned()));
    machine.step(Event::Deleted(Ok(Deletion { accepted: ids(2..4), handle, ..Deletion::default() })));
    let operation = machine.group.state().in_flight().operations()[0].id;
    machine.step(Event::Polled(operation, PollEnd::Preempted));
    machine.pass(1);
    let mut effects = machine.read_beside(&four("2", "new"));
    effects.extend(machine.step(Event::Read(machine.read(Ok(four("2", "new"))))));
    let sent = effects.iter().find_map(|effect| match effect {
        Effect::Delete { ids, .. } => Some(ids.clone()),
        _ => None,
    });
    assert_eq!(sent, Some(ids(2..3)), "{effects:?}");
}

#[test]
fn a_deletion_whose_vm_was_replaced_before_its_poll_tells_is_done() {
    let mut machine = Machine::new(four("1", "old"));
    let operation = delete_last(&mut machine, &four("1", "old"));
    machine.pass(1);
    let effects = machine.read_beside(&four("2", "new"));
    assert!(is_done(&effects), "{effects:?}");
    let effects = machine.step(Event::Polled(operation, PollEnd::Failed(shortage(wall(1)))));
    assert!(responses(&effects).is_empty(), "{effects:?}");
    assert_eq!(machine.group.state().status().target, 4, "the other VM lives");
}

#[test]
fn a_deletion_is_done_once_its_scale_set_was_created_again() {
    let of_set = |set: &str| GroupReading { identity: Some(Identity::of(&[set])), ..four("1", set) };
    for has_failed in [true, false] {
        let mut machine = Machine::new(of_set("old"));
        let operation = delete_last(&mut machine, &of_set("old"));
        if has_failed {
            machine.step(Event::Polled(operation, PollEnd::Failed(shortage(wall(1)))));
        }
        machine.pass(1);
        let effects = machine.read_beside(&of_set("new"));
        assert!(is_done(&effects), "{effects:?}");
    }
}

#[test]
fn a_deletion_that_failed_and_whose_vm_was_replaced_is_done() {
    for (vm, is_gone) in [("new", true), ("old", false)] {
        let mut machine = Machine::new(four("1", "old"));
        let operation = delete_last(&mut machine, &four("1", "old"));
        let effects = machine.step(Event::Polled(operation, PollEnd::Failed(shortage(wall(1)))));
        assert!(responses(&effects).is_empty(), "a list shows what lives on");
        machine.pass(1);
        let effects = machine.read_beside(&four("2", vm));
        assert_eq!((is_done(&effects), responses(&effects).len()), (is_gone, 1), "{effects:?}");
    }
}

#[test]
fn what_only_gives_placeholders_back_is_done_although_readings_contradict_each_other() {
    let mut machine = Machine::new(reading(90, Some(counted(0..80))));
    machine.request(Mutation::Decrease(1));
    // Each of them shows another capacity, so none confirms another one.
    let mut effects = Vec::new();
    for capacity in 0..20 {
        effects = machine.step(Event::Read(machine.read(Ok(reading(capacity, Some(counted(0..80)))))));
        if !responses(&effects).is_empty() {
            break;
        }
        machine.pass(1);
        machine.step(Event::Woke);
    }
    assert!(is_done(&effects), "{effects:?}");
    assert_eq!((machine.group.state().status().target, written(&effects)), (89, None));
}

/// An error would end CA's whole loop, before it scales up any other group.
#[test]
fn what_only_gives_placeholders_back_is_done_although_the_group_cannot_be_read() {
    let denied = || {
        let CloudError::Refused(fault) = CloudError::refused("read", "g", "no") else { unreachable!() };
        CloudError::Denied(fault)
    };
    let five = reading(5, Some(counted(0..3)));
    for names_placeholders in [true, false] {
        let mut machine = Machine::new(five.clone());
        let status = machine.group.state().status();
        let missing = status.instances.iter().find(|one| !one.exists).expect("a placeholder").id.clone();
        let mutation =
            if names_placeholders { delete(vec![missing], NodeKind::CreateError) } else { Mutation::Decrease(1) };
        machine.request(mutation);
        let effects = machine.step(Event::Read(machine.read(Err(denied()))));
        assert!(is_done(&effects), "{effects:?}");
        assert_eq!(machine.group.state().status().target, 4);
        machine.request(delete(ids(0..1), NodeKind::Registered));
        let effects = machine.step(Event::Read(machine.read(Err(denied()))));
        assert!(matches!(responses(&effects)[..], [Err(WriteError::Cloud(_))]), "it names an instance");
        // The capacity follows once the group can be read.
        machine.pass(31);
        let effects = machine.read_beside(&five);
        assert!(asks_for_activity(&effects), "{effects:?}");
        let effects = machine.step(Event::Activity(Ok(LaunchActivity::default())));
        assert_eq!(written(&effects), Some(4));
    }
}

/// Another client lowers the capacity to this number, and more instances live. Returns what is written.
fn raised_back(machine: &mut Machine, lowered: &GroupReading) -> Option<u32> {
    let mut effects = Vec::new();
    for listing in 1..=2 {
        effects.extend(machine.step(Event::Listed(machine.read(Ok(lowered.clone())), ListingKey(listing))));
        machine.pass(2);
    }
    effects.extend(machine.step(Event::Activity(Ok(LaunchActivity::default()))));
    effects.extend(machine.step(Event::Read(machine.read(Ok(lowered.clone())))));
    written(&effects)
}

#[test]
fn a_deletion_that_the_cloud_refused_is_no_write_to_undo() {
    let ten = reading(10, Some(counted(0..10)));
    let mut machine = Machine::new(ten.clone());
    machine.request(delete(ids(0..1), NodeKind::Registered));
    machine.step(Event::Read(machine.read(Ok(ten))));
    machine.step(Event::Deleted(Err(CloudError::refused("delete", "g", "no"))));
    machine.pass(2);
    machine.step(Event::Woke);
    machine.step(Event::ReadBeside(machine.read(Ok(reading(12, Some(counted(0..12))))), None));
    machine.pass(5);
    assert_eq!(raised_back(&mut machine, &reading(10, Some(counted(0..12)))), None);
}
