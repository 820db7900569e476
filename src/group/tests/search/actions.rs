//! What may happen next in a world.

use super::cloud::{Call, MAX, Stage, count, number};
use super::launches::Told;
use super::promises::Asked;
use super::world::World;
use crate::cloud::InstanceState;

/// How long Auto Scaling leaves a surplus alone at least: 20 s were seen (autoscaler #10147).
const PATIENCE: u64 = 20_000;
/// What may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    /// Requests of CA.
    pub asks: u8,
    /// Changes by another client, and instances that the cloud takes away.
    pub others: u8,
    /// Responses that are lost, and reads that fail.
    pub lost: u8,
    /// Launches and deletions that fail.
    pub failures: u8,
    /// Restarts.
    pub restarts: u8,
    /// Reads that lag.
    pub stale: u8,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The job's read returns the group as it was so many changes ago.
    Read(u8),
    ReadFails,
    /// The same for a read beside the job.
    Beside(u8),
    BesideFails,
    Write(Outcome),
    /// A write without a response takes effect.
    LateEffect,
    /// Time passes to the next wake-up.
    Wake,
    OtherSets(i8),
    OtherDeletes(u8),
    /// The cloud takes an instance away, for a reason of its own, and replaces it.
    Evicted(u8),
    LaunchBegins,
    ComesUp(u8),
    LaunchFails(u8),
    Gone(u8),
    /// Auto Scaling terminates an instance of its own choice, because more live than the capacity says.
    SurplusTerminated(u8),
    Succeeds(u8),
    Fails(u8),
    /// It fails, and no poll has told yet.
    FailsUnheard(u8),
    /// A poll tells that.
    Heard,
    /// The polls for a write are answered.
    Polled,
    PollsFail,
    Preempted(u8),
    /// The machine is told of a launch, by its place in the list.
    LaunchAnswered(u8, Told),
    /// The cloud carries out a launch that has no response yet.
    Launched {
        index: u8,
        number: u8,
    },
    /// A launch raises the capacity.
    LaunchRaises(u8),
    /// CA asks for as many more, in the node group at this place in the list.
    Increase(u8, u8),
    Delete(u8),
    /// CA names an instance that never became a node.
    DeleteUnregistered(u8),
    DeletePlaceholder,
    Decrease,
    /// Another process takes over. What was on its way to the cloud arrives there, or does not.
    Restart {
        reads: u8,
        arrives: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Accepted,
    Conflict,
    LostBefore,
    LostAfter,
    Late,
}

impl World {
    /// Everything that may happen next.
    pub(super) fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.is_over {
            return actions;
        }
        let views = if self.left.stale > 0 { count(self.cloud.past.len()) } else { 0 };
        match &self.call {
            Some(Call::Read(_)) => {
                actions.extend((0..=views).map(Action::Read));
                actions.extend((self.left.lost > 0).then_some(Action::ReadFails));
            }
            Some(Call::Poll(_)) => {
                actions.push(Action::Polled);
                actions.extend((self.left.lost > 0).then_some(Action::PollsFail));
            }
            Some(call) => {
                let is_refused = matches!(call, Call::Set { version, .. }
                    if self.cloud.kind.is_guarded() && *version != self.cloud.view.version);
                actions.push(Action::Write(if is_refused { Outcome::Conflict } else { Outcome::Accepted }));
                if self.left.lost > 0 {
                    let lost = [Outcome::LostBefore, Outcome::LostAfter, Outcome::Late];
                    actions.extend(lost.map(Action::Write));
                }
            }
            None => {}
        }
        if self.beside {
            actions.extend((0..=views).map(Action::Beside));
            actions.extend((self.left.lost > 0).then_some(Action::BesideFails));
        }
        actions.extend((!self.unheard.is_empty()).then_some(Action::Heard));
        if self.call.is_none() && !self.beside && !self.awaits_launch() && self.unheard.is_empty() {
            actions.push(Action::Wake);
        }
        self.launch_actions(&mut actions);
        actions.extend(self.late.as_ref().map(|_| Action::LateEffect));
        // What the machine is not told about comes just before an answer. Earlier, it would make no difference.
        if self.call.is_some() || self.beside {
            self.foreign_actions(&mut actions);
            self.lifecycle(&mut actions);
        }
        self.terminations(&mut actions);
        self.ends(&mut actions);
        self.requests(&mut actions);
        if self.left.restarts > 0 {
            let is_writing =
                !matches!(self.call, None | Some(Call::Read(_) | Call::Poll(_))) || !self.launches.is_empty();
            let arrivals: &[bool] = if is_writing { &[false, true] } else { &[false] };
            for reads in 0..=views {
                actions.extend(arrivals.iter().map(|arrives| Action::Restart { reads, arrives: *arrives }));
            }
        }
        actions
    }

    fn foreign_actions(&self, actions: &mut Vec<Action>) {
        if self.left.others == 0 {
            return;
        }
        let desired = self.cloud.view.desired;
        actions.extend((desired < MAX).then_some(Action::OtherSets(1)));
        actions.extend((desired > self.cloud.min).then_some(Action::OtherSets(-1)));
        for one in self.cloud.view.machines.iter().filter(|one| one.stage == Stage::Up) {
            actions.extend((desired > self.cloud.min).then_some(Action::OtherDeletes(one.id)));
            actions.push(Action::Evicted(one.id));
        }
    }

    fn lifecycle(&self, actions: &mut Vec<Action>) {
        let first = |stage| self.cloud.view.machines.iter().find(|one| one.stage == stage).map(|one| one.id);
        let is_auto_scaling = !self.cloud.kind.is_guarded();
        if is_auto_scaling && self.cloud.view.live() < self.cloud.view.desired && self.cloud.has_room_for(1) {
            actions.push(Action::LaunchBegins);
        }
        if let Some(id) = first(Stage::Launching).or_else(|| first(Stage::Coming)) {
            actions.push(Action::ComesUp(id));
            actions.extend((self.left.failures > 0).then_some(Action::LaunchFails(id)));
        }
        let is_finishing =
            |id: u8| !is_auto_scaling && self.cloud.operations.iter().any(|one| one.deletes.contains(&id));
        for one in self.cloud.view.machines.iter().filter(|one| one.stage == Stage::Going && !is_finishing(one.id)) {
            actions.push(Action::Gone(one.id));
        }
    }

    fn terminations(&self, actions: &mut Vec<Action>) {
        let is_over = self.laws.surplus_since.is_some_and(|since| since + PATIENCE <= self.now);
        if !self.cloud.kind.is_guarded() && is_over {
            let up = self.cloud.view.machines.iter().filter(|one| one.stage == Stage::Up);
            actions.extend(up.map(|one| Action::SurplusTerminated(one.id)));
        }
    }

    /// What the machine is told by a poll.
    fn ends(&self, actions: &mut Vec<Action>) {
        for operation in &self.cloud.operations {
            let is_up = |id: &u8| !matches!(self.cloud.view.stage(*id), Some(Stage::Launching | Stage::Coming));
            actions.extend(operation.made.iter().all(is_up).then_some(Action::Succeeds(operation.handle)));
            if !operation.deletes.is_empty() && self.left.failures > 0 {
                actions.push(Action::Fails(operation.handle));
                actions.extend(self.call.as_ref().map(|_| Action::FailsUnheard(operation.handle)));
                let is_last = self.cloud.operations.last().is_some_and(|last| last.handle == operation.handle);
                actions.extend((!is_last).then_some(Action::Preempted(operation.handle)));
            }
        }
    }

    fn requests(&self, actions: &mut Vec<Action>) {
        // Deletions do not wait for a launch.
        let is_launching = !self.launches.is_empty() && matches!(self.asked[..], [(_, Asked::Increase(..))]);
        if self.left.asks == 0 || !(self.asked.is_empty() || is_launching) {
            return;
        }
        let status = self.group.state().status();
        if !is_launching {
            let most = if self.cloud.kind.is_launching() { 2 } else { 1 };
            let numbers = (1..=most).filter(|number| status.target + u32::from(*number) <= MAX.into());
            let places = 0..count(self.cloud.kind.served().len());
            actions.extend(numbers.flat_map(|number| places.clone().map(move |place| Action::Increase(number, place))));
        }
        for one in status.instances.iter().filter(|one| one.state == InstanceState::Running) {
            actions.extend(number(&one.id).map(Action::Delete));
            // Above the minimum, it makes no difference whether it became one.
            let is_at_min = status.target <= self.cloud.min.into();
            actions.extend(number(&one.id).filter(|_| is_at_min).map(Action::DeleteUnregistered));
        }
        if status.instances.iter().any(|one| !one.exists) {
            actions.extend([Action::DeletePlaceholder, Action::Decrease]);
        }
    }
}
