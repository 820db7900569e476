//! Publishing what a group looks like: the view that reads are served from, after each observation and each write.

use std::sync::Arc;

use super::Keeper;
use crate::cloud::{Instance, InstanceState, Permit};
use crate::fleet::options::Options;
use crate::fleet::snapshot::{GroupView, Unlisted};

impl Keeper {
    pub(super) fn publish_observed(&mut self) {
        let reading = self.state.observation().reading.clone();
        if self.tagged.as_ref().is_none_or(|(hints, _)| *hints != reading.hints) {
            let options = Options::from_tags(&self.group_id(), &reading.hints.options);
            self.tagged = Some((Arc::clone(&reading.hints), options));
        }
        self.request_template(&reading);
        self.publish();
    }

    /// Publishes the group, unless it is gone: its view was removed, and nothing would remove another one.
    pub(super) fn publish(&self) {
        if self.is_gone {
            return;
        }
        let (observation, nodes) = (self.state.observation(), self.context.store.cluster_nodes());
        let status = self.state.status_in(&nodes).with_deleting(|id| self.to_resubmit.contains(id));
        let reading = &observation.reading;
        let max = match reading.growth {
            Permit::Granted => match self.state.taken_by_unfilled() {
                0 => reading.max,
                taken => reading.max.saturating_sub(taken).max(status.target),
            },
            // CA chooses no group that is at its maximum.
            Permit::Withheld(_) => status.target.max(reading.min),
        };
        let policy = self.context.policies.of(&self.group_id());
        let tagged = self.tagged.as_ref().map(|(_, options)| *options).unwrap_or_default();
        let view = GroupView {
            key: self.key.clone(),
            family: self.context.cloud.family(),
            min: reading.min,
            max,
            status: Arc::new(status),
            template: self.template.clone(),
            options: tagged.merge(&policy.options),
            observed: observation.begun,
            growth: reading.growth.clone(),
            removal: reading.removal.clone(),
            doubt: self.doubted.as_ref().map(|doubted| doubted.why.to_string().into()),
            mailbox: self.mailbox.clone(),
            unlisted: Unlisted::default(),
        };
        let before = self.context.store.view(&self.key);
        let id = self.group_id();
        self.context.journal.published(&id, before.as_deref(), &view, self.state.in_flight());
        if before.is_none_or(|before| before.status != view.status) || self.is_restless() {
            self.context.pulse.note_activity();
        }
        self.context.store.publish(view);
    }

    /// Whether something is under way that a listing is to show soon.
    fn is_restless(&self) -> bool {
        let is_moving = |instance: &Instance| instance.state != InstanceState::Running;
        self.doubted.is_some()
            || !self.state.in_flight().operations().is_empty()
            || self.state.is_settling_placeholders()
            || self.state.observation().instances.iter().any(is_moving)
    }
}
