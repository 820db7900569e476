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

/// A request, with the status of its group when it arrived. It is recorded when it ends, and when its caller leaves
/// before that.
pub(in crate::fleet) struct RequestRecord {
    journal: Arc<Journal>,
    is_recorded: bool,
    group: Arc<str>,
    kind: RequestKind,
    action: String,
    basis: String,
    at: SystemTime,
}

impl RequestRecord {
    /// A request that has just arrived; `None` if there is no such group.
    pub(in crate::fleet) fn new(
        journal: &Arc<Journal>,
        group: Option<(&Arc<str>, &Arc<GroupView>)>,
        mutation: &Mutation,
    ) -> Option<Self> {
        let (group, view) = group?;
        let (kind, action) = match mutation {
            Mutation::Increase(delta) => (RequestKind::Increase, format!("increase by {delta}")),
            Mutation::Decrease(delta) => (RequestKind::Decrease, format!("decrease by {delta}")),
            Mutation::Delete(nodes) => {
                let mut action = match nodes.len() {
                    1 => "delete 1 node:".to_owned(),
                    number => format!("delete {number} nodes:"),
                };
                for node in nodes.iter().take(NODES_SHOWN) {
                    // An ID can be of any length until it is checked.
                    let _infallible = write!(action, " {}", shorten(node.id.as_str(), MESSAGE_CHARS_MAX));
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
        let (journal, group) = (Arc::clone(journal), Arc::clone(group));
        Some(Self { journal, is_recorded: false, group, kind, action, basis, at: SystemTime::now() })
    }

    /// Records the result.
    pub(in crate::fleet) fn ended(mut self, outcome: &Result<(), FleetError>) {
        match outcome {
            Ok(()) => self.record(RequestResult::Ok, None),
            Err(error) => self.record(result_of(error), Some(&error.to_string())),
        }
    }

    fn record(&mut self, result: RequestResult, why: Option<&str>) {
        self.is_recorded = true;
        if !matches!(result, RequestResult::Ok | RequestResult::Refused) {
            let (group, request, error) = (&*self.group, self.action.as_str(), why.unwrap_or_default());
            tracing::warn!(
                %group,
                request,
                result = result.as_str(),
                error,
                "a request of the Cluster Autoscaler failed"
            );
        }
        let reason = why.map_or_else(|| self.basis.clone(), |why| format!("{}; {why}", self.basis));
        self.journal.count_request(&self.group, self.kind, result);
        self.journal.decide(Decision {
            at: self.at,
            group: self.group.to_string(),
            action: std::mem::take(&mut self.action),
            result: result.as_str(),
            reason: shorten(&reason, 2 * MESSAGE_CHARS_MAX),
            request_id: RequestId::current().map(|id| id.to_string()),
        });
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        if !self.is_recorded {
            self.record(RequestResult::Unknown, Some("the caller left before the result was known"));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn record(journal: &Arc<Journal>) -> RequestRecord {
        let (journal, basis) = (Arc::clone(journal), "target 3".to_owned());
        let (kind, action) = (RequestKind::Increase, "increase by 2".to_owned());
        RequestRecord { journal, is_recorded: false, group: "web".into(), kind, action, basis, at: SystemTime::now() }
    }

    #[test]
    fn a_request_is_recorded_once_also_when_its_caller_leaves_before_the_result() {
        let journal = Arc::<Journal>::default();
        record(&journal).ended(&Ok(()));
        drop(record(&journal));
        let decisions = journal.decisions();
        let results: Vec<_> = decisions.iter().map(|one| (one.action.as_str(), one.result)).collect();
        assert_eq!(results, [("increase by 2", "unknown"), ("increase by 2", "ok")]);
        assert_eq!(decisions[0].reason, "target 3; the caller left before the result was known");
    }
}
