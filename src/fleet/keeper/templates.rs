//! The group's node template: when it is asked for, and what is made of the answer.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Keeper, TemplateAsked};
use crate::cloud::GroupReading;
use crate::fleet::limits::{TEMPLATE_LIFE, TEMPLATE_RETRY, TEMPLATE_RETRY_HINDERED};
use crate::fleet::snapshot::TemplateState;
use crate::fleet::template_builder::{Built, TemplateJob};
use crate::template::NodeTemplate;
use crate::template::spread::complaint;

impl Keeper {
    pub(super) fn ask_for_template(&mut self, reading: &GroupReading) {
        let learned = self.around.catalog.learned(&self.key.to_string());
        let due = self.template_asked.as_ref().is_none_or(|asked| {
            let life = match (&self.template, asked.hindered) {
                (TemplateState::Ready(_), false) => TEMPLATE_LIFE,
                (TemplateState::Ready(_), true) | (_, false) => TEMPLATE_RETRY,
                (_, true) => TEMPLATE_RETRY_HINDERED,
            };
            asked.launch_fingerprint != reading.launch_fingerprint
                || asked.learned != learned
                || asked.at.elapsed() > life
        });
        if !due {
            return;
        }
        let job = TemplateJob { reading: reading.clone(), id: self.group_id(), reply: self.mailbox.clone() };
        if self.around.templates.try_send(job).is_ok() {
            self.template_asked = Some(TemplateAsked {
                launch_fingerprint: reading.launch_fingerprint,
                learned,
                at: Instant::now(),
                hindered: false,
            });
        }
    }

    pub(super) fn adopt_template(&mut self, built: Built) {
        if let Some(asked) = &mut self.template_asked {
            asked.hindered = built.hindered;
        }
        self.template = match built.template {
            Ok(template) => {
                self.tell_of_spread(&template);
                TemplateState::Ready(Arc::new(template))
            }
            Err(reason) => {
                // A passing trouble is met again with every refresh while it lasts.
                if !matches!(&self.template, TemplateState::Unavailable(known) if **known == *reason) {
                    tracing::warn!(group = %self.group_id(), source = %self.key.source, %reason, "no template can be built");
                }
                // The last good one still describes the nodes better than none would.
                if matches!(self.template, TemplateState::Ready(_)) {
                    return;
                }
                TemplateState::Unavailable(reason.into())
            }
        };
        self.publish();
    }

    /// Warns of instance types that are far apart, once until it is something else that is wrong.
    fn tell_of_spread(&self, template: &NodeTemplate) {
        let before = match &self.template {
            TemplateState::Ready(template) => complaint(&template.spreads),
            _ => None,
        };
        if let Some(problem) = complaint(&template.spreads).filter(|problem| before.as_ref() != Some(problem)) {
            tracing::warn!(group = %self.group_id(), source = %self.key.source, %problem, "an uneven node group");
        }
    }
}
