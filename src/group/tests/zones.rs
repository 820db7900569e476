//! A group whose zones are served one by one: what each shows, and what they share.

use super::super::{Effect, Event, Group, Mutation, ReadResult, Refusal, Request, RequestKey};
use super::{all, instance, observation, plan, shortage, wall};
use crate::cloud::{CloudError, Counts, GrowsBy, Instance, InstanceState, LaunchResult, Permit, ProviderId, ZoneName};
use crate::group::observation::Observation;
use crate::group::refusal::WriteError;
use crate::group::request::{NamedNode, NodeKind};
use crate::group::time::Time;
use std::ops::Range;
use std::time::Duration;

const NAMES: [&str; 2] = ["us-east-1a", "us-east-1b"];

fn a() -> ZoneName {
    ZoneName::from(NAMES[0])
}

fn b() -> ZoneName {
    ZoneName::from(NAMES[1])
}

fn of(zone: &str, number: u32) -> ProviderId {
    ProviderId::from(format!("aws:///{zone}/i-{number}"))
}

fn living(zone: &str, numbers: Range<u32>) -> Vec<Instance> {
    let living = |number| Instance { id: of(zone, number), ..instance(number, InstanceState::Running, Counts::Yes) };
    numbers.map(living).collect()
}

/// A read of a group of these limits, `(min, max)`.
fn read((min, max): (u32, u32), desired: u32, instances: Vec<Instance>, seconds: u64) -> Observation {
    let now = Time::default() + Duration::from_secs(seconds);
    let mut read = observation(desired, instances, now, seconds);
    (read.reading.min, read.reading.max) = (min, max);
    read.reading.zones.names = NAMES.map(str::to_owned).to_vec();
    read.reading.consistency.grows_by = GrowsBy::LaunchInZone;
    read
}

/// Three instances in each zone.
fn six() -> Vec<Instance> {
    all(&[living(NAMES[0], 0..3), living(NAMES[1], 3..6)])
}

fn open(observation: Observation) -> Group {
    Group::new(observation, false)
}

/// The least, the target and the greatest size of a zone.
fn sizes(group: &Group, zone: &ZoneName) -> (u32, u32, u32) {
    let status = group.state().status_in(Some(zone), &super::ClusterNodes::Unwatched);
    (
        group.min_for(Some(zone), &status),
        status.target,
        group.max_for(Some(zone), status.target, &group.growth(Some(zone))),
    )
}

fn request(key: u64, zone: &ZoneName, mutation: Mutation) -> Request {
    let mut request = Request::new(RequestKey(key), mutation, Time::default() + Duration::from_secs(60));
    request.zone = Some(zone.clone());
    request
}

/// Has the group carry these out, with this read for it, and returns what it decides.
fn carry_out(group: &mut Group, requests: Vec<Request>, observation: Observation) -> Vec<Effect> {
    let (begun, at) = (observation.begun, observation.at);
    let mut effects = group.step(begun, at, Event::Requested(requests));
    if let Some(due) = group.wake_at().filter(|due| *due > begun) {
        effects.extend(group.step(due, at, Event::Woke));
    }
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Read { .. })), "{effects:?}");
    let mut reading = observation.reading;
    reading.instances = Some(observation.instances);
    let read = ReadResult { reading: Ok(Some(Box::new(reading))), begun, at };
    group.step(begun, at, Event::Read(read))
}

fn launches(effects: &[Effect]) -> Vec<(u32, Option<&str>)> {
    let launch = |effect| match effect {
        &Effect::Launch { number, ref zone, .. } => Some((number, zone.as_deref())),
        _ => None,
    };
    effects.iter().filter_map(launch).collect()
}

fn refusals(effects: &[Effect]) -> Vec<(u64, &Refusal)> {
    let refusal = |effect| match effect {
        &Effect::Respond(key, Err(WriteError::Refused(ref refusal))) => Some((key.0, refusal)),
        _ => None,
    };
    effects.iter().filter_map(refusal).collect()
}

fn nodes(zone: &str, numbers: Range<u32>) -> Mutation {
    let node = |number| NamedNode { id: of(zone, number), kind: NodeKind::Registered };
    Mutation::Delete(numbers.map(node).collect())
}

#[test]
fn each_zone_has_its_instances_and_shares_the_groups_limits() {
    let group = open(read((1, 10), 6, six(), 1));
    assert_eq!(group.zones(), [a(), b()].into());
    // The group may lose 5 and has room for 4.
    assert_eq!((sizes(&group, &a()), sizes(&group, &b())), ((0, 3, 7), (0, 3, 7)));
    let status = group.state().status_in(Some(&b()), &super::ClusterNodes::Unwatched);
    assert!(status.instances.iter().all(|listed| listed.id.is_in(NAMES[1])) && status.instances.len() == 3);

    let whole = open(observation(2, living(NAMES[0], 0..2), Time::default(), 0));
    assert!(whole.zones().is_empty(), "another group is served as it is");
}

#[test]
fn a_launch_is_in_its_zone_and_takes_from_what_all_have_left() {
    let mut group = open(read((0, 10), 6, six(), 1));
    let asked = vec![request(1, &b(), Mutation::Increase(3))];
    let effects = carry_out(&mut group, asked, read((0, 10), 6, six(), 2));
    assert_eq!(launches(&effects), [(3, Some(NAMES[1]))]);
    assert_eq!((sizes(&group, &a()), sizes(&group, &b())), ((0, 3, 4), (0, 6, 7)));
    // One of the three came up, and nothing shows who launched it.
    let shown = all(&[six(), living(NAMES[1], 6..7)]);
    let refused = carry_out(&mut group, vec![request(2, &a(), Mutation::Increase(2))], read((0, 10), 6, shown, 3));
    assert_eq!(refusals(&refused), [(2, &Refusal::AboveMax { delta: 2, target: 9, max: 10 })]);
    assert_eq!(sizes(&group, &b()), (0, 6, 7));
}

#[test]
fn zones_that_grow_at_once_keep_the_groups_maximum() {
    let mut group = open(read((0, 10), 6, six(), 1));
    let asked = [(1, a(), 2), (2, b(), 2), (3, b(), 1), (4, a(), 1)];
    let asked = asked.map(|(key, zone, delta)| request(key, &zone, Mutation::Increase(delta)));
    let effects = carry_out(&mut group, asked.into(), read((0, 10), 6, six(), 2));
    assert_eq!(launches(&effects), [(2, Some(NAMES[0])), (2, Some(NAMES[1]))]);
    assert_eq!(refusals(&effects).into_iter().map(|(key, _)| key).collect::<Vec<_>>(), [3, 4]);
}

#[test]
fn zones_that_shrink_at_once_keep_the_groups_minimum() {
    let mut group = open(read((5, 10), 6, six(), 1));
    assert_eq!((sizes(&group, &a()), sizes(&group, &b())), ((2, 3, 7), (2, 3, 7)), "the group may lose one");
    let asked = vec![request(1, &a(), nodes(NAMES[0], 0..1)), request(2, &b(), nodes(NAMES[1], 3..4))];
    let effects = carry_out(&mut group, asked, read((5, 10), 6, six(), 2));
    assert_eq!(refusals(&effects), [(2, &Refusal::BelowMin { asked: 1, room: 0, min: 5 })]);
    let deleted =
        effects.iter().find_map(|effect| if let Effect::Delete { ids, .. } = effect { Some(ids) } else { None });
    assert_eq!(deleted, Some(&vec![of(NAMES[0], 0)]));
}

#[test]
fn what_a_group_lacks_belongs_to_no_zone() {
    let group = open(read((0, 10), 8, six(), 1));
    assert_eq!((sizes(&group, &a()), sizes(&group, &b())), ((0, 3, 5), (0, 3, 5)), "the group has room for two");
}

#[test]
fn instances_beyond_the_capacity_are_shown_and_take_up_room() {
    let surge = all(&[six(), living(NAMES[1], 6..8)]);
    let group = open(read((2, 10), 6, surge, 1));
    assert_eq!((sizes(&group, &a()), sizes(&group, &b())), ((0, 3, 5), (1, 5, 7)), "the group may lose four");
    let mut protected = read((2, 10), 3, six(), 1);
    protected.instances.iter_mut().for_each(|one| one.is_protected = true);
    let group = open(protected);
    assert_eq!((sizes(&group, &a()), sizes(&group, &b())), ((0, 3, 7), (0, 3, 7)), "the cloud terminates none of six");
}

#[test]
fn a_zone_that_the_group_has_left_only_shrinks() {
    let mut left = read((0, 10), 6, six(), 1);
    left.reading.zones.names.truncate(1);
    left.reading.zones.withdrawn = [(NAMES[0].to_owned(), "a zonal shift".to_owned())].into();
    let group = open(left.clone());
    let Permit::Withheld(reason) = group.growth(Some(&b())) else { panic!("{group:?}") };
    assert!(reason.contains("no subnet in us-east-1b"), "{reason}");
    assert_eq!(group.growth(Some(&a())), Permit::Withheld("a zonal shift".to_owned()));
    assert_eq!((sizes(&group, &a()), sizes(&group, &b())), ((0, 3, 3), (0, 3, 3)));
    let refused = plan::increase(group.state(), 1, Some(&b()), 0);
    assert!(matches!(refused, Err(Refusal::GrowthWithheld { .. })), "{refused:?}");
    left.instances.truncate(3);
    assert_eq!(open(left).zones(), [a()].into());
}

#[test]
fn what_was_not_launched_in_a_zone_is_given_back_in_that_zone() {
    let mut group = open(read((0, 20), 6, six(), 1));
    let asked = vec![request(1, &a(), Mutation::Increase(2)), request(2, &b(), Mutation::Increase(2))];
    let effects = carry_out(&mut group, asked, read((0, 20), 6, six(), 2));
    let operations: Vec<_> = effects
        .iter()
        .filter_map(|effect| if let Effect::Launch { operation, .. } = effect { Some(*operation) } else { None })
        .collect();
    let (now, at) = (Time::default() + Duration::from_secs(3), wall(3));
    let missing_in_b = |group: &Group| {
        let placeholders = group.state().placeholders().iter().filter(|one| one.zone == Some(b()));
        placeholders.map(|one| one.id.clone()).collect::<Vec<_>>()
    };
    let missing = missing_in_b(&group);
    // One comes up in zone a, and none in zone b.
    let launched = LaunchResult { instances: vec!["i-6".to_owned()], failures: vec![shortage(at)] };
    let refused = CloudError::refused("launch", "g", "no capacity");
    group.step(now, at, Event::Launched(operations[0], Ok(launched)));
    assert_eq!((missing.len(), missing_in_b(&group)), (2, missing), "the launch in zone b goes on");
    group.step(now, at, Event::Launched(operations[1], Err(refused)));
    let targets = |group: &Group| (sizes(group, &a()).1, sizes(group, &b()).1);
    assert_eq!(targets(&group), (5, 3), "nothing was granted in zone b, and its caller has the error");
    let shown = all(&[six(), living(NAMES[0], 6..7)]);
    carry_out(&mut group, vec![request(3, &b(), Mutation::Decrease(1))], read((0, 20), 7, shown.clone(), 4));
    assert_eq!(targets(&group), (5, 3), "nothing is missing in zone b");
    carry_out(&mut group, vec![request(4, &a(), Mutation::Decrease(1))], read((0, 20), 7, shown, 6));
    assert_eq!(targets(&group), (4, 3), "the failed one of zone a went");
}
