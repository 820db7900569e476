//! Refuses invalid calls before anything is done.

use std::sync::Arc;

use super::error::FleetError;
use super::limits::{ID_BYTES_MAX, NODES_PER_CALL};
use super::snapshot::{GroupKey, Snapshot};
use crate::cloud::{Cloud, Recognition};
use crate::group::Mutation;

/// Refuses a call that names too many nodes, or a node of another group. The whole call is refused, even if only one of
/// its nodes is in another group.
pub(super) fn check(
    group: &Arc<str>,
    key: &GroupKey,
    mutation: &Mutation,
    snapshot: &Snapshot,
    cloud: &dyn Cloud,
) -> Result<(), FleetError> {
    let Mutation::Delete(nodes) = mutation else { return Ok(()) };
    if nodes.len() > NODES_PER_CALL {
        let named = nodes.len();
        return Err(FleetError::Malformed(format!(
            "node group {group}: the call names {named} nodes; name at most {NODES_PER_CALL}; nothing was deleted"
        )));
    }
    if let Some(long) = nodes.iter().find(|node| node.id.as_str().len() > ID_BYTES_MAX) {
        let bytes = long.id.as_str().len();
        return Err(FleetError::Malformed(format!(
            "node group {group}: a provider ID has {bytes} bytes; the longest have {ID_BYTES_MAX}; nothing was deleted"
        )));
    }
    for node in nodes {
        let id = node.id.as_str();
        let message = match snapshot.group_of(id) {
            Some((_, owner)) if owner.key == *key => continue,
            Some((owner, _)) => format!("node {id:?} belongs to node group {owner}, not to {group}"),
            None => match cloud.recognise(id) {
                Recognition::Ours => continue,
                Recognition::OursInGroup(named) if named == key.name => continue,
                Recognition::OursInGroup(named) => {
                    format!("node {id:?} belongs to {named}, not to node group {group}")
                }
                Recognition::Foreign if id.is_empty() => {
                    format!("a node without a provider ID cannot be in node group {group}")
                }
                Recognition::Foreign => {
                    format!("node {id:?} is not of the form that nodes of node group {group} have")
                }
            },
        };
        return Err(FleetError::Malformed(format!("{message}; nothing was deleted")));
    }
    Ok(())
}
