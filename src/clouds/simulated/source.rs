//! The simulated source: the world, its clock, and the faults between it and its callers.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::time::{Instant, sleep};

use super::call::{CallFault, CallKind, FaultRates};
use super::errors;
use super::faults::Faults;
use super::late_write::LateWrite;
use super::plan::GroupPlan;
use super::record::Event;
use super::world::World;
use crate::cloud::{CallMeter, CallStatus, CloudError, Family};

/// The number of events that wait for a subscriber; a slower one misses the oldest.
const EVENTS_WAITING_MAX: usize = 1024;

/// How long the client of a call waits for the response: as long as the SDKs do.
pub const CLIENT_PATIENCE: Duration = Duration::from_secs(10);

/// A simulated source. Its time is tokio's, so it works with a paused clock; all randomness comes from its seed.
///
/// Due changes are applied at the next call, as of the time when they were due.
#[derive(Debug)]
pub struct Simulated {
    world: Mutex<World>,
    pub(super) faults: Mutex<Faults>,
    events: broadcast::Sender<Event>,
    /// When the world began. It is moved back to skip time.
    pub(super) began: Mutex<Instant>,
    pub(super) family: Family,
    meter: CallMeter,
}

impl Simulated {
    /// A source without groups.
    pub fn new(seed: u64) -> Self {
        Self {
            world: Mutex::new(World::new(seed)),
            // Not the world's seed, so that faults do not change what the world does.
            faults: Mutex::new(Faults::new(!seed)),
            events: broadcast::channel(EVENTS_WAITING_MAX).0,
            began: Mutex::new(Instant::now()),
            family: Family::Aws,
            meter: CallMeter::default(),
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

    /// The same source as one of this family.
    pub fn of_family(mut self, family: Family) -> Self {
        self.family = family;
        self
    }

    /// The same source, whose calls this meter counts.
    pub fn metered(mut self, meter: CallMeter) -> Self {
        meter.expect(CallKind::ALL.map(CallKind::name));
        self.meter = meter;
        self
    }

    /// When the world began.
    pub(super) fn began(&self) -> Instant {
        *lock(&self.began)
    }

    /// The time since the beginning of the world.
    pub fn elapsed(&self) -> Duration {
        self.began().elapsed()
    }

    /// Lets this much time pass at once, where nobody wants to wait for it.
    pub fn skip(&self, time: Duration) {
        let mut began = lock(&self.began);
        *began = began.checked_sub(time).unwrap_or(*began);
    }

    /// Runs a function on the current world, under its lock.
    pub fn world<R>(&self, act: impl FnOnce(&mut World, Duration) -> R) -> R {
        let (result, events) = {
            let mut world = lock(&self.world);
            // Read under the lock, so that time never runs backwards.
            let now = self.elapsed();
            world.advance(now);
            let result = act(&mut world, now);
            (result, world.take_new_events())
        };
        for event in events {
            // An error means that there are no subscribers.
            let _ = self.events.send(event);
        }
        result
    }

    /// Makes calls fail at these rates from now on.
    pub(super) fn fail_at(&self, rates: FaultRates) {
        lock(&self.faults).rates = rates;
    }

    /// The events from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// Creates a group, replacing one of the same name.
    pub fn create_group(&self, plan: GroupPlan) {
        self.world(|world, now| world.create_group(now, plan));
    }

    /// Makes a call, with its delays and faults.
    pub(super) async fn call<R>(
        &self,
        kind: CallKind,
        subject: &str,
        detail: String,
        act: impl FnOnce(&mut World, Duration) -> Result<R, CloudError>,
    ) -> Result<R, CloudError> {
        self.call_or_late(kind, subject, detail, |_| None, act).await
    }

    /// The same; `late` is what takes effect if the client gives up first.
    pub(super) async fn call_or_late<R>(
        &self,
        kind: CallKind,
        subject: &str,
        detail: String,
        late: impl FnOnce(&World) -> Option<LateWrite>,
        act: impl FnOnce(&mut World, Duration) -> Result<R, CloudError>,
    ) -> Result<R, CloudError> {
        let group = (!subject.is_empty()).then_some(subject);
        let planned = lock(&self.faults).begin_call(self.elapsed(), kind, group, detail);
        let began = Instant::now();
        pause(planned.delay_before).await;
        if let Some(CallFault::Late(later)) = planned.call_fault {
            self.world(|world, now| {
                if let Some(write) = late(world) {
                    world.write_late(now + CLIENT_PATIENCE + later, write);
                }
            });
            pause(CLIENT_PATIENCE).await;
            return Err(errors::timed_out(kind, subject));
        }
        let call_fault = |fails: fn(CallKind, &str, &CallFault) -> Option<CloudError>| {
            planned.call_fault.as_ref().and_then(|call_fault| fails(kind, subject, call_fault))
        };
        let outcome = match call_fault(errors::before) {
            Some(error) => Err(error),
            None => self.world(act),
        };
        pause(planned.delay_after).await;
        let outcome = match call_fault(errors::after) {
            Some(error) => Err(error),
            None => outcome,
        };
        let status = match &outcome {
            Ok(_) => CallStatus::Success,
            Err(error) => error.fault().code.as_deref().map_or(CallStatus::NoResponse, |code| CallStatus::Failed {
                code,
                is_throttled: matches!(error, CloudError::Throttled { .. }),
            }),
        };
        self.meter.observe(kind.name(), began.elapsed(), status);
        outcome
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // After a panic in a test, the world can still be inspected.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sleeps, unless the duration is zero: such a sleep still takes a tick of tokio's timer.
async fn pause(duration: Duration) {
    if !duration.is_zero() {
        sleep(duration).await;
    }
}
