//! Publishing what a group looks like: the view that reads are served from, after each observation and each write.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Keeper;
use crate::cloud::{FailureClass, Permit, ZoneName};
use crate::fleet::options::Options;
use crate::fleet::snapshot::{GroupView, Unlisted};

impl Keeper {
    /// Publishes the group, and requests its template if it is due.
    pub(super) fn publish_observed(&mut self) {
        let reading = self.group.state().observation().reading.clone();
        if self.tagged.as_ref().is_none_or(|(hints, _)| *hints != reading.hints) {
            let options = Options::from_tags(&self.group_id(), &reading.hints.options);
            self.tagged = Some((Arc::clone(&reading.hints), options));
        }
        self.request_templates(&reading);
        self.publish();
    }

    /// Publishes the group, or each zone of it that is served, unless it is gone: its view was removed, and nothing
    /// would remove another one.
    pub(super) fn publish(&mut self) {
        if self.group.is_gone() {
            return;
        }
        let served = self.served();
        self.retire_published(&served);
        self.paused = self.context.cloud.paused(&self.key.name);
        for (number, zone) in served.iter().enumerate() {
            self.publish_one(zone.as_ref(), number == 0);
        }
        self.published = served;
    }

    /// Publishes a pause that the cloud has asked for, and its end: no reading may come that shows either.
    pub(super) fn publish_pause(&mut self) {
        if self.context.cloud.paused(&self.key.name) != self.paused {
            self.publish();
        }
    }

    /// Takes out what was published and is not served any more.
    pub(super) fn retire_published(&self, served: &BTreeSet<Option<ZoneName>>) {
        for zone in self.published.difference(served) {
            self.leave(&self.context.store.retire(&self.key_of(zone.as_ref())));
        }
    }

    /// Nothing is served under these IDs any more.
    fn leave(&self, ids: &[Arc<str>]) {
        ids.iter().for_each(|id| self.context.journal.retire(id));
    }

    /// Whether the group, or a zone of it, can grow as it is served.
    fn growth(&self, zone: Option<&ZoneName>) -> Permit {
        match (self.group.growth(zone), &self.paused) {
            (Permit::Granted, Some(reason)) => Permit::Withheld(reason.clone()),
            (growth, _) => growth,
        }
    }

    fn publish_one(&self, zone: Option<&ZoneName>, is_first: bool) {
        let (state, nodes) = (self.group.state(), self.context.store.cluster_nodes());
        let status = state.status_in(zone, &nodes).with_deleting(|id| self.group.is_to_be_resent(id));
        let reading = &state.observation().reading;
        let key = self.key_of(zone);
        let (policy, growth) = (self.context.policies.of(&self.key), self.growth(zone));
        let tagged = self.tagged.as_ref().map(|(_, options)| *options).unwrap_or_default();
        let view = GroupView {
            zone: zone.cloned(),
            identity: reading.identity,
            family: self.context.cloud.family(),
            min: self.group.min_for(zone, &status),
            max: self.group.max_for(zone, status.target, &growth),
            status: Arc::new(status),
            // The listing does not say where they are. They are counted once.
            retained: if is_first { reading.retained } else { 0 },
            template: self.templates.get(&zone.cloned()).map(|template| template.state.clone()).unwrap_or_default(),
            options: tagged.merge(&policy.options),
            observed: self.context.clock.instant(state.observation().begun),
            growth,
            launches_refused: self.group.launches_withheld().map(|why| why.to_string().into()),
            removal: reading.removal.clone(),
            doubt: self.group.doubt().map(|why| why.to_string().into()),
            mailbox: self.mailbox.clone(),
            unlisted: Unlisted::default(),
            key,
        };
        let key = view.key.clone();
        let before = self.context.store.view(&key);
        self.leave(&self.context.store.publish(view));
        let Some(view) = self.context.store.view(&key) else { return };
        let lacked = |view: &GroupView| {
            let failures = view.status.instances.iter().filter_map(|one| one.failure.as_ref());
            failures.filter(|failure| failure.class == FailureClass::OutOfResources).count()
        };
        if lacked(&view) > before.as_deref().map_or(0, lacked) {
            self.context.quotas.ask();
        }
        let id = self.served_id(zone);
        self.context.journal.published(&id, before.as_deref(), &view, (state.in_flight(), self.context.clock));
        if before.is_none_or(|before| before.status != view.status) || self.group.is_restless() {
            self.context.pulse.note_activity();
        }
    }
}
