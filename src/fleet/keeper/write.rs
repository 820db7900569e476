//! Carrying requests out: a short wait for others to join, a fresh reading, the laws, as few cloud calls as can be, the
//! operations recorded, the snapshot swapped, every caller answered.
//!
//! Within a batch capacity is taken back first, then instances are deleted, then the group grows. All of a batch were
//! asked before any was answered, so no order between them was promised; this one writes least.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::{Instant, timeout, timeout_at};

use super::{Keeper, Message};
use crate::cloud::{Acceptance, CloudError, Deletion, GroupReading, InstanceState, LaunchActivity, ProviderId};
use crate::fleet::census;
use crate::fleet::doubt::{doubt, doubt_after};
use crate::fleet::error::FleetError;
use crate::fleet::limits::{BATCH_IDLE, BATCH_OPEN_MAX, READ_BACK_LIMIT, RECOMPUTE, WRITE_LIMIT};
use crate::fleet::operation::OperationId;
use crate::fleet::plan::{self, DeletePlan};
use crate::fleet::request::{Ask, Request};
use crate::fleet::state::CapacityWrite;

/// A DeleteNodes or DecreaseTargetSize call and what it comes to.
struct Removal {
    request: Request,
    plan: DeletePlan,
}

impl Keeper {
    /// Serves a request, and whatever others are waiting.
    pub(super) async fn serve(&mut self, first: Request) {
        let batch = self.collect(first).await;
        if let Err(error) = self.fresh().await {
            return answer_all(batch, &error);
        }
        let (growth, removal): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|request| matches!(request.ask, Ask::Increase(_)));
        let removals = self.judge_removals(removal);
        let removals = self.take_back(removals).await;
        self.delete(removals).await;
        self.grow(growth).await;
        self.settle().await;
    }

    /// Deletes wait a little for each other; everything that is waiting already is taken along.
    async fn collect(&mut self, first: Request) -> Vec<Request> {
        let closes = Instant::now() + BATCH_OPEN_MAX;
        let mut batch = vec![first];
        loop {
            while let Ok(message) = self.inbox.try_recv() {
                self.join(message, &mut batch);
            }
            if !batch.iter().all(|request| matches!(request.ask, Ask::Delete(_))) {
                return batch;
            }
            let idle = closes.min(Instant::now() + BATCH_IDLE);
            match timeout_at(idle, self.inbox.recv()).await {
                Ok(Some(message)) => self.join(message, &mut batch),
                Ok(None) | Err(_) => return batch,
            }
        }
    }

    fn join(&mut self, message: Message, batch: &mut Vec<Request>) {
        match message {
            Message::Mutate(request) => batch.push(request),
            other => self.backlog.push_back(other),
        }
    }

    /// Judges each call whole, in the order of arrival, while there is room (law 6).
    fn judge_removals(&self, requests: Vec<Request>) -> Vec<Removal> {
        let Some(observation) = self.state.observation() else { return Vec::new() };
        let mut claimed = DeletePlan::default();
        let mut removals = Vec::new();
        for request in requests {
            let judged = match &request.ask {
                Ask::Delete(nodes) => plan::delete(&self.state, observation, nodes, &claimed),
                Ask::Decrease(number) => {
                    let placeholders = plan::decrease(&self.state, *number, &claimed);
                    Ok(DeletePlan { placeholders, ..DeletePlan::default() })
                }
                Ask::Increase(_) => Ok(DeletePlan::default()),
            };
            match judged {
                Ok(plan) => {
                    claimed.join(plan.clone());
                    removals.push(Removal { request, plan });
                }
                Err(refusal) => {
                    tracing::warn!(group = %self.key.name, %refusal, "deletion refused");
                    request.answer(Err(FleetError::Refused { group: self.group_id(), refusal }));
                }
            }
        }
        removals
    }

    /// Takes placeholders out of the target and lowers the capacity by them as far as that is safe.
    async fn take_back(&mut self, removals: Vec<Removal>) -> Vec<Removal> {
        let (takes, mut others): (Vec<_>, Vec<_>) =
            removals.into_iter().partition(|removal| !removal.plan.placeholders.is_empty());
        let takes: Vec<Removal> = takes.into_iter().filter(|removal| removal.request.commit()).collect();
        let names: BTreeSet<ProviderId> =
            takes.iter().flat_map(|removal| removal.plan.placeholders.iter().cloned()).collect();
        if names.is_empty() {
            return others;
        }
        self.state.forgo(&names);
        match self.lower().await {
            Ok(()) => {
                others.extend(takes);
                others
            }
            Err(error) => {
                self.state.regain(&names);
                self.publish();
                takes.into_iter().for_each(|take| take.request.answer(Err(error.clone())));
                others
            }
        }
    }

    /// Lowers the capacity by what is forgone, as far as that is safe at this moment; the rest stays owed.
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
    async fn delete(&mut self, removals: Vec<Removal>) {
        let (kills, rest): (Vec<_>, Vec<_>) =
            removals.into_iter().partition(|removal| !removal.plan.instances.is_empty());
        for removal in rest {
            if matches!(removal.request.ask, Ask::Decrease(_)) && removal.plan.placeholders.is_empty() {
                tracing::warn!(group = %self.key.name, "asked to decrease the target size, but no capacity is missing");
            }
            removal.request.answer(Ok(()));
        }
        let mut kills: Vec<Removal> = kills.into_iter().filter(|removal| removal.request.commit()).collect();
        if let Err(error) = self.fresh_since_the_last_write().await {
            return answer_all(kills.into_iter().map(|kill| kill.request).collect(), &error);
        }
        for _ in 0..=RECOMPUTE {
            let ids: Vec<ProviderId> = kills.iter().flat_map(|kill| kill.plan.instances.iter().cloned()).collect();
            let ids = self.still_there(ids);
            if ids.is_empty() {
                return kills.into_iter().for_each(|kill| kill.request.answer(Ok(())));
            }
            match self.write_deletion(&ids).await {
                Ok(deletion) => return self.answer_deletion(kills, deletion),
                Err(error) if matches!(error, CloudError::Conflict(_)) || error.outcome_unknown() => {
                    tracing::warn!(group = %self.key.name, %error, "deletion not confirmed; reading the group again");
                    if let Err(unreadable) = self.fresh().await {
                        tracing::warn!(group = %self.key.name, error = %unreadable, "cannot be read again");
                        let error = self.cloud_error(error);
                        return answer_all(kills.drain(..).map(|kill| kill.request).collect(), &error);
                    }
                    // What there was room for before may be too much now (law 6).
                    let again = kills.drain(..).map(|kill| kill.request).collect();
                    kills = self.judge_removals(again);
                }
                Err(error) => {
                    tracing::warn!(group = %self.key.name, %error, "deletion refused");
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
    pub(super) async fn write_deletion(&mut self, ids: &[ProviderId]) -> Result<Deletion, CloudError> {
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
        tracing::info!(group = %self.key.name, %operation, instances = ids.len(), ids = ?Brief(ids), "deleting");
        self.state.send_delete(ids.len());
        let sent = timeout(WRITE_LIMIT, self.around.cloud.delete_instances(&basis, ids)).await;
        self.written = Some(Instant::now());
        let deletion = sent.unwrap_or_else(|_elapsed| Err(self.timed_out("delete_instances")))?;
        for (id, error) in &deletion.refused {
            tracing::warn!(group = %self.key.name, %operation, instance = %id, %error, "deletion refused");
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
        self.read_back(Some((operation, &basis, &deletion.accepted))).await;
        Ok(deletion)
    }

    /// Grows the group by all that is asked and allowed, with one write.
    async fn grow(&mut self, requests: Vec<Request>) {
        let mut granted = self.judge_growth(requests);
        granted.retain(Request::commit);
        if granted.is_empty() {
            return;
        }
        let outcome = self.raise(granted.iter().map(asked_growth).sum()).await;
        for request in granted {
            request.answer(outcome.clone());
        }
    }

    fn judge_growth(&self, requests: Vec<Request>) -> Vec<Request> {
        let Some(observation) = self.state.observation() else { return Vec::new() };
        let (mut claimed, mut granted) = (0, Vec::new());
        for request in requests {
            let delta = asked_growth(&request);
            match plan::increase(&self.state, observation, delta, claimed) {
                Ok(()) => {
                    claimed += delta;
                    granted.push(request);
                }
                Err(refusal) => {
                    tracing::warn!(group = %self.key.name, delta, %refusal, "scale-up refused");
                    request.answer(Err(FleetError::Refused { group: self.group_id(), refusal }));
                }
            }
        }
        granted
    }

    /// Raises the target. What is forgone is capacity that is there already and only has to be wanted again.
    async fn raise(&mut self, delta: u32) -> Result<(), FleetError> {
        for attempt in 0..=RECOMPUTE {
            if attempt > 0 {
                self.fresh().await?;
            } else {
                self.fresh_since_the_last_write().await?;
            }
            let Some(observation) = self.state.observation() else { return Err(self.contended()) };
            let regained = delta.min(self.state.forgone());
            if regained == delta {
                self.want_again(regained);
                return Ok(());
            }
            let Some(to) = plan::raised_capacity(&self.state, observation, delta - regained) else {
                tracing::warn!(group = %self.key.name, delta, "the reading does not allow a scale-up; reading again");
                continue;
            };
            if self.write_capacity(to).await? {
                self.want_again(regained);
                return Ok(());
            }
        }
        Err(self.contended())
    }

    fn want_again(&mut self, number: u32) {
        let names = self.placeholder_names();
        self.state.want_again(number, self.around.cloud.now(), &names);
        self.publish();
    }

    /// Sends one capacity write. `false` says that it met a conflict and has to be computed anew.
    pub(super) async fn write_capacity(&mut self, to: u32) -> Result<bool, FleetError> {
        let Some(observation) = self.state.observation() else { return Ok(false) };
        let basis = observation.reading.clone();
        let from = census::desired(basis.desired, self.state.operations());
        let operation = self.next_operation();
        let sent = self.around.cloud.now();
        tracing::info!(group = %self.key.name, %operation, from, to, "setting the capacity");
        self.state.send_capacity(from, to, basis.version.is_some(), Instant::now());
        let outcome = timeout(WRITE_LIMIT, self.around.cloud.set_capacity(&basis, to)).await;
        let accepted = Instant::now();
        self.written = Some(accepted);
        let write = CapacityWrite { from, to, accepted, sent };
        match outcome.unwrap_or_else(|_elapsed| Err(self.timed_out("set_capacity"))) {
            Ok(acceptance) => {
                let names = self.placeholder_names();
                self.state.accept_capacity(operation, write, acceptance, &names);
                self.read_back(None).await;
                Ok(true)
            }
            Err(error @ CloudError::Conflict(_)) => {
                tracing::warn!(group = %self.key.name, %operation, %error, "the group changed under the write");
                Ok(false)
            }
            Err(error) if error.outcome_unknown() => self.find_out(operation, write, error).await,
            Err(error) => {
                tracing::warn!(group = %self.key.name, %operation, %error, "capacity not set");
                Err(self.cloud_error(error))
            }
        }
    }

    /// A write whose answer was lost: what a reading shows decides whether it took effect.
    async fn find_out(
        &mut self,
        operation: OperationId,
        write: CapacityWrite,
        error: CloudError,
    ) -> Result<bool, FleetError> {
        tracing::warn!(group = %self.key.name, %operation, %error, "answer lost; reading the group to find out");
        if self.fresh().await.is_err() {
            return Err(self.cloud_error(error));
        }
        let shown = self.state.observation().map(|observation| &observation.reading);
        let is_versioned = shown.is_some_and(|reading| reading.version.is_some());
        if shown.map(|reading| reading.desired) == Some(write.to) {
            tracing::info!(group = %self.key.name, %operation, to = write.to, "it took effect");
            // Where writes are checked against a version, this reading cannot be older than the write: nothing is left to wait
            // for, and nobody to ask.
            if !is_versioned {
                let names = self.placeholder_names();
                self.state.accept_capacity(operation, write, Acceptance::default(), &names);
            }
            self.publish();
            return Ok(true);
        }
        Err(self.cloud_error(error))
    }

    /// Reads the group after an accepted write, so that the answer's promise is kept by what is published (law 4) and the
    /// cloud's accounting is seen. Without this reading, the operation alone says what the target is.
    async fn read_back(&mut self, deletion: Option<(OperationId, &GroupReading, &[ProviderId])>) {
        match timeout(READ_BACK_LIMIT, self.observe()).await {
            Ok(Ok(Some(observation))) => {
                // What was read before the deletion still counts what it deletes; this reading shows whether it does.
                let habit = deletion.and_then(|(operation, before, ids)| {
                    census::habit(before, ids, &observation).map(|is_counted| (operation, is_counted))
                });
                let doubted = match habit {
                    Some((operation, is_counted)) => {
                        doubt_after(&self.state, &observation, &self.state.with_habit(operation, is_counted))
                    }
                    None => doubt(&self.state, &observation),
                };
                if doubted.is_none() {
                    if let Some((operation, is_counted)) = habit {
                        self.state.note_habit(operation, is_counted);
                    }
                    self.adopt(observation);
                }
            }
            Ok(Ok(None)) => tracing::warn!(group = %self.key.name, "gone right after a write"),
            Ok(Err(error)) => tracing::warn!(group = %self.key.name, %error, "cannot be read after the write"),
            Err(_elapsed) => tracing::warn!(group = %self.key.name, "cannot be read in time after the write"),
        }
        self.publish();
    }

    fn contended(&self) -> FleetError {
        let reason = "it keeps changing under the write".to_owned();
        FleetError::Contended { group: self.group_id(), reason }
    }
}

fn asked_growth(request: &Request) -> u32 {
    match request.ask {
        Ask::Increase(delta) => delta,
        Ask::Decrease(_) | Ask::Delete(_) => 0,
    }
}

fn answer_all(requests: Vec<Request>, error: &FleetError) {
    for request in requests {
        request.answer(Err(error.clone()));
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
