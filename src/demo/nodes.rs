//! Simulated instances as nodes of a real cluster: `headcount serve --demo --register-nodes`.
//!
//! The nodes are annotated and tainted as those of kwok (kwok.sigs.k8s.io), which then plays their kubelets: pods that
//! tolerate the taint become Running. Without kwok, the nodes are ready all the same, and pods are bound to them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::clouds::simulated::{Phase, Simulated};
use crate::fleet::Fleet;
use crate::kubernetes::{KubernetesError, NodeWriter};
use crate::template::show;

/// How often the nodes follow the instances.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);
/// How often a kubelet says that its node is ready.
const READY_EVERY: Duration = Duration::from_secs(10);

/// What marks a node as one of kwok's: the annotation by which kwok finds it, and the key of the taint that keeps other
/// pods away.
const KWOK: &str = "kwok.x-k8s.io/node";
/// The value of both.
const FAKE: &str = "fake";

/// An instance that is a node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Instance {
    group: String,
    /// The name of its node.
    name: String,
    provider_id: String,
    zone: String,
}

/// Keeps the nodes of a cluster in step with the running instances of a simulated cloud.
pub struct NodeRegistrar {
    cloud: Arc<Simulated>,
    fleet: Arc<Fleet>,
    writer: NodeWriter,
    is_failing: bool,
    ready_at: Option<Instant>,
}

impl NodeRegistrar {
    /// Registers the instances of this cloud, whose groups this fleet serves.
    pub fn new(cloud: Arc<Simulated>, fleet: Arc<Fleet>, writer: NodeWriter) -> Self {
        Self { cloud, fleet, writer, is_failing: false, ready_at: None }
    }

    /// Runs for as long as the process does.
    pub async fn run(mut self) {
        let mut ticks = interval(FOLLOW_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match self.follow().await {
                Ok(()) if std::mem::take(&mut self.is_failing) => {
                    tracing::info!("the demo's nodes can be registered again")
                }
                Ok(()) => {}
                Err(error) if !std::mem::replace(&mut self.is_failing, true) => {
                    tracing::warn!(%error, "the demo's nodes cannot be registered; trying again every second");
                }
                Err(_) => {}
            }
        }
    }

    /// Creates the nodes of new instances, and deletes those of instances that are gone.
    async fn follow(&mut self) -> Result<(), KubernetesError> {
        let instances = instances(&self.cloud);
        let nodes = self.writer.list().await?;
        for instance in instances.iter().filter(|instance| !nodes.contains_key(&instance.name)) {
            // A group without a template yet has its nodes a moment later.
            let template = self.fleet.template(&instance.group, Instant::now() + FOLLOW_EVERY).await;
            let Ok(template) = template else { continue };
            self.writer.create(node(show::to_json(&template.node), instance)).await?;
        }
        for gone in nodes.keys().filter(|name| !instances.iter().any(|instance| instance.name == **name)) {
            self.writer.delete(gone).await?;
        }
        if self.ready_at.is_none_or(|at| at.elapsed() >= READY_EVERY) {
            self.ready_at = Some(Instant::now());
            for instance in instances.iter().filter(|instance| nodes.contains_key(&instance.name)) {
                self.writer.keep_ready(&instance.name).await?;
            }
        }
        Ok(())
    }
}

/// The instances that are nodes: those that run, and those that are being deleted until they are gone.
fn instances(cloud: &Simulated) -> Vec<Instance> {
    cloud.world(|world, _| {
        let members = world.groups().flat_map(|group| group.members().map(move |member| (group, member)));
        let is_node = |phase| matches!(phase, Phase::Running | Phase::Deleting);
        let instance = members.filter(|(_, member)| is_node(member.phase)).map(|(group, member)| Instance {
            group: group.name().to_owned(),
            name: format!("{}-{}", group.name(), member.id),
            provider_id: member.provider_id.to_string(),
            zone: member.zone.clone(),
        });
        instance.collect()
    })
}

/// The node of an instance: the template of its group with the instance's own identity.
fn node(mut template: Json, instance: &Instance) -> Json {
    let labels = [("kubernetes.io/hostname", &instance.name), ("topology.kubernetes.io/zone", &instance.zone)];
    template["metadata"]["name"] = json!(instance.name);
    for (label, value) in labels {
        template["metadata"]["labels"][label] = json!(value);
    }
    template["metadata"]["annotations"][KWOK] = json!(FAKE);
    template["spec"]["providerID"] = json!(instance.provider_id);
    template
}

/// The taint of the demo's nodes, as a group's `taints:` has it. It is in the templates, so that the Cluster Autoscaler
/// grows a group only for pods that tolerate it.
pub fn taint() -> String {
    format!("{KWOK}={FAKE}:NoSchedule")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clouds::simulated::GroupPlan;

    #[tokio::test(start_paused = true)]
    async fn instances_are_nodes_while_they_run_and_until_they_are_gone() {
        let cloud = Simulated::with_groups(1, [GroupPlan::azure("pool").sized(0, 3, 2)]);
        let names = |cloud: &Simulated| instances(cloud).into_iter().map(|one| one.name).collect::<Vec<_>>();
        assert_eq!(names(&cloud), ["pool-0", "pool-1"]);
        cloud.world(|world, now| world.delete_instances(now, "pool", &["0"], &[])).expect("accepted");
        assert_eq!(names(&cloud), ["pool-0", "pool-1"]);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(names(&cloud), ["pool-1"]);
    }

    #[test]
    fn a_node_looks_like_its_template_and_is_one_of_kwoks() {
        let instance = Instance {
            group: "web".to_owned(),
            name: "web-i-1".to_owned(),
            provider_id: "aws:///us-east-1a/i-1".to_owned(),
            zone: "us-east-1a".to_owned(),
        };
        let template = json!({"metadata": {"name": "x", "labels": {"a": "b"}}, "spec": {"taints": []}, "status": {}});
        let node = node(template, &instance);
        assert_eq!(node["metadata"]["name"], "web-i-1");
        assert_eq!(node["metadata"]["labels"]["a"], "b");
        assert_eq!(node["metadata"]["labels"]["topology.kubernetes.io/zone"], "us-east-1a");
        assert_eq!(node["metadata"]["annotations"][KWOK], "fake");
        assert_eq!(node["spec"]["providerID"], "aws:///us-east-1a/i-1");
        assert_eq!(taint(), "kwok.x-k8s.io/node=fake:NoSchedule");
    }
}
