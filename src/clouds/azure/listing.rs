//! Reads scale sets: all of a source, or one with its VMs.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use tokio::time::{Instant, timeout, timeout_at};

use super::arm::operations::GET_SCALE_SET;
use super::arm::{BadItem, MachineList, MachineQuery, Orchestration, ReadPurpose, ScaleSet, ScaleSetApi};
use super::discovery::Selection;
use super::ids::ScaleSetKey;
use super::scale_set_cache::is_another;
use super::throttle::{TURN_MAX, Turn};
use super::{Azure, discovery, groups, ids, instances};
use crate::cloud::{CloudError, GroupName, GroupReading, Listing};
use crate::clouds::bounds::Bounds;

/// The most spot scale sets that are read at the same time. A subscription is limited to 800 such reads a minute.
const READS_AT_ONCE: usize = 8;
/// The time limit of such a read. The listing waits for it; without it, the set keeps its last reading.
const SPOT_TIMEOUT: Duration = Duration::from_secs(5);
/// The time limit of all these reads: a listing that takes a minute is given up, with all scale sets of the source.
const SPOT_READS_MAX: Duration = Duration::from_secs(30);
/// The time limit of a list with instance view. A read may take 20 s; the list without it has the rest of them.
const VIEW_TIMEOUT: Duration = Duration::from_secs(12);
/// The same as [`VIEW_TIMEOUT`] for a write, which has 4 s for both lists, or 2 s if it is a reduction. It needs to know which VMs exist,
/// and not how each one is.
const VIEW_TIMEOUT_FOR_WRITE: Duration = Duration::from_millis(1_200);
/// Attempts to read a scale set that is recreated meanwhile.
const READS_MAX: usize = 2;

/// A scale set to serve.
#[derive(Debug)]
struct SelectedSet {
    name: GroupName,
    bounds: Bounds,
    set: ScaleSet,
}

impl Azure {
    /// Lists the scale sets that the configuration names and those that its discovery finds.
    pub(super) async fn list_all(&self) -> Result<Listing, CloudError> {
        let mut listing = Listing::default();
        let mut seen: HashSet<ScaleSetKey> = HashSet::new();
        let mut selected = Vec::new();
        for item in self.api.list_scale_sets().await? {
            match item {
                Ok(set) => {
                    if seen.insert(ScaleSetKey::new(&set.name)) {
                        selected.extend(self.choose(set));
                    }
                }
                Err(bad) => {
                    seen.extend(bad.name.as_deref().map(ScaleSetKey::new));
                    listing.broken.extend(self.broken(bad));
                }
            }
        }
        let until = Instant::now() + SPOT_READS_MAX;
        let reads = selected.into_iter().map(|selected| with_current_capacity(Arc::clone(&self.api), selected, until));
        let mut reads = stream::iter(reads).buffered(READS_AT_ONCE);
        while let Some((name, read)) = reads.next().await {
            match read {
                Ok(Some(selected)) => match self.reading_from_list(selected) {
                    Ok(reading) => listing.groups.push(reading),
                    Err(reason) => listing.broken.push((name, reason)),
                },
                // It was deleted after it was listed.
                Ok(None) => drop(seen.remove(&ScaleSetKey::from(&name))),
                Err(error) => listing.broken.push((name, format!("its capacity cannot be read: {error}"))),
            }
        }
        let absent = self.settings.node_groups.iter().filter(|spec| !seen.contains(&ScaleSetKey::new(&spec.name)));
        listing.absent = absent.map(|spec| spec.name.as_str().into()).collect();
        listing.absent.sort();
        listing.absent.dedup_by(|one, other| one.as_str().eq_ignore_ascii_case(other.as_str()));
        listing.groups.sort_by(|one, other| one.name.cmp(&other.name));
        listing.broken.sort();
        let served = listing.groups.iter().map(|reading| &reading.name);
        let served = served.chain(listing.broken.iter().map(|(name, _)| name));
        self.cache.retain(&served.map(ScaleSetKey::from).collect());
        Ok(listing)
    }

    /// Reads the capacity and the etag of one scale set: one call for any number of VMs.
    pub(super) async fn capacity_of(&self, name: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        let read = self.api.get_scale_set(name.as_str(), ReadPurpose::Write).await?;
        let Some(set) = read else { return Ok(None) };
        let is_recreated = self.cache.set(name).is_some_and(|before| before.orchestration != set.orchestration);
        let Some(bounds) = self.bounds(name, &set) else { return Ok(None) };
        let misread = |reason| CloudError::unintelligible(GET_SCALE_SET, name.as_str(), reason);
        let reading = self.reading_from_list(SelectedSet { name: name.clone(), bounds, set }).map_err(misread)?;
        if is_recreated {
            // The VMs known so far are not those of this scale set.
            return self.observe_one(name, ReadPurpose::Write).await;
        }
        Ok(Some(reading))
    }

    /// Reads one scale set again, its VMs first.
    pub(super) async fn observe_one(
        &self,
        name: &GroupName,
        purpose: ReadPurpose,
    ) -> Result<Option<GroupReading>, CloudError> {
        let mut before = match self.cache.set(name) {
            Some(set) => set,
            None => match self.api.get_scale_set(name.as_str(), purpose).await? {
                Some(set) => Arc::new(set),
                None => return Ok(None),
            },
        };
        let mut read = None;
        let mut began = Instant::now();
        for _ in 0..READS_MAX {
            began = Instant::now();
            let machines = match self.machines_of(&before, purpose).await {
                Err(error) if !matches!(error, CloudError::NotFound(_)) => return Err(error),
                machines => machines,
            };
            // The list of its VMs has been spent, so this is not held back.
            let Some(set) = self.api.get_scale_set(name.as_str(), ReadPurpose::Write).await? else {
                self.cache.miss(name);
                return Ok(None);
            };
            // It was recreated, so these may be the VMs of the other one. With another orchestration mode, they need
            // another call, too.
            if set.orchestration == before.orchestration && !is_another(&before, &set) {
                read = Some((machines?, set));
                break;
            }
            before = Arc::new(set);
        }
        let (machines, set) =
            read.ok_or_else(|| CloudError::unintelligible(GET_SCALE_SET, name.as_str(), "it keeps being recreated"))?;
        let Some(bounds) = self.bounds(name, &set) else {
            self.cache.forget(name);
            return Ok(None);
        };
        self.reading_with_instances(SelectedSet { name: name.clone(), bounds, set }, &machines, began).map(Some)
    }

    fn reading_with_instances(
        &self,
        selected: SelectedSet,
        machines: &MachineList,
        began: Instant,
    ) -> Result<GroupReading, CloudError> {
        let name = &selected.name.clone();
        let misread = |reason| CloudError::unintelligible(GET_SCALE_SET, name.as_str(), reason);
        let before = self.cache.machines(name);
        let view = instances::MachineReader { set: &selected.set, settings: &self.settings, before: before.as_deref() };
        if machines.without_id > 0 {
            let warning = "Azure lists a VM without an ID; it is left out, and the capacity is not lowered meanwhile";
            self.warnings.log_new(name, vec![warning.to_owned()]);
        }
        let (instances, known) = instances::read(&view, machines, std::time::SystemTime::now());
        let state = selected.set.provisioning_state.clone();
        let mut reading = self.reading(selected).map_err(misread)?;
        self.cache.store_machines(name, known, began, state);
        (reading.instances, reading.without_id) = (Some(instances), machines.without_id);
        Ok(reading)
    }

    /// The VMs of a scale set. The instance view is left out if it cannot be read: when a zone fails, the list with it
    /// returns 504 or takes too long (kubernetes-sigs/cloud-provider-azure#9339).
    pub(super) async fn machines_of(&self, set: &ScaleSet, purpose: ReadPurpose) -> Result<MachineList, CloudError> {
        let began = Instant::now();
        let turn = match self.api.pace().filter(|_| purpose == ReadPurpose::Refresh) {
            Some(pace) => pace.turn().await,
            None => None,
        };
        let name = set.name.as_str().into();
        if self.cache.views_fail(&name) {
            return holding(turn, self.machines_without_view(set, purpose)).await;
        }
        let with_view = self.machines_by(set, MachineQuery { with_view: true, purpose });
        let until = match purpose {
            // It may have waited for its turn.
            ReadPurpose::Refresh => (began + VIEW_TIMEOUT).max(Instant::now() + TURN_MAX),
            ReadPurpose::Write => began + VIEW_TIMEOUT_FOR_WRITE,
        };
        let error = match timeout_at(until, holding(turn, with_view)).await {
            Ok(Err(error @ (CloudError::Unreachable(_) | CloudError::Refused(_) | CloudError::Unintelligible(_)))) => {
                error
            }
            Ok(listed) => return listed,
            Err(_elapsed) => CloudError::unreachable(GET_SCALE_SET, &set.name, "the instance views took too long"),
        };
        if purpose == ReadPurpose::Refresh {
            // A write has less time for the views: that it was too little says nothing about them.
            self.cache.note_views_fail(&name, Duration::ZERO);
            let warning = "the instance views of its VMs cannot be read; the VMs keep their last known states";
            self.warnings.log_new(&name, vec![warning.to_owned()]);
        }
        tracing::debug!(scale_set = set.name, %error, "VMs cannot be listed with their instance views; listing them \
            without");
        self.machines_without_view(set, purpose).await
    }

    async fn machines_without_view(&self, set: &ScaleSet, purpose: ReadPurpose) -> Result<MachineList, CloudError> {
        let listed = self.machines_by(set, MachineQuery { with_view: false, purpose }).await;
        // A pause that Azure asked for instead of the views holds for this list as well. After it, this one comes first.
        if let Err(CloudError::Throttled { retry_after: Some(pause), .. }) = &listed {
            self.cache.note_views_fail(&set.name.as_str().into(), *pause);
        }
        listed
    }

    async fn machines_by(&self, set: &ScaleSet, query: MachineQuery) -> Result<MachineList, CloudError> {
        match set.orchestration {
            Orchestration::Uniform => self.api.list_uniform_machines(&set.name, query).await,
            Orchestration::Flexible => self.api.list_flexible_machines(&set.id, query).await,
        }
    }

    /// The name that a scale set is served under: as configured, as in-tree, or as first seen.
    pub(super) fn served_name(&self, name: &str) -> Option<GroupName> {
        let spec = discovery::spec(&self.settings, name).map(|spec| spec.name.as_str().into());
        spec.or_else(|| self.cache.served_name(name))
    }

    fn choose(&self, set: ScaleSet) -> Option<SelectedSet> {
        let name = self.served_name(&set.name).unwrap_or_else(|| set.name.as_str().into());
        let bounds = self.bounds(&name, &set)?;
        Some(SelectedSet { name, bounds, set })
    }

    /// The min and max size that a scale set is served with; `None` if it is not served.
    fn bounds(&self, name: &GroupName, set: &ScaleSet) -> Option<Bounds> {
        let (bounds, remark) = match discovery::select(&self.settings, set) {
            Selection::Served(bounds, remark) => (Some(bounds), remark),
            Selection::Invalid(reason) => (None, Some(format!("discovered by its tags but not served: {reason}"))),
            Selection::NotSelected => (None, None),
        };
        self.warnings.log_new(name, remark.into_iter().collect());
        bounds
    }

    // An item that cannot be decoded affects only its own group, and only if that group is served.
    fn broken(&self, bad: BadItem) -> Option<(GroupName, String)> {
        let served = bad.name.as_deref().and_then(|name| self.served_name(name));
        if served.is_none() {
            let name = bad.name.as_deref().unwrap_or("?").into();
            self.warnings
                .log_new(&name, vec![format!("the scale set cannot be decoded and is not served: {}", bad.reason)]);
        }
        Some((served?, bad.reason))
    }

    /// A change of the provisioning state means that VMs changed. It does not always change the etag.
    fn reading_from_list(&self, selected: SelectedSet) -> Result<GroupReading, String> {
        let is_detail_outdated = self.cache.machines_may_have_changed(&selected.name, &selected.set);
        Ok(GroupReading { is_detail_outdated, ..self.reading(selected)? })
    }

    fn reading(&self, selected: SelectedSet) -> Result<GroupReading, String> {
        let SelectedSet { name, bounds, set } = selected;
        let etag = self.cache.etag(&name, &set);
        let (kind, resource_group) = (set.orchestration, &self.settings.resource_group);
        let prefix = ids::placeholder_prefix(kind, &self.subscription, resource_group, &name);
        let read = groups::read((name, prefix), &set, bounds, etag.clone())?;
        self.warnings.log_new(&read.reading.name, read.remarks);
        self.cache.store(&read.reading.name, set, etag);
        Ok(read.reading)
    }
}

/// A list, while it holds its turn. In a zone outage, many views hang at the same time: other scale sets do not wait for
/// them to the end.
pub(super) async fn holding<T>(turn: Option<Turn<'_>>, list: impl Future<Output = T>) -> T {
    let mut list = pin!(list);
    let listed = timeout(turn.as_ref().map_or(TURN_MAX, |turn| turn.limit), &mut list).await;
    drop(turn);
    match listed {
        Ok(listed) => listed,
        Err(_elapsed) => list.await,
    }
}

/// Evictions lower the capacity of a spot scale set, but lists show that late (#7373). While a budget is low, the rest
/// is kept for writes, and the set keeps its last reading.
async fn with_current_capacity(
    api: Arc<dyn ScaleSetApi>,
    selected: SelectedSet,
    until: Instant,
) -> (GroupName, Result<Option<SelectedSet>, CloudError>) {
    let SelectedSet { name, bounds, set } = selected;
    if !set.spot {
        return (name.clone(), Ok(Some(SelectedSet { name, bounds, set })));
    }
    let until = until.min(Instant::now() + SPOT_TIMEOUT);
    let current = timeout_at(until, api.get_scale_set(&set.name, ReadPurpose::Refresh)).await;
    match current.unwrap_or_else(|_| Err(CloudError::unreachable(GET_SCALE_SET, &set.name, "no response in time"))) {
        Ok(Some(set)) => (name.clone(), Ok(Some(SelectedSet { name, bounds, set }))),
        Ok(None) => (name, Ok(None)),
        Err(error) => (name, Err(error)),
    }
}
