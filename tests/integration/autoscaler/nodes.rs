//! In place of kubelets and controllers: nodes register and leave with the instances of the simulated cloud, and pods leave
//! with their nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use headcount::clouds::simulated::{Phase, Simulated};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::api::Api;

/// How often the nodes follow the instances.
const PERIOD: Duration = Duration::from_millis(250);

/// An instance that runs.
struct Running {
    group: String,
    id: String,
    provider_id: String,
    zone: String,
}

/// Keeps the nodes in step with the instances until it is dropped.
pub(super) struct Kubelets {
    task: JoinHandle<()>,
}

impl Kubelets {
    /// Starts them. Each group's nodes look like its template. Instances of a group without one never register.
    pub(super) fn start(api: Api, cloud: Arc<Simulated>, templates: BTreeMap<String, Value>) -> Self {
        let task = tokio::spawn(async move {
            loop {
                follow(&api, &cloud, &templates).await;
                tokio::time::sleep(PERIOD).await;
            }
        });
        Self { task }
    }
}

impl Drop for Kubelets {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(api: &Api, cloud: &Simulated, templates: &BTreeMap<String, Value>) {
    let running = running(cloud);
    let names: BTreeSet<&str> = running.iter().map(|instance| instance.id.as_str()).collect();
    let nodes = api.items("/api/v1/nodes").await;
    let registered: BTreeSet<String> = nodes.iter().map(name_of).collect();
    for instance in running.iter().filter(|instance| !registered.contains(&instance.id)) {
        if let Some(template) = templates.get(&instance.group) {
            // A conflict is a node that was registered a moment ago.
            let _registered = api.send("POST", "/api/v1/nodes", Some(&node(template, instance))).await;
        }
    }
    for gone in registered.iter().filter(|name| !names.contains(name.as_str())) {
        let _gone_already = api.send("DELETE", &format!("/api/v1/nodes/{gone}"), None).await;
    }
    for pod in api.items("/api/v1/pods").await {
        let is_going = !pod["metadata"]["deletionTimestamp"].is_null();
        let is_lost = pod["spec"]["nodeName"].as_str().is_some_and(|node| !names.contains(node));
        if is_going || is_lost {
            let path = format!("{}?gracePeriodSeconds=0", path_of_pod(&pod));
            let _gone_already = api.send("DELETE", &path, None).await;
        }
    }
}

fn running(cloud: &Simulated) -> Vec<Running> {
    cloud.world(|world, _| {
        let groups = world.groups().filter(|group| !group.name().is_empty());
        groups
            .flat_map(|group| group.members().map(move |member| (group, member)))
            .filter(|(_, member)| matches!(member.phase, Phase::Running | Phase::Standby))
            .map(|(group, member)| Running {
                group: group.name().to_owned(),
                id: format!("{}-{}", group.name(), member.id.replace('_', "-")),
                provider_id: member.provider_id.to_string(),
                zone: member.zone.clone(),
            })
            .collect()
    })
}

/// The node of an instance: the group's template with the instance's own identity.
fn node(template: &Value, instance: &Running) -> Value {
    let mut node = template.clone();
    node["metadata"]["name"] = json!(instance.id);
    node["metadata"]["labels"]["kubernetes.io/hostname"] = json!(instance.id);
    node["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!(instance.zone);
    node["spec"]["providerID"] = json!(instance.provider_id);
    node["status"]["conditions"] = json!([{
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastHeartbeatTime": null,
        "lastTransitionTime": null,
    }]);
    node
}

/// The name of an object.
pub(super) fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// The path of a pod.
pub(super) fn path_of_pod(pod: &Value) -> String {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    format!("/api/v1/namespaces/{namespace}/pods/{}", name_of(pod))
}
