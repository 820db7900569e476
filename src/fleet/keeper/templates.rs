//! The group's node template: when it is requested, and what is done with the result.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Keeper;
use super::side::TemplateId;
use crate::cloud::{GroupReading, ZoneName};
use crate::fleet::limits::{FLOATING_TEMPLATE_LIFE, TEMPLATE_LIFE, TEMPLATE_RETRY, TEMPLATE_RETRY_SOON};
use crate::fleet::snapshot::TemplateState;
use crate::fleet::template_builder::{BuiltTemplate, TemplateJob};
use crate::instance_types::LearnedView;
use crate::template::NodeTemplate;
use crate::template::spread;

/// The template of a node group.
#[derive(Default)]
pub(super) struct Template {
    /// As it is served.
    pub(super) state: TemplateState,
    request: Option<TemplateRequest>,
    /// The launch fingerprint of the group when the served one was requested.
    fingerprint: Option<u64>,
}

/// What the template was last requested from, and when.
struct TemplateRequest {
    id: TemplateId,
    launch_fingerprint: u64,
    /// The zones in which the cloud launched nothing, each with the reason.
    withdrawn: BTreeMap<String, String>,
    /// The revision of the configuration.
    revision: u64,
    learned: LearnedView,
    at: Instant,
    /// Whether the last build failed.
    has_failed: bool,
    /// Whether the cloud could not be read at that time.
    retry_soon: bool,
    /// Whether what the group launches can change without the group changing.
    is_floating: bool,
}

impl Keeper {
    /// Requests the template of the group, or of each zone that is served, where it is due.
    pub(super) fn request_templates(&mut self, reading: &GroupReading) {
        let served = self.served();
        self.templates.retain(|zone, _| served.contains(zone));
        for zone in served {
            self.request_template(zone, reading);
        }
    }

    fn request_template(&mut self, zone: Option<ZoneName>, reading: &GroupReading) {
        let learned = self.context.catalog.learned(&self.key_of(zone.as_ref()).to_string());
        let revision = self.context.policies.revision();
        let template = self.templates.entry(zone.clone()).or_default();
        let due = template.request.as_ref().is_none_or(|last| {
            let life = match (&template.state, last.retry_soon) {
                (TemplateState::Ready(_), false) if last.is_floating => FLOATING_TEMPLATE_LIFE,
                (TemplateState::Ready(_), false) if !last.has_failed => TEMPLATE_LIFE,
                (TemplateState::Ready(_), _) | (_, false) => TEMPLATE_RETRY,
                (_, true) => TEMPLATE_RETRY_SOON,
            };
            last.launch_fingerprint != reading.launch_fingerprint
                || last.withdrawn != reading.zones.withdrawn
                || last.revision != revision
                || last.learned != learned
                || last.at.elapsed() > life
        });
        if !due {
            return;
        }
        let is_floating = template.request.as_ref().is_some_and(|last| last.is_floating);
        let (reply, built) = oneshot::channel();
        let id = self.served_id(zone.as_ref());
        let job = TemplateJob { reading: reading.clone(), zone: zone.clone(), id, reply };
        if self.context.templates.try_send(job).is_ok() {
            let launch_fingerprint = reading.launch_fingerprint;
            let at = Instant::now();
            let (has_failed, retry_soon) = (false, false);
            let id = self.side.await_template(built);
            self.templates.entry(zone).or_default().request = Some(TemplateRequest {
                id,
                launch_fingerprint,
                withdrawn: reading.zones.withdrawn.clone(),
                revision,
                learned,
                at,
                has_failed,
                retry_soon,
                is_floating,
            });
        }
    }

    /// Nothing that was requested so far is adopted: the group is another one.
    pub(super) fn await_no_template(&mut self) {
        for template in self.templates.values_mut() {
            (template.request, template.fingerprint) = (None, None);
        }
    }

    /// A template was built. The builder works on several at a time, and one of earlier settings may end later.
    /// `None` where the builder gave up the request: the next observation makes it again.
    pub(super) fn template_built(&mut self, id: TemplateId, built: Option<BuiltTemplate>) {
        let is_awaited = |template: &Template| template.request.as_ref().is_some_and(|request| request.id == id);
        let Some(zone) = self.templates.iter().find(|(_, one)| is_awaited(one)).map(|(zone, _)| zone.clone()) else {
            return;
        };
        let template = self.templates.remove(&zone).unwrap_or_default();
        let Some(built) = built else {
            self.templates.insert(zone, Template { request: None, ..template });
            return;
        };
        let template = self.adopt_template(zone.as_ref(), template, built);
        self.templates.insert(zone, template);
        self.publish();
    }

    fn adopt_template(&self, zone: Option<&ZoneName>, mut template: Template, built: BuiltTemplate) -> Template {
        let launch_fingerprint = template.request.as_ref().map(|last| last.launch_fingerprint);
        if let Some(last) = &mut template.request {
            last.has_failed = built.template.is_err();
            last.retry_soon = built.retry_soon;
            last.is_floating = built.is_floating || (last.is_floating && last.has_failed);
        }
        let (group, source) = (self.served_id(zone), &self.key.source);
        match built.template {
            Ok(built) => {
                if let Some(problem) = template.new_spread(&built) {
                    tracing::warn!(%group, %source, %problem, "node group mixes instance types of very different sizes");
                }
                template.fingerprint = launch_fingerprint;
                template.state = TemplateState::Ready(Arc::new(built));
            }
            Err(reason) => {
                // A problem that lasts shows again with every refresh.
                if !matches!(&template.state, TemplateState::Unavailable(known) if **known == *reason) {
                    tracing::warn!(%group, %source, %reason, "the node template cannot be built");
                }
                // The last good one still describes the nodes better than none would, unless the group launches
                // something else now: nodes that are smaller than their template make CA add nodes endlessly.
                let is_of_these_settings = built.retry_soon || template.fingerprint == launch_fingerprint;
                if !matches!(template.state, TemplateState::Ready(_)) || !is_of_these_settings {
                    template.state = TemplateState::Unavailable(reason.into());
                }
            }
        }
        template
    }
}

impl Template {
    /// What is wrong with instance types of very different sizes, if that is new.
    fn new_spread(&self, built: &NodeTemplate) -> Option<String> {
        let before = match &self.state {
            TemplateState::Ready(template) => spread::warning(&template.spreads),
            _ => None,
        };
        spread::warning(&built.spreads).filter(|problem| before.as_ref() != Some(problem))
    }
}
