//! DescribeNodegroup: the managed node group that a group's tags name, made of the group's own labels and taints.

use headcount::cloud::TaintEffect;
use headcount::clouds::simulated::{CallKind, World};
use serde_json::{Value, json};

use super::super::http_messages::{HandlerResult, HttpResponse, decoded};
use super::super::shown::ShownGroup;
use super::errors::eks_error;
use super::router::{AwsApi, Service};

impl AwsApi {
    pub(super) async fn describe_nodegroup(&self, cluster: &str, nodegroup: &str) -> HandlerResult {
        let (cluster, nodegroup) = (decoded(cluster), decoded(nodegroup));
        let is_it = |group: &ShownGroup| {
            let tag = |key: &str| group.plan.tags.get(key).map(String::as_str);
            tag("eks:cluster-name") == Some(&cluster) && tag("eks:nodegroup-name") == Some(&nodegroup)
        };
        let find = |world: &World| world.groups().map(ShownGroup::of).find(is_it);
        let group = self.core.simulated.world(|world, _| find(world)).map(|group| group.name().to_owned());
        let kind = CallKind::LaunchSpec;
        let found = self.call(Service::Eks, kind, group.as_deref(), nodegroup.clone(), |world, _| find(world)).await?;
        let Some(group) = found else {
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
        let details = self.group_details(group.name());
        let described = json!({
            "nodegroupName": nodegroup,
            "clusterName": cluster,
            "status": "ACTIVE",
            "capacityType": if details.spot { "SPOT" } else { "ON_DEMAND" },
            "amiType": details.ami_type,
            "diskSize": details.disk_gib,
            "labels": group.plan.labels,
            "taints": group.plan.taints.iter().map(taint).collect::<Vec<Value>>(),
            "tags": {},
            "resources": {"autoScalingGroups": [{"name": group.name()}]},
        });
        Ok(HttpResponse::json(200, &json!({"nodegroup": described})))
    }
}
