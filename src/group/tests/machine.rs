//! The machine as a whole: what it does after a read that is old, or that shows less than it seems to.

mod deletions;
mod launches;
mod room;

use super::super::event::{Effect, Event, ListingKey, Note, PollEnd, ReadResult, Scope};
use super::super::{Mutation, Request, RequestKey};
use super::*;
use crate::cloud::{Acceptance, CloudError, Deletion, GrowsBy, LaunchResult};

/// A machine, and the time.
struct Machine {
    group: super::super::Group,
    now: Time,
    seconds: u64,
    keys: u64,
    /// Whether the group is being read beside the writes.
    reads_beside: bool,
    /// Whether its launch activity is.
    reads_activity_beside: bool,
}

fn reading(desired: u32, instances: Option<Vec<Instance>>) -> GroupReading {
    let whole = observation(desired, instances.clone().unwrap_or_default(), Time::default(), 0);
    GroupReading { instances, max: 200, ..whole.reading }
}

fn of_scale_set(etag: &str, provisioning: Provisioning, reading: GroupReading) -> GroupReading {
    GroupReading { etag: Some(etag.to_owned()), provisioning, consistency: Consistency::SCALE_SET, ..reading }
}

impl Machine {
    fn new(first: GroupReading) -> Self {
        let now = Time::default() + Duration::from_secs(1);
        let first = Observation::new(first, now, wall(0)).expect("it has instances");
        let mut machine = Self {
            group: super::super::Group::new(first, false),
            now,
            seconds: 0,
            keys: 0,
            reads_beside: false,
            reads_activity_beside: false,
        };
        machine.step(Event::Started);
        machine
    }

    fn pass(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
        self.seconds += seconds;
    }

    fn step(&mut self, event: Event) -> Vec<Effect> {
        self.reads_beside &= !matches!(event, Event::ReadBeside(..));
        self.reads_activity_beside &= !matches!(event, Event::ActivityBeside(..));
        let effects = self.group.step(self.now, wall(self.seconds), event);
        self.reads_beside |= effects.iter().any(|effect| matches!(effect, Effect::ReadBeside(_)));
        self.reads_activity_beside |= effects.iter().any(|effect| matches!(effect, Effect::ReadActivityBeside(_)));
        effects
    }

    fn read(&self, reading: Result<GroupReading, CloudError>) -> ReadResult {
        ReadResult { reading: reading.map(|read| Some(Box::new(read))), begun: self.now, at: wall(self.seconds) }
    }

    fn request(&mut self, mutation: Mutation) -> Vec<Effect> {
        self.keys += 1;
        let request = Request::new(RequestKey(self.keys), mutation, self.now + Duration::from_secs(5));
        let mut effects = self.step(Event::Requested(vec![request]));
        self.pass(1);
        effects.extend(self.step(Event::Woke));
        effects
    }

    /// Wakes until the group is read beside the writes, and returns this reading.
    fn read_beside(&mut self, reading: &GroupReading) -> Vec<Effect> {
        for _ in 0..60 {
            self.step(Event::Woke);
            if self.reads_beside {
                return self.step(Event::ReadBeside(self.read(Ok(reading.clone())), None));
            }
            self.pass(1);
        }
        panic!("the group is not read");
    }
}

fn written(effects: &[Effect]) -> Option<u32> {
    effects.iter().find_map(|effect| if let Effect::SetCapacity { to, .. } = effect { Some(*to) } else { None })
}

fn reads(effects: &[Effect], wanted: Scope) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Read { scope, .. } if *scope == wanted))
}

fn polls(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::PollForWrite { .. }))
}

fn polled(ended: Vec<(OperationId, PollEnd)>, error: Option<CloudError>) -> Event {
    Event::PolledForWrite { ended, error }
}

fn asks_for_activity(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::ReadActivity { .. }))
}

#[test]
fn a_deferred_reduction_is_not_written_on_a_read_of_a_minute_ago() {
    let under_way = || LaunchActivity { under_way: 2, ..LaunchActivity::default() };
    let ten = reading(10, Some(counted(0..8)));
    let mut machine = Machine::new(ten.clone());
    assert!(reads(&machine.request(Mutation::Decrease(2)), Scope::Capacity));
    assert!(asks_for_activity(&machine.step(Event::Read(machine.read(Ok(ten.clone()))))));
    assert_eq!(written(&machine.step(Event::Activity(Ok(under_way())))), None, "two are being launched");
    machine.pass(1);
    if asks_for_activity(&machine.read_beside(&ten)) {
        assert_eq!(written(&machine.step(Event::Activity(Ok(under_way())))), None, "they still are");
    }
    // They come up, and reads of the group fail from now on.
    machine.pass(65);
    assert!(reads(&machine.request(Mutation::Increase(1)), Scope::Capacity));
    let denied = CloudError::refused("read", "g", "no");
    let effects = machine.step(Event::Read(machine.read(Err(denied))));
    assert_eq!(written(&effects), None);
    if asks_for_activity(&effects) {
        // Launches that began a minute ago are no longer among them.
        assert_eq!(written(&machine.step(Event::Activity(Ok(LaunchActivity::default())))), None);
    }
}

/// A scale set of 86 VMs, of which 38 are being deleted: its capacity is 48.
fn with_deletions() -> Machine {
    let all = of_scale_set("1", Provisioning::Succeeded, reading(86, Some(running(0..86))));
    let mut machine = Machine::new(all.clone());
    let nodes = ids(48..86).into_iter().map(|id| NamedNode { id, kind: NodeKind::Registered }).collect();
    machine.request(Mutation::Delete(nodes));
    machine.step(Event::Read(machine.read(Ok(all))));
    let deletion =
        Deletion { accepted: ids(48..86), handle: Some(OperationHandle("delete".to_owned())), ..Deletion::default() };
    machine.step(Event::Deleted(Ok(deletion)));
    let going = super::all(&[running(0..48), deleting(48..86, Counts::UntilDeleted)]);
    machine.read_beside(&of_scale_set("2", Provisioning::Running, reading(48, Some(going))));
    machine
}

#[test]
fn a_scale_set_whose_deletions_have_failed_unnoticed_is_not_raised_to_less_than_lives() {
    let mut machine = with_deletions();
    machine.request(Mutation::Increase(5));
    let running_still = of_scale_set("2", Provisioning::Running, reading(48, None));
    let effects = machine.step(Event::Read(machine.read(Ok(running_still.clone()))));
    assert_eq!(written(&effects), None, "some may have failed since the last poll");
    assert!(polls(&effects));
    let effects = machine.step(polled(Vec::new(), None));
    assert_eq!(written(&effects), Some(53), "they are being deleted");

    let mut machine = with_deletions();
    machine.request(Mutation::Increase(5));
    machine.step(Event::Read(machine.read(Ok(running_still))));
    let effects = machine.step(polled(vec![(OperationId(1), PollEnd::Failed(shortage(wall(machine.seconds))))], None));
    assert_eq!(written(&effects), None, "all of them live");
    assert!(reads(&effects, Scope::Instances));
    let all = of_scale_set("3", Provisioning::Running, reading(48, Some(running(0..86))));
    machine.pass(1);
    assert_eq!(written(&machine.step(Event::Read(machine.read(Ok(all))))), Some(91));

    let mut machine = with_deletions();
    machine.request(Mutation::Increase(5));
    let failed = of_scale_set("3", Provisioning::Failed, reading(48, None));
    machine.step(Event::Read(machine.read(Ok(failed))));
    let effects = machine.step(polled(Vec::new(), None));
    assert_eq!(written(&effects), None, "the operation has ended, and its poll comes later");
    assert!(reads(&effects, Scope::Instances));
    let revived = of_scale_set("3", Provisioning::Failed, reading(48, Some(running(0..86))));
    machine.step(Event::Read(machine.read(Ok(revived))));
    assert_eq!(written(&machine.step(polled(Vec::new(), None))), None, "86 live");

    let mut machine = with_deletions();
    machine.request(Mutation::Increase(5));
    let ended = of_scale_set("3", Provisioning::Succeeded, reading(48, None));
    machine.step(Event::Read(machine.read(Ok(ended))));
    machine.step(polled(Vec::new(), None));
    let gone = of_scale_set("3", Provisioning::Succeeded, reading(48, Some(running(0..48))));
    assert_eq!(written(&machine.step(Event::Read(machine.read(Ok(gone))))), Some(53), "they are gone");
}

#[test]
fn a_failure_that_a_poll_tells_during_a_read_for_a_write_is_known_to_it() {
    let mut machine = with_deletions();
    machine.request(Mutation::Increase(5));
    machine.step(Event::Polled(OperationId(1), PollEnd::Failed(shortage(wall(machine.seconds)))));
    let running_still = of_scale_set("2", Provisioning::Running, reading(48, None));
    let effects = machine.step(Event::Read(machine.read(Ok(running_still))));
    assert!(written(&effects).is_none() && reads(&effects, Scope::Instances), "{effects:?}");
    let all = of_scale_set("3", Provisioning::Running, reading(48, Some(running(0..86))));
    machine.pass(1);
    assert_eq!(written(&machine.step(Event::Read(machine.read(Ok(all))))), Some(91));
}

/// Polls that hang hold back no scale-up for long (law 12).
#[test]
fn where_no_poll_tells_the_list_shows_whether_deletions_have_failed() {
    let running_still = |instances| of_scale_set("2", Provisioning::Running, reading(48, instances));
    let mut machine = with_deletions();
    machine.request(Mutation::Increase(5));
    machine.step(Event::Read(machine.read(Ok(running_still(None)))));
    let lost = CloudError::unreachable("follow", "g", "no response");
    let effects = machine.step(polled(Vec::new(), Some(lost)));
    assert_eq!(written(&effects), None, "what became of them is not known");
    assert!(reads(&effects, Scope::Instances));
    let mut failed = machine.group.clone();
    let going = running_still(Some(super::all(&[running(0..48), deleting(48..86, Counts::UntilDeleted)])));
    assert_eq!(written(&machine.step(Event::Read(machine.read(Ok(going))))), Some(53), "they are being deleted");
    let live = Event::Read(machine.read(Ok(running_still(Some(running(0..86))))));
    let effects = failed.step(machine.now, wall(machine.seconds), live);
    assert_eq!(written(&effects), None, "86 may live");
    machine.pass(4);
    let effects = failed.step(machine.now, wall(machine.seconds), Event::Woke);
    assert!(written(&effects).is_none() && reads(&effects, Scope::Capacity), "it is read again: {effects:?}");
}

#[test]
fn a_scale_up_that_counts_on_no_deletion_polls_none() {
    let mut machine = with_deletions();
    machine.request(Mutation::Increase(38));
    let running_still = of_scale_set("2", Provisioning::Running, reading(48, None));
    let effects = machine.step(Event::Read(machine.read(Ok(running_still))));
    assert_eq!(written(&effects), Some(86), "there is room even if all of them fail");
}

/// Of deletions by another client, only the list of the VMs tells.
#[test]
fn a_scale_up_that_counts_on_deletions_of_others_reads_the_list() {
    let going = || super::all(&[running(0..48), deleting(48..86, Counts::UntilDeleted)]);
    let listed = |live| of_scale_set("2", Provisioning::Running, reading(48, Some(live)));
    let mut machine = Machine::new(listed(going()));
    machine.request(Mutation::Increase(5));
    let capacity = of_scale_set("2", Provisioning::Running, reading(48, None));
    let effects = machine.step(Event::Read(machine.read(Ok(capacity))));
    assert!(written(&effects).is_none() && reads(&effects, Scope::Instances));
    let mut failed = machine.group.clone();
    assert_eq!(written(&machine.step(Event::Read(machine.read(Ok(listed(going())))))), Some(53));
    let effects = failed.step(machine.now, wall(0), Event::Read(machine.read(Ok(listed(running(0..86))))));
    assert_eq!(written(&effects), Some(91), "their deletions have failed");
}

/// Fails unless the group is served as one that cannot grow after a minute, for this reason (law 13).
fn is_served_as_full(mut machine: Machine, why: &str) {
    assert_eq!(machine.group.growth(None), Permit::Granted, "it may be over in a moment");
    machine.pass(61);
    machine.step(Event::Woke);
    let Permit::Withheld(reason) = machine.group.growth(None) else { panic!("for more than a minute") };
    assert!(reason.contains(why), "{reason}");
}

#[test]
fn a_group_that_listings_cannot_read_is_served_as_full_until_one_can() {
    let ten = reading(10, Some(counted(0..10)));
    let mut machine = Machine::new(ten.clone());
    machine.pass(1);
    let undecodable = CloudError::unintelligible("list", "g", "it has no capacity");
    machine.step(Event::Listed(machine.read(Err(undecodable)), ListingKey(1)));
    let mut served = Machine { group: machine.group.clone(), ..machine };
    is_served_as_full(machine, "it cannot be read: it has no capacity");
    served.pass(61);
    served.step(Event::Woke);
    served.step(Event::Listed(served.read(Ok(ten)), ListingKey(2)));
    assert_eq!(served.group.growth(None), Permit::Granted);
}

#[test]
fn a_group_that_cannot_be_read_is_logged_once_until_it_can_be() {
    let ten = reading(10, Some(counted(0..10)));
    let mut machine = Machine::new(ten.clone());
    let fails = || Err(CloudError::unreachable("read", "g", "reset"));
    let mut logged = Vec::new();
    for read in [fails(), fails(), Ok(ten.clone()), Ok(ten), fails()] {
        machine.pass(1);
        logged.extend(machine.step(Event::ReadBeside(machine.read(read), None)).into_iter().filter_map(|effect| {
            match effect {
                Effect::Log(Note::Unreadable(_)) => Some("unreadable"),
                Effect::Log(Note::Readable) => Some("readable"),
                _ => None,
            }
        }));
    }
    assert_eq!(logged, ["unreadable", "readable", "unreadable"]);
}

#[test]
fn a_scale_set_that_refuses_to_grow_because_of_failed_deletions_is_served_as_full() {
    // A list shows its VMs as live. The deletions have ended or not, and their poll does not tell.
    for provisioning in [Provisioning::Failed, Provisioning::Running] {
        let mut machine = with_deletions();
        let failed = of_scale_set("2", provisioning, reading(48, Some(running(0..86))));
        machine.pass(1);
        machine.step(Event::Listed(machine.read(Ok(failed)), ListingKey(1)));
        is_served_as_full(machine, "nodes whose deletion may have failed are more than");
    }
    // No list can be read since the poll told.
    let mut machine = with_deletions();
    machine.step(Event::Polled(OperationId(1), PollEnd::Failed(shortage(wall(machine.seconds)))));
    is_served_as_full(machine, "could not be listed");
}

#[test]
fn a_group_near_its_maximum_whose_deletions_have_no_outcome_is_served_as_full() {
    let all = of_scale_set("1", Provisioning::Succeeded, reading(200, Some(running(0..200))));
    let mut machine = Machine::new(all.clone());
    let nodes = ids(0..2).into_iter().map(|id| NamedNode { id, kind: NodeKind::Registered }).collect();
    machine.request(Mutation::Delete(nodes));
    machine.step(Event::Read(machine.read(Ok(all))));
    let lost = || CloudError::unreachable("delete", "g", "no response");
    machine.step(Event::Deleted(Err(lost())));
    machine.pass(5);
    machine.step(Event::Read(machine.read(Err(lost()))));
    assert_eq!(machine.group.state().status().target, 198);
    is_served_as_full(machine, "leave too little room below its maximum");
}

/// Three instances in a group that grows so.
fn three(grows_by: GrowsBy) -> GroupReading {
    let mut three = reading(3, Some(counted(0..3)));
    three.consistency.grows_by = grows_by;
    three
}

fn launched(effects: &[Effect]) -> Option<OperationId> {
    effects
        .iter()
        .find_map(|effect| if let Effect::Launch { operation, .. } = effect { Some(*operation) } else { None })
}

/// A group of three in which so many are being launched.
fn launching(number: u32) -> (Machine, OperationId) {
    let mut machine = Machine::new(three(GrowsBy::Launch));
    machine.request(Mutation::Increase(number));
    let effects = machine.step(Event::Read(machine.read(Ok(three(GrowsBy::Launch)))));
    (machine, launched(&effects).expect("a launch"))
}

#[test]
fn a_group_that_no_longer_launches_is_served_as_full_while_a_launch_has_no_outcome() {
    let (mut machine, operation) = launching(2);
    let lost = CloudError::unreachable("launch", "g", "no response");
    machine.step(Event::Launched(operation, Err(lost)));
    machine.pass(1);
    machine.read_beside(&three(GrowsBy::Capacity));
    is_served_as_full(machine, "a launch has no outcome yet");
}

/// The first attempt may have launched them: credentials expire.
#[test]
fn a_launch_whose_repetition_is_denied_still_has_no_outcome() {
    let (mut machine, operation) = launching(2);
    let lost = CloudError::unreachable("launch", "g", "no response");
    machine.step(Event::Launched(operation, Err(lost)));
    let CloudError::Refused(fault) = CloudError::refused("launch", "g", "the token has expired") else {
        unreachable!()
    };
    machine.step(Event::Launched(operation, Err(CloudError::Denied(fault))));
    machine.pass(11);
    assert_eq!(launched(&machine.step(Event::Woke)), Some(operation), "it is repeated");
    assert_eq!(machine.group.state().status().target, 5);
}

#[test]
fn what_was_given_back_of_a_launch_without_an_outcome_can_be_asked_for_again() {
    let (mut machine, _) = launching(2);
    machine.pass(6);
    machine.step(Event::Woke);
    machine.request(Mutation::Decrease(2));
    machine.step(Event::Read(machine.read(Ok(three(GrowsBy::Launch)))));
    machine.step(Event::Activity(Ok(LaunchActivity { under_way: 2, ..LaunchActivity::default() })));
    assert_eq!(machine.group.state().status().target, 3);
    machine.request(Mutation::Increase(2));
    let effects = machine.step(Event::Read(machine.read(Ok(three(GrowsBy::Launch)))));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Respond(_, Ok(())))), "{effects:?}");
    assert_eq!((launched(&effects), machine.group.state().status().target), (None, 5), "it is launched once");
}

/// Of two VMs of a preempted deletion, one is gone when it is sent again, so Azure refuses it for both.
#[test]
fn a_preempted_deletion_that_is_refused_when_it_is_sent_again_is_sent_once_more() {
    let four = of_scale_set("1", Provisioning::Succeeded, reading(4, Some(running(0..4))));
    let mut machine = Machine::new(four.clone());
    let nodes = ids(2..4).into_iter().map(|id| NamedNode { id, kind: NodeKind::Registered }).collect();
    machine.request(Mutation::Delete(nodes));
    machine.step(Event::Read(machine.read(Ok(four))));
    let handle = Some(OperationHandle("delete".to_owned()));
    machine.step(Event::Deleted(Ok(Deletion { accepted: ids(2..4), handle, ..Deletion::default() })));
    let operation = machine.group.state().in_flight().operations()[0].id;
    machine.step(Event::Polled(operation, PollEnd::Preempted));
    let again = |machine: &mut Machine, live: u32| {
        let listed = of_scale_set(&format!("{live} live"), Provisioning::Succeeded, reading(2, Some(running(0..live))));
        machine.pass(1);
        machine.read_beside(&listed);
        let effects = machine.step(Event::Read(machine.read(Ok(listed))));
        effects.into_iter().find_map(|effect| if let Effect::Delete { ids, .. } = effect { Some(ids) } else { None })
    };
    assert_eq!(again(&mut machine, 4), Some(ids(2..4)));
    let conflict = CloudError::conflict("delete", "g", "one is gone");
    let refused = vec![(id(2), conflict)];
    machine.step(Event::Deleted(Ok(Deletion { already_gone: ids(3..4), refused, ..Deletion::default() })));
    assert_eq!(again(&mut machine, 3), Some(ids(2..3)), "the other one lives");
}

/// Its caller has the response, and the process must not end before the cloud has the launch (law 9).
#[test]
fn a_group_is_not_idle_while_a_launch_is_under_way() {
    let (mut machine, operation) = launching(1);
    machine.pass(6);
    let effects = machine.step(Event::Woke);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Respond(_, Ok(())))), "{effects:?}");
    assert!(!machine.group.is_idle());
    let launched = LaunchResult { instances: vec![id(3).instance().to_owned()], failures: Vec::new() };
    machine.step(Event::Launched(operation, Ok(launched)));
    assert!(machine.group.is_idle());
}

#[test]
fn only_a_list_that_is_younger_than_a_failed_scale_up_shows_what_it_made() {
    let listed = |etag: &str, live| of_scale_set(etag, Provisioning::Failed, reading(5, Some(running(0..live))));
    let mut machine = Machine::new(of_scale_set("1", Provisioning::Succeeded, reading(1, Some(running(0..1)))));
    machine.request(Mutation::Increase(4));
    let one = of_scale_set("1", Provisioning::Succeeded, reading(1, None));
    assert_eq!(written(&machine.step(Event::Read(machine.read(Ok(one))))), Some(5));
    let handle = Some(OperationHandle("increase".to_owned()));
    machine.step(Event::CapacityWritten(Ok(Acceptance { handle })));
    let operation = machine.group.state().in_flight().operations()[0].id;
    machine.pass(10);
    // The capacity is being read for another scale-up. That read fails, and is repeated after the report.
    assert!(reads(&machine.request(Mutation::Increase(1)), Scope::Capacity));
    machine.step(Event::Read(machine.read(Err(CloudError::unreachable("read", "g", "no response")))));
    machine.step(Event::Polled(operation, PollEnd::Failed(shortage(wall(machine.seconds)))));
    let failed = |machine: &Machine| machine.group.state().status().failed();
    machine.pass(1);
    assert!(reads(&machine.step(Event::Woke), Scope::Capacity));
    let capacity = of_scale_set("2", Provisioning::Failed, reading(5, None));
    let effects = machine.step(Event::Read(machine.read(Ok(capacity))));
    assert_eq!(failed(&machine), 0, "which of the four were made is not known");
    assert!(reads(&effects, Scope::Instances), "{effects:?}");
    machine.step(Event::Read(machine.read(Ok(listed("2", 3)))));
    assert_eq!(failed(&machine), 2);
}

#[test]
fn a_scale_up_does_not_wait_for_the_launch_activity_that_is_read_beside_it() {
    let lacking = reading(4, Some(counted(0..2)));
    let mut machine = Machine::new(lacking.clone());
    assert!(machine.reads_activity_beside, "two are missing");
    assert!(reads(&machine.request(Mutation::Increase(1)), Scope::Capacity));
    assert_eq!(written(&machine.step(Event::Read(machine.read(Ok(lacking))))), Some(5));
    assert!(machine.reads_activity_beside);
}

/// A write raises the capacity from 9 to 10, and undoes another client's raise to 20. A listing meanwhile or
/// afterwards may show that. Returns how far the capacity is raised back.
fn raised_back(during: Option<GroupReading>, after: Option<GroupReading>) -> Option<u32> {
    let nine = reading(9, Some(counted(0..9)));
    let undone = reading(10, Some(counted(0..20)));
    let mut machine = Machine::new(nine.clone());
    machine.request(Mutation::Increase(1));
    assert_eq!(written(&machine.step(Event::Read(machine.read(Ok(nine))))), Some(10));
    machine.pass(7);
    if let Some(listed) = during {
        machine.step(Event::Listed(machine.read(Ok(listed)), ListingKey(1)));
    }
    machine.pass(1);
    machine.step(Event::CapacityWritten(Ok(Acceptance::default())));
    machine.pass(1);
    if let Some(listed) = after {
        machine.step(Event::Listed(machine.read(Ok(listed)), ListingKey(2)));
    }
    if !asks_for_activity(&machine.read_beside(&undone)) {
        return None;
    }
    machine.step(Event::Activity(Ok(LaunchActivity::default())));
    written(&machine.step(Event::Read(machine.read(Ok(undone)))))
}

#[test]
fn what_a_listing_showed_while_a_write_was_on_its_way_is_raised_back_to() {
    assert_eq!(raised_back(None, None), None, "no read showed more than 10");
    assert_eq!(raised_back(Some(reading(20, Some(counted(0..9)))), None), Some(20));
}

/// It lists less than half of the instances.
#[test]
fn what_a_listing_in_doubt_showed_is_raised_back_to() {
    assert_eq!(raised_back(None, Some(reading(20, Some(counted(0..4))))), Some(20));
}
