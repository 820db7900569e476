//! The groups of the cloud, and its faults.

mod draws;
mod kind;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fastrand::Rng;
use headcount::clouds::simulated::{CallFault, CallKind, Faults, Group, GroupPlan, GroupStyle, Pick, ReadFault};
use tokio::time::Instant;

use super::world::World;
pub(super) use draws::of_three_zones;
use draws::{call_fault, degrade, deletion, group, launch, read_fault, side, side_fault};
pub(super) use kind::FaultKind;

/// Two wrong readings in a row that agree confirm each other (law 5), so wrong readings are at least this far apart.
const WRONG_READINGS_APART: Duration = Duration::from_secs(30);

/// How long a capacity that another client, or a write without a response, raised from 0 may not have been read: a wrong
/// reading of 0 contradicts nothing then.
pub(super) const RAISE_UNREAD: Duration = Duration::from_secs(45);

/// The faults of one run.
pub(super) struct FaultPlan {
    rng: Rng,
    muted: BTreeSet<FaultKind>,
    /// Only the caller changes anything, and every response that arrives is right.
    is_exclusive: bool,
    vanished: BTreeSet<String>,
    /// When a read was last wrong, or still going to be.
    last_read_fault: Option<Instant>,
    is_read_fault_pending: bool,
    /// When another client last raised the capacity of each group from 0.
    raised_from_zero: BTreeMap<String, Instant>,
    names: Vec<String>,
}

impl FaultPlan {
    /// One to three groups of any kind, and the faults over them.
    pub(super) fn over(rng: &mut Rng, muted: &BTreeSet<FaultKind>) -> (Self, Vec<GroupPlan>) {
        let plans: Vec<GroupPlan> = (0..rng.u32(1..4)).map(|number| group(rng, &format!("group-{number}"))).collect();
        let mut rng = rng.fork();
        let is_exclusive = rng.u32(..4) == 0;
        let names = plans.iter().map(|plan| plan.name.clone()).collect();
        let muted = muted.clone();
        (
            Self {
                rng,
                muted,
                is_exclusive,
                vanished: BTreeSet::new(),
                last_read_fault: None,
                is_read_fault_pending: false,
                raised_from_zero: BTreeMap::new(),
                names,
            },
            plans,
        )
    }

    /// Whether only the caller changes anything, and every response that arrives is right.
    pub(super) fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }

    /// When the process crashes in the next step, if it does.
    pub(super) fn crash(&mut self) -> Option<Duration> {
        let (crashes, after) = (self.rng.u32(..12) == 0, Duration::from_millis(self.rng.u64(..15_000)));
        (crashes && !self.muted.contains(&FaultKind::Crash)).then_some(after)
    }

    /// Draws a fault or a change, or nothing.
    pub(super) fn change(&mut self, world: &World) {
        self.track_read_faults(world);
        let name = self.names[self.rng.usize(..self.names.len())].clone();
        let style = world.cloud.world(|world, _| world.group(&name).map(|group| group.plan().style));
        let mut rng = self.rng.fork();
        let kind = match self.rng.u32(..24) {
            0 => FaultKind::Evict,
            1 => FaultKind::Resize,
            2 => FaultKind::Call,
            3 => FaultKind::Read,
            4 => FaultKind::Launches,
            5 => FaultKind::Deletions,
            6 | 7 => FaultKind::Recover,
            8 | 9 => FaultKind::Degraded,
            10 => FaultKind::Vanish,
            11 | 12 => FaultKind::Surplus,
            13 => FaultKind::Late,
            14 => FaultKind::Lag,
            15 => FaultKind::View,
            16 => FaultKind::Side,
            17 => FaultKind::Nameless,
            _ => return,
        };
        let meddles = matches!(
            kind,
            FaultKind::Evict
                | FaultKind::Resize
                | FaultKind::Read
                | FaultKind::Vanish
                | FaultKind::Lag
                | FaultKind::Nameless
        );
        if self.muted.contains(&kind) || (meddles && self.is_exclusive) {
            return;
        }
        match (kind, style) {
            (FaultKind::Evict, Some(_)) => world.evict(&name, rng.usize(1..4)),
            (FaultKind::Resize, Some(_)) => self.resize(world, &name, &mut rng),
            (FaultKind::Call, _) => {
                world.cloud.faults(|faults| faults.script(None, None, rng.u32(1..4), call_fault(&mut rng)));
            }
            (FaultKind::Read, Some(_)) => self.script_read_fault(world, &name, &mut rng),
            (FaultKind::Launches, Some(style)) => {
                let outcome = launch(&mut rng, style);
                drop(world.cloud.replan(&name, |plan| plan.launches_now(Pick::Chance(0.7), outcome)));
            }
            (FaultKind::Deletions, Some(style)) => {
                let outcome = deletion(&mut rng, style);
                drop(world.cloud.replan(&name, |plan| plan.deletions_now(Pick::Chance(0.5), outcome)));
            }
            (FaultKind::Recover, Some(_)) => all_succeed(world, &name),
            (FaultKind::Degraded, _) => world.cloud.faults(|faults| degrade(faults, &mut rng)),
            (FaultKind::Vanish, _) => self.vanish(world, name),
            (FaultKind::Surplus, Some(_)) => {
                let lasts = Duration::from_secs(rng.u64(5..120));
                world.launch_surplus(&name, rng.u32(1..6), lasts);
            }
            (FaultKind::Late, Some(_)) => {
                let late = CallFault::Late(Duration::from_secs(rng.u64(..12)));
                let kinds = [CallKind::SetCapacity, CallKind::DeleteInstances];
                let kind = kinds[usize::from(!rng.bool())];
                let grows_by_launch = world.process.has_separate_zones
                    || world.cloud.world(|world, _| world.group(&name).is_some_and(grows_by_launch));
                let kind = if kind == CallKind::SetCapacity && grows_by_launch { CallKind::Launch } else { kind };
                world.cloud.faults(|faults| faults.script(Some(kind), Some(&name), 1, late));
            }
            (FaultKind::Lag, Some(GroupStyle::AutoScaling)) if rng.bool() => {
                // AWS promises no read-after-write.
                let lag = Duration::from_millis(rng.u64(..4_000));
                world.cloud.faults(|faults| faults.read_lags.insert(name.clone(), lag));
            }
            (FaultKind::Lag, _) => {
                let lag = Duration::from_secs(rng.u64(..15));
                world.cloud.faults(|faults| faults.lag_after_loss = lag);
            }
            (FaultKind::View, Some(_)) => {
                let (times, fault) = (rng.u32(1..5), side_fault(&mut rng));
                world.cloud.faults(|faults| faults.script(Some(CallKind::ListInstances), Some(&name), times, fault));
            }
            (FaultKind::Side, _) => side(world, &mut rng),
            (FaultKind::Nameless, Some(GroupStyle::ScaleSet)) => {
                let lasts = Duration::from_secs(rng.u64(1..60));
                drop(world.cloud.hide_ids(&name, rng.usize(1..4), lasts));
            }
            (FaultKind::Nameless, Some(GroupStyle::AutoScaling))
            | (_, None)
            | (FaultKind::Crash | FaultKind::Handover, _) => {}
        }
    }

    fn script_read_fault(&mut self, world: &World, name: &str, rng: &mut Rng) {
        let (now, read_fault) = (Instant::now(), read_fault(rng));
        let is_raise_unread =
            self.raised_from_zero.get(name).is_some_and(|at| now.saturating_duration_since(*at) < RAISE_UNREAD);
        if is_raise_unread && read_fault == ReadFault::Capacity(0) {
            return;
        }
        if self.last_read_fault.is_none_or(|last| now.saturating_duration_since(last) > WRONG_READINGS_APART) {
            world.cloud.faults(|faults| faults.script_read(None, name, 1, read_fault));
            (self.last_read_fault, self.is_read_fault_pending) = (Some(now), true);
        }
    }

    /// Another client changes the capacity. A group of 0 stays at 0 while a wrong reading is pending: see
    /// [`RAISE_UNREAD`].
    fn resize(&mut self, world: &World, name: &str, rng: &mut Rng) {
        let is_empty = world.cloud.world(|world, _| world.group(name).is_some_and(|group| group.capacity() == 0));
        if is_empty && self.is_read_fault_pending {
            return;
        }
        if is_empty {
            self.raised_from_zero.insert(name.to_owned(), Instant::now());
        }
        world.resize(name, rng.u32(..=20));
    }

    /// A wrong read may arrive late, and counts from its arrival: now at the latest, if none is pending any more.
    fn track_read_faults(&mut self, world: &World) {
        let is_read_fault_pending = world.cloud.faults(|faults| faults.has_scripted_reads());
        if is_read_fault_pending || self.is_read_fault_pending {
            self.last_read_fault = Some(Instant::now());
        }
        self.is_read_fault_pending = is_read_fault_pending;
    }

    fn vanish(&mut self, world: &World, name: String) {
        world.lost_state();
        if self.vanished.remove(&name) {
            world.cloud.restore_group(&name);
        } else {
            world.cloud.remove_group(&name);
            self.vanished.insert(name);
        }
    }

    /// Ends all faults: from now on everything works.
    pub(super) fn stop(&mut self, world: &World) {
        world.cloud.faults(Faults::clear);
        for name in std::mem::take(&mut self.vanished) {
            world.cloud.restore_group(&name);
        }
        self.names.iter().for_each(|name| all_succeed(world, name));
    }
}

/// Whether a group grows by launches, unless they are denied.
fn grows_by_launch(group: &Group) -> bool {
    group.plan().style == GroupStyle::AutoScaling && group.plan().zones.len() == 1
}

fn all_succeed(world: &World, name: &str) {
    let _not_in_sight = world.cloud.replan(name, |plan| {
        plan.launches_fine();
        plan.deletions_fine();
    });
}
