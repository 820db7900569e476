//! A `node-template` tag of a group, which describes its nodes. The clouds differ only in how they spell these tags.

use crate::cloud::{GroupHints, Taint, is_label_key, is_label_value};

/// The advice about a key that no node can have.
const NOT_A_KEY: &str = "Kubernetes does not accept this key; use letters, digits, '-', '_', '.' and a '/'";
/// The advice about a value that no node can have.
const VALUES: &str = "Kubernetes accepts up to 63 letters, digits, '-', '_' and '.'";

/// One tag, decoded.
pub(super) struct NodeTag<'a> {
    /// The key, as written.
    pub(super) key: &'a str,
    /// What it sets: `label`, `taint`, `resources` or `autoscaling-options`.
    pub(super) kind: &'a str,
    /// The name of the label, taint, resource or option.
    pub(super) name: &'a str,
    /// The value, as written.
    pub(super) value: &'a str,
    /// The values of taints in it: Azure's tags can hold several.
    pub(super) taints: Vec<&'a str>,
}

impl NodeTag<'_> {
    /// Adds what the tag sets to `hints`. Ignores an invalid tag, and adds a warning.
    pub(super) fn add_to(&self, hints: &mut GroupHints, warnings: &mut Vec<String>) {
        let Self { key, name, value, .. } = *self;
        if name.is_empty() {
            warnings.push(format!("tag {key} is ignored: it lacks a name at its end"));
            return;
        }
        match self.kind {
            "label" | "taint" if !is_label_key(name) => warnings.push(format!("tag {key:?} is ignored: {NOT_A_KEY}")),
            "label" if !is_label_value(value) => {
                warnings.push(format!("tag {key} is ignored: {value:?} is not a valid label value; {VALUES}"));
            }
            "label" => drop(hints.labels.insert(name.to_owned(), value.to_owned())),
            "resources" => drop(hints.resources.insert(name.to_owned(), value.to_owned())),
            "autoscaling-options" => drop(hints.options.insert(name.to_ascii_lowercase(), value.to_owned())),
            "taint" => {
                for taint in &self.taints {
                    match self.taint(taint) {
                        Ok(taint) => hints.taints.push(taint),
                        Err(reason) => warnings.push(format!("tag {key} is ignored: {reason}")),
                    }
                }
            }
            kind => warnings.push(format!(
                "tag {key} is ignored: {kind:?} is unknown; use label, taint, resources or autoscaling-options"
            )),
        }
    }

    fn taint(&self, text: &str) -> Result<Taint, String> {
        let taint = Taint::from_tag(self.name, text)
            .ok_or_else(|| format!("{text:?} is not value:NoSchedule, value:PreferNoSchedule or value:NoExecute"))?;
        if is_label_value(&taint.value) {
            Ok(taint)
        } else {
            Err(format!("{:?} is not a valid taint value; {VALUES}", taint.value))
        }
    }
}
