//! Quotas of the account: read at an interval, and at once after the cloud refused nodes for lack of one. What they
//! leave is the most that a group is offered for, so that the Cluster Autoscaler turns to another group before a launch
//! fails. If they cannot be read, groups are offered up to their own maximum.

mod headroom;
mod watcher;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};

pub(super) use headroom::QuotaReading;
pub use headroom::{Headroom, Headrooms};
pub(super) use watcher::{QuotaWatch, QuotaWatcher};

use super::policy::{LivePolicies, QuotaPolicy};
use super::snapshot::{GroupKey, GroupView, Snapshot};

/// What all sources' quotas leave.
#[derive(Debug, Default)]
pub(super) struct QuotaBook {
    readings: ArcSwap<HashMap<Arc<str>, Arc<QuotaReading>>>,
    /// Nodes of scale-ups that are being carried out.
    reserved: Mutex<HashMap<GroupKey, u32>>,
    /// What was computed last, and from what. Calls in one loop mostly see the same snapshot.
    computed: ArcSwapOption<Computed>,
}

#[derive(Debug)]
struct Computed {
    snapshot: Arc<Snapshot>,
    readings: Arc<HashMap<Arc<str>, Arc<QuotaReading>>>,
    headrooms: Arc<Headrooms>,
}

impl QuotaBook {
    /// Replaces what is known of a source; `None` if its quotas cannot be read.
    pub(super) fn note(&self, source: &Arc<str>, reading: Option<QuotaReading>) {
        self.readings.rcu(|readings| {
            let mut readings = HashMap::clone(readings);
            match &reading {
                Some(reading) => readings.insert(Arc::clone(source), Arc::new(reading.clone())),
                None => readings.remove(source),
            };
            readings
        });
    }

    /// What is left at this moment, without what is being reserved.
    pub(super) fn headrooms(&self, snapshot: &Arc<Snapshot>, policies: &LivePolicies) -> Arc<Headrooms> {
        let readings = self.readings.load_full();
        if readings.is_empty() {
            return Arc::default();
        }
        if let Some(computed) = self.computed.load_full()
            && Arc::ptr_eq(&computed.snapshot, snapshot)
            && Arc::ptr_eq(&computed.readings, &readings)
        {
            return Arc::clone(&computed.headrooms);
        }
        let headrooms = Arc::new(headrooms(&readings, snapshot, policies, &HashMap::new()));
        let snapshot = Arc::clone(snapshot);
        let computed = Computed { snapshot, readings, headrooms: Arc::clone(&headrooms) };
        self.computed.store(Some(Arc::new(computed)));
        headrooms
    }

    /// Sets nodes aside until the result is dropped. `Err` if a quota does not leave room for them.
    pub(super) fn reserve(
        self: &Arc<Self>,
        view: &GroupView,
        nodes: u32,
        snapshot: &Snapshot,
        policies: &LivePolicies,
    ) -> Result<Reservation, Headroom> {
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        let readings = self.readings.load_full();
        let headrooms = headrooms(&readings, snapshot, policies, &reserved);
        if let Some(headroom) = headrooms.of(&view.key).filter(|headroom| headroom.nodes < nodes) {
            return Err(headroom.clone());
        }
        let before = reserved.entry(view.key.clone()).or_default();
        // CA's requests are judged later: several of them can ask for more nodes than fit a u32.
        let nodes = nodes.min(u32::MAX - *before);
        *before += nodes;
        Ok(Reservation { book: Arc::clone(self), key: view.key.clone(), nodes })
    }
}

/// Nodes that are set aside while a scale-up is carried out.
#[derive(Debug)]
pub(super) struct Reservation {
    book: Arc<QuotaBook>,
    key: GroupKey,
    nodes: u32,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut reserved = self.book.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(nodes) = reserved.get_mut(&self.key) {
            *nodes = nodes.saturating_sub(self.nodes);
        }
        reserved.retain(|_, nodes| *nodes > 0);
    }
}

fn headrooms(
    readings: &HashMap<Arc<str>, Arc<QuotaReading>>,
    snapshot: &Snapshot,
    policies: &LivePolicies,
    reserved: &HashMap<GroupKey, u32>,
) -> Headrooms {
    let mut headrooms = Headrooms::default();
    for (source, reading) in readings {
        let of_source = snapshot.groups().filter(|(_, view)| view.key.source == *source);
        // The nodes of a group that ignores quotas count against them all the same.
        let all: Vec<&GroupView> = of_source.map(|(_, view)| view.as_ref()).collect();
        headrooms.add(reading, &all, reserved);
    }
    let ignoring = snapshot.groups().filter(|(_, view)| policies.of(&view.whole()).quota == QuotaPolicy::Ignore);
    for (_, view) in ignoring {
        headrooms.forget(&view.key);
    }
    headrooms
}
