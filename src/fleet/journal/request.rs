//! One request of the Cluster Autoscaler, from its arrival to its result.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::SystemTime;

use super::{Decision, Journal, RequestKind, RequestResult};
use crate::cloud::text::{MESSAGE_CHARS_MAX, shorten};
use crate::fleet::error::FleetError;
use crate::fleet::request_id::RequestId;
use crate::fleet::snapshot::GroupView;
use crate::group::Mutation;

/// The most node names that a decision lists.
const NODES_SHOWN: usize = 3;

/// A request, with the status of its group when it arrived.
pub(in crate::fleet) struct RequestRecord {
    group: Arc<str>,
    kind: RequestKind,
    action: String,
    basis: String,
    at: SystemTime,
}

impl RequestRecord {
    /// A request that has just arrived; `None` if there is no such group.
    pub(in crate::fleet) fn new(group: Option<(&Arc<str>, &Arc<GroupView>)>, mutation: &Mutation) -> Option<Self> {
        let (group, view) = group?;
        let (kind, action) = match mutation {
            Mutation::Increase(delta) => (RequestKind::Increase, format!("increase by {delta}")),
            Mutation::Decrease(delta) => (RequestKind::Decrease, format!("decrease by {delta}")),
            Mutation::Delete(nodes) => {
                let mut action = format!("delete {} nodes:", nodes.len());
                for node in nodes.iter().take(NODES_SHOWN) {
                    let _infallible = write!(action, " {}", node.id);
                }
                if nodes.len() > NODES_SHOWN {
                    action.push_str(" …");
                }
                (RequestKind::Delete, shorten(&action, MESSAGE_CHARS_MAX))
            }
        };
        let status = &view.status;
        let basis = format!(
            "target {}, capacity {}, live {}, min {}, max {}",
            status.target, status.capacity, status.live, view.min, view.max
        );
        Some(Self { group: Arc::clone(group), kind, action, basis, at: SystemTime::now() })
    }

    /// Records the result.
    pub(in crate::fleet) fn ended(self, journal: &Journal, outcome: &Result<(), FleetError>) {
        let result = match outcome {
            Ok(()) => RequestResult::Ok,
            Err(error) => result_of(error),
        };
        let reason = match outcome {
            Ok(()) => self.basis,
            Err(error) => format!("{}; {error}", self.basis),
        };
        journal.count_request(&self.group, self.kind, result);
        journal.decide(Decision {
            at: self.at,
            group: self.group.to_string(),
            action: self.action,
            result: result.as_str(),
            reason: shorten(&reason, 2 * MESSAGE_CHARS_MAX),
            request_id: RequestId::current().map(|id| id.to_string()),
        });
    }
}

fn result_of(error: &FleetError) -> RequestResult {
    match error {
        FleetError::Refused { .. }
        | FleetError::OverQuota { .. }
        | FleetError::Malformed(_)
        | FleetError::UnknownGroup { .. } => RequestResult::Refused,
        FleetError::OutcomeUnknown { .. } | FleetError::StillRunning { .. } => RequestResult::Unknown,
        FleetError::NotSent { .. } | FleetError::Busy { .. } | FleetError::NotServed { .. } => RequestResult::Late,
        _ => RequestResult::Failed,
    }
}
