//! What the cloud does with a group by itself: instances beyond the capacity, and instances without an ID.

use std::time::Duration;

use super::agenda::Due;
use super::group::Group;
use super::lifecycle::instances;
use super::member::{DeletionAccounting, Phase};
use super::record::ActivityKind;

impl Group {
    /// The cloud launches instances beyond the capacity for reasons of its own (instance refresh, maintenance,
    /// rebalancing, upgrade surge), and removes as many after a while.
    pub(super) fn launch_surplus(&mut self, at: Duration, count: u32, lasts: Duration) {
        for _ in 0..count {
            let serial = self.add_member(at, Phase::Running);
            let Some(id) = self.members.get(&serial).map(|member| member.id.clone()) else { continue };
            self.note_own_activity(at, ActivityKind::Launch, id);
        }
        self.surplus += count;
        self.changed();
        self.narrate(at, format!("{} launched by the cloud beyond capacity {}", instances(count), self.capacity));
        self.schedule(at + lasts, Due::SurplusEnds(count));
    }

    /// The cloud removes instances of its own surplus, the oldest first.
    pub(super) fn end_surplus(&mut self, at: Duration, count: u32) {
        self.surplus = self.surplus.saturating_sub(count);
        // A capacity that counts instances until they are gone has no room for others before that, and launches under
        // way fill it.
        let counted = self.count(|member| member.phase == Phase::Requested || member.counts());
        let counted = counted.saturating_sub(self.surplus);
        let excess = counted.saturating_sub(self.capacity).min(count);
        let oldest = self.members.iter().filter(|(_, member)| member.phase.lives()).map(|(serial, _)| *serial);
        let oldest: Vec<u64> = oldest.take(usize::try_from(excess).unwrap_or(usize::MAX)).collect();
        for serial in oldest {
            self.begin_deletion(serial, at, None, DeletionAccounting::None, None);
            self.mark_last_activity_own();
        }
        self.changed();
        self.narrate(at, format!("{} of the cloud's own surplus removed", instances(excess)));
        self.replace_lost(at);
    }

    /// The cloud lists some instances without an ID for a while.
    pub(super) fn hide_ids(&mut self, at: Duration, count: usize, lasts: Duration) {
        let mut listed: Vec<u64> = self.members.keys().copied().collect();
        self.rng.shuffle(&mut listed);
        for serial in listed.into_iter().take(count) {
            if let Some(member) = self.members.get_mut(&serial).filter(|member| member.phase != Phase::Requested) {
                member.lacks_id = true;
            }
        }
        self.changed();
        self.narrate(at, format!("up to {count} instances are listed without an ID"));
        self.schedule(at + lasts, Due::IdsShow);
    }

    /// The cloud lists all instances with their IDs again.
    pub(super) fn show_ids(&mut self) {
        self.members.values_mut().for_each(|member| member.lacks_id = false);
        self.changed();
    }
}
