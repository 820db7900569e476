//! Carrying requests out: a short wait for others to join, a fresh reading, the laws, as few cloud calls as can be, the
//! operations recorded, the snapshot swapped, every caller answered.
//!
//! Within a batch capacity is taken back first, then instances are deleted, then the group grows. All of a batch were
//! asked before any was answered, so no order between them was promised; this one writes least.

use tokio::time::{Instant, timeout_at};

use super::{Keeper, Message};
use crate::fleet::error::FleetError;
use crate::fleet::limits::{BATCH_IDLE, BATCH_OPEN_MAX};
use crate::fleet::request::{Mutation, Request};

impl Keeper {
    /// Serves a request, and whatever others are waiting.
    pub(super) async fn serve(&mut self, first: Request) {
        let batch = self.collect(first).await;
        if let Err(error) = self.fresh().await {
            return answer_all(batch, &error);
        }
        let (growth, removal): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|request| matches!(request.mutation, Mutation::Increase(_)));
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

/// Answers all of them with the same error.
pub(super) fn answer_all(requests: Vec<Request>, error: &FleetError) {
    for request in requests {
        request.answer(Err(error.clone()));
    }
}
