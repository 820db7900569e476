//! Reading scale sets: all of a source, or one with its machines.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt as _};

use super::arm::operations::GET_SCALE_SET;
use super::arm::{BadItem, Orchestration, ScaleSet, ScaleSetApi, VirtualMachine};
use super::discovery::Selection;
use super::ids::fold;
use super::{Azure, discovery, groups, instances};
use crate::cloud::{CloudError, GroupName, GroupReading, Listing};
use crate::clouds::bounds::Bounds;

/// Spot sets read by themselves at once. A subscription has 800 such reads a minute.
const READS_AT_ONCE: usize = 8;
/// Readings of one scale set, should it be made anew meanwhile.
const READS_MAX: usize = 2;

/// A scale set to serve.
#[derive(Debug)]
struct SelectedSet {
    name: GroupName,
    bounds: Bounds,
    set: ScaleSet,
}

impl Azure {
    /// Lists the scale sets that the configuration names and those its queries find.
    pub(super) async fn list_all(&self) -> Result<Listing, CloudError> {
        let mut listing = Listing::default();
        let mut seen: HashSet<String> = HashSet::new();
        let mut selected = Vec::new();
        for item in self.api.list_scale_sets().await? {
            match item {
                Ok(set) => {
                    if seen.insert(fold(&set.name)) {
                        selected.extend(self.choose(set));
                    }
                }
                Err(bad) => {
                    seen.extend(bad.name.as_deref().map(fold));
                    listing.broken.extend(self.broken(bad));
                }
            }
        }
        let reads = selected.into_iter().map(|selected| with_true_capacity(Arc::clone(&self.api), selected));
        let mut reads = stream::iter(reads).buffered(READS_AT_ONCE);
        while let Some((name, read)) = reads.next().await {
            match read {
                Ok(Some(selected)) => match self.take_listed(selected) {
                    Ok(reading) => listing.groups.push(reading),
                    Err(reason) => listing.broken.push((name, reason)),
                },
                // Listed and, a moment later, gone.
                Ok(None) => drop(seen.remove(&fold(name.as_str()))),
                Err(error) => listing.broken.push((name, format!("its capacity cannot be read: {error}"))),
            }
        }
        let absent = self.settings.node_groups.iter().filter(|spec| !seen.contains(&fold(&spec.name)));
        listing.absent = absent.map(|spec| spec.name.as_str().into()).collect();
        listing.absent.sort();
        listing.absent.dedup_by(|one, other| one.as_str().eq_ignore_ascii_case(other.as_str()));
        listing.groups.sort_by(|one, other| one.name.cmp(&other.name));
        listing.broken.sort();
        let served = listing.groups.iter().map(|reading| &reading.name);
        let served = served.chain(listing.broken.iter().map(|(name, _)| name));
        self.cache.retain(&served.map(|name| fold(name.as_str())).collect());
        Ok(listing)
    }

    /// Reads one scale set anew, its machines first.
    pub(super) async fn observe_one(&self, name: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        let mut before = match self.cache.set(name) {
            Some(set) => set,
            None => match self.api.get_scale_set(name.as_str()).await? {
                Some(set) => Arc::new(set),
                None => return Ok(None),
            },
        };
        let mut read = None;
        for _ in 0..READS_MAX {
            let machines = match self.machines_of(&before).await {
                Err(error) if !matches!(error, CloudError::NotFound(_)) => return Err(error),
                machines => machines,
            };
            let Some(set) = self.api.get_scale_set(name.as_str()).await? else {
                self.cache.forget(name);
                return Ok(None);
            };
            // Made anew under its old name, the other way: its machines are to be had by the other call.
            if set.orchestration == before.orchestration {
                read = Some((machines?, set));
                break;
            }
            before = Arc::new(set);
        }
        let (machines, set) = read.ok_or_else(|| {
            CloudError::unintelligible(GET_SCALE_SET, name.as_str(), "its orchestration mode changes")
        })?;
        let Some(bounds) = self.bounds(name, &set) else {
            self.cache.forget(name);
            return Ok(None);
        };
        self.join(name, bounds, set, &machines).map(Some)
    }

    fn join(
        &self,
        name: &GroupName,
        bounds: Bounds,
        set: ScaleSet,
        machines: &[VirtualMachine],
    ) -> Result<GroupReading, CloudError> {
        let misread = |reason| CloudError::unintelligible(GET_SCALE_SET, name.as_str(), reason);
        let before = self.cache.machines(name);
        let view = instances::MachineReader { set: &set, settings: &self.settings, before: before.as_deref() };
        let (instances, known) = instances::read(&view, machines, std::time::SystemTime::now());
        let state = set.provisioning_state.clone();
        let mut reading = self.take(SelectedSet { name: name.clone(), bounds, set }).map_err(misread)?;
        self.cache.store_machines(name, known, state);
        reading.instances = Some(instances);
        Ok(reading)
    }

    /// The machines of a scale set.
    pub(super) async fn machines_of(&self, set: &ScaleSet) -> Result<Vec<VirtualMachine>, CloudError> {
        match set.orchestration {
            Orchestration::Uniform => self.api.list_uniform_machines(&set.name).await,
            Orchestration::Flexible => self.api.list_flexible_machines(&set.id).await,
        }
    }

    /// The name a scale set is served under: the configuration's, as in-tree, or the one it was first seen under.
    pub(super) fn served_name(&self, name: &str) -> Option<GroupName> {
        let spec = discovery::spec(&self.settings, name).map(|spec| spec.name.as_str().into());
        spec.or_else(|| self.cache.served_name(name))
    }

    fn choose(&self, set: ScaleSet) -> Option<SelectedSet> {
        let name = self.served_name(&set.name).unwrap_or_else(|| set.name.as_str().into());
        let bounds = self.bounds(&name, &set)?;
        Some(SelectedSet { name, bounds, set })
    }

    /// The bounds that a scale set is served between; `None` where it is not served.
    fn bounds(&self, name: &GroupName, set: &ScaleSet) -> Option<Bounds> {
        let (bounds, remark) = match discovery::select(&self.settings, set) {
            Selection::Served(bounds, remark) => (Some(bounds), remark),
            Selection::Invalid(reason) => (None, Some(format!("found by its tags, and left out: {reason}"))),
            Selection::NotSelected => (None, None),
        };
        self.warnings.log_new(name, remark.into_iter().collect());
        bounds
    }

    // What cannot be understood costs only the group it is, and only if that is one of ours.
    fn broken(&self, bad: BadItem) -> Option<(GroupName, String)> {
        let served = bad.name.as_deref().and_then(|name| self.served_name(name));
        if served.is_none() {
            let name = bad.name.as_deref().unwrap_or("?").into();
            self.warnings
                .log_new(&name, vec![format!("a scale set cannot be understood, and is left out: {}", bad.reason)]);
        }
        Some((served?, bad.reason))
    }

    /// A change of the provisioning state means that machines changed, and need not change the etag.
    fn take_listed(&self, selected: SelectedSet) -> Result<GroupReading, String> {
        let is_detail_outdated = self.cache.machines_may_have_changed(&selected.name, &selected.set);
        Ok(GroupReading { is_detail_outdated, ..self.take(selected)? })
    }

    fn take(&self, selected: SelectedSet) -> Result<GroupReading, String> {
        let SelectedSet { name, bounds, set } = selected;
        let etag = self.cache.etag(&name, &set);
        let read = groups::read(name, &set, bounds, etag.clone())?;
        self.warnings.log_new(&read.reading.name, read.remarks);
        self.cache.store(&read.reading.name, set, etag);
        Ok(read.reading)
    }
}

/// Evictions lower the capacity of a spot set, and the list lags behind them (#7373).
async fn with_true_capacity(
    api: Arc<dyn ScaleSetApi>,
    selected: SelectedSet,
) -> (GroupName, Result<Option<SelectedSet>, CloudError>) {
    let SelectedSet { name, bounds, set } = selected;
    if !set.spot {
        return (name.clone(), Ok(Some(SelectedSet { name, bounds, set })));
    }
    match api.get_scale_set(&set.name).await {
        Ok(Some(set)) => (name.clone(), Ok(Some(SelectedSet { name, bounds, set }))),
        Ok(None) => (name, Ok(None)),
        Err(error) => (name, Err(error)),
    }
}
