//! What brings a group to a size: the next step, from one reading. It makes no call.
//!
//! The group is set aside, so this may do what `serve` never does: lower the capacity of a scale set, and empty it.

use std::time::Duration;

use super::limits::{SURPLUS_AFTER, UNFILLED_AFTER};
use super::state::Found;
use crate::cloud::{GroupReading, Instance, InstanceState, Missing, ProviderId};

/// The instances of a reading, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Created or being created.
    pub(super) live: u32,
    /// Created, without a failure.
    pub(super) running: u32,
    /// Being deleted.
    pub(super) going: u32,
}

impl Sizes {
    pub(super) fn of(reading: &GroupReading) -> Self {
        let instances = || reading.instances.iter().flatten();
        let count = |found: usize| u32::try_from(found).unwrap_or(u32::MAX);
        let is_running = |one: &&Instance| one.state == InstanceState::Running && one.failure.is_none();
        Self {
            live: count(instances().filter(|one| lives(one)).count()),
            running: count(instances().filter(is_running).count()),
            going: count(instances().filter(|one| !lives(one)).count()),
        }
    }
}

pub(super) fn lives(instance: &Instance) -> bool {
    instance.state != InstanceState::Deleting
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The group has the size.
    Done,
    /// Something is under way.
    Wait,
    /// Delete these.
    Delete(Vec<ProviderId>),
    /// Set the capacity.
    Set(u32),
}

/// How a group is brought to a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// As `serve` would do it.
    Gently,
    /// It is emptied first: its capacity and its instances differ for good.
    Anew,
}

/// The next step towards a size, and how to go on. `rests` is for how long nothing has changed.
pub(super) fn next(reading: &GroupReading, to: u32, found: &Found, mode: Mode, rests: Duration) -> (Step, Mode) {
    match mode {
        Mode::Gently => gently(reading, to, found, rests),
        Mode::Anew => anew(reading, rests),
    }
}

fn gently(reading: &GroupReading, to: u32, found: &Found, rests: Duration) -> (Step, Mode) {
    let sizes = Sizes::of(reading);
    let stay = |step| (step, Mode::Gently);
    let desired = reading.desired;
    if desired < to && sizes.live < to {
        return stay(Step::Set(to));
    }
    if sizes.live > to && desired > to {
        let surplus = (sizes.live - to).min(desired - to);
        return stay(Step::Delete(expendable(reading, found, surplus)));
    }
    if sizes.live > to {
        return if rests < SURPLUS_AFTER { stay(Step::Wait) } else { repair(reading, sizes.live) };
    }
    // No more live than there are to be.
    if sizes.live < to && desired == to {
        return if rests < UNFILLED_AFTER || !gives_up(reading) { stay(Step::Wait) } else { (Step::Wait, Mode::Anew) };
    }
    if desired != to {
        return stay(if sizes.going > 0 || rests < UNFILLED_AFTER && desired > to {
            Step::Wait
        } else {
            Step::Set(to)
        });
    }
    let is_at_rest = sizes.running == to && sizes.going == 0;
    stay(if is_at_rest { Step::Done } else { Step::Wait })
}

/// More live than the capacity has room for. A group that adjusts itself gets room for all, so that they can be deleted
/// by name; a scale set is emptied.
fn repair(reading: &GroupReading, live: u32) -> (Step, Mode) {
    match reading.consistency.missing {
        Missing::Retried => (Step::Set(live), Mode::Gently),
        Missing::LeftOut => (Step::Wait, Mode::Anew),
    }
}

/// Whether the cloud will not launch what is missing.
fn gives_up(reading: &GroupReading) -> bool {
    reading.consistency.missing == Missing::LeftOut
}

fn anew(reading: &GroupReading, rests: Duration) -> (Step, Mode) {
    let sizes = Sizes::of(reading);
    if reading.desired > 0 && sizes.going == 0 {
        return (Step::Set(0), Mode::Anew);
    }
    if sizes.live > 0 && sizes.going == 0 && rests >= UNFILLED_AFTER {
        return (Step::Delete(ids(reading.instances.iter().flatten().filter(|one| lives(one)))), Mode::Anew);
    }
    if sizes.live > 0 || sizes.going > 0 {
        return (Step::Wait, Mode::Anew);
    }
    (Step::Wait, Mode::Gently)
}

/// Instances to delete: failed ones first, and those that were found last.
fn expendable(reading: &GroupReading, found: &Found, count: u32) -> Vec<ProviderId> {
    let mut live: Vec<&Instance> = reading.instances.iter().flatten().filter(|one| lives(one)).collect();
    live.sort_by_key(|one| (one.failure.is_none(), found.instances.contains(&one.id)));
    ids(live.into_iter().take(usize::try_from(count).unwrap_or(usize::MAX)))
}

fn ids<'a>(instances: impl Iterator<Item = &'a Instance>) -> Vec<ProviderId> {
    instances.map(|one| one.id.clone()).collect()
}
