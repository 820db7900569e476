//! Serves a group of several zones as one node group for each of them (`zones: separate`).
//!
//! The Cluster Autoscaler can then place a pod whose volume is in a zone, and a zone without capacity stops no other
//! (autoscaler #1431, #3845, #8970). A zone's node group grows by launches in that zone only. Its instances are deleted
//! by name, as ever.
//!
//! It wraps a cloud that knows nothing of it. `part.rs` is what the reading of a group means for one zone; `ledger.rs`
//! has our recent writes to it, which its zones share.

mod ledger;
mod part;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::cloud::{
    Acceptance, AdverseSettings, Budget, Cloud, CloudError, Counts, Deletion, DeniedCall, Family, GroupName,
    GroupReading, InstanceType, LaunchActivity, LaunchRequest, LaunchResult, LaunchSpec, Listing, Market,
    OperationHandle, PriceExtent, PriceList, Progress, ProviderId, Quotas, Recognition, SharedCloud, Shortfall,
    WritableCloud,
};
use ledger::{Evidence, Ledger};
use part::count;

/// A cloud, some of whose groups are served by zones.
pub struct SeparateZones {
    cloud: SharedCloud,
    is_separate: Box<dyn Fn(&GroupName) -> bool + Send + Sync>,
    groups: Mutex<HashMap<GroupName, Known>>,
    /// Held while the capacity of a group is raised back.
    raising: tokio::sync::Mutex<()>,
}

/// What is known of a group that is served by zones.
#[derive(Debug, Default)]
struct Known {
    /// All its zones so far: no more than the region has.
    zones: BTreeSet<String>,
    /// The last reading of the group.
    last: Option<GroupReading>,
    /// Our recent writes to it.
    ledger: Ledger,
}

impl SeparateZones {
    /// Serves those groups of a cloud by zones that `is_separate` chooses, and all others as they are.
    pub fn over(cloud: SharedCloud, is_separate: impl Fn(&GroupName) -> bool + Send + Sync + 'static) -> Self {
        let (groups, raising) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { cloud, is_separate: Box::new(is_separate), groups, raising }
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
        let (mut groups, now) = (self.groups(), Instant::now());
        let Known { zones: known, last, ledger } = groups.entry(whole.name.clone()).or_default();
        known.extend(zones.iter().cloned());
        let whole = ledger.dated(whole, now);
        ledger.note(&whole, now);
        let parts = zones
            .iter()
            .map(|zone| part::part(&whole, zone, ledger.owed_in(zone, &whole, Evidence::Possible, now)))
            .collect();
        *last = Some(whole);
        parts
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
        let began = Instant::now();
        let activity = self.cloud.launch_activity(&self.whole_name(group), shortfall).await?;
        let Some((whole, _)) = self.split(group) else { return Ok(activity) };
        if let Some(known) = self.groups().get_mut(&whole).filter(|_| shortfall.is_every_launch()) {
            known.ledger.note_additional(activity.own.additional(), began);
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

    fn endpoint(&self) -> Option<&str> {
        self.cloud.endpoint()
    }

    fn group_of(&self, node_group: &GroupName) -> GroupName {
        self.whole_name(node_group)
    }

    fn family(&self) -> Family {
        self.cloud.family()
    }

    fn now(&self) -> SystemTime {
        self.cloud.now()
    }
}

impl SeparateZones {
    /// Notes a deletion in a zone, unless it would take the group below its minimum: each zone may lose what the group
    /// may lose, and several are decided about at a time. Returns what of `basis` the deletion is to be sent with.
    fn admit_deletion(
        &self,
        (group, zone): (&GroupName, &str),
        basis: &GroupReading,
        ids: &[ProviderId],
    ) -> Result<GroupReading, CloudError> {
        let mut groups = self.groups();
        let Known { last, ledger, .. } = groups.entry(group.clone()).or_default();
        let mut basis = GroupReading { name: group.clone(), ..basis.clone() };
        let Some(whole) = last else { return Ok(basis) };
        let named = basis.instances.iter_mut().flatten().filter(|one| ids.contains(&one.id));
        let named: Vec<_> = named.filter(|one| one.counts != Counts::No).collect();
        let asked = count(named.iter().filter(|one| one.failure.is_none()).count());
        // The last reading may be too old to show the deletions in other zones.
        let (unshown, unshown_lowering) = ledger.unshown_by(whole);
        let held = part::held(whole);
        let is_held_beyond = held > whole.desired;
        let left = if is_held_beyond { held.saturating_sub(unshown) } else { whole.desired.min(ledger.capacity()) };
        let desired = whole.desired.saturating_sub(unshown_lowering);
        let beyond = if is_held_beyond { left.saturating_sub(desired) } else { 0 };
        let room = left.saturating_sub(whole.min);
        if asked > room {
            let message = format!(
                "deleting {asked} would take {group} below its minimum of {}, which all its zones share: {room} can be \
                 deleted",
                whole.min
            );
            return Err(CloudError::refused("delete_instances", basis.name.as_str(), &message));
        }
        for (number, one) in (0..).zip(named) {
            let lowers = number >= beyond;
            if !lowers {
                one.counts = Counts::No;
            }
            ledger.delete(zone, one.id.clone(), lowers, Instant::now());
        }
        Ok(basis)
    }

    /// Notes a launch, unless it would take the group above its maximum together with those in its other zones.
    fn admit_launch(&self, group: &GroupName, launch: &LaunchRequest) -> Result<(), CloudError> {
        let mut groups = self.groups();
        let Known { last, ledger, .. } = groups.entry(group.clone()).or_default();
        // What was sent before may have been launched.
        if let Some(whole) = last.as_ref().filter(|_| !ledger.has_launch(&launch.token)) {
            let taken = whole.desired.saturating_add(part::excess(whole)).max(ledger.capacity());
            if taken.saturating_add(launch.number) > whole.max {
                let message = format!(
                    "launching {} would take {group} above its maximum of {}, which all its zones share: {} can be \
                     launched",
                    launch.number,
                    whole.max,
                    whole.max.saturating_sub(taken)
                );
                return Err(CloudError::refused("launch", group.as_str(), &message));
            }
        }
        ledger.launch(&launch.token, launch.number);
        Ok(())
    }
}

/// A launch under way.
struct UnderWay<'a> {
    cloud: &'a SeparateZones,
    group: GroupName,
    token: String,
    /// What it has launched, once that is known.
    launched: Option<Vec<String>>,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(known) = self.cloud.groups().get_mut(&self.group) {
            known.ledger.end_launch(&self.token, self.launched.as_deref(), Instant::now());
        }
    }
}

#[async_trait]
impl WritableCloud for SeparateZones {
    /// For a zone, this raises the capacity of the whole group by the same number, from a read of its own: the capacity
    /// that `basis` has is the zone's. It is called to raise it back only (law 11), and lowers nothing.
    async fn set_capacity(&self, basis: &GroupReading, to: u32) -> Result<Acceptance, CloudError> {
        const OPERATION: &str = "set_capacity";
        let Some((group, zone)) = self.split(&basis.name) else { return self.cloud.set_capacity(basis, to).await };
        // What another zone raises meanwhile would be undone.
        let _alone = self.raising.lock().await;
        let part = self.observe_for_write(&basis.name).await?;
        let part = part.ok_or_else(|| CloudError::not_found(OPERATION, basis.name.as_str(), "no such group"))?;
        let last = self.groups().get(&group).and_then(|Known { last, ledger, .. }| {
            let whole = last.clone()?;
            let owed = ledger.owed_in(zone, &whole, Evidence::Certain, Instant::now());
            Some((whole, owed))
        });
        let (whole, owed) = last.ok_or_else(|| CloudError::not_found(OPERATION, group.as_str(), "it was not read"))?;
        let missing = to.saturating_sub(part.desired);
        let raised = whole.desired.saturating_add(missing.min(owed)).min(whole.max);
        if raised <= whole.desired {
            let message = if missing > owed {
                "the group may have launched the instances beyond its capacity for a reason of its own; its activities \
                 could not be read in time"
            } else {
                "the capacity of a zone cannot be lowered, and its instances have room"
            };
            return Err(CloudError::refused(OPERATION, basis.name.as_str(), message));
        }
        let acceptance = self.cloud.set_capacity(&whole, raised).await?;
        if let Some(known) = self.groups().get_mut(&group) {
            known.ledger.note_raised(whole.desired, raised, Instant::now());
        }
        Ok(acceptance)
    }

    async fn launch(&self, basis: &GroupReading, launch: &LaunchRequest) -> Result<LaunchResult, CloudError> {
        let Some((group, zone)) = self.split(&basis.name) else { return self.cloud.launch(basis, launch).await };
        self.admit_launch(&group, launch)?;
        let mut under_way = UnderWay { cloud: self, group, token: launch.token.clone(), launched: None };
        let launch = LaunchRequest { zone: Some(zone.to_owned()), ..launch.clone() };
        let outcome = self.cloud.launch(&self.whole(basis), &launch).await;
        under_way.launched = match &outcome {
            Ok(launched) => Some(launched.instances.clone()),
            Err(error) if error.outcome_unknown() => None,
            Err(_) => Some(Vec::new()),
        };
        outcome
    }

    async fn delete_instances(&self, basis: &GroupReading, ids: &[ProviderId]) -> Result<Deletion, CloudError> {
        let Some((group, zone)) = self.split(&basis.name) else {
            return self.cloud.delete_instances(basis, ids).await;
        };
        let whole = self.admit_deletion((&group, zone), basis, ids)?;
        let outcome = self.cloud.delete_instances(&whole, ids).await;
        if let Some(Known { ledger, .. }) = self.groups().get_mut(&group) {
            match &outcome {
                Ok(deletion) => {
                    // What was going already lowers the capacity all the same (autoscaler #2930).
                    let refused = deletion.refused.iter().filter(|(_, error)| !error.outcome_unknown());
                    ledger.not_deleted(refused.map(|(id, _)| id));
                }
                Err(error) if error.outcome_unknown() => {}
                Err(_) => ledger.not_deleted(ids),
            }
        }
        outcome
    }
}
