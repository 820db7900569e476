//! What the in-tree providers of the Cluster Autoscaler would have reported and written, by their published rules.
//!
//! They run beside Headcount on the same cloud, see the same calls, and write nothing. The rules are those of
//! kubernetes/autoscaler, `cluster-autoscaler/cloudprovider/{aws,azure}`, from 1.28 to 1.37: how long a number is used
//! before it is read again, and what each call makes of it. Each file names the functions.

mod aws;
mod azure;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::admin::statusz::GroupEntry;
use crate::clouds::simulated::{ActivityKind, ActivityStatus, Group, GroupStyle, Simulated};

use aws::Aws;
use azure::Azure;

/// A group as the cloud has it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Truth {
    style: GroupStyle,
    capacity: u32,
    /// The instances that a list of the cloud contains.
    listed: u32,
    /// When the last launch that failed began.
    failed: Option<Duration>,
}

impl Truth {
    fn of(group: &Group) -> Self {
        let has_failed = |status: &ActivityStatus| matches!(status, ActivityStatus::Failed(_));
        let mut activities = group.activities();
        let failed = activities.find(|one| one.kind == ActivityKind::Launch && has_failed(&one.status));
        Self {
            style: group.plan().style,
            capacity: group.capacity(),
            listed: u32::try_from(group.members().count()).unwrap_or(u32::MAX),
            failed: failed.map(|activity| activity.started),
        }
    }
}

/// How a provider's report of a group differs from Headcount's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Difference {
    /// It does not report that instances failed to be created.
    Failures,
    /// It reports another target size.
    Target,
    /// It lists other instances.
    Instances,
}

/// How long a difference lasts before it is shown: Headcount's report of a write follows a moment after the call.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// Both providers.
#[derive(Debug, Default)]
pub(super) struct InTree {
    aws: Aws,
    azure: Azure,
    /// How each group's report differs now, with the provider's target size, and since when.
    found: BTreeMap<String, (Option<(Difference, u32)>, Duration)>,
    /// The differences that were shown last.
    shown: BTreeMap<String, (Difference, u32)>,
    /// How many running instances its writes would have deleted though CA had not named them.
    unnamed: u32,
}

impl InTree {
    /// CA calls `Refresh`. Nothing is read while the cloud cannot be reached.
    pub(super) fn refresh(&mut self, cloud: &Simulated, is_reachable: bool) {
        if !is_reachable {
            return;
        }
        cloud.world(|world, now| {
            let groups: Vec<(String, Truth)> =
                world.groups().map(|group| (group.name().to_owned(), Truth::of(group))).collect();
            let of = |style| groups.iter().filter(move |(_, truth)| truth.style == style);
            self.aws.refresh(now, of(GroupStyle::AutoScaling));
            self.azure.refresh(now, of(GroupStyle::ScaleSet));
        });
    }

    /// CA asks for more nodes in a group of this capacity. Returns what the provider would have written, if that is
    /// another number than the capacity and the nodes.
    pub(super) fn increase(&mut self, id: &str, delta: u32, capacity: u32, now: Duration) -> Option<String> {
        if let Some(written) = self.aws.increase(id, delta, capacity, now) {
            return Some(written);
        }
        let (written, unnamed) = self.azure.increase(id, delta, capacity, now)?;
        self.unnamed += unnamed;
        Some(written)
    }

    /// CA names nodes for deletion.
    pub(super) fn delete(&mut self, id: &str, count: u32, now: Duration) {
        self.aws.delete(id, count);
        self.azure.delete(id, count, now);
    }

    /// How its report of a group differs from Headcount's, once for each difference.
    pub(super) fn difference(&mut self, cloud: &Simulated, headcount: &GroupEntry) -> Option<String> {
        let id = headcount.id.as_str();
        let (truth, now) = truth(cloud, id)?;
        let found = match truth.style {
            GroupStyle::AutoScaling => self.aws.difference(headcount, &truth, now),
            GroupStyle::ScaleSet => self.azure.difference(headcount, &truth, now),
        };
        let target = self.target(id)?;
        let difference = found.as_ref().map(|(difference, _)| (*difference, target));
        let since = self.found.entry(id.to_owned()).or_insert((difference, now));
        if since.0 != difference {
            *since = (difference, now);
        }
        if now < since.1 + SHOWN_AFTER || self.shown.get(id).copied() == difference {
            return None;
        }
        match difference.zip(found) {
            Some((difference, (_, sentence))) => {
                self.shown.insert(id.to_owned(), difference);
                Some(sentence)
            }
            None => {
                self.shown.remove(id);
                Some(format!("{id}: target {target}, as Headcount"))
            }
        }
    }

    /// How many running instances its writes would have deleted though CA had not named them.
    pub(super) fn unnamed(&self) -> u32 {
        self.unnamed
    }

    /// The target size that it reports for a group.
    pub(super) fn target(&self, id: &str) -> Option<u32> {
        self.aws.target(id).or_else(|| self.azure.target(id))
    }

    /// What it does when the response to its next write is lost.
    pub(super) fn lost_response() -> &'static str {
        "its SDK sends the same number again: harmless, unless another client has written meanwhile"
    }

    /// What it does while the cloud cannot be reached.
    pub(super) fn outage(&self, cloud: &Simulated) -> String {
        let left = self.aws.until_refresh(cloud.elapsed()).as_secs();
        format!("from its next refresh on, in {left} s, Refresh fails, and CA skips its loop for all groups")
    }
}

fn truth(cloud: &Simulated, id: &str) -> Option<(Truth, Duration)> {
    cloud.world(|world, now| world.group(id).map(|group| (Truth::of(group), now)))
}
