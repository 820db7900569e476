//! Renders a template: as kubectl would print the node, and as a table with the provenance of each value.

use serde_json::{Value as Json, json};

use super::build::NodeTemplate;
use super::node::{Node, NodeCondition, Quantity, Taint};
use crate::cloud::Unread;

/// The node as `kubectl get node -o json` would print it.
pub fn to_json(node: &Node) -> Json {
    let metadata = node.metadata.clone().unwrap_or_default();
    let status = node.status.clone().unwrap_or_default();
    let taints = node.spec.clone().unwrap_or_default().taints;
    let mut spec = json!({});
    if !taints.is_empty() {
        spec["taints"] = taints.into_iter().map(taint).collect();
    }
    let mut shown = json!({"name": metadata.name.unwrap_or_default(), "labels": metadata.labels});
    if !metadata.annotations.is_empty() {
        shown["annotations"] = json!(metadata.annotations);
    }
    let quantities = |quantities: std::collections::BTreeMap<String, Quantity>| -> Json {
        quantities.into_iter().map(|(name, quantity)| (name, quantity.string.unwrap_or_default())).collect()
    };
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": shown,
        "spec": spec,
        "status": {
            "capacity": quantities(status.capacity),
            "allocatable": quantities(status.allocatable),
            "conditions": status.conditions.into_iter().map(condition).collect::<Json>(),
        },
    })
}

/// The node as `kubectl get node -o yaml` would print it.
pub fn to_yaml(node: &Node) -> Result<String, serde_saphyr::SerializeError> {
    serde_saphyr::to_string(&to_json(node))
}

fn taint(taint: Taint) -> Json {
    let mut shown = json!({"key": taint.key.unwrap_or_default(), "effect": taint.effect.unwrap_or_default()});
    // An empty value is left out, as the API server does.
    if let Some(value) = taint.value.filter(|value| !value.is_empty()) {
        shown["value"] = Json::String(value);
    }
    shown
}

fn condition(condition: NodeCondition) -> Json {
    json!({
        "type": condition.r#type.unwrap_or_default(),
        "status": condition.status.unwrap_or_default(),
        "reason": condition.reason.unwrap_or_default(),
    })
}

/// The heading of the table.
pub const COLUMNS: [&str; 4] = ["PATH", "VALUE", "PROVENANCE", "OVERRIDES"];

/// The rows of the table, one for what could not be read and one for each value, with cells as in [`COLUMNS`].
pub fn rows(template: &NodeTemplate) -> Vec<[String; 4]> {
    let row = |value: &super::Value| {
        let runner_up = value.runner_up.as_ref().map(|(value, provenance)| format!("{value} ({provenance})"));
        [value.path.clone(), value.value.clone(), value.provenance.to_string(), runner_up.unwrap_or_default()]
    };
    let unread = |unread: &Unread| {
        let why = format!("not read: {}", unread.reason);
        ["unread".to_owned(), format!("labels and taints of the {}", unread.what), why, String::new()]
    };
    template.unread.iter().map(unread).chain(template.values.iter().map(row)).collect()
}
