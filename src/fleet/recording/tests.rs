//! Recordings of a group without a keeper or a cloud.

use std::collections::VecDeque;
use std::time::Duration;

use super::ring::{ALL_BYTES_MAX, EVENTS_MIN, QUIET_EVENTS};
use super::*;
use crate::cloud::{
    Acceptance, CloudError, Consistency, Counts, Deletion, Failure, FailureClass, GroupHints, Instance, InstanceState,
    LaunchActivity, OperationHandle, Permit, Provisioning, Zones,
};
use crate::group::{ListingKey, Mutation, NamedNode, NodeKind, Observation, ReadResult, Request, RequestKey};

/// A recorded group, and the cloud's side of it.
struct Recorded {
    recordings: Arc<Recordings>,
    recorder: Recorder,
    group: Group,
    desired: u32,
    instances: Vec<Instance>,
    now: Time,
    keys: u64,
}

fn key() -> GroupKey {
    GroupKey { source: "us".into(), name: "web".into() }
}

/// An instance with an ID as AWS makes them.
fn instance(number: u64) -> Instance {
    let digits = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let id = format!("aws:///us-east-1a/i-0{digits:016x}").into();
    let (state, counts) = (InstanceState::Running, Counts::Yes);
    Instance { id, identity: None, state, counts, is_protected: false, failure: None }
}

fn reading(desired: u32, instances: &[Instance]) -> GroupReading {
    GroupReading {
        name: "web".into(),
        identity: None,
        consistency: Consistency::AUTO_SCALING,
        min: 0,
        max: 1_000,
        floor: 0,
        desired,
        etag: None,
        units_per_node: Some(1),
        is_detail_outdated: false,
        without_id: 0,
        retained: Default::default(),
        has_own_surplus: Default::default(),
        provisioning: Provisioning::Running,
        growth: Permit::Granted,
        launch: Permit::Granted,
        removal: Permit::Granted,
        instances: Some(instances.to_vec()),
        hints: Arc::new(GroupHints::default()),
        zones: Zones::default(),
        launch_fingerprint: 0,
        placeholder_prefix: "aws:///us-east-1a/i-placeholder-web-".to_owned(),
    }
}

fn wall(now: Time) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000) + now.since_start()
}

impl Recorded {
    fn new(size: u32) -> Self {
        Self::among(Arc::default(), size)
    }

    fn among(recordings: Arc<Recordings>, size: u32) -> Self {
        let recorder = recordings.recorder(&key());
        let instances: Vec<_> = (0..u64::from(size)).map(instance).collect();
        let now = Time::default() + Duration::from_secs(1);
        let first = Observation::new(reading(size, &instances), now, wall(now)).expect("it has instances");
        let group = Group::new(first, false);
        let mut recorded = Self { recordings, recorder, group, desired: size, instances, now, keys: 0 };
        recorded.happen(Event::Started);
        recorded
    }

    fn happen(&mut self, mut event: Event) -> Vec<Effect> {
        self.now = self.now + Duration::from_millis(20);
        let (now, at) = (self.now, wall(self.now));
        self.recorder.happen(&self.group, now, at, &mut event);
        let effects = self.group.step(now, at, event);
        self.recorder.decide(&effects);
        effects
    }

    fn read(&self) -> ReadResult {
        let reading = reading(self.desired, &self.instances);
        ReadResult { reading: Ok(Some(Box::new(reading))), begun: self.now, at: wall(self.now) }
    }

    fn list(&mut self) {
        self.now = self.now + Duration::from_secs(15);
        while self.group.wake_at().is_some_and(|at| at <= self.now) {
            self.drive(Event::Woke);
        }
        self.keys += 1;
        self.drive(Event::Listed(self.read(), ListingKey(self.keys)));
    }

    fn request(&mut self, mutation: Mutation) {
        self.keys += 1;
        let request = Request::new(RequestKey(self.keys), mutation, self.now + Duration::from_secs(5));
        self.drive(Event::Requested(vec![request]));
        while let Some(at) = self.group.wake_at().filter(|_| !self.group.is_idle()) {
            self.now = self.now.max(at);
            self.drive(Event::Woke);
        }
    }

    /// Takes an event and what follows from it, as a keeper does.
    fn drive(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let effects = self.happen(event);
            events.extend(effects.iter().filter_map(|effect| self.answer(effect)));
        }
    }

    /// What the cloud answers.
    fn answer(&mut self, effect: &Effect) -> Option<Event> {
        match effect {
            Effect::Read { .. } => Some(Event::Read(self.read())),
            Effect::ReadBeside(listing) => Some(Event::ReadBeside(self.read(), *listing)),
            Effect::ReadActivityBeside(_) => Some(Event::ActivityBeside(Ok(LaunchActivity::default()))),
            Effect::SetCapacity { to, .. } => {
                let (added, next) = (to.saturating_sub(self.desired), self.keys * 1_000);
                self.instances.extend((0..u64::from(added)).map(|number| instance(next + number)));
                self.desired = *to;
                Some(Event::CapacityWritten(Ok(Acceptance::default())))
            }
            Effect::Delete { ids, .. } => {
                self.instances.retain(|one| !ids.contains(&one.id));
                self.desired -= u32::try_from(ids.len()).expect("few");
                Some(Event::Deleted(Ok(Deletion { accepted: ids.clone(), ..Deletion::default() })))
            }
            _ => None,
        }
    }

    /// A scale-up and a deletion, and the listings until the group is idle.
    fn use_a_while(&mut self) {
        self.request(Mutation::Increase(2));
        self.list();
        let oldest = self.instances[..2].iter().map(|one| one.id.clone());
        let named = oldest.map(|id| NamedNode { id, kind: NodeKind::Unregistered });
        self.request(Mutation::Delete(named.collect()));
        self.list();
        self.list();
    }

    fn text(&self) -> String {
        self.recordings.text(Some("web")).expect("a recording")
    }

    fn replayed(&self) -> Vec<Step> {
        steps(&self.text())
    }
}

fn steps(text: &str) -> Vec<Step> {
    let recording = Recording::parse(text.as_bytes()).expect("a recording");
    recording.replay().flat_map(|stretch| stretch.steps).collect()
}

#[test]
fn a_recording_replays_to_the_same_decisions_and_says_which_rule_decided() {
    let mut recorded = Recorded::new(3);
    recorded.use_a_while();
    let steps = recorded.replayed();
    assert!(steps.len() > 10, "{steps:#?}");
    assert!(steps.iter().all(|step| step.outcome == Outcome::Same), "{steps:#?}");
    let decided: Vec<_> = steps.iter().flat_map(|step| &step.decided).collect();
    let has = |text: &str, rule: &str| decided.iter().any(|one| one.decision.contains(text) && one.rule.contains(rule));
    assert!(has("set the capacity from 3 to 5", "laws 1 and 2"), "{decided:#?}");
    assert!(has("delete aws:///us-east-1a/i-0", "laws 1 and 6"), "{decided:#?}");
    assert!(has("read the capacity", "law 2") && has(": OK", "law 4"), "{decided:#?}");
    let last = steps.last().expect("a step").known;
    assert_eq!((last.capacity, last.live, last.target), (3, 3, 3));
}

#[test]
fn a_decision_that_differs_is_found_and_one_that_is_missing_is_named() {
    let mut recorded = Recorded::new(3);
    recorded.use_a_while();
    let text = recorded.text();
    // Another client had set another capacity.
    let changed = text.replacen("\"desired\":5", "\"desired\":6", 1);
    assert_ne!(changed, text);
    assert!(steps(&changed).iter().any(|step| step.outcome == Outcome::Differs));
    let last = text.trim_end().rfind('\n').expect("lines");
    let cut = steps(&text[..=last]);
    assert_eq!(cut.last().map(|step| step.outcome.clone()), Some(Outcome::NotRecorded));
}

#[test]
fn an_idle_group_records_nothing_and_keeps_what_happened_before() {
    let mut recorded = Recorded::new(100);
    recorded.list();
    let idle = recorded.recordings.bytes();
    (0..1_000).for_each(|_| recorded.list());
    assert_eq!((idle, recorded.recordings.bytes()), (0, 0), "reads that show nothing new take no memory");
    recorded.use_a_while();
    (0..1_000).for_each(|_| recorded.list());
    let steps = recorded.replayed();
    assert!(steps.iter().any(|step| step.event.contains("grow by 2")), "it is kept");
    assert!(steps.len() < 100, "{} steps", steps.len());
    recorded.request(Mutation::Increase(1));
    assert!(recorded.replayed().iter().all(|step| step.outcome == Outcome::Same), "over the gap, too");
}

#[test]
fn a_thousand_active_groups_of_a_hundred_instances_fit() {
    let mut largest = 0;
    // Each becomes idle after this many rounds, or never.
    for pauses_every in [1, 2, 5, 100] {
        let mut recorded = Recorded::new(100);
        let others = recorded.recordings.room.clone();
        others.change(0, ALL_BYTES_MAX / 2);
        let (mut most, mut fewest) = (0, usize::MAX);
        for round in 0..30 {
            recorded.use_a_while();
            if round % pauses_every == 0 {
                (0..2 * QUIET_EVENTS).for_each(|_| recorded.list());
            }
            most = most.max(recorded.recordings.bytes() - ALL_BYTES_MAX / 2);
            // By then, it has dropped what was first in it.
            if round >= 20 && round % 3 == 0 {
                fewest = fewest.min(recorded.text().matches("{\"event\"").count());
            }
        }
        println!("idle after {pauses_every} rounds: at least {fewest} events, in at most {most} bytes");
        assert!(fewest >= EVENTS_MIN, "{fewest} events");
        assert!(recorded.replayed().iter().all(|step| step.outcome == Outcome::Same));
        largest = largest.max(most);
    }
    assert!(largest <= ALL_BYTES_MAX / 1_000, "{largest} bytes");
}

#[test]
fn the_recordings_of_all_groups_never_take_more_than_their_room() {
    let recordings = Arc::<Recordings>::default();
    // Other groups have taken the rest of it.
    let left = 160 * 1024;
    recordings.room.change(0, ALL_BYTES_MAX - left);
    let mut groups: Vec<_> = (0..8)
        .map(|number| {
            let mut recorded = Recorded::new(40);
            let key = GroupKey { source: "us".into(), name: format!("group-{number}").as_str().into() };
            recorded.recorder = recordings.recorder(&key);
            recorded
        })
        .collect();
    let mut most_bytes = 0;
    for round in 0..100 {
        for recorded in &mut groups {
            // Every instance is another one each time.
            recorded.instances = (0..40).map(|number| instance(round * 1_000_003 + number * 7)).collect();
            recorded.list();
            recorded.list();
            assert!(recordings.bytes() <= ALL_BYTES_MAX, "{} bytes", recordings.bytes());
            most_bytes = most_bytes.max(recordings.bytes());
        }
    }
    assert!(most_bytes > ALL_BYTES_MAX - left / 10, "at most {most_bytes} bytes: it was never full");
    let kept = |number: usize| recordings.text(Some(&format!("group-{number}"))).expect("a group").lines().count();
    let (least, most) =
        (0..8).map(kept).fold((usize::MAX, 0), |(least, most), lines| (least.min(lines), most.max(lines)));
    assert!(least > 2 && most < 4 * least, "{least} to {most} lines: each group keeps about as much");
}

#[test]
fn an_event_is_in_the_recording_once_it_is_decided_on() {
    let mut recorded = Recorded::new(3);
    recorded.use_a_while();
    let before = recorded.text();
    let mut request = Event::Requested(Vec::new());
    recorded.recorder.happen(&recorded.group, recorded.now, wall(recorded.now), &mut request);
    assert_eq!(recorded.text(), before);
    recorded.recorder.decide(&[]);
    assert_eq!(recorded.text().lines().count(), before.lines().count() + 2, "the event and what was decided");
}

#[test]
fn what_a_keeper_recorded_before_it_panicked_stays() {
    let mut recorded = Recorded::new(3);
    recorded.use_a_while();
    let before = recorded.replayed().len();
    let mut request = Event::Requested(Vec::new());
    recorded.recorder.happen(&recorded.group, recorded.now, wall(recorded.now), &mut request);
    // It panics here, and another keeper takes its place.
    let Recorded { recordings, .. } = recorded;
    let mut again = Recorded::among(recordings, 3);
    again.use_a_while();
    let steps = again.replayed();
    assert_eq!(steps[before].outcome, Outcome::NotRecorded);
    assert!(steps.len() > before + 10);
}

#[test]
fn no_recording_shows_a_secret() {
    const SECRET: &str = "a-client-secret-of-a-recording";
    crate::cloud::secrets::keep_secret(SECRET);
    let mut recorded = Recorded::new(3);
    let url = "https://management.azure.com/operations/1?s=signature-of-a-url".to_owned();
    let failure = Failure {
        class: FailureClass::Other,
        code: "Failed".to_owned(),
        message: format!("the proxy says {SECRET}"),
        at: wall(recorded.now),
        is_explained: true,
        is_eviction: false,
    };
    recorded.instances[0].failure = Some(Arc::new(failure));
    recorded.list();
    recorded.happen(Event::CapacityWritten(Ok(Acceptance { handle: Some(OperationHandle(url)) })));
    recorded.happen(Event::Deleted(Err(CloudError::refused("DeleteInstances", "web", SECRET))));
    let text = recorded.text();
    assert!(text.contains("the proxy says [redacted]") && text.contains("handle "), "{text}");
    assert!(!text.contains(SECRET) && !text.contains("signature-of-a-url"), "{text}");
}

#[test]
fn an_event_that_json_cannot_hold_ends_the_stretch_and_the_next_one_begins_anew() {
    let mut recorded = Recorded::new(3);
    recorded.request(Mutation::Increase(1));
    let mut read = recorded.read();
    read.at = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    recorded.happen(Event::ReadBeside(read, None));
    recorded.use_a_while();
    let recording = Recording::parse(recorded.text().as_bytes()).expect("a recording");
    assert_eq!(recording.replay().count(), 2);
    assert!(recorded.replayed().iter().all(|step| step.outcome == Outcome::Same));
}

#[test]
fn what_is_no_recording_of_this_version_is_refused_in_one_line() {
    let text = Recorded::new(1).text();
    let other = text.replace("\"format\":1", "\"format\":2");
    let odd = text.clone() + "{\"group\":{\"source\":\"us\",\"name\":\"web\",\"colour\":\"red\"}}\n";
    for (text, why) in [
        ("", "not a recording"),
        ("{\"headcount\":1}", "not a recording"),
        ("apiVersion: v1", "not a recording"),
        (other.as_str(), "use that one"),
        (odd.as_str(), "line 3: another build of Headcount wrote it"),
        (&(text.clone() + "{\"event\":1}\n"), "line 3"),
        (&(text.clone() + "{\"decided\":{\"effects\":\"00\"}}\n"), "line 3: no event before it"),
    ] {
        let error = Recording::parse(text.as_bytes()).expect_err(text).to_string();
        assert!(error.contains(why) && !error.contains('\n'), "{text}: {error}");
    }
    assert!(Recording::parse(&[0xff]).is_err());
    let older = text.replace(concat!("\"", env!("CARGO_PKG_VERSION"), "\""), "\"0.0.1\"");
    let recording = Recording::parse(older.as_bytes()).expect("the same format");
    assert_eq!(recording.other_version(), Some("0.0.1"));
}

#[test]
fn a_hostile_recording_is_refused_or_ends_and_panics_nowhere() {
    let mut recorded = Recorded::new(3);
    recorded.use_a_while();
    let text = recorded.text();
    for (honest, hostile) in [("\"keep\":3", "\"keep\":4000000000"), ("\"desired\":5", "\"desired\":4000000000")] {
        let text = text.replacen(honest, hostile, 1);
        if let Ok(recording) = Recording::parse(text.as_bytes()) {
            let outcomes: Vec<_> = recording.replay().flat_map(|one| one.steps).map(|step| step.outcome).collect();
            assert!(outcomes.iter().any(|outcome| *outcome != Outcome::Same), "{hostile}");
        }
    }
}
