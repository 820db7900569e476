//! The simulated source: the world, the clock that drives it, and what can go wrong on the way to it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::time::{Instant, sleep};

use super::call::{Call, CallKind, Mishap};
use super::errors;
use super::faults::Faults;
use super::plan::GroupPlan;
use super::record::{Event, Killed, Refusal};
use super::world::World;
use crate::cloud::{CloudError, Family, ProviderId};

/// Events that wait for a subscriber; one that is slower misses the oldest.
const EVENTS_WAITING_MAX: usize = 1024;

/// A simulated source. Its time is tokio's, so a paused clock drives it; all chance comes from its seed.
///
/// Nothing happens in it by itself: whatever has fallen due happens when somebody calls, as of the time it was due.
#[derive(Debug)]
pub struct Simulated {
    world: Mutex<World>,
    faults: Mutex<Faults>,
    events: broadcast::Sender<Event>,
    began: Instant,
    pub(super) family: Family,
}

impl Simulated {
    /// A source without groups.
    pub fn new(seed: u64) -> Self {
        Self {
            world: Mutex::new(World::new(seed)),
            // Another row of chances than the world's, lest a fault change what the world does.
            faults: Mutex::new(Faults::new(!seed)),
            events: broadcast::channel(EVENTS_WAITING_MAX).0,
            began: Instant::now(),
            family: Family::Aws,
        }
    }

    /// A source with these groups.
    pub fn with_groups(seed: u64, plans: impl IntoIterator<Item = GroupPlan>) -> Self {
        let simulated = Self::new(seed);
        for plan in plans {
            simulated.create_group(plan);
        }
        simulated
    }

    /// The same, said to be of this family.
    pub fn of_family(mut self, family: Family) -> Self {
        self.family = family;
        self
    }

    /// How long this world has been going on.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Does something with the world as it is now, under its lock.
    pub fn world<R>(&self, act: impl FnOnce(&mut World, Duration) -> R) -> R {
        let (result, events) = {
            let mut world = lock(&self.world);
            // Read under the lock, so that time runs one way for everyone.
            let now = self.elapsed();
            world.advance(now);
            let result = act(&mut world, now);
            (result, world.take_new_events())
        };
        for event in events {
            // An error says that nobody listens.
            let _ = self.events.send(event);
        }
        result
    }

    /// Does something with the faults, under their lock.
    pub fn faults<R>(&self, act: impl FnOnce(&mut Faults) -> R) -> R {
        let (result, horizon) = {
            let mut faults = lock(&self.faults);
            (act(&mut faults), faults.horizon())
        };
        if !horizon.is_zero() {
            self.world(|world, now| world.remember(now, horizon));
        }
        result
    }

    /// The faults as they are, for a look that changes none.
    pub(super) fn look_at_faults(&self) -> MutexGuard<'_, Faults> {
        lock(&self.faults)
    }

    /// What happens from now on, one sentence an event.
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// The calls that were made to the [`Cloud`](crate::cloud::Cloud) trait, oldest first.
    pub fn calls(&self) -> Vec<Call> {
        lock(&self.faults).calls().cloned().collect()
    }

    /// Every instance that a capacity write through the trait cost its life, unnamed by anyone.
    pub fn killed_unnamed(&self) -> Vec<Killed> {
        self.world(|world, _| world.killed_unnamed())
    }

    /// Creates a group, in place of one of the same name.
    pub fn create_group(&self, plan: GroupPlan) {
        self.world(|world, now| world.create_group(now, plan));
    }

    /// Takes a group out of sight. Answers whether there was one.
    pub fn remove_group(&self, group: &str) -> bool {
        self.world(|world, now| world.remove_group(now, group))
    }

    /// Brings a removed group back. Answers whether there is one.
    pub fn restore_group(&self, group: &str) -> bool {
        self.world(|world, now| world.restore_group(now, group))
    }

    /// Changes how a group is made or behaves.
    pub fn replan(&self, group: &str, change: impl FnOnce(&mut GroupPlan)) -> Result<(), Refusal> {
        self.world(|world, now| world.replan(now, group, change))
    }

    /// Takes up to so many running instances away. Answers which.
    pub fn evict(&self, group: &str, count: usize) -> Result<Vec<ProviderId>, Refusal> {
        self.world(|world, now| world.evict(now, group, count))
    }

    /// Adds so many running instances, and raises the capacity by their number.
    pub fn add_instances(&self, group: &str, count: u32) -> Result<(), Refusal> {
        self.world(|world, now| world.add_instances(now, group, count))
    }

    /// Sets the capacity as somebody else would.
    pub fn set_desired_externally(&self, group: &str, to: u32) -> Result<(), Refusal> {
        self.world(|world, now| world.set_desired_externally(now, group, to))
    }

    /// Takes a call through all that can befall it.
    pub(super) async fn call<R>(
        &self,
        kind: CallKind,
        subject: &str,
        detail: String,
        act: impl FnOnce(&mut World, Duration) -> Result<R, CloudError>,
    ) -> Result<R, CloudError> {
        let group = (!subject.is_empty()).then_some(subject);
        let verdict = lock(&self.faults).judge(self.elapsed(), kind, group, detail);
        pause(verdict.there).await;
        let mishap = |fails: fn(CallKind, &str, &Mishap) -> Option<CloudError>| {
            verdict.mishap.as_ref().and_then(|mishap| fails(kind, subject, mishap))
        };
        let outcome = match mishap(errors::before) {
            Some(error) => Err(error),
            None => self.world(act),
        };
        pause(verdict.back).await;
        match mishap(errors::after) {
            Some(error) => Err(error),
            None => outcome,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere, in a test most likely, is no reason to hide what the world looks like.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits, if there is anything to wait for: a sleep of nothing still takes a turn of tokio's timer.
async fn pause(duration: Duration) {
    if !duration.is_zero() {
        sleep(duration).await;
    }
}
