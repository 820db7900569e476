//! The group's node template: when it is requested, and what is done with the result.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Keeper;
use crate::cloud::GroupReading;
use crate::fleet::limits::{FLOATING_TEMPLATE_LIFE, TEMPLATE_LIFE, TEMPLATE_RETRY, TEMPLATE_RETRY_SOON};
use crate::fleet::snapshot::TemplateState;
use crate::fleet::template_builder::{BuiltTemplate, TemplateJob};
use crate::instance_types::LearnedView;
use crate::template::NodeTemplate;
use crate::template::spread;

/// What the template was last requested from, and when.
pub(super) struct TemplateRequest {
    launch_fingerprint: u64,
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
    pub(super) fn request_template(&mut self, reading: &GroupReading) {
        let learned = self.context.catalog.learned(&self.key.to_string());
        let revision = self.context.policies.revision();
        let due = self.template_request.as_ref().is_none_or(|last| {
            let life = match (&self.template, last.retry_soon) {
                (TemplateState::Ready(_), false) if last.is_floating => FLOATING_TEMPLATE_LIFE,
                (TemplateState::Ready(_), false) if !last.has_failed => TEMPLATE_LIFE,
                (TemplateState::Ready(_), _) | (_, false) => TEMPLATE_RETRY,
                (_, true) => TEMPLATE_RETRY_SOON,
            };
            last.launch_fingerprint != reading.launch_fingerprint
                || last.revision != revision
                || last.learned != learned
                || last.at.elapsed() > life
        });
        if !due {
            return;
        }
        let (reply, built) = oneshot::channel();
        let job = TemplateJob { reading: reading.clone(), id: self.group_id(), reply };
        if self.context.templates.try_send(job).is_ok() {
            let launch_fingerprint = reading.launch_fingerprint;
            let is_floating = self.template_request.as_ref().is_some_and(|last| last.is_floating);
            let at = Instant::now();
            let (has_failed, retry_soon) = (false, false);
            self.template_request = Some(TemplateRequest {
                launch_fingerprint,
                revision,
                learned,
                at,
                has_failed,
                retry_soon,
                is_floating,
            });
            self.side.await_template(built);
        }
    }

    /// The builder gave up the request: the next observation makes it again.
    pub(super) fn template_was_lost(&mut self) {
        self.template_request = None;
    }

    pub(super) fn adopt_template(&mut self, built: BuiltTemplate) {
        let launch_fingerprint = self.template_request.as_ref().map(|last| last.launch_fingerprint);
        if let Some(last) = &mut self.template_request {
            last.has_failed = built.template.is_err();
            last.retry_soon = built.retry_soon;
            last.is_floating = built.is_floating || (last.is_floating && last.has_failed);
        }
        self.template = match built.template {
            Ok(template) => {
                self.warn_of_spread(&template);
                self.template_fingerprint = launch_fingerprint;
                TemplateState::Ready(Arc::new(template))
            }
            Err(reason) => {
                // A problem that lasts shows again with every refresh.
                if !matches!(&self.template, TemplateState::Unavailable(known) if **known == *reason) {
                    tracing::warn!(group = %self.group_id(), source = %self.key.source, %reason, "the node template \
                        cannot be built");
                }
                // The last good one still describes the nodes better than none would, unless the group launches
                // something else now: nodes that are smaller than their template make CA add nodes endlessly.
                let is_of_these_settings = built.retry_soon || self.template_fingerprint == launch_fingerprint;
                if matches!(self.template, TemplateState::Ready(_)) && is_of_these_settings {
                    return;
                }
                TemplateState::Unavailable(reason.into())
            }
        };
        self.publish();
    }

    /// Warns of instance types of very different sizes, once until the problem changes.
    fn warn_of_spread(&self, template: &NodeTemplate) {
        let before = match &self.template {
            TemplateState::Ready(template) => spread::warning(&template.spreads),
            _ => None,
        };
        if let Some(problem) = spread::warning(&template.spreads).filter(|problem| before.as_ref() != Some(problem)) {
            tracing::warn!(group = %self.group_id(), source = %self.key.source, %problem, "node group mixes instance \
                types of very different sizes");
        }
    }
}
