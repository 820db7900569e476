//! Replaces kubelets and controllers: nodes register and leave with the instances of the simulated cloud, and pods
//! leave with their nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use headcount::clouds::simulated::{Phase, Simulated};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::api::Api;
use super::scenario::Scenario;

/// How often the nodes follow the instances.
const PERIOD: Duration = Duration::from_millis(250);

/// Where ResourceSlices are.
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";

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
    /// Starts them. Each group's nodes look like its template, except for what the scenario changes. Instances of a
    /// group without one never register.
    pub(super) fn start(
        api: Api,
        cloud: Arc<Simulated>,
        templates: BTreeMap<String, Value>,
        scenario: &Scenario,
    ) -> Self {
        let mut look = Look {
            templates,
            published: scenario.published.clone(),
            devices_after: scenario.devices_after,
            missing_memory: scenario.missing_memory,
            waiting: BTreeMap::new(),
        };
        let task = tokio::spawn(async move {
            loop {
                follow(&api, &cloud, &mut look).await;
                tokio::time::sleep(PERIOD).await;
            }
        });
        Self { task }
    }
}

/// What the nodes look like.
struct Look {
    /// By group.
    templates: BTreeMap<String, Value>,
    /// What a driver publishes for the nodes of a group.
    published: Option<(&'static str, Value)>,
    /// How long nodes take to show their devices.
    devices_after: Duration,
    /// Memory that they have less than their template, in KiB.
    missing_memory: u64,
    /// Nodes that have not shown their devices yet: when they were created, and the devices.
    waiting: BTreeMap<String, (Instant, Value)>,
}

impl Look {
    /// The node of an instance when it registers, if its group's instances do.
    fn of(&mut self, instance: &Running) -> Option<Value> {
        let mut node = node(self.templates.get(&instance.group)?, instance);
        for list in ["capacity", "allocatable"] {
            let list = &mut node["status"][list];
            let memory = list["memory"].as_str().and_then(kib).expect("memory in KiB");
            list["memory"] = json!(format!("{}Ki", memory - self.missing_memory));
        }
        if !self.devices_after.is_zero() {
            let devices = take_devices(&mut node);
            self.waiting.insert(instance.id.clone(), (Instant::now(), devices));
        }
        Some(node)
    }

    /// What a driver publishes for the node of an instance.
    fn slice_of(&self, instance: &Running) -> Option<Value> {
        let (_, spec) = self.published.as_ref().filter(|(group, _)| *group == instance.group)?;
        let mut spec = spec.clone();
        spec["nodeName"] = json!(instance.id);
        spec["pool"] = json!({"name": instance.id, "generation": 1, "resourceSliceCount": 1});
        let metadata = json!({"name": instance.id});
        Some(json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec}))
    }

    /// The nodes that show their devices now.
    fn take_due(&mut self) -> BTreeMap<String, Value> {
        let due = |(_, (since, _)): &(&String, &mut (Instant, Value))| since.elapsed() >= self.devices_after;
        let names: Vec<String> = self.waiting.iter_mut().filter(due).map(|(name, _)| name.clone()).collect();
        names.into_iter().filter_map(|name| self.waiting.remove(&name).map(|(_, devices)| (name, devices))).collect()
    }
}

/// A quantity in KiB.
fn kib(quantity: &str) -> Option<u64> {
    let whole = |suffix: &str| quantity.strip_suffix(suffix)?.parse::<u64>().ok();
    whole("Ki")
        .or_else(|| Some(whole("Mi")? * 1024))
        .or_else(|| Some(whole("Gi")? * 1024 * 1024))
        .or_else(|| Some(quantity.parse::<u64>().ok()? / 1024))
}

/// Removes the resources of device plugins from a node, and returns them.
fn take_devices(node: &mut Value) -> Value {
    let mut devices = json!({});
    for list in ["capacity", "allocatable"] {
        let resources = node["status"][list].as_object_mut().expect("an object");
        let names: Vec<String> = resources.keys().filter(|name| name.contains('/')).cloned().collect();
        for name in names {
            devices[list][&name] = resources.remove(&name).expect("listed");
        }
    }
    devices
}

impl Drop for Kubelets {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(api: &Api, cloud: &Simulated, look: &mut Look) {
    let running = running(cloud);
    let names: BTreeSet<&str> = running.iter().map(|instance| instance.id.as_str()).collect();
    let nodes = api.items("/api/v1/nodes").await;
    let registered: BTreeSet<String> = nodes.iter().map(name_of).collect();
    for instance in running.iter().filter(|instance| !registered.contains(&instance.id)) {
        if let Some(node) = look.of(instance) {
            // A conflict is a node that was registered a moment ago.
            let _registered = api.send("POST", "/api/v1/nodes", Some(&node)).await;
            if let Some(slice) = look.slice_of(instance) {
                let _published_already = api.send("POST", SLICES, Some(&slice)).await;
            }
        }
    }
    for (node, devices) in look.take_due() {
        let _gone_already =
            api.send("PATCH", &format!("/api/v1/nodes/{node}/status"), Some(&json!({"status": devices}))).await;
    }
    for gone in registered.iter().filter(|name| !names.contains(name.as_str())) {
        let _gone_already = api.send("DELETE", &format!("/api/v1/nodes/{gone}"), None).await;
        let _never_published = api.send("DELETE", &format!("{SLICES}/{gone}"), None).await;
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
