//! The group's node template: when it is asked for, and what is made of the answer.

use tokio::time::Instant;

use super::{Keeper, TemplateAsked};
use crate::cloud::GroupReading;
use crate::fleet::limits::{TEMPLATE_LIFE, TEMPLATE_RETRY};
use crate::fleet::snapshot::TemplateState;
use crate::fleet::template_builder::TemplateJob;
use crate::template::NodeTemplate;
use crate::template::spread::complaint;

impl Keeper {
    pub(super) fn ask_for_template(&mut self, reading: &GroupReading) {
        let learned = self.around.catalog.learned(&self.key.to_string());
        let due = self.template_asked.as_ref().is_none_or(|asked| {
            let life = if matches!(self.template, TemplateState::Ready(_)) { TEMPLATE_LIFE } else { TEMPLATE_RETRY };
            asked.recipe != reading.recipe || asked.learned != learned || asked.at.elapsed() > life
        });
        if !due {
            return;
        }
        let job = TemplateJob { reading: reading.clone(), id: self.group_id(), reply: self.mailbox.clone() };
        if self.around.templates.try_send(job).is_ok() {
            self.template_asked = Some(TemplateAsked { recipe: reading.recipe, learned, at: Instant::now() });
        }
    }

    pub(super) fn adopt_template(&mut self, template: TemplateState) {
        if let TemplateState::Unavailable(reason) = &template {
            tracing::warn!(group = %self.key.name, source = %self.key.source, %reason, "no template can be built");
            // The last good one still describes the nodes better than none would.
            if matches!(self.template, TemplateState::Ready(_)) {
                return;
            }
        }
        if let TemplateState::Ready(template) = &template {
            self.tell_of_spread(template);
        }
        self.template = template;
        self.publish();
    }

    /// Warns of machine types that are far apart, once until it is something else that is wrong.
    fn tell_of_spread(&self, template: &NodeTemplate) {
        let before = match &self.template {
            TemplateState::Ready(template) => complaint(&template.spreads),
            _ => None,
        };
        if let Some(problem) = complaint(&template.spreads).filter(|problem| before.as_ref() != Some(problem)) {
            tracing::warn!(group = %self.key.name, source = %self.key.source, %problem, "an uneven node group");
        }
    }
}
