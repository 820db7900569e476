//! What the Cluster Autoscaler asks of one node group, on its way through the machine.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::limits::ATTEMPT_PAUSE_MIN;
use super::refusal::Refusal;
use super::time::Time;
use crate::cloud::{Identity, ProviderId, ZoneName};

/// A node that CA named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedNode {
    /// Its provider ID, in any case.
    pub id: ProviderId,
    /// Why CA names it.
    pub kind: NodeKind,
}

/// Which kind of node CA names, by its `fake-node-reason` annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeKind {
    /// A node of the cluster: no annotation.
    Registered,
    /// An instance that never became a node (`unregistered`, or a reason that a later CA may add).
    Unregistered,
    /// The same for CA, but the Kubernetes API has it as a node by now. CA's main loop waits for the response.
    Joined,
    /// An instance that failed to be created (`create-error`).
    CreateError,
}

/// What a request changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mutation {
    /// More nodes.
    Increase(u32),
    /// Take back capacity that has not become a node.
    Decrease(u32),
    /// Delete the named nodes.
    Delete(Vec<NamedNode>),
}

impl Mutation {
    /// The nodes that it names.
    pub(crate) fn named(&self) -> impl Iterator<Item = &ProviderId> {
        self.nodes().iter().map(|node| &node.id)
    }

    /// How many nodes it adds.
    pub(crate) fn growth(&self) -> u32 {
        match self {
            Self::Increase(delta) => *delta,
            Self::Decrease(_) | Self::Delete(_) => 0,
        }
    }

    /// Whether it names nodes of the cluster. CA's main loop does not wait for such a call.
    pub(super) fn names_registered_nodes(&self) -> bool {
        self.nodes().iter().any(|node| node.kind == NodeKind::Registered)
    }

    fn nodes(&self) -> &[NamedNode] {
        match self {
            Self::Delete(nodes) => nodes,
            Self::Increase(_) | Self::Decrease(_) => &[],
        }
    }
}

/// Names a request within its node group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct RequestKey(pub u64);

/// A request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    /// Its name.
    pub key: RequestKey,
    /// What to change.
    pub mutation: Mutation,
    /// The zone whose node group it is for; `None` where the whole group is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<ZoneName>,
    /// The last moment at which a write may still be sent for it.
    pub send_by: Time,
    /// Whether the cloud did not respond lately. Then the attempts end early, unless it responds.
    pub is_cloud_lost: bool,
    /// Named instances that seem to be another cluster's, and why they are not deleted.
    pub foreign: Option<Foreign>,
    /// The group as it was known when the request was taken. No instance is deleted for it in another one of the same
    /// name.
    pub(super) group: Option<Identity>,
    /// When it came to the group.
    pub(super) arrived: Time,
    pub(super) stage: Stage,
}

/// Why instances that seem to be another cluster's are not deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Foreign {
    /// The instances that are no nodes of this cluster.
    pub instances: BTreeSet<ProviderId>,
    /// Why the group seems to belong to another cluster.
    pub reason: String,
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Stage {
    /// Nothing was sent for it. Its caller may give up, and nothing will be.
    Waiting,
    /// A write was sent for it.
    Sent,
    /// Part of it took effect. From now on, no response says that nothing was sent.
    Begun,
}

impl Request {
    /// A request that has just arrived.
    pub(crate) fn new(key: RequestKey, mutation: Mutation, send_by: Time) -> Self {
        Self {
            key,
            mutation,
            zone: None,
            send_by,
            is_cloud_lost: false,
            foreign: None,
            group: None,
            arrived: Time::default(),
            stage: Stage::Waiting,
        }
    }

    /// Until when it may be attempted. The response comes a moment before the caller's time is up, so that the caller
    /// sees the reason.
    pub(super) fn attempt_until(&self) -> Time {
        self.send_by - ATTEMPT_PAUSE_MIN
    }

    /// Why these instances may not be deleted for it, if any of them seems to be another cluster's.
    pub(super) fn refuse_foreign<'a>(
        &self,
        instances: impl IntoIterator<Item = &'a ProviderId>,
    ) -> Result<(), Refusal> {
        let Some(foreign) = &self.foreign else { return Ok(()) };
        match instances.into_iter().find(|id| foreign.instances.contains(*id)) {
            Some(instance) => Err(Refusal::Foreign { instance: instance.clone(), reason: foreign.reason.clone() }),
            None => Ok(()),
        }
    }
}
