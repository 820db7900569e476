//! Launches that are repeated until their outcome is known.

use super::*;

/// Whether the machine is to be woken later, and not now again.
fn rests(machine: &Machine) -> bool {
    machine.group.wake_at().is_none_or(|at| at > machine.now)
}

/// More than one call can launch. The caller's time was up between the two.
#[test]
fn a_launch_that_may_have_begun_is_repeated_although_its_caller_has_gone() {
    let (mut machine, first) = launching(150);
    let second = OperationId(first.0 + 1);
    machine.step(Event::Withdrawn([RequestKey(1)].into()));
    machine.step(Event::Launched(second, Err(CloudError::conflict("launch", "g", "its caller gave up"))));
    machine.step(Event::Launched(first, Err(CloudError::unreachable("launch", "g", "no response"))));
    machine.pass(11);
    let effects = machine.step(Event::Woke);
    assert_eq!(launched(&effects), Some(first));
    assert!(rests(&machine));
    let launched = LaunchResult { instances: Vec::new(), failures: vec![shortage(wall(0))] };
    machine.step(Event::Launched(first, Ok(launched)));
    assert_eq!(machine.group.state().status().target, 3);
    assert!(machine.group.is_idle() && rests(&machine));
}

/// It is not sent for one caller what two asked for; and it is decided anew only if nothing was launched.
#[test]
fn a_launch_that_waits_for_another_one_wakes_nobody_meanwhile() {
    let mut machine = Machine::new(three(GrowsBy::Launch));
    let until = machine.now + Duration::from_secs(60);
    let request = |key, delta| Request::new(RequestKey(key), Mutation::Increase(delta), until);
    machine.step(Event::Requested(vec![request(1, 100), request(2, 50)]));
    machine.pass(1);
    machine.step(Event::Woke);
    let effects = machine.step(Event::Read(machine.read(Ok(three(GrowsBy::Launch)))));
    let first = launched(&effects).expect("a launch");
    let busy = CloudError::conflict("launch", "g", "busy");
    machine.step(Event::Launched(OperationId(first.0 + 1), Err(busy)));
    machine.step(Event::Withdrawn([RequestKey(1)].into()));
    machine.pass(11);
    machine.step(Event::Woke);
    assert!(rests(&machine), "the first call is still being carried out");
}

#[test]
fn a_launch_that_was_never_sent_is_given_up_with_its_caller() {
    let (mut machine, operation) = launching(2);
    machine.step(Event::Launched(operation, Err(CloudError::conflict("launch", "g", "busy"))));
    assert_eq!(machine.group.state().status().target, 5);
    machine.step(Event::Withdrawn([RequestKey(1)].into()));
    assert_eq!(machine.group.state().status().target, 3);
    assert!(machine.group.is_idle() && rests(&machine));
}

/// The caller whose time is up before the launch ends reads the target next (law 4).
#[test]
fn what_a_scale_up_puts_back_is_published_before_its_response() {
    let group = || {
        let mut group = reading(5, Some(counted(0..3)));
        (group.min, group.consistency.grows_by) = (5, GrowsBy::Launch);
        group
    };
    let mut machine = Machine::new(group());
    machine.request(Mutation::Decrease(2));
    machine.step(Event::Read(machine.read(Ok(group()))));
    machine.step(Event::Activity(Ok(LaunchActivity::default())));
    assert_eq!(machine.group.state().status().target, 3);
    machine.request(Mutation::Increase(3));
    let effects = machine.step(Event::Read(machine.read(Ok(group()))));
    assert!(launched(&effects).is_some());
    assert_eq!(machine.group.state().status().target, 4);
    machine.pass(6);
    let effects = machine.step(Event::Woke);
    assert_eq!(machine.group.state().status().target, 6);
    let responded = effects.iter().position(|effect| matches!(effect, Effect::Respond(_, Ok(()))));
    let published = effects.iter().position(|effect| matches!(effect, Effect::Publish));
    assert!(published < Some(responded.expect("a response")), "{effects:?}");
}
