//! The Deployment of the Cluster Autoscaler, from a manifest or from the API server.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::ListParams;
use serde::Deserialize;
use serde_json::Value;

use super::KubernetesError;
use super::client::Client;

/// What Headcount must be allowed to do with Deployments in the Cluster Autoscaler's namespace. Its Deployment may have
/// any name.
pub const DEPLOYMENT_VERBS: [&str; 1] = ["list"];

/// Deployments read at most. A namespace has some dozens.
const DEPLOYMENTS_MAX: u32 = 500;

/// The container of a Cluster Autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AutoscalerContainer {
    /// The Deployment's name; empty in a manifest without one.
    pub deployment: String,
    /// Its command and arguments, the program included.
    pub arguments: Vec<String>,
    /// Its environment. `None` for a variable whose value comes from elsewhere, such as a Secret.
    pub environment: BTreeMap<String, Option<String>>,
    /// The tag of its image, such as `v1.34.2`.
    pub tag: Option<String>,
}

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

impl AutoscalerContainer {
    /// Reads a manifest: one or several documents, or a List, with the container anywhere below. `None` if no container
    /// runs the Cluster Autoscaler.
    ///
    /// # Errors
    ///
    /// If the text is not YAML.
    pub fn from_manifest(text: &str) -> Result<Option<Self>, String> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
        Ok(Self::find(&documents))
    }

    /// The first container that runs the Cluster Autoscaler: by its image or program, or else by its flags.
    fn find(documents: &[Value]) -> Option<Self> {
        let mut found = Vec::new();
        for document in documents {
            collect(document, "", DEPTH_MAX, &mut found);
        }
        let containers: Vec<(bool, Self)> = found.into_iter().filter_map(|(name, value)| read(name, value)).collect();
        let named = containers.iter().position(|(is_named, _)| *is_named);
        let has_flags = |(_, container): &(bool, Self)| {
            container.arguments.iter().any(|word| word.trim_start_matches('-').starts_with("cloud-provider"))
        };
        let position = named.or_else(|| containers.iter().position(has_flags))?;
        containers.into_iter().nth(position).map(|(_, container)| container)
    }
}

/// Collects everything that is listed as a container, with the name of the object that has it.
fn collect<'a>(value: &'a Value, name: &'a str, depth: usize, found: &mut Vec<(&'a str, &'a Value)>) {
    if depth == 0 {
        return;
    }
    match value {
        Value::Object(fields) => {
            let own = fields.get("metadata").and_then(|metadata| metadata["name"].as_str());
            let name = own.unwrap_or(name);
            for (key, field) in fields {
                match (key.as_str(), field) {
                    ("containers", Value::Array(containers)) => {
                        found.extend(containers.iter().map(|container| (name, container)));
                    }
                    _ => collect(field, name, depth - 1, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, name, depth - 1, found)),
        _ => {}
    }
}

/// Reads a container, and whether its image or program is the Cluster Autoscaler.
fn read(deployment: &str, container: &Value) -> Option<(bool, AutoscalerContainer)> {
    const PROGRAM: &str = "cluster-autoscaler";
    let container = Container::deserialize(container).ok()?;
    // A shell's command line is one argument.
    let arguments: Vec<String> = container
        .command
        .iter()
        .chain(&container.args)
        .flat_map(|word| match word.contains("cluster-autoscaler ") {
            true => word.split_whitespace().map(str::to_owned).collect(),
            false => vec![word.clone()],
        })
        .collect();
    // A registry with a port has a colon too: registry:5000/cluster-autoscaler
    let image = container.image.split('@').next().unwrap_or_default();
    let (folder, image) = image.rsplit_once('/').map_or(("", image), |(folder, image)| (folder, image));
    let (image, tag) = image.split_once(':').map_or((image, None), |(image, tag)| (image, Some(tag)));
    let is_program = |word: &String| word.rsplit('/').next() == Some(PROGRAM) && !word.starts_with('-');
    let is_named = image.contains(PROGRAM) || folder.ends_with(PROGRAM) || arguments.iter().any(is_program);
    let environment = container.env.into_iter().map(|variable| (variable.name, variable.value)).collect();
    let (deployment, tag) = (deployment.to_owned(), tag.map(str::to_owned));
    Some((is_named, AutoscalerContainer { deployment, arguments, environment, tag }))
}

impl Client {
    /// The container of the Cluster Autoscaler in a namespace; `None` if no Deployment there runs it.
    ///
    /// # Errors
    ///
    /// If the API server cannot be reached or does not permit it.
    pub async fn autoscaler_container(&self, namespace: &str) -> Result<Option<AutoscalerContainer>, KubernetesError> {
        let deployments: Api<Deployment> = Api::namespaced(self.kube(), namespace);
        let listed = deployments.list(&ListParams::default().limit(DEPLOYMENTS_MAX)).await;
        let listed = listed.map_err(|error| KubernetesError::of_call("list Deployments", error))?;
        let documents: Vec<Value> =
            listed.items.iter().filter_map(|deployment| serde_json::to_value(deployment).ok()).collect();
        Ok(AutoscalerContainer::find(&documents))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(manifest: &str) -> Option<AutoscalerContainer> {
        AutoscalerContainer::from_manifest(manifest).expect("YAML")
    }

    #[test]
    fn the_container_of_the_autoscaler_is_found_beside_headcount_and_other_manifests() {
        let manifest = "
kind: ServiceAccount
metadata: {name: cluster-autoscaler}
---
kind: Deployment
metadata: {name: external-cluster-autoscaler, namespace: kube-system}
spec: {template: {spec: {containers: [
  {image: 'headcount:0.1.0', args: [serve, --cloud-provider=aws,
    '--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled']},
  {image: 'registry:5000/autoscaling/cluster-autoscaler:v1.34.2@sha256:00', command: [./cluster-autoscaler, --v=4]}]}}}
";
        let container = found(manifest).expect("a container");
        assert_eq!(
            (container.deployment.as_str(), container.tag.as_deref()),
            ("external-cluster-autoscaler", Some("v1.34.2"))
        );
        assert_eq!(container.arguments, ["./cluster-autoscaler", "--v=4"]);
    }

    #[test]
    fn a_renamed_image_is_known_by_its_program_or_its_flags() {
        let of = |container: &str| found(&format!("spec: {{template: {{spec: {{containers: [{container}]}}}}}}"));
        assert!(of("{image: mine, command: [sh, -c, '/bin/cluster-autoscaler --v=4']}").is_some());
        assert!(
            of("{image: 'registry:5000/mine', args: [--cloud-provider=externalgrpc]}")
                .is_some_and(|found| found.tag.is_none())
        );
        assert_eq!(of("{image: proxy, args: [--listen=1]}"), None);
    }
}
