//! Finds the Cluster Autoscaler in a manifest.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{InTree, MigrateError};

/// What is used of a container.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Container {
    image: String,
    command: Vec<String>,
    args: Vec<String>,
    env: Vec<Variable>,
}

#[derive(Debug, Deserialize)]
struct Variable {
    name: String,
    value: Option<String>,
}

/// The deepest that a list of manifests, a pod's template and its containers can be.
const DEPTH_MAX: usize = 12;

/// Reads a manifest: one or several documents, or a List, with the Cluster Autoscaler's container anywhere below.
///
/// # Errors
///
/// Fails if the text is not YAML, or has no such container.
pub fn from_deployment(text: &str) -> Result<InTree, MigrateError> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| MigrateError::Yaml(error.to_string()))?;
    let mut found = Vec::new();
    for document in &documents {
        collect(document, DEPTH_MAX, &mut found);
    }
    found.into_iter().find_map(read).ok_or(MigrateError::NoAutoscaler)
}

/// Collects everything that is listed as a container.
fn collect<'a>(value: &'a Value, depth: usize, found: &mut Vec<&'a Value>) {
    if depth == 0 {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                match (key.as_str(), field) {
                    ("containers", Value::Array(containers)) => found.extend(containers),
                    _ => collect(field, depth - 1, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, depth - 1, found)),
        _ => {}
    }
}

/// Reads a container, if it runs the Cluster Autoscaler.
fn read(container: &Value) -> Option<InTree> {
    let container = Container::deserialize(container).ok()?;
    let words = container.command.iter().chain(&container.args);
    // A shell's command line is one argument.
    let arguments: Vec<String> = words
        .flat_map(|word| match word.contains("cluster-autoscaler ") {
            true => word.split_whitespace().map(str::to_owned).collect(),
            false => vec![word.clone()],
        })
        .collect();
    if !arguments.iter().any(|argument| argument.trim_start_matches('-').starts_with("cloud-provider")) {
        return None;
    }
    let release = container.image.split('@').next().and_then(|image| image.rsplit_once(':')).map(|(_, tag)| tag);
    let environment: BTreeMap<_, _> =
        container.env.into_iter().map(|variable| (variable.name, variable.value)).collect();
    Some(InTree { arguments, environment, release: release.map(str::to_owned) })
}
