//! DescribeNodegroup: the managed node group that a group's tags name, made of the group's own labels and taints.

use headcount::cloud::TaintEffect;
use headcount::clouds::simulated::{CallKind, World};
use serde_json::{Value, json};

use super::super::exchange::{Answer, Outcome, decoded};
use super::super::sight::Sight;
use super::errors::eks_error;
use super::front::{Counter, Service};

impl Counter {
    pub(super) async fn describe_nodegroup(&self, cluster: &str, nodegroup: &str) -> Outcome {
        let (cluster, nodegroup) = (decoded(cluster), decoded(nodegroup));
        let is_it = |sight: &Sight| {
            let tag = |key: &str| sight.plan.tags.get(key).map(String::as_str);
            tag("eks:cluster-name") == Some(&cluster) && tag("eks:nodegroup-name") == Some(&nodegroup)
        };
        let find = |world: &World| world.groups().map(Sight::of).find(is_it);
        let group = self.backstage.simulated.world(|world, _| find(world)).map(|sight| sight.name().to_owned());
        let kind = CallKind::LaunchSpec;
        let found = self.call(Service::Eks, kind, group.as_deref(), nodegroup.clone(), |world, _| find(world)).await?;
        let Some(sight) = found else {
            let message = format!("No node group found for name: {nodegroup}.");
            return Ok(eks_error(404, "ResourceNotFoundException", &message));
        };
        let taint = |taint: &headcount::cloud::Taint| {
            let effect = match taint.effect {
                TaintEffect::NoSchedule => "NO_SCHEDULE",
                TaintEffect::NoExecute => "NO_EXECUTE",
                TaintEffect::PreferNoSchedule => "PREFER_NO_SCHEDULE",
            };
            // A taint without a value has none, not an empty one.
            let value = Some(&taint.value).filter(|value| !value.is_empty());
            json!({"key": taint.key, "value": value, "effect": effect})
        };
        let look = self.look(sight.name());
        let described = json!({
            "nodegroupName": nodegroup,
            "clusterName": cluster,
            "status": "ACTIVE",
            "capacityType": if look.spot { "SPOT" } else { "ON_DEMAND" },
            "amiType": look.ami_type,
            "diskSize": look.disk_gib,
            "labels": sight.plan.labels,
            "taints": sight.plan.taints.iter().map(taint).collect::<Vec<Value>>(),
            "tags": {},
            "resources": {"autoScalingGroups": [{"name": sight.name()}]},
        });
        Ok(Answer::json(200, &json!({"nodegroup": described})))
    }
}
