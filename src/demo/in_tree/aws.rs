//! The in-tree provider of AWS: `auto_scaling_groups.go`, `aws_manager.go` and `aws_cloud_provider.go`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Difference, Truth};
use crate::admin::statusz::GroupEntry;

/// `Refresh` reads nothing if the last one is younger (`aws_manager.go`).
const REFRESH_EVERY: Duration = Duration::from_secs(60);

/// A group as the provider has it in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cached {
    /// `curSize`: read at a refresh, set by `setAsgSizeNoLock`, and lowered by one for each termination.
    target: u32,
    /// The instances of the last refresh.
    listed: u32,
    /// Whether its placeholders carry an error: at the last refresh, a launch had failed since the provider last grew
    /// the group (`isNodeGroupAvailable`).
    is_unfulfillable: bool,
    /// `lastUpdateTime`: when the provider last grew it.
    grew: Duration,
}

/// What the provider has in memory.
#[derive(Debug, Default)]
pub(super) struct Aws {
    /// When it last read; `None` if the next `Refresh` reads.
    read: Option<Duration>,
    groups: BTreeMap<String, Cached>,
}

impl Aws {
    /// Reads all groups, if it is time to.
    pub(super) fn refresh<'a>(&mut self, now: Duration, groups: impl Iterator<Item = &'a (String, Truth)>) {
        if !self.until_refresh(now).is_zero() {
            return;
        }
        self.read = Some(now);
        for (id, truth) in groups {
            let cached = self.groups.entry(id.clone()).or_default();
            let has_placeholders = truth.capacity > truth.listed;
            let has_failed = truth.failed.is_some_and(|failed| failed >= cached.grew);
            (cached.target, cached.listed) = (truth.capacity, truth.listed);
            cached.is_unfulfillable = has_placeholders && has_failed;
        }
    }

    /// How long it is until `Refresh` reads again.
    pub(super) fn until_refresh(&self, now: Duration) -> Duration {
        self.read.map_or(Duration::ZERO, |read| (read + REFRESH_EVERY).saturating_sub(now))
    }

    /// `IncreaseSize`: sets the number that it has in memory, plus delta.
    pub(super) fn increase(&mut self, id: &str, delta: u32, capacity: u32, now: Duration) -> Option<String> {
        let cached = self.groups.get_mut(id)?;
        let (before, to) = (cached.target, cached.target + delta);
        // It goes on with what Headcount made of the group.
        (cached.target, cached.grew) = (capacity + delta, now);
        (before != capacity).then(|| {
            format!("{id}: would set capacity {before} + {delta} = {to}, from memory; the cloud's is {capacity}")
        })
    }

    /// `DeleteNodes`: terminates them one by one, and reads all groups at the next `Refresh` (`DeleteInstances`).
    pub(super) fn delete(&mut self, id: &str, count: u32) {
        if let Some(cached) = self.groups.get_mut(id) {
            cached.target = cached.target.saturating_sub(count);
            self.read = None;
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
        let Cached { target, listed, is_unfulfillable, grew } = *self.groups.get(id)?;
        let left = self.until_refresh(now).as_secs();
        let has_failed = truth.failed.is_some_and(|failed| failed >= grew) && target > headcount.live;
        if has_failed && !is_unfulfillable {
            let sentence = format!(
                "{id}: target {target}, nothing failed: it looks for failures at its next refresh, in {left} s"
            );
            return Some((Difference::Failures, sentence));
        }
        if headcount.target != target {
            let sentence = format!("{id}: target {target}: it reads the group at its next refresh, in {left} s");
            return Some((Difference::Target, sentence));
        }
        (headcount.live + headcount.deleting != listed).then(|| {
            let sentence = format!(
                "{id}: target {target}, and the {listed} instances of its last refresh: the next is in {left} s"
            );
            (Difference::Instances, sentence)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clouds::simulated::GroupStyle;

    const ID: &str = "web";

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn truth(capacity: u32, listed: u32, failed: Option<Duration>) -> [(String, Truth); 1] {
        [(ID.to_owned(), Truth { style: GroupStyle::AutoScaling, capacity, listed, failed })]
    }

    fn headcount(target: u32, live: u32, failed: u32) -> GroupEntry {
        GroupEntry { id: ID.to_owned(), target, live, failed, ..GroupEntry::default() }
    }

    #[test]
    fn a_failed_launch_shows_a_minute_later() {
        let mut aws = Aws::default();
        aws.refresh(seconds(0), truth(3, 3, None).iter());
        assert_eq!(aws.increase(ID, 2, 3, seconds(10)), None);
        let failed = truth(5, 3, Some(seconds(11)));
        aws.refresh(seconds(20), failed.iter());
        let (difference, sentence) =
            aws.difference(&headcount(5, 3, 2), &failed[0].1, seconds(20)).expect("a difference");
        assert_eq!(difference, Difference::Failures);
        assert!(sentence.contains("target 5, nothing failed") && sentence.contains("in 40 s"), "{sentence}");
        aws.refresh(seconds(60), failed.iter());
        assert_eq!(aws.difference(&headcount(5, 3, 2), &failed[0].1, seconds(60)), None);
    }

    #[test]
    fn a_deletion_is_subtracted_at_once_and_read_at_the_next_loop() {
        let mut aws = Aws::default();
        aws.refresh(seconds(0), truth(3, 3, None).iter());
        aws.delete(ID, 1);
        assert_eq!((aws.target(ID), aws.until_refresh(seconds(2))), (Some(2), Duration::ZERO));
    }

    #[test]
    fn growth_starts_from_memory() {
        let mut aws = Aws::default();
        aws.refresh(seconds(0), truth(3, 3, None).iter());
        let written = aws.increase(ID, 1, 6, seconds(10));
        assert!(written.is_some_and(|sentence| sentence.contains("3 + 1 = 4, from memory; the cloud's is 6")));
    }
}
