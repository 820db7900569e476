//! Taking capacity back and deleting instances.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::{Instant, timeout};

use super::Keeper;
use super::batch::answer_all;
use crate::cloud::{CloudError, Deletion, GroupReading, InstanceState, LaunchActivity, ProviderId};
use crate::fleet::census;
use crate::fleet::error::FleetError;
use crate::fleet::limits::{RECOMPUTE, WRITE_LIMIT};
use crate::fleet::plan::{self, DeletePlan};
use crate::fleet::request::{Mutation, Request};

/// A DeleteNodes or DecreaseTargetSize call and what it comes to.
pub(super) struct Removal {
    request: Request,
    plan: DeletePlan,
}

impl Keeper {
    /// Judges each call whole, in the order of arrival, while there is room (law 6).
    pub(super) fn judge_removals(&self, requests: Vec<Request>) -> Vec<Removal> {
        let Some(observation) = self.state.observation() else { return Vec::new() };
        let mut claimed = DeletePlan::default();
        let mut removals = Vec::new();
        for request in requests {
            let judged = match &request.mutation {
                Mutation::Delete(nodes) => plan::delete(&self.state, observation, nodes, &claimed),
                Mutation::Decrease(number) => {
                    let placeholders = plan::decrease(&self.state, *number, &claimed);
                    Ok(DeletePlan { placeholders, ..DeletePlan::default() })
                }
                Mutation::Increase(_) => Ok(DeletePlan::default()),
            };
            match judged {
                Ok(plan) => {
                    claimed.join(plan.clone());
                    removals.push(Removal { request, plan });
                }
                Err(refusal) => {
                    tracing::warn!(group = %self.group_id(), %refusal, "deletion refused");
                    request.answer(Err(FleetError::Refused { group: self.group_id(), refusal }));
                }
            }
        }
        removals
    }

    /// Takes placeholders out of the target and lowers the capacity by them as far as that is safe.
    pub(super) async fn take_back(&mut self, removals: Vec<Removal>) -> Vec<Removal> {
        let (takes, mut others): (Vec<_>, Vec<_>) =
            removals.into_iter().partition(|removal| !removal.plan.placeholders.is_empty());
        let takes: Vec<Removal> = takes.into_iter().filter(|removal| removal.request.commit()).collect();
        let names: BTreeSet<ProviderId> =
            takes.iter().flat_map(|removal| removal.plan.placeholders.iter().cloned()).collect();
        if names.is_empty() {
            return others;
        }
        self.state.cancel(&names);
        match self.lower().await {
            Ok(()) => {
                others.extend(takes);
                others
            }
            Err(error) => {
                self.state.undo_cancel(&names);
                self.publish();
                takes.into_iter().for_each(|take| take.request.answer(Err(error.clone())));
                others
            }
        }
    }

    /// Lowers the capacity by what is cancelled, as far as that is safe at this moment; the rest stays owed.
    pub(super) async fn lower(&mut self) -> Result<(), FleetError> {
        if !self.state.is_steady() {
            self.fresh().await?;
        }
        for _ in 0..=RECOMPUTE {
            // Unknown is not 0 (law 5): without knowing what is being launched, the reduction stays owed.
            let Some(LaunchActivity { under_way, .. }) = self.launch_activity().await else {
                self.publish();
                return Ok(());
            };
            let Some(observation) = self.state.observation() else { return Ok(()) };
            let Some(to) = plan::reduced_capacity(&self.state, observation, under_way) else {
                self.publish();
                return Ok(());
            };
            match self.write_capacity(to).await {
                Ok(true) => return Ok(()),
                Ok(false) => self.fresh().await?,
                Err(error) => return Err(error),
            }
        }
        Err(self.contended())
    }

    /// Deletes the instances of a batch with one call and answers its callers.
    pub(super) async fn delete(&mut self, removals: Vec<Removal>) {
        let (kills, rest): (Vec<_>, Vec<_>) =
            removals.into_iter().partition(|removal| !removal.plan.instances.is_empty());
        for removal in rest {
            if matches!(removal.request.mutation, Mutation::Decrease(_)) && removal.plan.placeholders.is_empty() {
                tracing::warn!(group = %self.group_id(), "asked to decrease the target size, but no capacity is missing");
            }
            removal.request.answer(Ok(()));
        }
        let mut kills: Vec<Removal> = kills.into_iter().filter(|removal| removal.request.commit()).collect();
        if let Err(error) = self.fresh_since_the_last_write().await {
            return answer_all(kills.into_iter().map(|kill| kill.request).collect(), &error);
        }
        for _ in 0..=RECOMPUTE {
            // One that two calls name is deleted once.
            let mut named = BTreeSet::new();
            let ids = kills.iter().flat_map(|kill| &kill.plan.instances).filter(|id| named.insert(*id)).cloned();
            let ids = self.still_there(ids.collect());
            if ids.is_empty() {
                return kills.into_iter().for_each(|kill| kill.request.answer(Ok(())));
            }
            match self.write_deletion(&ids).await {
                Ok(deletion) => return self.answer_deletion(kills, deletion),
                Err(error) if matches!(error, CloudError::Conflict(_)) || error.outcome_unknown() => {
                    tracing::warn!(group = %self.group_id(), %error, "deletion not confirmed; reading the group again");
                    if let Err(unreadable) = self.fresh().await {
                        tracing::warn!(group = %self.group_id(), error = %unreadable, "cannot be read again");
                        let error = self.cloud_error(error);
                        return answer_all(kills.drain(..).map(|kill| kill.request).collect(), &error);
                    }
                    // What there was room for before may be too much now (law 6).
                    let again = kills.drain(..).map(|kill| kill.request).collect();
                    kills = self.judge_removals(again);
                }
                Err(error) => {
                    tracing::warn!(group = %self.group_id(), %error, "deletion refused");
                    let error = self.cloud_error(error);
                    return answer_all(kills.drain(..).map(|kill| kill.request).collect(), &error);
                }
            }
        }
        let error = self.contended();
        answer_all(kills.into_iter().map(|kill| kill.request).collect(), &error);
    }

    /// Of these, the instances that the last reading lists and that are not on their way out.
    fn still_there(&self, ids: Vec<ProviderId>) -> Vec<ProviderId> {
        let Some(observation) = self.state.observation() else { return ids };
        let going = census::going(self.state.operations());
        let stays = |id: &ProviderId| {
            let listed = observation.instances.iter().find(|instance| instance.id == *id);
            listed.is_some_and(|instance| instance.state != InstanceState::Deleting) && !going.contains_key(id)
        };
        ids.into_iter().filter(stays).collect()
    }

    fn answer_deletion(&self, kills: Vec<Removal>, deletion: Deletion) {
        let refused: Vec<(ProviderId, Arc<CloudError>)> =
            deletion.refused.into_iter().map(|(id, error)| (id, Arc::new(error))).collect();
        for kill in kills {
            let own: Vec<_> = refused.iter().filter(|(id, _)| kill.plan.instances.contains(id)).cloned().collect();
            let outcome = if own.is_empty() {
                Ok(())
            } else {
                Err(FleetError::PartlyRefused { group: self.group_id(), refused: own })
            };
            kill.request.answer(outcome);
        }
    }

    /// Sends one deletion and records what was accepted.
    async fn write_deletion(&mut self, ids: &[ProviderId]) -> Result<Deletion, CloudError> {
        self.write_deletion_again(ids, false).await
    }

    pub(super) async fn write_deletion_again(
        &mut self,
        ids: &[ProviderId],
        resubmitted: bool,
    ) -> Result<Deletion, CloudError> {
        let Some(observation) = self.state.observation() else { return Ok(Deletion::default()) };
        // The cloud sees which instances this was decided on: AWS' call for one instance does not name the group.
        let basis = GroupReading { instances: Some(observation.instances.clone()), ..observation.reading.clone() };
        let operation = self.next_operation();
        tracing::info!(group = %self.group_id(), %operation, instances = ids.len(), ids = ?Brief(ids), "deleting");
        self.state.send_delete(ids.len());
        let sent = timeout(WRITE_LIMIT, self.around.cloud.delete_instances(&basis, ids)).await;
        self.written = Some(Instant::now());
        let deletion = sent.unwrap_or_else(|_elapsed| Err(self.timed_out("delete_instances")))?;
        for (id, error) in &deletion.refused {
            tracing::warn!(group = %self.group_id(), %operation, instance = %id, %error, "deletion refused");
        }
        if !deletion.accepted.is_empty() {
            let handle = deletion.handle.clone();
            self.state.accept_delete(operation, &deletion.accepted, Instant::now(), handle, resubmitted);
        }
        // What the cloud says is gone or going is so from now on, whatever a read that lags behind says.
        if !deletion.already_gone.is_empty() {
            let operation = self.next_operation();
            self.state.note_going(operation, &deletion.already_gone, Instant::now());
        }
        self.read_back().await;
        Ok(deletion)
    }
}

/// The first few IDs, for a log line.
struct Brief<'a>(&'a [ProviderId]);

impl std::fmt::Debug for Brief<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const SHOWN: usize = 10;
        formatter.debug_list().entries(self.0.iter().take(SHOWN).map(ProviderId::as_str)).finish()
    }
}
