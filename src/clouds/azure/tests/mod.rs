//! The whole cloud over a fake of the API.

mod capacities;
mod decoding;
mod deletions;
mod fake;
mod listing;
mod machines;
mod reading;
mod types;

use self::fake::{FakeApi, RESOURCE_GROUP, SUBSCRIPTION, fault, set, status};
use super::{Azure, LabelQuery, Settings};
use crate::cloud::{
    Cloud, CloudError, Counts, FailureClass, GroupReading, Instance, InstanceState, Permit, Progress, ProviderId,
    Recognition, WritableCloud,
};
use crate::clouds::azure::arm::{BadItem, InstanceViewStatus, Orchestration, ScaleSet, Size};

pub(super) fn settings() -> Settings {
    Settings {
        cloud: super::AzureCloud::Public,
        endpoint: None,
        location: None,
        subscription_id: None,
        resource_group: RESOURCE_GROUP.to_owned(),
        credential: None,
        node_groups: Vec::new(),
        auto_discovery: Vec::new(),
        enable_force_delete: false,
        detailed_extension_messages: false,
        label_predictions: true,
    }
}

fn named(names: &[&str]) -> Settings {
    let specs = names.iter().map(|name| format!("0:100:{name}").parse().expect("a good spec"));
    Settings { node_groups: specs.collect(), ..settings() }
}

fn query(labels: &[(&str, &str)], min: Option<u32>, max: Option<u32>) -> LabelQuery {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    LabelQuery { labels: labels.collect(), min, max }
}

fn discovering(queries: Vec<LabelQuery>) -> Settings {
    Settings { auto_discovery: queries, ..settings() }
}

fn tagged(set: ScaleSet, tags: &[(&str, &str)]) -> ScaleSet {
    let tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    ScaleSet { tags: tags.collect(), ..set }
}

fn flexible(set: ScaleSet) -> ScaleSet {
    ScaleSet { orchestration: Orchestration::Flexible, ..set }
}

fn names(groups: &[GroupReading]) -> Vec<&str> {
    groups.iter().map(|group| group.name.as_str()).collect()
}

fn bounds(group: &GroupReading) -> (&str, u32, u32) {
    (group.name.as_str(), group.min, group.max)
}

async fn observed(azure: &Azure, name: &str) -> GroupReading {
    azure.observe(&name.into()).await.expect("readable").expect("present")
}

async fn instances(azure: &Azure, name: &str) -> Vec<Instance> {
    observed(azure, name).await.instances.expect("read with the group")
}

async fn states(azure: &Azure, name: &str) -> Vec<InstanceState> {
    instances(azure, name).await.iter().map(|instance| instance.state).collect()
}

/// The ID of a machine of a uniform set, as a kubelet has it.
fn id(set: &str, number: usize) -> ProviderId {
    format!(
        "azure:///subscriptions/{SUBSCRIPTION}/resourceGroups/mc_group/providers/Microsoft.Compute/\
         virtualMachineScaleSets/{set}/virtualMachines/{number}"
    )
    .into()
}

/// The ID of a machine of a flexible set.
fn vm(name: &str) -> ProviderId {
    format!(
        "azure:///subscriptions/{SUBSCRIPTION}/resourceGroups/mc_group/providers/Microsoft.Compute/virtualMachines/{name}"
    )
    .into()
}
