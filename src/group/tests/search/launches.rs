//! Launches in a world: what the cloud makes of each, when it raises the capacity, and what the machine is told.

use std::hash::{Hash, Hasher};

use super::actions::Action;
use super::cloud::{MAX, Raises, count, failure, name};
use super::laws::Broken;
use super::world::World;
use crate::cloud::{CloudError, Fault, GroupReading, LaunchResult, ZoneName};
use crate::group::tests::search::cloud::at;
use crate::group::{Event, OperationId};

/// No call waits for longer than this and the next wake-up, in milliseconds.
const CALL_LASTS: u64 = 10_000;
/// A launch that the cloud has accepted ends within this time, in milliseconds.
const LAUNCH_LASTS: u64 = 20_000;
/// A launch raises the capacity within this time after its instances, in milliseconds: `Consistency::LAUNCH_RAISES`.
const RAISES_WITHIN: u64 = 7_000;

/// A launch, by its token: the process that sent it, and its name there.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    process: u8,
    operation: OperationId,
    number: u8,
    /// The zone that it launches in, where each is served.
    zone: Option<ZoneName>,
    /// When it was first sent.
    sent: u64,
    /// When the attempt was sent that waits for its response.
    awaited: Option<u64>,
    /// Whether an attempt without a response has reached the cloud.
    is_there: bool,
    /// What it launched, once it has ended.
    made: Option<Vec<u8>>,
    /// When it ended.
    ended: u64,
    /// By how much it is still to raise the capacity.
    unraised: u8,
    /// Whether nobody will ask for it again.
    is_over: bool,
}

/// What the machine is told of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// As many instances were launched, and the others were not.
    Made(u8),
    /// The response is lost: nothing has reached the cloud, as many were launched, or it still goes on.
    LostBefore,
    LostAfter(u8),
    LostMeanwhile,
    /// The cloud is busy, or an earlier attempt still goes on.
    Busy,
    /// It would take the group above its maximum.
    Refused,
    /// The cloud does not launch instances in this group.
    Unsupported,
}

impl World {
    /// Everything that may happen to launches next.
    pub(super) fn launch_actions(&self, actions: &mut Vec<Action>) {
        let is_watched = self.call.is_some() || self.beside;
        for (index, launch) in (0..).zip(&self.launches) {
            if launch.awaited.is_some() {
                actions.extend(self.told(launch).into_iter().map(|told| Action::LaunchAnswered(index, told)));
            }
            // As with all that the machine is not told about.
            if is_watched && launch.made.is_none() && (launch.is_there || launch.awaited.is_some()) {
                let numbers = self.numbers(launch).into_iter();
                actions.extend(numbers.map(|number| Action::Launched { index, number }));
            }
            if is_watched && launch.unraised > 0 {
                actions.push(Action::LaunchRaises(index));
            }
        }
    }

    /// How many instances a launch may make: what was requested, or fewer.
    fn numbers(&self, launch: &Launch) -> Vec<u8> {
        let most = (0..=launch.number).rev().find(|number| self.cloud.has_room_for(*number)).unwrap_or_default();
        if !self.is_below_max(launch) {
            return Vec::new();
        }
        if self.left.failures > 0 { (0..=most).collect() } else { vec![most] }
    }

    fn is_below_max(&self, launch: &Launch) -> bool {
        let view = &self.cloud.view;
        launch.is_there || view.desired.max(view.live()) + launch.number <= MAX
    }

    fn told(&self, launch: &Launch) -> Vec<Told> {
        let (can_be_lost, can_fail) = (self.left.lost > 0, self.left.failures > 0);
        let mut told = Vec::new();
        if let Some(made) = &launch.made {
            told.push(Told::Made(count(made.len())));
            told.extend(can_be_lost.then_some(Told::LostAfter(count(made.len()))));
            return told;
        }
        if !self.is_below_max(launch) {
            return vec![Told::Refused];
        }
        let numbers = self.numbers(launch);
        told.extend(numbers.iter().map(|number| Told::Made(*number)));
        if can_be_lost {
            told.extend(numbers.last().map(|number| Told::LostAfter(*number)));
            told.push(Told::LostMeanwhile);
            told.extend((!launch.is_there).then_some(Told::LostBefore));
        }
        let goes_on = launch.is_there && self.now < launch.sent + LAUNCH_LASTS;
        told.extend((goes_on || (can_fail && !launch.is_there)).then_some(Told::Busy));
        told.extend((can_fail && !launch.is_there).then_some(Told::Unsupported));
        told
    }

    /// Whether a call has waited so long that its response comes next.
    pub(super) fn awaits_launch(&self) -> bool {
        self.launches.iter().filter_map(|launch| launch.awaited).any(|sent| sent + CALL_LASTS <= self.now)
    }

    /// The machine sends a launch, or sends one again.
    pub(super) fn send_launch(
        &mut self,
        operation: OperationId,
        basis: &GroupReading,
        (number, zone): (u32, Option<&ZoneName>),
    ) -> Result<(), Broken> {
        let (process, number) = (self.process, u8::try_from(number).expect("few"));
        let is_it = |one: &&mut Launch| one.process == process && one.operation == operation;
        if let Some(known) = self.launches.iter_mut().find(is_it) {
            if known.awaited.replace(self.now).is_some() || (known.number, known.zone.as_ref()) != (number, zone) {
                return Err(Broken(format!("law 7: {operation:?} is to be sent while it waits, or is another one")));
            }
            return Ok(());
        }
        self.launches.push(Launch {
            process,
            operation,
            number,
            zone: zone.cloned(),
            sent: self.now,
            awaited: Some(self.now),
            is_there: false,
            made: None,
            ended: 0,
            unraised: 0,
            is_over: false,
        });
        self.laws.launches(number);
        let now = Some(&self.cloud.view).filter(|view| self.laws.has_read(view));
        self.promises.launches(&self.group, basis, (number, zone), now)
    }

    /// The cloud launches as many instances.
    pub(super) fn make(&mut self, index: u8, number: u8) -> Result<(), Broken> {
        let before = self.cloud.view.clone();
        let launch = &mut self.launches[usize::from(index)];
        let listed = before.machines.len();
        (0..number).for_each(|_| self.cloud.launch_in(launch.zone.as_ref(), self.now));
        let made = self.cloud.view.machines[listed..].iter().map(|one| one.id).collect();
        self.left.failures -= u8::from(number < launch.number).min(self.left.failures);
        (launch.made, launch.ended) = (Some(made), self.now);
        match self.cloud.kind.raises() {
            Some(Raises::Later) => launch.unraised = number,
            _ => self.cloud.view.desired += number,
        }
        let zone = launch.zone.clone();
        self.cloud.remember(before, self.now);
        self.laws.settle(&self.cloud.view, self.now);
        self.promises.made(number, zone.as_ref())
    }

    /// A launch raises the capacity.
    pub(super) fn raise(&mut self, index: u8, now: u64) {
        let before = self.cloud.view.clone();
        self.cloud.view.desired += std::mem::take(&mut self.launches[usize::from(index)].unraised);
        self.cloud.remember(before, now);
        self.laws.settle(&self.cloud.view, now);
        self.forget_launches();
    }

    /// By how much launches still raise the capacity.
    pub(super) fn unraised(&self) -> u8 {
        self.launches.iter().map(|launch| launch.unraised).sum()
    }

    /// The machine is told of a launch.
    pub(super) fn answer_launch(&mut self, index: u8, told: Told) -> Result<(), Broken> {
        let position = usize::from(index);
        if let (None, Told::Made(number) | Told::LostAfter(number)) = (&self.launches[position].made, told) {
            self.make(index, number)?;
        }
        let launch = &mut self.launches[position];
        launch.awaited = None;
        let is_lost = matches!(told, Told::LostBefore | Told::LostAfter(_) | Told::LostMeanwhile);
        self.left.lost -= u8::from(is_lost);
        let is_first = !launch.is_there;
        launch.is_there |= matches!(told, Told::LostAfter(_) | Told::LostMeanwhile);
        launch.is_over = matches!(told, Told::Made(_) | Told::Refused | Told::Unsupported);
        let (operation, number) = (launch.operation, launch.number);
        let outcome = match told {
            Told::Made(0) => Err(shortage()),
            Told::Made(made) => {
                let ids = launch.made.iter().flatten().map(|id| name(*id).instance().to_owned()).collect();
                let failures = if made < number { vec![failure(at(self.now).1)] } else { Vec::new() };
                Ok(LaunchResult { instances: ids, failures })
            }
            Told::LostBefore | Told::LostAfter(_) | Told::LostMeanwhile => {
                Err(CloudError::unreachable("launch", "g", "no response"))
            }
            Told::Busy => {
                self.left.failures -= u8::from(is_first);
                Err(CloudError::conflict("launch", "g", "busy"))
            }
            Told::Refused => Err(CloudError::refused("launch", "g", "above the maximum")),
            Told::Unsupported => {
                self.left.failures -= 1;
                self.promises.gives_up(number);
                Err(CloudError::unsupported("launch", "g", "no launches"))
            }
        };
        self.forget_launches();
        self.tell(Event::Launched(operation, outcome))
    }

    /// Time passes: what launches do by then, they have done.
    pub(super) fn end_launches(&mut self, now: u64) -> Result<(), Broken> {
        for index in 0..count(self.launches.len()) {
            let launch = &self.launches[usize::from(index)];
            if launch.is_there && launch.made.is_none() && launch.sent + LAUNCH_LASTS <= now {
                let number = self.numbers(launch).into_iter().max().unwrap_or_default();
                self.make(index, number)?;
            }
        }
        while let Some(index) =
            self.launches.iter().position(|one| one.unraised > 0 && one.ended + RAISES_WITHIN <= now)
        {
            let at = self.launches[index].ended + RAISES_WITHIN;
            self.raise(count(index), at);
        }
        Ok(())
    }

    /// The process that sent these ended. Those that wait for a response have arrived, or never do. Returns whether
    /// any may still change the group.
    pub(super) fn abandon_launches(&mut self, arrive: bool) -> bool {
        self.process += 1;
        self.launches.retain(|launch| launch.is_there || launch.made.is_some() || (launch.awaited.is_some() && arrive));
        for launch in &mut self.launches {
            (launch.awaited, launch.is_there, launch.is_over) = (None, true, true);
        }
        self.forget_launches();
        !self.launches.is_empty()
    }

    fn forget_launches(&mut self) {
        let goes_on = |one: &Launch| one.unraised > 0 || (one.is_there && one.made.is_none());
        self.launches.retain(|launch| !launch.is_over || goes_on(launch));
    }

    pub(super) fn hash_launches(&self, age: impl Fn(u64) -> u64, hasher: &mut impl Hasher) {
        for launch in &self.launches {
            (launch.process == self.process, launch.operation.0, launch.number, &launch.zone, age(launch.sent))
                .hash(hasher);
            (launch.awaited.map(&age), launch.is_there, &launch.made, age(launch.ended)).hash(hasher);
            (launch.unraised, launch.is_over).hash(hasher);
        }
    }
}

fn shortage() -> CloudError {
    CloudError::OutOfResources(Box::new(Fault {
        operation: "launch".into(),
        subject: "g".to_owned(),
        code: Some("NoCapacity".to_owned()),
        message: String::new(),
        source: None,
    }))
}
