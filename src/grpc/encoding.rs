//! Converts groups, instances and nodes to and from the protocol's messages.

use std::sync::Arc;

use super::proto::instance_status::InstanceState as ProtoState;
use super::proto::{self, *};
use crate::cloud::text::shorten;
use crate::cloud::{FailureClass, InstanceState, ProviderId};
use crate::fleet::{GroupView, NamedNode, NodeKind, ReportedInstance};

/// The longest message of a failed instance. The Cluster Autoscaler takes all instances of a group in one response, and
/// repeats the message in events and in its status.
const FAILURE_CHARS_MAX: usize = 200;

/// The annotation in which CA says why it deletes a node.
const REASON_ANNOTATION: &str = "k8s.io/cluster-autoscaler/fake-node-reason";
/// The value for a node that failed to be created.
const CREATE_ERROR: &str = "create-error";

/// `max` is the group's own, or what the quotas of the account leave.
pub(super) fn node_group(id: &Arc<str>, view: &GroupView, max: u32) -> NodeGroup {
    NodeGroup { id: id.to_string(), min_size: int32(view.min), max_size: int32(max), debug: debug(view) }
}

/// Returns a short line for CA's log.
fn debug(view: &GroupView) -> String {
    format!("{} target {} desired {}", view.key.source, view.status.target, view.status.capacity)
}

pub(super) fn instance(reported: &ReportedInstance) -> proto::Instance {
    let state = match reported.state {
        InstanceState::Creating => ProtoState::InstanceCreating,
        InstanceState::Running => ProtoState::InstanceRunning,
        InstanceState::Deleting => ProtoState::InstanceDeleting,
    };
    // CA receives at most 4 MiB, and a large group may have thousands of failed placeholders.
    let error_info = reported.failure.as_ref().map(|failure| InstanceErrorInfo {
        error_code: failure.code.clone(),
        error_message: shorten(&failure.message, FAILURE_CHARS_MAX),
        instance_error_class: match failure.class {
            FailureClass::OutOfResources => 1,
            FailureClass::Other => 99,
        },
    });
    let status = InstanceStatus { instance_state: state.into(), error_info };
    proto::Instance { id: reported.id.to_string(), status: Some(status) }
}

/// Whether a node is one of the cluster. CA makes up the others from the IDs that it was given.
pub(super) fn is_registered(node: &ExternalGrpcNode) -> bool {
    !node.annotations.contains_key(REASON_ANNOTATION)
}

pub(super) fn named(node: ExternalGrpcNode) -> NamedNode {
    let kind = match node.annotations.get(REASON_ANNOTATION) {
        None => NodeKind::Registered,
        Some(reason) if reason == CREATE_ERROR => NodeKind::CreateError,
        Some(_) => NodeKind::Unregistered,
    };
    NamedNode { id: ProviderId::from(node.provider_id), kind }
}

/// Converts a size to int32, which the protocol uses. No group is near the limit.
pub(super) fn int32(size: u32) -> i32 {
    i32::try_from(size).unwrap_or(i32::MAX)
}
