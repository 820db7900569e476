//! The in-tree provider of Azure: `azure_scale_set.go`, without `AZURE_STRICT_CACHE_UPDATES` and
//! `AZURE_ENABLE_VMSS_ETAG`, which are off by default.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Difference, Truth};
use crate::admin::statusz::GroupEntry;
use crate::demo::line::number_of;

/// How long a size is used before it is read again (`getCurSize`, `AZURE_VMSS_CACHE_TTL`).
const SIZE_LASTS: Duration = Duration::from_secs(60);

/// A scale set as the provider has it in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cached {
    /// `curSize`
    target: u32,
    /// `lastSizeRefresh`
    read: Duration,
    /// What accepted deletions have subtracted from `curSize` since it was read.
    subtracted: u32,
}

/// What the provider has in memory.
#[derive(Debug, Default)]
pub(super) struct Azure {
    groups: BTreeMap<String, Cached>,
}

impl Azure {
    /// Reads the sizes that are older than a minute. A deletion makes a size as good as read (`DeleteInstances`).
    pub(super) fn refresh<'a>(&mut self, now: Duration, groups: impl Iterator<Item = &'a (String, Truth)>) {
        for (id, truth) in groups {
            let is_fresh = |cached: &Cached| now < cached.read + SIZE_LASTS;
            if !self.groups.get(id).is_some_and(is_fresh) {
                self.groups.insert(id.clone(), Cached { target: truth.capacity, read: now, subtracted: 0 });
            }
        }
    }

    /// `IncreaseSize`: puts the number that it has in memory, plus delta, whatever the scale set has. Azure makes it
    /// true, from the newest VM down.
    ///
    /// Returns the write, if that is another number than the capacity and delta, and how many VMs Azure deletes for it.
    pub(super) fn increase(&mut self, id: &str, delta: u32, capacity: u32, now: Duration) -> Option<(String, u32)> {
        let cached = self.groups.get_mut(id)?;
        let (before, to) = (cached.target, cached.target + delta);
        // It goes on with what Headcount made of the scale set.
        *cached = Cached { target: capacity + delta, read: now, subtracted: 0 };
        let unnamed = capacity.saturating_sub(to);
        let consequence = match unnamed {
            0 => format!("the scale set has {capacity}"),
            _ => format!("Azure deletes {} that nobody named", number_of(unnamed, "running VM")),
        };
        let written = || (format!("{id}: would set capacity {before} + {delta} = {to}: {consequence}"), unnamed);
        (before != capacity).then(written)
    }

    /// `DeleteNodes`: subtracts when the deletion is accepted (`DeleteInstances`).
    pub(super) fn delete(&mut self, id: &str, count: u32, now: Duration) {
        if let Some(cached) = self.groups.get_mut(id) {
            let subtracted = cached.subtracted + count;
            *cached = Cached { target: cached.target.saturating_sub(count), read: now, subtracted };
        }
    }

    pub(super) fn target(&self, id: &str) -> Option<u32> {
        self.groups.get(id).map(|cached| cached.target)
    }

    pub(super) fn difference(
        &self,
        headcount: &GroupEntry,
        truth: &Truth,
        now: Duration,
    ) -> Option<(Difference, String)> {
        let id = &headcount.id;
        let Cached { target, read, subtracted } = *self.groups.get(id)?;
        if headcount.failed > 0 {
            let sentence =
                format!("{id}: target {target}, nothing failed: it logs a failed launch, and does not tell CA");
            return Some((Difference::Failures, sentence));
        }
        if headcount.target == target {
            return None;
        }
        let sentence = if subtracted > 0 && target < truth.capacity {
            // #9779 is in CA 1.36 and in the last patches of 1.33 to 1.35. It reads the size again after a failure.
            format!(
                "{id}: target {target} of {}: without #9779 (CA 1.36), a deletion that fails is not added back (#7432)",
                truth.listed
            )
        } else {
            let left = (read + SIZE_LASTS).saturating_sub(now).as_secs();
            format!("{id}: target {target}: it reads the size again in {left} s")
        };
        Some((Difference::Target, sentence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clouds::simulated::GroupStyle;

    const ID: &str = "pool";

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn truth(capacity: u32) -> [(String, Truth); 1] {
        [(ID.to_owned(), Truth { style: GroupStyle::ScaleSet, capacity, listed: capacity, failed: None })]
    }

    /// The incident of the README, in small (#7432).
    #[test]
    fn deletions_that_fail_twice_are_subtracted_twice_and_the_next_growth_deletes_running_machines() {
        let mut azure = Azure::default();
        azure.refresh(seconds(0), truth(6).iter());
        azure.delete(ID, 2, seconds(30));
        azure.delete(ID, 2, seconds(70));
        // Each deletion also postpones the next read.
        azure.refresh(seconds(100), truth(6).iter());
        assert_eq!(azure.target(ID), Some(2));
        let headcount = GroupEntry { id: ID.to_owned(), target: 6, live: 6, ..GroupEntry::default() };
        let (difference, sentence) = azure.difference(&headcount, &truth(6)[0].1, seconds(100)).expect("a difference");
        assert_eq!(difference, Difference::Target);
        assert!(sentence.contains("target 2 of 6"), "{sentence}");
        let (written, unnamed) = azure.increase(ID, 1, 6, seconds(101)).expect("another number");
        assert!(written.contains("2 + 1 = 3: Azure deletes 3 running VMs that nobody named"), "{written}");
        assert_eq!(unnamed, 3);
    }

    #[test]
    fn a_size_is_read_again_after_a_minute() {
        let mut azure = Azure::default();
        azure.refresh(seconds(0), truth(6).iter());
        azure.refresh(seconds(59), truth(9).iter());
        assert_eq!(azure.target(ID), Some(6));
        azure.refresh(seconds(60), truth(9).iter());
        assert_eq!(azure.target(ID), Some(9));
    }
}
