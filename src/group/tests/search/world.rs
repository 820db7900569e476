//! A group, its cloud and the machine: everything that may happen to them is a choice.

use std::hash::{Hash, Hasher};
use std::time::{Duration, SystemTime};

use super::actions::{Action, Budget, Outcome};
use super::cloud::{Call, Cloud, Kind, LAG, OLD, Stage, View, at, failure, name, number, reading, zone_of};
use super::launches::Launch;
use super::laws::{Broken, Laws};
use super::promises::{Asked, Promises};
use crate::cloud::{Acceptance, CloudError, Counts, Deletion, OperationHandle, ProviderId, ZoneName};
use crate::group::cluster_nodes::ClusterNodes;
use crate::group::observation::Observation;
use crate::group::request::{Mutation, NamedNode, NodeKind, Request, RequestKey};
use crate::group::{Effect, Event, Group, OperationId, PollEnd, ReadResult, Scope, Time, doubt_first};

/// Wake-ups that are not due within a second come at multiples of this, in milliseconds.
const STEP: u64 = 10_000;
/// Where a world begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub kind: Kind,
    pub capacity: u8,
    pub live: u8,
    pub min: u8,
    /// How many of them are being deleted for CA, one by one.
    pub going: u8,
    pub budget: Budget,
}

/// A group, its cloud and the machine.
#[derive(Clone)]
pub(super) struct World {
    pub cloud: Cloud,
    pub now: u64,
    /// How many things have happened: no two of them at the same moment. Too short to count as time.
    events: u32,
    pub group: Group,
    pub call: Option<Call>,
    pub beside: bool,
    /// Whether the last process serves nothing.
    pub is_over: bool,
    pub late: Option<(Call, u64)>,
    /// Which process it is.
    pub process: u8,
    /// Launches that may still change anything, oldest first.
    pub launches: Vec<Launch>,
    pub promises: Promises,
    pub polls: Vec<(OperationId, u8)>,
    /// Operations that have ended, and whose poll has not told yet.
    pub unheard: Vec<(OperationId, PollEnd)>,
    pub left: Budget,
    pub asked: Vec<(u64, Asked)>,
    keys: u64,
    /// What is to be told to the machine before anything else happens.
    answers: Vec<Event>,
    pub laws: Laws,
    /// What the machine did at the last event, for the trace.
    pub decided: Vec<Effect>,
}

/// The machine of a process that reads the group for the first time.
fn machine(cloud: &Cloud, now: u64, view: &View) -> Option<Group> {
    let (begun, wall) = at(now);
    let observation = Observation::new(reading(cloud, view, Some(view)), begun, wall)?;
    doubt_first(&observation).is_none().then(|| Group::new(observation, false))
}

impl World {
    pub(super) fn new(setting: Setting) -> Self {
        let Setting { kind, capacity, live, min, going, budget } = setting;
        let cloud = Cloud::new(kind, min, capacity, live);
        let now = 1_000;
        let group = machine(&cloud, now, &cloud.view).expect("no doubt");
        let mut world = Self {
            cloud,
            now,
            events: 0,
            group,
            call: None,
            beside: false,
            is_over: false,
            late: None,
            process: 0,
            launches: Vec::new(),
            promises: Promises::new(capacity),
            polls: Vec::new(),
            unheard: Vec::new(),
            left: Budget { asks: budget.asks + going, ..budget },
            asked: Vec::new(),
            keys: 0,
            answers: Vec::new(),
            laws: Laws::default(),
            decided: Vec::new(),
        };
        world.tell(Event::Started).expect("a start writes nothing");
        (0..going).for_each(|id| world.begin_deletion(id).expect("nothing fails yet"));
        world
    }

    /// Makes it happen.
    pub(super) fn take(&mut self, action: Action) -> Result<(), Broken> {
        self.decided.clear();
        self.events += 1;
        match action {
            Action::Read(age) => {
                let is_whole = self.call.take() == Some(Call::Read(true)) || !self.cloud.kind.is_guarded();
                let read = self.read(age, is_whole);
                self.tell(Event::Read(read))?;
            }
            Action::ReadFails => {
                self.call = None;
                self.left.lost -= 1;
                let read = self.failed_read();
                self.tell(Event::Read(read))?;
            }
            Action::Beside(age) => {
                self.beside = false;
                let read = self.read(age, true);
                self.tell(Event::ReadBeside(read, None))?;
            }
            Action::BesideFails => {
                self.beside = false;
                self.left.lost -= 1;
                let read = self.failed_read();
                self.tell(Event::ReadBeside(read, None))?;
            }
            Action::Write(outcome) => self.answer_write(outcome)?,
            Action::LateEffect => {
                if let Some((call, until)) = self.late.take() {
                    self.carry_out(&call)?;
                    // The time in which it may take effect includes the lag of the reads that then show it.
                    self.cloud.past.iter_mut().for_each(|(_, replaced)| *replaced = (*replaced).min(until - LAG));
                }
            }
            Action::Wake => self.wake()?,
            Action::Increase(number, place) => {
                let zone = self.cloud.kind.served()[usize::from(place)].clone();
                self.ask(Asked::Increase(number, zone.clone()), Mutation::Increase(number.into()), zone)?;
            }
            Action::Decrease => {
                let zone = self.missing().1;
                self.ask(Asked::Decrease, Mutation::Decrease(1), zone)?;
            }
            Action::Delete(id) => {
                let node = NamedNode { id: name(id), kind: NodeKind::Registered };
                self.laws.asked_to_delete(id);
                self.ask(Asked::Delete(id), Mutation::Delete(vec![node]), self.served_zone(id))?;
            }
            Action::DeleteUnregistered(id) => {
                let node = NamedNode { id: name(id), kind: NodeKind::Unregistered };
                self.laws.asked_to_delete(id);
                self.ask(Asked::DeleteUnregistered(id), Mutation::Delete(vec![node]), self.served_zone(id))?;
            }
            Action::DeletePlaceholder => {
                let (id, zone) = self.missing();
                let node = NamedNode { id, kind: NodeKind::Unregistered };
                self.ask(Asked::Placeholder, Mutation::Delete(vec![node]), zone)?;
            }
            Action::Restart { reads, arrives } => self.restart(reads, arrives)?,
            Action::Succeeds(handle) => self.end(handle, PollEnd::Succeeded)?,
            Action::Fails(handle) => {
                self.left.failures -= 1;
                let failed = failure(at(self.now).1);
                self.end(handle, PollEnd::Failed(failed))?;
            }
            Action::FailsUnheard(_) | Action::Heard | Action::Polled | Action::PollsFail => self.poll(action)?,
            Action::Preempted(handle) => {
                self.left.failures -= 1;
                self.end(handle, PollEnd::Preempted)?;
            }
            Action::LaunchAnswered(index, told) => self.answer_launch(index, told)?,
            Action::Launched { index, number } => self.make(index, number)?,
            Action::LaunchRaises(index) => self.raise(index, self.now),
            other => self.happen(other)?,
        }
        if self.cloud.kind.is_launching() {
            self.promises.check(self)?;
        }
        self.laws.check(self)
    }

    /// Something that the machine is not told about.
    fn happen(&mut self, action: Action) -> Result<(), Broken> {
        let before = self.cloud.view.clone();
        match action {
            Action::OtherSets(by) => {
                self.left.others -= 1;
                let to = self.cloud.view.desired.saturating_add_signed(by);
                self.cloud.set(to, self.now);
                self.promises.change(by.max(0).unsigned_abs());
            }
            Action::OtherDeletes(id) => {
                self.left.others -= 1;
                self.cloud.delete(&[id], &[]);
                self.promises.change(0);
                self.laws.named(id);
            }
            Action::Evicted(id) => {
                self.left.others -= 1;
                self.cloud.view.turn(id, Stage::Going);
                self.cloud.view.foreign += 1;
            }
            Action::LaunchBegins => {
                self.cloud.launch(self.now);
                self.cloud.view.foreign += 1;
            }
            Action::ComesUp(id) => self.cloud.view.turn(id, Stage::Up),
            Action::LaunchFails(id) => {
                self.left.failures -= 1;
                self.cloud.view.machines.retain(|one| one.id != id);
                self.cloud.view.foreign += 1;
                self.cloud.failures.push(self.now);
                let failed = self.cloud.operations.iter().find(|one| one.made.contains(&id)).map(|one| one.handle);
                if let Some(handle) = failed {
                    self.cloud.remember(before, self.now);
                    let failed = failure(at(self.now).1);
                    return self.end(handle, PollEnd::Failed(failed));
                }
            }
            Action::Gone(id) => self.cloud.gone(id),
            Action::SurplusTerminated(id) => {
                self.cloud.view.turn(id, Stage::Going);
                self.cloud.view.foreign += 1;
                self.cloud.remember(before, self.now);
                return self.laws.terminated(id, &self.cloud.view, self.now);
            }
            other => unreachable!("{other:?} is handled"),
        }
        if matches!(action, Action::OtherSets(_) | Action::OtherDeletes(_)) {
            self.cloud.view.foreign += 1;
        }
        self.cloud.remember(before, self.now);
        self.laws.changed_by_others(&self.cloud.view, self.now);
        Ok(())
    }

    fn read(&mut self, age: u8, is_whole: bool) -> ReadResult {
        let (begun, wall) = self.moment();
        let aged = self.cloud.aged(age).clone();
        self.left.stale -= u8::from(age > 0);
        // A scale set is read beside the list of its VMs, and shows its age by its etag.
        let capacity = if self.cloud.kind.is_guarded() && is_whole { &self.cloud.view } else { &aged };
        self.laws.read(capacity, &aged, age == 0, is_whole, self.now);
        self.promises.read(&aged, &self.cloud.view);
        let reading = reading(&self.cloud, capacity, is_whole.then_some(&aged));
        ReadResult { reading: Ok(Some(Box::new(reading))), begun, at: wall }
    }

    fn moment(&self) -> (Time, SystemTime) {
        let (time, wall) = at(self.now);
        (time + Duration::from_nanos(self.events.into()), wall)
    }

    fn failed_read(&self) -> ReadResult {
        let (begun, at) = self.moment();
        ReadResult { reading: Err(CloudError::unreachable("read", "g", "no response")), begun, at }
    }

    fn answer_write(&mut self, outcome: Outcome) -> Result<(), Broken> {
        let call = self.call.take().expect("a write waits");
        let is_set = matches!(call, Call::Set { .. });
        let lost = || CloudError::unreachable("write", "g", "no response");
        let is_lost = !matches!(outcome, Outcome::Accepted | Outcome::Conflict);
        self.left.lost -= u8::from(is_lost);
        self.laws.answered(&call, is_lost, self.now);
        let result = match outcome {
            Outcome::Accepted => Ok(self.carry_out(&call)?),
            Outcome::Conflict => Err(CloudError::conflict("write", "g", "it changed")),
            Outcome::LostBefore => Err(lost()),
            Outcome::LostAfter => {
                self.carry_out(&call)?;
                Err(lost())
            }
            Outcome::Late => {
                self.late = Some((call, self.now + LAG));
                Err(lost())
            }
        };
        let event = if is_set {
            Event::CapacityWritten(result.map(|deletion| Acceptance { handle: deletion.handle }))
        } else {
            Event::Deleted(result)
        };
        self.tell(event)
    }

    /// A write takes effect.
    fn carry_out(&mut self, call: &Call) -> Result<Deletion, Broken> {
        let before = self.cloud.view.clone();
        let (deletion, victims) = match call {
            Call::Set { version, .. } if self.cloud.kind.is_guarded() && *version != self.cloud.view.version => {
                return Ok(Deletion::default());
            }
            Call::Set { to, .. } => {
                let (handle, victims) = self.cloud.set(*to, self.now);
                let handle = handle.map(|handle| OperationHandle(handle.to_string()));
                (Deletion { handle, ..Deletion::default() }, victims)
            }
            Call::Delete { ids, kept } => (self.cloud.delete(ids, kept), Vec::new()),
            Call::Read(_) | Call::Poll(_) => (Deletion::default(), Vec::new()),
        };
        self.cloud.remember(before.clone(), self.now);
        self.laws.wrote(call, &victims, &before, &self.cloud.view, self.now)?;
        Ok(deletion)
    }

    fn wake(&mut self) -> Result<(), Broken> {
        self.laws.before_time_passes(self)?;
        let due = self.group.wake_at().map(|due| u64::try_from(due.since_start().as_millis()).expect("soon"));
        // At a few moments only: otherwise nearly every state would differ from every other one by some milliseconds.
        self.now = match due {
            None => (self.now + LAG + 1_000).next_multiple_of(STEP),
            Some(due) if due <= self.now + 1_000 => self.now + 1_000,
            Some(due) => due.next_multiple_of(STEP),
        };
        self.end_launches(self.now)?;
        // Auto Scaling lists an instance within a second or two of the activity that makes it.
        let before = self.cloud.view.clone();
        self.cloud
            .view
            .machines
            .iter_mut()
            .filter(|one| one.stage == Stage::Launching)
            .for_each(|one| one.stage = Stage::Coming);
        self.cloud.remember(before, self.now);
        let now = self.now;
        self.cloud.past.retain(|(_, replaced)| now - *replaced < LAG);
        if self.late.as_ref().is_some_and(|(_, until)| *until < now) {
            self.late = None;
        }
        self.tell(Event::Woke)
    }

    /// The zone of an instance, where each is served.
    fn served_zone(&self, id: u8) -> Option<ZoneName> {
        self.cloud.kind.served().into_iter().flatten().find(|zone| **zone == *zone_of(id))
    }

    /// A placeholder, and the zone that is served with it.
    fn missing(&self) -> (ProviderId, Option<ZoneName>) {
        let status = self.group.state().status();
        let missing = status.instances.iter().find(|one| !one.exists).expect("enabled");
        let placeholders = self.group.state().placeholders().iter();
        let zone = placeholders.filter(|one| one.id == missing.id).find_map(|one| one.zone.clone());
        (missing.id.clone(), zone)
    }

    fn ask(&mut self, asked: Asked, mutation: Mutation, zone: Option<ZoneName>) -> Result<(), Broken> {
        self.left.asks -= 1;
        self.keys += 1;
        self.promises.asks(&asked);
        self.asked.push((self.keys, asked));
        let send_by = Time::after_start(Duration::from_millis(self.now + 5_000));
        let mut request = Request::new(RequestKey(self.keys), mutation, send_by);
        request.zone = zone;
        self.tell(Event::Requested(vec![request]))
    }

    fn restart(&mut self, reads: u8, arrives: bool) -> Result<(), Broken> {
        self.left.restarts -= 1;
        let pending = self.call.take();
        let is_launching = self.abandon_launches(arrives);
        let is_sent = matches!(pending, Some(Call::Set { .. } | Call::Delete { .. }));
        let is_writing = self.late.is_some() || is_sent || is_launching;
        if let Some(call) = pending.filter(|_| arrives) {
            self.laws.answered(&call, true, self.now);
            self.carry_out(&call)?;
        }
        (self.beside, self.polls, self.unheard) = (false, Vec::new(), Vec::new());
        (self.asked, self.answers) = (Vec::new(), Vec::new());
        // What contradicts itself is read again, and the second read agrees here.
        let begun = self.now;
        let group = machine(&self.cloud, begun, self.cloud.aged(reads));
        self.left.stale -= u8::from(reads > 0);
        self.laws.restarted(is_writing);
        self.promises.gives_up(u8::MAX);
        if let Some(group) = group {
            self.group = group;
            self.tell(Event::Started)?;
        } else {
            // It is in doubt and not served: nothing happens here.
            self.is_over = true;
        }
        Ok(())
    }

    /// Tells the machine, and does what it says.
    pub(super) fn tell(&mut self, event: Event) -> Result<(), Broken> {
        self.answers.push(event);
        while !self.answers.is_empty() {
            let event = self.answers.remove(0);
            let before = self.targets();
            let is_accepted = matches!(event, Event::CapacityWritten(Ok(_))) && self.group.later.is_empty();
            let (now, wall) = self.moment();
            let effects = self.group.step(now, wall, event);
            for effect in &effects {
                self.carry(effect)?;
            }
            let mut asked = std::mem::take(&mut self.asked);
            for effect in &effects {
                if let Effect::Respond(key, outcome) = effect {
                    let position = asked.iter().position(|(one, _)| *one == key.0);
                    let Some(position) = position else { continue };
                    let (_, what) = asked.remove(position);
                    match outcome {
                        Ok(()) => self.laws.responded(&what, &before, self, is_accepted)?,
                        Err(_) => self.promises.refused(&what, &self.group)?,
                    }
                }
            }
            self.asked = asked;
            self.decided.extend(effects);
        }
        Ok(())
    }

    /// The target of each node group that the group is served as.
    pub(super) fn targets(&self) -> Vec<(Option<ZoneName>, u32)> {
        let target =
            |zone: &Option<ZoneName>| self.group.state().status_in(zone.as_ref(), &ClusterNodes::Unwatched).target;
        self.cloud.kind.served().into_iter().map(|zone| (zone.clone(), target(&zone))).collect()
    }

    fn carry(&mut self, effect: &Effect) -> Result<(), Broken> {
        match effect {
            Effect::Read { scope, .. } => self.call = Some(Call::Read(*scope == Scope::Instances)),
            Effect::ReadBeside(_) => self.beside = true,
            Effect::ReadActivity { .. } => self.answers.push(Event::Activity(Ok(self.cloud.activity()))),
            Effect::ReadActivityBeside(_) => self.answers.push(Event::ActivityBeside(Ok(self.cloud.activity()))),
            Effect::SetCapacity { basis, to, .. } => {
                let etag = basis.etag.as_deref().and_then(|etag| etag.strip_prefix('v')?.parse().ok());
                let to = u8::try_from(*to).expect("small");
                self.laws.sets_capacity(self, basis, to)?;
                if self.cloud.kind.is_launching() {
                    self.promises.sets_capacity(self, to)?;
                }
                self.laws.sends();
                self.call = Some(Call::Set { to, version: etag.unwrap_or(0) });
            }
            Effect::Launch { operation, basis, number, zone, .. } => {
                self.send_launch(*operation, basis, (*number, zone.as_ref()))?;
            }
            Effect::Delete { basis, ids, .. } => {
                let ids: Vec<u8> = ids.iter().filter_map(number).collect();
                let listed = basis.instances.iter().flatten().filter(|one| one.counts == Counts::No);
                let kept: Vec<u8> = listed.filter_map(|one| number(&one.id)).filter(|id| ids.contains(id)).collect();
                self.laws.deletes(self, &ids, &kept)?;
                self.laws.sends();
                self.call = Some(Call::Delete { ids, kept });
            }
            Effect::PollForWrite { operations, .. } => {
                self.call = Some(Call::Poll(operations.iter().map(|(operation, _)| *operation).collect()));
            }
            Effect::Poll(operation, handle) => self.polls.push((*operation, handle.0.parse().expect("ours"))),
            _ => {}
        }
        Ok(())
    }

    /// Hashes all that the future depends on.
    pub(super) fn hash_into(&self, hasher: &mut impl Hasher) {
        let age = |then: u64| self.now.abs_diff(then).min(OLD);
        (
            &self.cloud.view,
            &self.call,
            self.beside,
            self.is_over,
            &self.cloud.operations,
            &self.left,
            &self.asked,
            self.cloud.ids,
        )
            .hash(hasher);
        self.cloud.view.machines.iter().for_each(|one| age(one.launched).hash(hasher));
        for (view, replaced) in &self.cloud.past {
            (view, age(*replaced)).hash(hasher);
        }
        for (operation, handle) in &self.polls {
            (operation.0, handle).hash(hasher);
        }
        self.unheard.iter().for_each(|(operation, _)| operation.hash(hasher));
        self.cloud.failures.iter().for_each(|failed| age(*failed).hash(hasher));
        self.late.as_ref().map(|(call, until)| (call, age(*until))).hash(hasher);
        self.promises.hash(hasher);
        self.hash_launches(age, hasher);
        self.laws.hash_into(age, hasher);
    }
}
