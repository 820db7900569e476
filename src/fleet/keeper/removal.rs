//! Cancelling placeholders and deleting instances.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::Keeper;
use super::attempts::Attempts;
use super::batch::respond_all;
use super::fresh::Fresh;
use crate::cloud::{CloudError, Deletion, ProviderId, differ};
use crate::fleet::error::{FleetError, Refusal};
use crate::fleet::limits::LOWER_LIMIT;
use crate::fleet::plan::{self, DeletePlan};
use crate::fleet::policy::ForeignPolicy;
use crate::fleet::request::{Mutation, Request};

/// A DeleteNodes or DecreaseTargetSize call, and what it removes.
pub(super) struct Removal {
    pub request: Request,
    pub plan: DeletePlan,
}

impl Removal {
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
        let is_passing = |(_, error): &(ProviderId, CloudError)| {
            matches!(error, CloudError::Conflict(_) | CloudError::Throttled { .. })
        };
        self.refused(deletion).next().is_some() && self.refused(deletion).all(is_passing)
    }
}

impl Keeper {
    /// Judges each call as a whole, in the order of arrival, while there is room (law 6).
    pub(super) fn judge_removals(&self, requests: Vec<Request>) -> Vec<Removal> {
        let mut claimed = plan::pending(&self.state, &self.to_resubmit);
        let mut removals = Vec::new();
        for request in requests {
            match self.judge_removal(&request, &claimed) {
                Ok(plan) => {
                    claimed.join(plan.clone());
                    removals.push(Removal { request, plan });
                }
                Err(error) => {
                    tracing::warn!(group = %self.group_id(), %error, "deletion refused");
                    request.respond(Err(error));
                }
            }
        }
        removals
    }

    fn judge_removal(&self, request: &Request, claimed: &DeletePlan) -> Result<DeletePlan, FleetError> {
        if differ(request.group, self.state.observation().reading.identity) {
            return Err(FleetError::Refused { group: self.group_id(), refusal: Refusal::Recreated });
        }
        let plan = self.planned_removal(&request.mutation, claimed)?;
        if !plan.is_empty() {
            self.permit_write(plan.to_string())?;
        }
        Ok(plan)
    }

    fn planned_removal(&self, mutation: &Mutation, claimed: &DeletePlan) -> Result<DeletePlan, FleetError> {
        match mutation {
            Mutation::Delete(nodes) => {
                if let Some(id) = nodes.iter().map(|node| &node.id).find(|id| self.state.in_flight().is_unsettled(id)) {
                    let reason = format!("an earlier deletion of {id} got no response");
                    return Err(FleetError::OutcomeUnknown { group: self.group_id(), reason });
                }
                plan::delete(&self.state, nodes, claimed)
                    .and_then(|plan| self.refuse_foreign(&plan).map(|()| plan))
                    .map_err(|refusal| FleetError::Refused { group: self.group_id(), refusal })
            }
            Mutation::Decrease(number) => {
                let placeholders = plan::decrease(&self.state, *number, claimed);
                Ok(DeletePlan { placeholders, ..DeletePlan::default() })
            }
            Mutation::Increase(_) => Ok(DeletePlan::default()),
        }
    }

    /// Refuses to delete what seems to be another cluster's. Instances that failed to be created are never nodes of any.
    fn refuse_foreign(&self, plan: &DeletePlan) -> Result<(), Refusal> {
        if self.context.policies.of(&self.group_id()).foreign == ForeignPolicy::Allow {
            return Ok(());
        }
        let observation = self.state.observation();
        let has_failed = |id: &ProviderId| {
            observation.instances.iter().any(|instance| instance.id == *id && instance.failure.is_some())
        };
        let named: Vec<_> = plan.instances.iter().filter(|id| !has_failed(id)).collect();
        let cluster = self.context.cluster.load(Instant::now());
        cluster.map_or(Ok(()), |cluster| cluster.permit(&self.key, &observation.reading.hints.clusters, &named))
    }

    /// Takes placeholders out of the target, and lowers the capacity by them if that is safe and quick. What is not lowered now
    /// is lowered as soon as it is safe, unless the group's capacity is never lowered.
    pub(super) async fn cancel_placeholders(
        &mut self,
        removals: Vec<Removal>,
        fresh: &mut Option<Fresh>,
        attempts: &mut Attempts,
    ) -> Vec<Removal> {
        let (cancels, mut others): (Vec<_>, Vec<_>) =
            removals.into_iter().partition(|removal| !removal.plan.placeholders.is_empty());
        let cancels: Vec<Removal> = cancels.into_iter().filter(|removal| removal.request.commit()).collect();
        let names: BTreeSet<ProviderId> =
            cancels.iter().flat_map(|removal| removal.plan.placeholders.iter().cloned()).collect();
        if names.is_empty() {
            return others;
        }
        self.state.cancel(&names);
        self.publish();
        let lowered = if self.state.may_lower() {
            *fresh = None;
            self.lower_now(attempts).await
        } else {
            Ok(())
        };
        match lowered {
            Ok(()) => {
                cancels.iter().for_each(|removal| removal.request.begin());
                others.extend(cancels);
            }
            Err(error) => {
                self.state.undo_cancel(&names);
                self.publish();
                respond_all(cancels.into_iter().map(|removal| removal.request), &error);
            }
        }
        others
    }

    /// Lowers the capacity by what is cancelled. An error says that the cloud refused it for good; a reduction that only takes
    /// too long stays deferred.
    async fn lower_now(&mut self, attempts: &mut Attempts) -> Result<(), FleetError> {
        let mut reading = Attempts::until((Instant::now() + LOWER_LIMIT).min(Instant::now() + attempts.left()));
        match self.fresh_instances(&mut reading).await {
            Ok(fresh) => self.lower(fresh, attempts).await,
            Err(error @ FleetError::UnknownGroup { .. }) => Err(error),
            Err(error) => {
                tracing::warn!(group = %self.group_id(), %error, "capacity not lowered yet: instances cannot be read in time");
                Ok(())
            }
        }
    }
}
