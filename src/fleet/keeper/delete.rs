//! Deleting instances: one call for a batch, and a response to every caller.

use std::collections::BTreeSet;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::Keeper;
use super::attempts::Attempts;
use super::batch::{respond_all, respond_out_of_time};
use super::fresh::Fresh;
use super::held::{self, Outcome};
use super::removal::Removal;
use crate::cloud::{CloudError, Deletion, GroupReading, Instance, InstanceState, ProviderId};
use crate::fleet::error::FleetError;
use crate::fleet::limits::{LOWER_LIMIT, WRITE_LIMIT};
use crate::fleet::operation::OperationId;
use crate::fleet::request::{Mutation, Request};
use crate::fleet::state::DeletionWrite;

impl Keeper {
    /// Deletes the instances of a batch with one call, and responds to its callers.
    pub(super) async fn delete(&mut self, removals: Vec<Removal>, fresh: &mut Option<Fresh>, attempts: &mut Attempts) {
        let (deletions, rest): (Vec<_>, Vec<_>) =
            removals.into_iter().partition(|removal| !removal.plan.instances.is_empty());
        self.note_leaving(&rest);
        for removal in rest {
            if matches!(removal.request.mutation, Mutation::Decrease(_)) && removal.plan.placeholders.is_empty() {
                tracing::warn!(group = %self.group_id(), "nothing to decrease: no capacity of the node group is missing");
            }
            removal.request.respond(Ok(()));
        }
        let mut deletions: Vec<Removal> = deletions.into_iter().filter(|removal| removal.request.commit()).collect();
        while !deletions.is_empty() {
            let before = self.still_there(&deletions);
            if before.is_empty() {
                return deletions.into_iter().for_each(|removal| removal.request.respond(Ok(())));
            }
            let read = match fresh.take() {
                Some(read) => read,
                None => match self.fresh(attempts).await {
                    Ok(read) => {
                        // What there was room for before may be too much now (law 6).
                        deletions = self.judge_removals(requests(deletions));
                        read
                    }
                    Err(error) => return respond_all(requests(deletions), &error),
                },
            };
            // The time of some may be up, although others of the batch have more (law 9).
            deletions.retain(|removal| removal.request.commit());
            self.note_leaving(&deletions);
            // Judged again after the read: an instance that another client is deleting meanwhile is not deleted twice.
            let ids = self.still_there(&deletions);
            if ids.is_empty() {
                *fresh = Some(read);
                return deletions.into_iter().for_each(|removal| removal.request.respond(Ok(())));
            }
            match self.write_deletion(read, &ids, false).await {
                Ok((deletion, outcome)) => {
                    let lost = deletion.refused.iter().find(|(_, error)| error.outcome_unknown());
                    if let Some((_, error)) = lost {
                        // The response below says what this read shows.
                        let _seen = self.see_deleted(&ids, error, attempts).await;
                    }
                    let (busy, rest): (Vec<_>, Vec<_>) =
                        deletions.into_iter().partition(|removal| outcome.is_none() && removal.is_busy(&deletion));
                    self.respond_deleted(rest, &deletion, outcome.as_ref());
                    let Some((_, error)) = busy.iter().find_map(|removal| removal.refused(&deletion).next()) else {
                        return;
                    };
                    let error = error.clone();
                    busy.iter().filter(|removal| removal.has_begun(&deletion)).for_each(|one| one.request.begin());
                    let next = attempts.next_after(&error);
                    let (busy, out_of_time): (Vec<_>, Vec<_>) =
                        busy.into_iter().partition(|removal| next < removal.request.attempt_until());
                    self.respond_deleted(out_of_time, &deletion, None);
                    if !attempts.again_after(&error).await {
                        return self.respond_deleted(busy, &deletion, None);
                    }
                    // What was accepted is being deleted by now, and is not deleted again.
                    deletions = self.judge_removals(requests(busy));
                }
                Err(error) if error.outcome_unknown() => {
                    let outcome = self.see_deleted(&ids, &error, attempts).await;
                    return requests(deletions).into_iter().for_each(|request| request.respond(outcome.clone()));
                }
                Err(error) => {
                    let refused = self.cloud_error(error.clone());
                    let mut waiting = requests(deletions);
                    if matches!(error, CloudError::Conflict(_) | CloudError::Throttled { .. }) {
                        waiting = respond_out_of_time(waiting, attempts.next_after(&error), &refused);
                        if !waiting.is_empty() && attempts.again_after(&error).await {
                            tracing::warn!(group = %self.group_id(), %error, "deletion not accepted; reading the node group again");
                            deletions = self.judge_removals(waiting);
                            continue;
                        }
                    }
                    tracing::warn!(group = %self.group_id(), %error, "deletion refused");
                    return respond_all(waiting, &refused);
                }
            }
        }
    }

    /// The response to a deletion was lost. A read that shows every named instance as deleted or being deleted shows that it
    /// took effect (law 7).
    async fn see_deleted(
        &mut self,
        ids: &[ProviderId],
        error: &CloudError,
        attempts: &mut Attempts,
    ) -> Result<(), FleetError> {
        let mut reading = Attempts::until(Instant::now() + attempts.left().min(LOWER_LIMIT));
        let is_read = self.fresh_instances(&mut reading).await.is_ok();
        if is_read && !ids.iter().any(|id| self.state.in_flight().is_unsettled(id)) {
            return Ok(());
        }
        Err(FleetError::OutcomeUnknown { group: self.group_id(), reason: error.to_string() })
    }

    /// Notes which named instances are gone or being deleted, by no deletion of ours. The caller is told so, and the next read may
    /// lag behind the one that shows it.
    fn note_leaving(&mut self, removals: &[Removal]) {
        let (observation, in_flight) = (self.state.observation(), self.state.in_flight());
        let stays = |id: &ProviderId| {
            let stays = |one: &Instance| one.id == *id && one.state != InstanceState::Deleting;
            observation.instances.iter().any(stays)
                || self.state.placeholders().iter().any(|placeholder| placeholder.id == *id)
        };
        let named: BTreeSet<&ProviderId> =
            removals.iter().flat_map(|removal| removal.request.mutation.named()).collect();
        let leaving: Vec<ProviderId> =
            named.into_iter().filter(|id| !in_flight.deletes(id) && !stays(id)).cloned().collect();
        if !leaving.is_empty() {
            let operation = self.next_operation();
            self.state.note_leaving(operation, &leaving, Instant::now());
        }
    }

    /// The named instances that are listed and not being deleted, each once.
    fn still_there(&self, deletions: &[Removal]) -> Vec<ProviderId> {
        let mut named = BTreeSet::new();
        let ids = deletions.iter().flat_map(|removal| &removal.plan.instances).filter(|id| named.insert(*id));
        let stays = |id: &&ProviderId| {
            let instances = &self.state.observation().instances;
            instances.iter().any(|instance| instance.id == **id && !self.state.in_flight().is_leaving(instance))
        };
        ids.filter(stays).cloned().collect()
    }

    fn respond_deleted(&self, deletions: Vec<Removal>, deletion: &Deletion, outcome: Option<&Outcome>) {
        for removal in deletions {
            let settled = |(id, error): &&(ProviderId, CloudError)| {
                !error.outcome_unknown() || self.state.in_flight().is_unsettled(id)
            };
            let refused: Vec<(ProviderId, CloudError)> = removal.refused(deletion).filter(settled).cloned().collect();
            let outcome = match refused.iter().find(|(_, error)| error.outcome_unknown()) {
                Some((id, error)) => {
                    Err(FleetError::OutcomeUnknown { group: self.group_id(), reason: format!("{id}: {error}") })
                }
                None if refused.is_empty() => {
                    let is_accepted = removal.plan.instances.iter().any(|id| deletion.accepted.contains(id));
                    let outcome = outcome.filter(|_| is_accepted).cloned();
                    held::respond(removal.request, outcome, self.group_id(), self.key.clone());
                    continue;
                }
                None => Err(FleetError::PartlyRefused { group: self.group_id(), refused }),
            };
            removal.request.respond(outcome);
        }
    }

    /// Sends one deletion and records what became of it: accepted, refused, or unknown (law 7).
    pub(super) async fn write_deletion(
        &mut self,
        fresh: Fresh,
        ids: &[ProviderId],
        is_resubmitted: bool,
    ) -> Result<(Deletion, Option<Outcome>), CloudError> {
        // The cloud gets the instances that this was decided on: AWS's call for one instance does not name the group.
        let instances = self.state.observation().instances.clone();
        let basis = GroupReading { instances: Some(instances), ..fresh.basis };
        let operation = self.next_operation();
        tracing::info!(group = %self.group_id(), %operation, instances = ids.len(), ids = ?FirstIds(ids), "deleting instances");
        self.state.send_deletion(ids.len());
        let sent = timeout(WRITE_LIMIT, self.context.delete_instances(&basis, ids)).await;
        let ended = Instant::now();
        self.written = Some(ended);
        let outcome = sent.unwrap_or_else(|_elapsed| Err(self.reader.timed_out("delete_instances")));
        let mut followed = None;
        match &outcome {
            Ok(deletion) => {
                for (id, error) in &deletion.refused {
                    tracing::warn!(group = %self.group_id(), %operation, instance = %id, %error, "instance not deleted");
                }
                let refused = deletion.refused.iter().filter(|(_, error)| !error.outcome_unknown());
                self.state.refuse_deletion(refused.count());
                followed = self.record_deletion(operation, deletion, ended, is_resubmitted);
            }
            Err(error) if error.outcome_unknown() => {
                tracing::warn!(group = %self.group_id(), %operation, %error, "the response to a deletion was lost; it is not sent again until a read shows the outcome");
                self.state.lose_deletion(operation, ids.iter().cloned().collect(), ended);
            }
            Err(_) => self.state.refuse_deletion(ids.len()),
        }
        self.publish();
        self.look_soon();
        outcome.map(|deletion| (deletion, followed))
    }

    /// Records what of a deletion was accepted, refused or lost. Returns where the end of the accepted part shows.
    fn record_deletion(
        &mut self,
        operation: OperationId,
        deletion: &Deletion,
        ended: Instant,
        is_resubmitted: bool,
    ) -> Option<Outcome> {
        let mut followed = None;
        if !deletion.accepted.is_empty() {
            let (ids, handle) = (deletion.accepted.iter().cloned().collect(), deletion.handle.clone());
            let write = DeletionWrite { ids, accepted: ended, handle: handle.clone(), is_resubmitted };
            self.state.accept_deletion(operation, write);
            followed = self.follow(operation, handle).map(|end| {
                let (sender, survivors) = watch::channel(None);
                self.held.insert(operation, sender);
                Outcome { end, survivors }
            });
        }
        // What the cloud reports as gone or being deleted is so from now on, even if a read lags behind.
        if !deletion.already_gone.is_empty() {
            let operation = self.next_operation();
            self.state.note_leaving(operation, &deletion.already_gone, ended);
        }
        let lost: BTreeSet<ProviderId> =
            deletion.refused.iter().filter(|(_, error)| error.outcome_unknown()).map(|(id, _)| id.clone()).collect();
        if !lost.is_empty() {
            let operation = self.next_operation();
            self.state.lose_deletion(operation, lost, ended);
        }
        followed
    }
}

fn requests(removals: Vec<Removal>) -> Vec<Request> {
    removals.into_iter().map(|removal| removal.request).collect()
}

/// The first few IDs, for a log line.
struct FirstIds<'a>(&'a [ProviderId]);

impl std::fmt::Debug for FirstIds<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const SHOWN: usize = 10;
        formatter.debug_list().entries(self.0.iter().take(SHOWN).map(ProviderId::as_str)).finish()
    }
}
