//! Publishing what a group looks like: the view that reads are served from, after each observation and each write.

use std::sync::Arc;

use super::Keeper;
use crate::cloud::FailureClass;
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
        self.request_template(&reading);
        self.publish();
    }

    /// Publishes the group, unless it is gone: its view was removed, and nothing would remove another one.
    pub(super) fn publish(&self) {
        if self.group.is_gone() {
            return;
        }
        let (state, nodes) = (self.group.state(), self.context.store.cluster_nodes());
        let status = state.status_in(&nodes).with_deleting(|id| self.group.is_to_be_resent(id));
        let reading = &state.observation().reading;
        let policy = self.context.policies.of(&self.group_id());
        let tagged = self.tagged.as_ref().map(|(_, options)| *options).unwrap_or_default();
        let view = GroupView {
            key: self.key.clone(),
            family: self.context.cloud.family(),
            min: reading.min,
            max: self.group.max_for(status.target),
            status: Arc::new(status),
            retained: reading.retained,
            template: self.template.clone(),
            options: tagged.merge(&policy.options),
            observed: self.context.clock.instant(state.observation().begun),
            growth: self.group.growth(),
            removal: reading.removal.clone(),
            doubt: self.group.doubt().map(|why| why.to_string().into()),
            mailbox: self.mailbox.clone(),
            unlisted: Unlisted::default(),
        };
        let before = self.context.store.view(&self.key);
        let lacked = |view: &GroupView| {
            let failures = view.status.instances.iter().filter_map(|one| one.failure.as_ref());
            failures.filter(|failure| failure.class == FailureClass::OutOfResources).count()
        };
        if lacked(&view) > before.as_deref().map_or(0, lacked) {
            self.context.quotas.ask();
        }
        let id = self.group_id();
        self.context.journal.published(&id, before.as_deref(), &view, (state.in_flight(), self.context.clock));
        if before.is_none_or(|before| before.status != view.status) || self.group.is_restless() {
            self.context.pulse.note_activity();
        }
        self.context.store.publish(view);
    }
}
