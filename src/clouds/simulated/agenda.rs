//! The scheduled changes of a simulated group.

use std::cmp::Reverse;
use std::time::Duration;

use super::chance::draw;
use super::group::Group;

/// A scheduled change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// An instance changes its phase.
    Transition(u64),
    /// An Auto Scaling group compares its instances to its desired capacity.
    Reconcile,
    /// An Auto Scaling group terminates its surplus.
    ScaleIn,
    /// An instance is evicted.
    Evict,
    /// The cloud removes this many instances of its own surplus.
    SurplusEnds(u32),
    /// A launch on request ends.
    LaunchEnds,
    /// A launch on request raises the capacity by this much.
    LaunchRaises(u32),
    /// The cloud lists all instances with their IDs again.
    IdsShow,
}

impl Group {
    /// When the next change is due.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.agenda.peek().map(|Reverse((at, ..))| *at)
    }

    /// Applies the next change.
    pub(super) fn step(&mut self) {
        let Some(Reverse((at, _, due))) = self.agenda.pop() else { return };
        match due {
            Due::Transition(serial) => self.apply_transition(serial, at),
            Due::Reconcile if self.reconcile_at == Some(at) => {
                self.reconcile_at = None;
                self.reconcile(at);
            }
            Due::ScaleIn if self.scale_in_at == Some(at) => {
                self.scale_in_at = None;
                self.scale_in(at);
            }
            Due::SurplusEnds(count) => self.end_surplus(at, count),
            Due::IdsShow => self.show_ids(),
            Due::LaunchEnds => self.end_launch_calls(at),
            Due::LaunchRaises(launched) => self.raise_for_launch(at, launched),
            Due::Evict => {
                self.evict(at, 1);
                self.schedule_eviction(at);
            }
            // An outdated entry.
            Due::Reconcile | Due::ScaleIn => {}
        }
    }

    pub(super) fn schedule(&mut self, at: Duration, due: Due) {
        let order = self.next_serial();
        self.agenda.push(Reverse((at, order, due)));
    }

    pub(super) fn schedule_eviction(&mut self, at: Duration) {
        if let Some(span) = self.plan.evictions.clone() {
            // A wait of zero would never let time pass.
            let wait = draw(&mut self.rng, &span).max(Duration::from_millis(1));
            self.schedule(at + wait, Due::Evict);
        }
    }
}
