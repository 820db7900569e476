//! The missing instances: as many placeholders as the shortfall says, and what CA makes of them.

use std::collections::BTreeSet;
use std::time::SystemTime;

use tokio::time::Instant;

use super::{GroupState, NamePlaceholder, size};
use crate::cloud::ProviderId;
use crate::fleet::observation::count;
use crate::fleet::placeholder::{self, Placeholder, PlaceholderState};

impl GroupState {
    /// Makes the placeholders as many as the shortfall says.
    pub(super) fn fit_placeholders(
        &mut self,
        capacity_fell: u32,
        began: SystemTime,
        now: Instant,
        name: NamePlaceholder<'_>,
    ) {
        let Some(census) = self.census() else { return };
        self.placeholders
            .retain(|placeholder| !matches!(placeholder.state, PlaceholderState::RolledBack { until } if until <= now));
        placeholder::shrink(&mut self.placeholders, size(census.shortfall), size(capacity_fell));
        let held = self.placeholders.iter().filter(|placeholder| placeholder.in_capacity()).count();
        self.add_placeholders(size(census.shortfall).saturating_sub(held), began, name);
        if let Some(observation) = &self.observation {
            placeholder::explain(&mut self.placeholders, &observation.activity);
        }
    }

    pub(super) fn add_placeholders(&mut self, number: usize, since: SystemTime, name: NamePlaceholder<'_>) {
        for _ in 0..number {
            self.placeholders_made += 1;
            let id = name(&format!("{}-{}", placeholder::whole_seconds(since), self.placeholders_made));
            self.placeholders.push(Placeholder { id, since, state: PlaceholderState::Pending, failure: None });
        }
    }

    /// Takes placeholders out of the target: all that `names` picks. Answers how many of them were part of the capacity.
    pub(in crate::fleet) fn cancel(&mut self, names: &BTreeSet<ProviderId>) -> usize {
        let mut cancelled = 0;
        self.placeholders.retain_mut(|placeholder| {
            if !names.contains(&placeholder.id) {
                return true;
            }
            let keep = placeholder.in_capacity();
            if placeholder.state == PlaceholderState::Pending {
                placeholder.state = PlaceholderState::Cancelled;
                cancelled += 1;
            }
            keep
        });
        cancelled
    }

    /// Wants up to `number` cancelled placeholders again, under new IDs: a scale-up that the capacity has room for already.
    pub(in crate::fleet) fn reinstate(&mut self, number: u32, since: SystemTime, name: NamePlaceholder<'_>) -> u32 {
        let mut reinstated = 0;
        while reinstated < number {
            let Some(position) =
                self.placeholders.iter().position(|placeholder| placeholder.state == PlaceholderState::Cancelled)
            else {
                break;
            };
            self.placeholders.remove(position);
            reinstated += 1;
        }
        self.add_placeholders(size(reinstated), since, name);
        reinstated
    }

    /// Puts cancelled placeholders back into the target: the write that was to lower the capacity by them was refused.
    pub(in crate::fleet) fn undo_cancel(&mut self, names: &BTreeSet<ProviderId>) {
        for placeholder in self.placeholders.iter_mut().filter(|placeholder| names.contains(&placeholder.id)) {
            if placeholder.state == PlaceholderState::Cancelled {
                placeholder.state = PlaceholderState::Pending;
            }
        }
    }

    /// How many placeholders are cancelled.
    pub(in crate::fleet) fn cancelled(&self) -> u32 {
        count(self.placeholders.iter().filter(|placeholder| placeholder.state == PlaceholderState::Cancelled).count())
    }
}
