//! The last reading of each scale set: the inputs of templates, the names of VMs for deletions, and the earlier state
//! of VMs. No size is decided from here; sizes are read again for every write.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::arm::ScaleSet;
use super::ids::ScaleSetKey;
use crate::cloud::{GroupName, Instance, ProviderId};

/// After the instance views of a scale set could not be read, its VMs are listed without for this long.
const VIEWS_PAUSE: Duration = Duration::from_secs(30);

/// A VM as last read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CachedMachine {
    /// The name that a deletion uses.
    pub(super) delete_by: String,
    pub(super) instance: Instance,
    /// When Azure created it.
    pub(super) created: Option<SystemTime>,
    /// Whether it was seen running, which means that it was a node.
    pub(super) was_running: bool,
}

/// VMs by provider ID.
#[derive(Clone, Debug, Default)]
pub(super) struct CachedMachines {
    pub(super) by_id: HashMap<ProviderId, CachedMachine>,
}

impl CachedMachines {
    pub(super) fn get(&self, id: &ProviderId) -> Option<&CachedMachine> {
        self.by_id.get(id)
    }
}

#[derive(Debug)]
struct CachedSet {
    /// The name that it is served under.
    name: GroupName,
    set: Arc<ScaleSet>,
    machines: Option<Arc<CachedMachines>>,
    /// Its provisioning state when its VMs were read.
    state_at_reading: Option<String>,
    /// Its etag when its VMs were read.
    etag_at_reading: Option<String>,
    /// Whether Azure refuses force deletion of its VMs.
    force_refused: bool,
    /// Until when its VMs are listed without instance views, because these could not be read.
    views_fail_until: Option<Instant>,
    /// When the list of VMs began that `machines` is from.
    listed: Option<Instant>,
    /// Whether the last read did not show it. A single one may be wrong.
    is_absent: bool,
}

/// The scale sets of a source.
#[derive(Debug, Default)]
pub(super) struct ScaleSetCache(Mutex<HashMap<ScaleSetKey, CachedSet>>);

impl ScaleSetCache {
    fn lock(&self) -> MutexGuard<'_, HashMap<ScaleSetKey, CachedSet>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name that a scale set is served under.
    pub(super) fn served_name(&self, name: &str) -> Option<GroupName> {
        self.lock().get(&ScaleSetKey::new(name)).map(|known| known.name.clone())
    }

    pub(super) fn set(&self, group: &GroupName) -> Option<Arc<ScaleSet>> {
        self.lock().get(&group.into()).map(|known| Arc::clone(&known.set))
    }

    pub(super) fn machines(&self, group: &GroupName) -> Option<Arc<CachedMachines>> {
        self.lock().get(&group.into()).and_then(|known| known.machines.clone())
    }

    /// The etag of a scale set. If a list leaves etags out and nothing else changed, the etag of the last reading
    /// applies, so that a list still shows changes.
    pub(super) fn etag(&self, group: &GroupName, set: &ScaleSet) -> Option<String> {
        set.etag.clone().or_else(|| {
            let known = self.set(group)?;
            (without_etag(&known) == without_etag(set)).then(|| known.etag.clone()).flatten()
        })
    }

    /// Stores a scale set with its etag. Nothing that was known of another one of this name applies to it.
    pub(super) fn store(&self, group: &GroupName, set: ScaleSet, etag: Option<String>) {
        let set = Arc::new(ScaleSet { etag, ..set });
        let mut known = self.lock();
        let is_same = |known: &&mut CachedSet| !is_another(&known.set, &set);
        match known.get_mut(&group.into()).filter(is_same) {
            Some(known) => (known.set, known.is_absent) = (set, false),
            None => {
                let entry = CachedSet {
                    name: group.clone(),
                    set,
                    machines: None,
                    state_at_reading: None,
                    etag_at_reading: None,
                    force_refused: false,
                    views_fail_until: None,
                    listed: None,
                    is_absent: false,
                };
                known.insert(group.into(), entry);
            }
        }
    }

    /// Stores the VMs of a scale set, with the provisioning state that it was in. A slow list that `began` before the
    /// one stored is not used: VMs that it lacks would count as gone.
    pub(super) fn store_machines(
        &self,
        group: &GroupName,
        machines: CachedMachines,
        began: Instant,
        state: Option<String>,
    ) {
        let mut sets = self.lock();
        let known = sets.get_mut(&group.into()).filter(|known| known.listed.is_none_or(|listed| listed <= began));
        if let Some(known) = known {
            known.listed = Some(began);
            known.machines = Some(Arc::new(machines));
            known.state_at_reading = state;
            known.etag_at_reading = known.set.etag.clone();
        }
    }

    /// Whether the instance views of a scale set could not be read a moment ago.
    pub(super) fn views_fail(&self, group: &GroupName) -> bool {
        let now = Instant::now();
        self.lock().get(&group.into()).and_then(|known| known.views_fail_until).is_some_and(|until| now < until)
    }

    /// Notes that the instance views of a scale set cannot be read. No list is sent before `pause` has passed.
    pub(super) fn note_views_fail(&self, group: &GroupName, pause: Duration) {
        if let Some(known) = self.lock().get_mut(&group.into()) {
            known.views_fail_until = Some(Instant::now() + pause + VIEWS_PAUSE);
        }
    }

    /// Whether the provisioning state or the etag has changed since the VMs were read.
    pub(super) fn machines_may_have_changed(&self, group: &GroupName, set: &ScaleSet) -> bool {
        let moved = |known: &CachedSet| {
            let is_new = set.etag.as_ref().is_some_and(|etag| known.etag_at_reading.as_ref() != Some(etag));
            known.machines.is_some() && (is_new || known.state_at_reading != set.provisioning_state)
        };
        self.lock().get(&group.into()).is_some_and(moved)
    }

    pub(super) fn is_force_refused(&self, group: &GroupName) -> bool {
        self.lock().get(&group.into()).is_some_and(|known| known.force_refused)
    }

    pub(super) fn note_force_refused(&self, group: &GroupName) {
        if let Some(known) = self.lock().get_mut(&group.into()) {
            known.force_refused = true;
        }
    }

    /// Drops a scale set that is not served any more.
    pub(super) fn forget(&self, group: &GroupName) {
        self.lock().remove(&group.into());
    }

    /// A read did not find a scale set. It is dropped if the one before did not, either.
    pub(super) fn miss(&self, group: &GroupName) {
        let key = group.into();
        let mut sets = self.lock();
        if sets.get_mut(&key).is_some_and(|known| mem::replace(&mut known.is_absent, true)) {
            sets.remove(&key);
        }
    }

    /// A list has found these scale sets, and no others.
    pub(super) fn retain(&self, names: &HashSet<ScaleSetKey>) {
        let is_kept = |known: &mut CachedSet| !mem::replace(&mut known.is_absent, true);
        self.lock().retain(|name, known| names.contains(name) || is_kept(known));
    }

    /// All scale sets, by the names that they are served under.
    pub(super) fn served(&self) -> Vec<(GroupName, Arc<ScaleSet>)> {
        self.lock().values().map(|known| (known.name.clone(), Arc::clone(&known.set))).collect()
    }

    pub(super) fn locations(&self) -> BTreeSet<String> {
        self.lock().values().map(|known| known.set.location.clone()).collect()
    }
}

/// Whether these are known to be two scale sets, whatever their names.
pub(super) fn is_another(one: &ScaleSet, other: &ScaleSet) -> bool {
    one.unique_id.as_ref().zip(other.unique_id.as_ref()).is_some_and(|(one, other)| one != other)
}

fn without_etag(set: &ScaleSet) -> ScaleSet {
    ScaleSet { id: String::new(), name: String::new(), etag: None, ..set.clone() }
}
