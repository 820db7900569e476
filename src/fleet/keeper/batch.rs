//! Carrying requests out: a short wait for others to join, a fresh read, the laws, as few cloud calls as possible, the operation
//! recorded, the snapshot swapped, a response to every caller.
//!
//! Within a batch placeholders are cancelled first, then instances are deleted, then the group grows. All requests of a batch
//! came before any of them got a response, so no order between them was promised; this one writes least.

use tokio::time::{Instant, timeout_at};
use tracing::Instrument as _;

use super::Keeper;
use super::attempts::Attempts;
use super::fresh::Fresh;
use crate::cloud::ProviderId;
use crate::fleet::error::FleetError;
use crate::fleet::limits::{BATCH_IDLE, BATCH_OPEN_MAX};
use crate::fleet::mailbox::Message;
use crate::fleet::request::{Mutation, Request};

impl Keeper {
    /// Serves a request, together with those that wait already.
    pub(super) async fn serve(&mut self, first: Request) {
        self.context.pulse.note_activity();
        let mut batch = self.collect(first).await;
        let group = self.state.observation().reading.identity;
        batch.iter_mut().for_each(|request| request.group = group);
        // Ties the cloud calls, and what they log, to the calls of the Cluster Autoscaler.
        let ids: Vec<String> = batch.iter().filter_map(|request| request.id).map(|id| id.to_string()).collect();
        let span = tracing::info_span!("write", group = %self.group_id(), request_id = ids.join(","));
        // What names unknown instances needs a list of all of them, which may take longer than the rest can wait.
        let (unknown, known): (Vec<_>, Vec<_>) = batch.into_iter().partition(|one| self.names_unknown_instances(one));
        async {
            for batch in [known, unknown] {
                if !batch.is_empty() {
                    self.carry_out(batch).await;
                }
            }
        }
        .instrument(span)
        .await;
    }

    async fn carry_out(&mut self, batch: Vec<Request>) {
        let until = batch.iter().map(Request::attempt_until).max().unwrap_or_else(Instant::now);
        let mut attempts = match self.context.reach.is_lost() {
            true => Attempts::of_lost_cloud(until),
            false => Attempts::until(until),
        };
        let mut fresh = match self.read_for(&batch, &mut attempts).await {
            Ok(fresh) => Some(fresh),
            Err(error) => return respond_all(batch, &error),
        };
        attempts.reached();
        let (growth, removal): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|request| matches!(request.mutation, Mutation::Increase(_)));
        let removals = self.judge_removals(removal);
        let removals = self.cancel_placeholders(removals, &mut fresh, &mut attempts).await;
        self.delete(removals, &mut fresh, &mut attempts).await;
        self.grow(growth, &mut fresh, &mut attempts).await;
        self.settle().await;
    }

    /// Reads what the batch needs. A named instance that is not known may be new: only fresh instances show that it is gone.
    async fn read_for(&mut self, batch: &[Request], attempts: &mut Attempts) -> Result<Fresh, FleetError> {
        if batch.iter().any(|request| self.names_unknown_instances(request)) {
            return Ok(self.fresh_instances(attempts).await?.into());
        }
        self.fresh(attempts).await
    }

    fn names_unknown_instances(&self, request: &Request) -> bool {
        let is_known = |id: &ProviderId| {
            self.state.observation().instances.iter().any(|instance| instance.id == *id)
                || self.state.placeholders().iter().any(|placeholder| placeholder.id == *id)
                || self.state.in_flight().deletes(id)
        };
        match &request.mutation {
            Mutation::Delete(nodes) => nodes.iter().any(|node| !is_known(&node.id)),
            Mutation::Increase(_) | Mutation::Decrease(_) => false,
        }
    }

    /// Deletions wait a little for each other; everything that waits already is taken along.
    async fn collect(&mut self, first: Request) -> Vec<Request> {
        let closes = Instant::now() + BATCH_OPEN_MAX;
        let mut batch = vec![first];
        loop {
            while let Ok(message) = self.inbox.try_recv() {
                self.join(message, &mut batch);
            }
            if !batch.iter().all(|request| matches!(request.mutation, Mutation::Delete(_))) {
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
}

/// Responds with the error to those whose time ends before the next attempt, although others of the batch have more. Returns the
/// rest, whose last attempt wrote nothing.
pub(super) fn respond_out_of_time(requests: Vec<Request>, next: Instant, error: &FleetError) -> Vec<Request> {
    requests.iter().for_each(Request::withdraw);
    let (rest, out_of_time): (Vec<_>, Vec<_>) =
        requests.into_iter().partition(|request| next < request.attempt_until());
    respond_all(out_of_time, error);
    rest
}

/// Responds to all of them with the same error.
pub(super) fn respond_all(requests: impl IntoIterator<Item = Request>, error: &FleetError) {
    for request in requests {
        request.respond(Err(error.clone()));
    }
}
