//! The missing instances: as many slots as the shortfall says, and what CA makes of them.

use std::collections::BTreeSet;
use std::time::SystemTime;

use tokio::time::Instant;

use super::{GroupState, NamePlaceholder, size};
use crate::cloud::ProviderId;
use crate::fleet::observation::count;
use crate::fleet::slot::{self, Slot, Standing};

impl GroupState {
    /// Makes the slots as many as the shortfall says.
    pub(super) fn fit_slots(&mut self, capacity_fell: u32, began: SystemTime, now: Instant, name: NamePlaceholder<'_>) {
        let Some(census) = self.census() else { return };
        self.slots.retain(|slot| !matches!(slot.standing, Standing::TakenBack { until } if until <= now));
        slot::shrink(&mut self.slots, size(census.shortfall), size(capacity_fell));
        let held = self.slots.iter().filter(|slot| slot.in_capacity()).count();
        self.add_slots(size(census.shortfall).saturating_sub(held), began, name);
        if let Some(observation) = &self.observation {
            slot::explain(&mut self.slots, &observation.activity);
        }
    }

    pub(super) fn add_slots(&mut self, number: usize, since: SystemTime, name: NamePlaceholder<'_>) {
        for _ in 0..number {
            self.slots_made += 1;
            let id = name(&format!("{}-{}", slot::whole_seconds(since), self.slots_made));
            self.slots.push(Slot { id, since, standing: Standing::Wanted, failure: None });
        }
    }

    /// Takes slots out of the target: all that `names` picks. Answers how many of them were part of the capacity.
    pub(in crate::fleet) fn forgo(&mut self, names: &BTreeSet<ProviderId>) -> usize {
        let mut forgone = 0;
        self.slots.retain_mut(|slot| {
            if !names.contains(&slot.id) {
                return true;
            }
            let keep = slot.in_capacity();
            if slot.standing == Standing::Wanted {
                slot.standing = Standing::Forgone;
                forgone += 1;
            }
            keep
        });
        forgone
    }

    /// Wants up to `number` forgone slots again, under new IDs: a scale-up that the capacity has room for already.
    pub(in crate::fleet) fn want_again(&mut self, number: u32, since: SystemTime, name: NamePlaceholder<'_>) -> u32 {
        let mut regained = 0;
        while regained < number {
            let Some(position) = self.slots.iter().position(|slot| slot.standing == Standing::Forgone) else { break };
            self.slots.remove(position);
            regained += 1;
        }
        self.add_slots(size(regained), since, name);
        regained
    }

    /// Puts forgone slots back into the target: the write that was to lower the capacity by them was refused.
    pub(in crate::fleet) fn regain(&mut self, names: &BTreeSet<ProviderId>) {
        for slot in self.slots.iter_mut().filter(|slot| names.contains(&slot.id)) {
            if slot.standing == Standing::Forgone {
                slot.standing = Standing::Wanted;
            }
        }
    }

    /// How many slots are forgone.
    pub(in crate::fleet) fn forgone(&self) -> u32 {
        count(self.slots.iter().filter(|slot| slot.standing == Standing::Forgone).count())
    }
}
