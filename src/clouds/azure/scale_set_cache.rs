//! What was read of each scale set last: what a template is made from, how a machine is named in a deletion, what state it
//! was in before. Nothing here decides a size; sizes are read anew for every write.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::arm::ScaleSet;
use super::ids::fold;
use crate::cloud::{GroupName, Instance, ProviderId};

/// A machine as it was read last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CachedMachine {
    /// What a deletion names it by.
    pub(super) delete_by: String,
    pub(super) instance: Instance,
}

/// CachedMachines by ID.
#[derive(Clone, Debug, Default)]
pub(super) struct CachedMachines(pub(super) HashMap<ProviderId, CachedMachine>);

impl CachedMachines {
    pub(super) fn get(&self, id: &ProviderId) -> Option<&CachedMachine> {
        self.0.get(id)
    }
}

#[derive(Debug)]
struct CachedSet {
    /// The name it is served under.
    name: GroupName,
    set: Arc<ScaleSet>,
    machines: Option<Arc<CachedMachines>>,
    /// The provisioning state it was in when its machines were read.
    state_at_reading: Option<String>,
    /// Azure does not let its machines be deleted by force.
    force_refused: bool,
}

/// The scale sets of a source, by name in lower case.
#[derive(Debug, Default)]
pub(super) struct ScaleSetCache(Mutex<HashMap<String, CachedSet>>);

impl ScaleSetCache {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, CachedSet>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name a scale set is served under.
    pub(super) fn served_name(&self, name: &str) -> Option<GroupName> {
        self.lock().get(&fold(name)).map(|known| known.name.clone())
    }

    pub(super) fn set(&self, group: &GroupName) -> Option<Arc<ScaleSet>> {
        self.lock().get(&fold(group.as_str())).map(|known| Arc::clone(&known.set))
    }

    pub(super) fn machines(&self, group: &GroupName) -> Option<Arc<CachedMachines>> {
        self.lock().get(&fold(group.as_str())).and_then(|known| known.machines.clone())
    }

    /// The etag of a scale set as it was read. Should a list leave etags out, that of the same scale set read by
    /// itself stands, so that a list still shows what has changed.
    pub(super) fn etag(&self, group: &GroupName, set: &ScaleSet) -> Option<String> {
        set.etag.clone().or_else(|| {
            let known = self.set(group)?;
            (without_etag(&known) == without_etag(set)).then(|| known.etag.clone()).flatten()
        })
    }

    /// Remembers a scale set with the etag that stands for it.
    pub(super) fn store(&self, group: &GroupName, set: ScaleSet, etag: Option<String>) {
        let set = Arc::new(ScaleSet { etag, ..set });
        let mut known = self.lock();
        match known.get_mut(&fold(group.as_str())) {
            Some(known) => known.set = set,
            None => {
                let entry = CachedSet {
                    name: group.clone(),
                    set,
                    machines: None,
                    state_at_reading: None,
                    force_refused: false,
                };
                known.insert(fold(group.as_str()), entry);
            }
        }
    }

    /// Remembers the machines of a scale set that was in this provisioning state.
    pub(super) fn store_machines(&self, group: &GroupName, machines: CachedMachines, state: Option<String>) {
        if let Some(known) = self.lock().get_mut(&fold(group.as_str())) {
            known.machines = Some(Arc::new(machines));
            known.state_at_reading = state;
        }
    }

    /// Whether a scale set is in another provisioning state than when its machines were read.
    pub(super) fn machines_may_have_changed(&self, group: &GroupName, set: &ScaleSet) -> bool {
        let moved = |known: &CachedSet| known.machines.is_some() && known.state_at_reading != set.provisioning_state;
        self.lock().get(&fold(group.as_str())).is_some_and(moved)
    }

    pub(super) fn is_force_refused(&self, group: &GroupName) -> bool {
        self.lock().get(&fold(group.as_str())).is_some_and(|known| known.force_refused)
    }

    pub(super) fn note_force_refused(&self, group: &GroupName) {
        if let Some(known) = self.lock().get_mut(&fold(group.as_str())) {
            known.force_refused = true;
        }
    }

    pub(super) fn forget(&self, group: &GroupName) {
        self.lock().remove(&fold(group.as_str()));
    }

    /// Forgets all but these, named in lower case.
    pub(super) fn retain(&self, names: &HashSet<String>) {
        self.lock().retain(|name, _| names.contains(name));
    }

    pub(super) fn locations(&self) -> BTreeSet<String> {
        self.lock().values().map(|known| known.set.location.clone()).collect()
    }
}

fn without_etag(set: &ScaleSet) -> ScaleSet {
    ScaleSet { id: String::new(), name: String::new(), etag: None, ..set.clone() }
}
