//! One Auto Scaling group of three zones, each served as a node group.

use serde_json::{Value, json};

use super::{Fixture, ONE_PER_NODE, aws, scaling_group};
use crate::autoscaler::scenario::Scenario;
use crate::emulators::Emulator;
use crate::emulators::aws::Aws;

pub(in crate::autoscaler) const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];

pub(in crate::autoscaler) fn over_zones() -> Aws {
    let mut plan = scaling_group("web", (0, 9, 0));
    plan.zones = ZONES.map(str::to_owned).to_vec();
    aws([plan])
}

/// How many instances the group has in each zone.
fn spread(fixture: &Fixture<impl Emulator>) -> [usize; 3] {
    fixture.setup.emulator.simulated().world(|world, _| {
        let group = world.group("web").expect("it exists");
        ZONES.map(|zone| group.members().filter(|member| member.zone == zone).count())
    })
}

/// A pod with a volume that is in this zone. No controller runs here, so the claim is bound from the beginning.
pub(in crate::autoscaler) async fn create_pod_with_volume(fixture: &Fixture<impl Emulator>, name: &str, zone: &str) {
    let api = &fixture.cluster.api;
    let terms =
        json!([{"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}]);
    let spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": name},
        "hostPath": {"path": "/tmp"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    });
    api.create(&json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}))
        .await;
    let claim = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
            "volumeName": name,
        },
    });
    let created = api.create(&claim).await;
    for (kind, path, uid) in [
        ("PersistentVolume", format!("/api/v1/persistentvolumes/{name}"), Some(&created["metadata"]["uid"])),
        ("PersistentVolumeClaim", format!("/api/v1/namespaces/default/persistentvolumeclaims/{name}"), None),
    ] {
        if let Some(uid) = uid {
            api.ok("PATCH", &path, Some(&json!({"spec": {"claimRef": {"uid": uid}}}))).await;
        }
        let status: Value = json!({"apiVersion": "v1", "kind": kind, "status": {"phase": "Bound"}});
        api.ok("PATCH", &format!("{path}/status"), Some(&status)).await;
    }
    let requests = json!({"cpu": ONE_PER_NODE, "memory": "64Mi"});
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}],
        },
    });
    api.create(&pod).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn aws_grows_in_the_zone_of_a_volume() {
    let scenario = Scenario::new("aws_grows_in_the_zone_of_a_volume").by_zones("web");
    let Some(fixture) = Fixture::start(scenario, over_zones()).await else { return };
    for number in 1..=5 {
        create_pod_with_volume(&fixture, &format!("data-{number}"), ZONES[1]).await;
        fixture.until("the pod has a node", async |fixture| fixture.scheduled().await == number).await;
        assert_eq!(spread(&fixture), [0, number, 0], "a node in the zone of each volume");
    }
    assert_eq!(fixture.target("web/us-east-1b").await, 5);
    fixture.finish(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn aws_balances_the_zones_of_one_group() {
    let scenario = Scenario::new("aws_balances_the_zones_of_one_group").by_zones("web").flags(&super::sizes::BALANCING);
    let Some(fixture) = Fixture::start(scenario, over_zones()).await else { return };
    fixture.create_pods(9, ONE_PER_NODE).await;
    fixture.until("nine pods have nodes", async |fixture| fixture.scheduled().await == 9).await;
    assert_eq!(spread(&fixture), [3, 3, 3]);
    fixture.finish(&[]);
}
