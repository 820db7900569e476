//! What requests to delete nodes and to give capacity back remove: judged call by call, and placeholders taken out of
//! the target.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::event::Note;
use super::lower::Lowering;
use super::plan::{self, DeletePlan};
use super::refusal::{Refusal, WriteError};
use super::request::{Mutation, Request};
use super::{Group, differ};
use crate::cloud::{CloudError, Deletion, Instance, ProviderId};

/// A DeleteNodes or DecreaseTargetSize call, and what it removes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Removal {
    pub request: Request,
    pub plan: DeletePlan,
}

impl Removal {
    /// Whether it takes placeholders out of the target.
    pub(super) fn cancels(&self) -> bool {
        !self.plan.placeholders.is_empty()
    }

    /// Whether others are to be launched in the place of some of its instances.
    pub(super) fn replaces(&self) -> bool {
        !self.plan.replaced.is_empty()
    }

    /// The instances of this call that the cloud refused, and why.
    pub(super) fn refused<'a>(&'a self, deletion: &'a Deletion) -> impl Iterator<Item = &'a (ProviderId, CloudError)> {
        deletion.refused.iter().filter(|(id, _)| self.plan.instances.contains(id))
    }

    /// Whether the cloud accepted some of the instances of this call.
    pub(super) fn has_begun(&self, deletion: &Deletion) -> bool {
        deletion.accepted.iter().any(|id| self.plan.instances.contains(id))
    }

    /// Whether the cloud refused some, and all of those only for the moment.
    pub(super) fn is_busy(&self, deletion: &Deletion) -> bool {
        self.refused(deletion).next().is_some() && self.refused(deletion).all(|(_, error)| error.may_be_repeated())
    }
}

/// Placeholders that were taken out of the target, until the capacity is lowered by them or that is deferred.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Cancelling {
    /// The calls that named them.
    pub cancels: Vec<Removal>,
    pub names: BTreeSet<ProviderId>,
    /// The other removals of the batch.
    pub others: Vec<Removal>,
    pub lowering: Lowering,
}

/// Placeholders that were just taken out of the target.
pub(super) struct Cancelled {
    pub cancels: Vec<Removal>,
    pub names: BTreeSet<ProviderId>,
}

impl Cancelling {
    pub(super) fn requests(&self) -> impl Iterator<Item = &Request> {
        self.cancels.iter().chain(&self.others).map(|removal| &removal.request)
    }
}

impl Group {
    /// Judges each call as a whole, in the order of arrival, while there is room (law 6).
    pub(super) fn judge_removals(&mut self, requests: Vec<Request>) -> Vec<Removal> {
        let mut claimed = plan::pending(&self.state, &self.to_resend);
        let mut removals = Vec::new();
        for request in requests {
            match self.judge_removal(&request, &claimed) {
                Ok(plan) => {
                    claimed.join(plan.clone());
                    removals.push(Removal { request, plan });
                }
                Err(error) => {
                    self.log(Note::DeletionRefused(Box::new(error.clone())));
                    self.respond(&request, Err(error));
                }
            }
        }
        removals
    }

    fn judge_removal(&mut self, request: &Request, claimed: &DeletePlan) -> Result<DeletePlan, WriteError> {
        if differ(request.group, self.state.observation().reading.identity) {
            return Err(Refusal::Recreated.into());
        }
        let plan = self.planned_removal(request, claimed)?;
        if !plan.is_empty() {
            self.permit_write(plan.to_string())?;
        }
        Ok(plan)
    }

    fn planned_removal(&self, request: &Request, claimed: &DeletePlan) -> Result<DeletePlan, WriteError> {
        let in_flight = self.state.in_flight();
        match &request.mutation {
            Mutation::Delete(nodes) => {
                if let Some(id) = request.mutation.named().find(|id| in_flight.is_unsettled(id)) {
                    return Err(WriteError::OutcomeUnknown(format!("an earlier deletion of {id} got no response")));
                }
                let plan = plan::delete(&self.state, nodes, claimed)?;
                // Instances that failed to be created are never nodes of any cluster. Evicted ones were.
                let instances = &self.state.observation().instances;
                let is_no_node = |one: &&Instance| one.failure.as_ref().is_some_and(|failure| !failure.is_eviction);
                let no_nodes: BTreeSet<_> = instances.iter().filter(is_no_node).map(|one| &one.id).collect();
                request.refuse_foreign(plan.instances.iter().filter(|id| !no_nodes.contains(id)))?;
                Ok(plan)
            }
            Mutation::Decrease(number) => {
                let placeholders = plan::decrease(&self.state, *number, request.zone.as_ref(), claimed);
                Ok(DeletePlan { placeholders, ..DeletePlan::default() })
            }
            Mutation::Increase(_) => Ok(DeletePlan::default()),
        }
    }

    /// Whether a write may begin; every write starts here. In read-only mode, logs what would have been written and
    /// returns the error for the caller.
    pub(super) fn permit_write(&mut self, intended: String) -> Result<(), WriteError> {
        if !self.is_read_only {
            return Ok(());
        }
        self.log(Note::ReadOnly(intended.clone()));
        Err(Refusal::ReadOnly { intended }.into())
    }

    /// Takes the placeholders of these calls out of the target. `None` if there are none.
    pub(super) fn cancel(&mut self, cancels: Vec<Removal>) -> Option<Cancelled> {
        let mut committed = Vec::new();
        for Removal { request, plan } in cancels {
            for mut request in self.committed(vec![request]) {
                self.begin(&mut request);
                committed.push(Removal { request, plan: plan.clone() });
            }
        }
        let names: BTreeSet<ProviderId> =
            committed.iter().flat_map(|removal| removal.plan.placeholders.iter().cloned()).collect();
        if names.is_empty() {
            return None;
        }
        self.state.cancel(&names);
        self.publish();
        Some(Cancelled { cancels: committed, names })
    }

    /// The capacity was lowered by the cancelled placeholders, or that is deferred, or the cloud refused it for good.
    /// Returns the removals that go on.
    pub(super) fn cancelled(&mut self, cancelling: Cancelling, lowered: Result<(), WriteError>) -> Vec<Removal> {
        let Cancelling { cancels, names, mut others, .. } = cancelling;
        match lowered {
            Ok(()) => others.extend(cancels),
            Err(error) => {
                self.state.undo_cancel(&names);
                self.publish();
                self.respond_all(requests(cancels), &error);
            }
        }
        others
    }
}

/// The requests of these removals.
pub(super) fn requests(removals: Vec<Removal>) -> Vec<Request> {
    removals.into_iter().map(|removal| removal.request).collect()
}
