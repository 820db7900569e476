//! Serves a group of several zones as one node group for each of them (`zones: separate`).
//!
//! The Cluster Autoscaler can then place a pod whose volume is in a zone, and a zone without capacity stops no other
//! (autoscaler #1431, #3845, #8970). A zone's node group grows by launches in that zone only. Its instances are deleted
//! by name, as ever.
//!
//! It wraps a cloud that knows nothing of it. `part.rs` is what the reading of a group means for one zone.

mod part;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::cloud::{
    Acceptance, AdverseSettings, Budget, Cloud, CloudError, Deletion, DeniedCall, Family, GroupName, GroupReading,
    InstanceType, LaunchActivity, LaunchRequest, LaunchResult, LaunchSpec, Listing, Market, OperationHandle,
    PriceExtent, PriceList, Progress, ProviderId, Quotas, Recognition, SharedCloud, Shortfall, WritableCloud,
};

/// For how long after a deletion the zone that it was in shows what the group is about to terminate: as long as a
/// capacity that our own write left too low is raised back (law 11), and as reads may lag.
const SHOWN_AFTER_DELETION: Duration = Duration::from_secs(60);
/// How long after a launch the capacity may still follow (assumed: AWS does not document it).
const CAPACITY_FOLLOWS: Duration = Duration::from_secs(10);

/// A cloud, some of whose groups are served by zones.
pub struct SeparateZones {
    cloud: SharedCloud,
    is_separate: Box<dyn Fn(&GroupName) -> bool + Send + Sync>,
    groups: Mutex<HashMap<GroupName, Known>>,
}

/// What is known of a group that is served by zones.
#[derive(Debug, Default)]
struct Known {
    /// All its zones so far: no more than the region has.
    zones: BTreeSet<String>,
    /// The zone of the last deletion, and when it was sent.
    deletion: Option<(String, Instant)>,
    /// How many launches are under way.
    launches: usize,
    /// When the last one ended.
    launched: Option<Instant>,
}

impl Known {
    /// Whether instances beyond the capacity of the whole group are shown in this zone: only one whose deletion may
    /// have lowered it too far raises it back. A launch that the capacity does not show yet is no reason for that.
    fn shows_excess(&self, zone: &str, now: Instant) -> bool {
        let is_recent = |at: Instant, limit| now.saturating_duration_since(at) <= limit;
        let is_launching = self.launches > 0 || self.launched.is_some_and(|at| is_recent(at, CAPACITY_FOLLOWS));
        let last = self.deletion.as_ref();
        !is_launching && last.is_some_and(|(last, at)| last == zone && is_recent(*at, SHOWN_AFTER_DELETION))
    }
}

/// A launch under way.
struct UnderWay<'a> {
    cloud: &'a SeparateZones,
    group: GroupName,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut groups = self.cloud.groups();
        let known = groups.entry(self.group.clone()).or_default();
        known.launches = known.launches.saturating_sub(1);
        known.launched = Some(Instant::now());
    }
}

impl SeparateZones {
    /// Serves those groups of a cloud by zones that `is_separate` chooses, and all others as they are.
    pub fn over(cloud: SharedCloud, is_separate: impl Fn(&GroupName) -> bool + Send + Sync + 'static) -> Self {
        Self { cloud, is_separate: Box::new(is_separate), groups: Mutex::default() }
    }

    fn groups(&self) -> MutexGuard<'_, HashMap<GroupName, Known>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The group and the zone of a node group, if it is a zone's.
    fn split<'a>(&self, name: &'a GroupName) -> Option<(GroupName, &'a str)> {
        let (group, zone) = name.as_str().rsplit_once('/')?;
        let group = GroupName::from(group);
        self.groups().get(&group).is_some_and(|known| known.zones.contains(zone)).then_some((group, zone))
    }

    /// The name that the cloud knows a node group's group by.
    fn whole_name(&self, name: &GroupName) -> GroupName {
        self.split(name).map_or_else(|| name.clone(), |(group, _)| group)
    }

    /// A node group's reading, under the name that the cloud knows it by.
    fn whole(&self, reading: &GroupReading) -> GroupReading {
        GroupReading { name: self.whole_name(&reading.name), ..reading.clone() }
    }

    /// The node groups that a group is served as.
    fn parts(&self, whole: GroupReading) -> Vec<GroupReading> {
        let zones = if (self.is_separate)(&whole.name) { part::zones(&whole) } else { Vec::new() };
        if zones.is_empty() {
            return vec![whole];
        }
        self.groups().entry(whole.name.clone()).or_default().zones.extend(zones.iter().cloned());
        zones.iter().map(|zone| self.part(&whole, zone)).collect()
    }

    fn part(&self, whole: &GroupReading, zone: &str) -> GroupReading {
        let groups = self.groups();
        let shows_excess = groups.get(&whole.name).is_some_and(|known| known.shows_excess(zone, Instant::now()));
        part::part(whole, zone, if shows_excess { part::excess(whole) } else { 0 })
    }

    /// The names that a group is served under.
    fn names(&self, group: GroupName) -> Vec<GroupName> {
        match self.groups().get(&group) {
            Some(known) => known.zones.iter().map(|zone| part::name(&group, zone)).collect(),
            None => vec![group],
        }
    }

    fn listing(&self, listing: Listing) -> Listing {
        let Listing { groups, broken, absent } = listing;
        let named = |(group, why): (GroupName, String)| {
            let names = self.names(group).into_iter();
            names.map(|name| (name, why.clone())).collect::<Vec<_>>()
        };
        Listing {
            groups: groups.into_iter().flat_map(|group| self.parts(group)).collect(),
            broken: broken.into_iter().flat_map(named).collect(),
            absent: absent.into_iter().flat_map(|group| self.names(group)).collect(),
        }
    }

    /// The node group's part of a reading of its group. `None` if the group has no such zone any more.
    fn found(&self, name: &GroupName, read: Option<GroupReading>) -> Option<GroupReading> {
        self.parts(read?).into_iter().find(|reading| reading.name == *name)
    }
}

#[async_trait]
impl Cloud for SeparateZones {
    async fn list(&self) -> Result<Listing, CloudError> {
        Ok(self.listing(self.cloud.list().await?))
    }

    async fn list_pages(&self, pages: mpsc::UnboundedSender<Listing>) -> Result<Listing, CloudError> {
        let (sender, mut whole) = mpsc::unbounded_channel();
        let forward = async {
            while let Some(page) = whole.recv().await {
                // If the receiver is gone, the caller no longer waits for the result.
                drop(pages.send(self.listing(page)));
            }
        };
        let (listed, ()) = tokio::join!(self.cloud.list_pages(sender), forward);
        Ok(self.listing(listed?))
    }

    async fn observe(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        Ok(self.found(group, self.cloud.observe(&self.whole_name(group)).await?))
    }

    async fn read_capacity(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        Ok(self.found(group, self.cloud.read_capacity(&self.whole_name(group)).await?))
    }

    async fn observe_for_write(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        Ok(self.found(group, self.cloud.observe_for_write(&self.whole_name(group)).await?))
    }

    async fn launch_activity(&self, group: &GroupName, shortfall: Shortfall) -> Result<LaunchActivity, CloudError> {
        let activity = self.cloud.launch_activity(&self.whole_name(group), shortfall).await?;
        if self.split(group).is_none() {
            return Ok(activity);
        }
        // What the group launches by itself belongs to no zone, and neither does what it fails to launch.
        Ok(LaunchActivity { failures: Vec::new(), under_way: 0, ..activity })
    }

    async fn created_before(
        &self,
        group: &GroupName,
        instances: &[ProviderId],
        before: SystemTime,
    ) -> Result<Vec<ProviderId>, CloudError> {
        self.cloud.created_before(&self.whole_name(group), instances, before).await
    }

    async fn follow(&self, handle: &OperationHandle) -> Result<Progress, CloudError> {
        self.cloud.follow(handle).await
    }

    async fn launch_spec(&self, reading: &GroupReading) -> Result<LaunchSpec, CloudError> {
        let mut spec = self.cloud.launch_spec(&self.whole(reading)).await?;
        if let Some((_, zone)) = self.split(&reading.name) {
            spec.zones = vec![zone.to_owned()];
        }
        Ok(spec)
    }

    async fn instance_types(&self, names: &[String]) -> Result<Vec<InstanceType>, CloudError> {
        self.cloud.instance_types(names).await
    }

    async fn all_instance_types(&self) -> Result<Vec<InstanceType>, CloudError> {
        self.cloud.all_instance_types().await
    }

    fn warnings(&self) -> Vec<(GroupName, String)> {
        self.cloud.warnings()
    }

    async fn adverse_settings(&self) -> AdverseSettings {
        self.cloud.adverse_settings().await
    }

    fn has_quotas(&self) -> bool {
        self.cloud.has_quotas()
    }

    async fn quotas(&self) -> Result<Quotas, CloudError> {
        self.cloud.quotas().await
    }

    async fn denied_calls(&self) -> Vec<DeniedCall> {
        self.cloud.denied_calls().await
    }

    async fn identity(&self) -> Result<Option<String>, CloudError> {
        self.cloud.identity().await
    }

    fn recognise(&self, id: &str) -> Recognition {
        self.cloud.recognise(id)
    }

    fn placeholder(&self, reading: &GroupReading, label: &str) -> ProviderId {
        self.cloud.placeholder(reading, label)
    }

    fn budgets(&self) -> Vec<Budget> {
        self.cloud.budgets()
    }

    fn market(&self) -> Market {
        self.cloud.market()
    }

    async fn price_regions(&self) -> Result<Vec<String>, CloudError> {
        self.cloud.price_regions().await
    }

    async fn price_list(&self, region: &str, extent: PriceExtent) -> PriceList {
        self.cloud.price_list(region, extent).await
    }

    fn family(&self) -> Family {
        self.cloud.family()
    }

    fn now(&self) -> SystemTime {
        self.cloud.now()
    }
}

#[async_trait]
impl WritableCloud for SeparateZones {
    /// For a zone, this raises the capacity of the whole group by the same number, from a read of its own: the capacity
    /// that `basis` has is the zone's. It is called to raise it back only (law 11), and lowers nothing.
    async fn set_capacity(&self, basis: &GroupReading, to: u32) -> Result<Acceptance, CloudError> {
        const OPERATION: &str = "set_capacity";
        let Some((group, zone)) = self.split(&basis.name) else { return self.cloud.set_capacity(basis, to).await };
        let whole = self.cloud.observe_for_write(&group).await?;
        let whole = whole.ok_or_else(|| CloudError::not_found(OPERATION, basis.name.as_str(), "no such group"))?;
        let missing = to.saturating_sub(self.part(&whole, zone).desired);
        let raised = whole.desired.saturating_add(missing).min(whole.max);
        if raised <= whole.desired {
            let message = "the capacity of a zone cannot be lowered, and its instances have room";
            return Err(CloudError::refused(OPERATION, basis.name.as_str(), message));
        }
        self.cloud.set_capacity(&whole, raised).await
    }

    async fn launch(&self, basis: &GroupReading, launch: &LaunchRequest) -> Result<LaunchResult, CloudError> {
        let Some((group, zone)) = self.split(&basis.name) else { return self.cloud.launch(basis, launch).await };
        self.groups().entry(group.clone()).or_default().launches += 1;
        let _under_way = UnderWay { cloud: self, group };
        let launch = LaunchRequest { zone: Some(zone.to_owned()), ..launch.clone() };
        self.cloud.launch(&self.whole(basis), &launch).await
    }

    async fn delete_instances(&self, basis: &GroupReading, ids: &[ProviderId]) -> Result<Deletion, CloudError> {
        if let Some((group, zone)) = self.split(&basis.name) {
            self.groups().entry(group).or_default().deletion = Some((zone.to_owned(), Instant::now()));
        }
        self.cloud.delete_instances(&self.whole(basis), ids).await
    }
}
