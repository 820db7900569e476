//! The recent true state of the cloud, compared to what is published.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use headcount::cloud::InstanceState;
use tokio::time::Instant;

use super::Violation;
use super::world::{World, whole};

/// How old a reading may be: the slowest response with a stale reading.
const BEHIND: Duration = Duration::from_secs(45);

/// The last few observations of the cloud.
#[derive(Default)]
pub(super) struct Oracle {
    /// The fewest instances that each group had since the observation before.
    looks: VecDeque<(Instant, BTreeMap<Arc<str>, u32>)>,
    /// The groups that each process last published with instances.
    filled: BTreeSet<(u8, String)>,
}

impl Oracle {
    /// Law 5: no 0 and no empty list is published because of a failed read or one wrong reading.
    pub(super) fn look(&mut self, processes: &[&World]) -> Result<(), Violation> {
        if let Some(process) = processes.first() {
            self.remember(process);
        }
        let mut filled = BTreeSet::new();
        for process in processes {
            self.check(process, &mut filled)?;
        }
        self.filled = filled;
        Ok(())
    }

    fn check(&self, world: &World, filled: &mut BTreeSet<(u8, String)>) -> Result<(), Violation> {
        let spans = self.looks.front().zip(self.looks.back()).is_some_and(|((first, _), (last, _))| {
            last.saturating_duration_since(*first) > BEHIND - Duration::from_secs(2)
        });
        // Of all zones together, where a group is served by zones: the cloud has no capacity for one of them.
        let mut published: BTreeMap<String, (u32, usize, bool)> = BTreeMap::new();
        for (id, view) in world.fleet.snapshot().groups() {
            let (target, instances, runs) = published.entry(whole(id).to_owned()).or_default();
            *target += view.status.target;
            *instances += view.status.instances.len();
            *runs |= view.status.in_state(InstanceState::Running) > 0;
        }
        for (id, (target, instances, runs)) in published {
            let key = (world.process.number, id.clone());
            if instances > 0 && (target > 0 || !runs) {
                filled.insert(key);
            } else if spans && self.filled.contains(&key) && self.least(&id) > 0 && !is_asked_for(world, &id) {
                let least = self.least(&id);
                let what = format!("{id} has a target of {target} and {instances} instances, while {least} live");
                return Err(Violation::of("law 5", what));
            }
        }
        Ok(())
    }

    /// The fewest recent instances.
    fn least(&self, group: &str) -> u32 {
        self.looks.iter().map(|(_, lows)| lows.get(group).copied().unwrap_or_default()).min().unwrap_or_default()
    }

    fn remember(&mut self, world: &World) {
        let now = Instant::now();
        let lows = world.cloud.world(|world, _| world.take_lows());
        self.looks.push_back((now, lows));
        while self.looks.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > BEHIND) {
            self.looks.pop_front();
        }
    }
}

/// Whether the caller asked for a 0: it deleted instances, or took back those that Headcount could not see arrive.
/// After a handover, what it deleted may be all that the capacity had room for.
fn is_asked_for(world: &World, group: &str) -> bool {
    world.has_unsettled_deletion(group) || world.takes_back(group) || world.was_written_by_both(group)
}
