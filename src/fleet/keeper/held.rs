//! Holding the response to a deletion for its outcome.
//!
//! Where the cloud finishes a deletion later, it may accept one and fail it some seconds afterwards. CA's taint stays on the node
//! of an accepted deletion, and CA then considers the group unhealthy for minutes, since the externalgrpc client cannot report
//! that the instance lives (`hasCloudProviderInstance` in CA's `clusterstate.go`). CA removes the taint at once when
//! DeleteNodes returns an error. So the response to a call that names real nodes waits a few seconds for the outcome. Calls for
//! fake nodes are not held: CA's main loop waits for those.
//!
//! The keeper goes on meanwhile. A held response waits for the poll of its operation and for its time. Where that operation fails, it
//! also waits for the read that shows which instances live on: one that cannot be deleted fails the operation of all.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::side::PollEnd;
use crate::cloud::{CloudError, Failure, FailureClass, ProviderId};
use crate::fleet::error::FleetError;
use crate::fleet::limits::HOLD_MAX;
use crate::fleet::plan::NodeKind;
use crate::fleet::request::{Mutation, Request};
use crate::fleet::snapshot::GroupKey;

/// What becomes of a deletion, once it shows.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// How its polls ended.
    pub end: watch::Receiver<Option<PollEnd>>,
    /// Which of its instances live on although it failed.
    pub survivors: watch::Receiver<Option<BTreeSet<ProviderId>>>,
}

/// Responds to an accepted deletion: later, if it names nodes of the cluster and the cloud is polled for its outcome.
pub(super) fn respond(request: Request, outcome: Option<Outcome>, group: Arc<str>, key: GroupKey) {
    let Some(outcome) = outcome.filter(|_| names_registered_nodes(&request.mutation)) else {
        return request.respond(Ok(()));
    };
    let until = request.deadline.send_by.min(Instant::now() + HOLD_MAX);
    tokio::spawn(async move {
        let response = match known_by(outcome.end, until).await {
            Some(PollEnd::Failed(failure)) => {
                let named = request.mutation.named().collect();
                let survivors = known_by(outcome.survivors, until).await;
                failed_later(group, refusal(&key, &failure), &named, survivors.as_ref())
            }
            // It goes on, or it succeeded; one that another operation preempted is sent once more.
            _ => Ok(()),
        };
        request.respond(response);
    });
}

/// What is known by then, if anything is.
async fn known_by<T: Clone>(mut known: watch::Receiver<Option<T>>, until: Instant) -> Option<T> {
    let known = timeout_at(until, known.wait_for(Option::is_some)).await;
    known.ok()?.ok()?.clone()
}

fn refusal(key: &GroupKey, failure: &Failure) -> CloudError {
    let message = format!("the cloud accepted the deletion, which then failed: {} {}", failure.code, failure.message);
    match failure.class {
        FailureClass::OutOfResources => CloudError::conflict("delete_instances", key.name.as_str(), message),
        FailureClass::Other => CloudError::refused("delete_instances", key.name.as_str(), message),
    }
}

/// The response to a call whose operation failed. Where no read shows in time which instances live on, it failed for all of them.
fn failed_later(
    group: Arc<str>,
    error: CloudError,
    named: &BTreeSet<&ProviderId>,
    survivors: Option<&BTreeSet<ProviderId>>,
) -> Result<(), FleetError> {
    let Some(survivors) = survivors else { return Err(FleetError::Cloud { group, error }) };
    let living: Vec<&ProviderId> = named.iter().copied().filter(|id| survivors.contains(*id)).collect();
    if living.is_empty() {
        return Ok(());
    }
    if living.len() == named.len() {
        return Err(FleetError::Cloud { group, error });
    }
    let refused = living.into_iter().map(|id| (id.clone(), error.clone())).collect();
    Err(FleetError::PartlyRefused { group, refused })
}

fn names_registered_nodes(mutation: &Mutation) -> bool {
    matches!(mutation, Mutation::Delete(nodes) if nodes.iter().any(|node| node.kind == NodeKind::Registered))
}
