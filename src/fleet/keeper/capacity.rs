//! Sending one capacity write, and finding out what became of it.

use tokio::time::{Instant, timeout};

use super::Keeper;
use super::attempts::Attempts;
use super::fresh::Fresh;
use crate::cloud::CloudError;
use crate::fleet::error::FleetError;
use crate::fleet::limits::{SETTLE, WRITE_LIMIT};
use crate::fleet::operation::OperationId;
use crate::fleet::state::{CapacityWrite, WriteReason};

/// What became of one capacity write.
#[derive(Debug)]
pub(super) enum CapacityOutcome {
    /// The cloud accepted it.
    Accepted,
    /// Nothing was done, for a reason that may pass: recompute from a new read.
    Retry(CloudError),
    /// It failed, or its outcome is unknown.
    Failed(FleetError),
}

impl Keeper {
    /// Sends one capacity write, computed on `fresh`.
    pub(super) async fn write_capacity(
        &mut self,
        fresh: Fresh,
        to: u32,
        reason: WriteReason,
        attempts: &mut Attempts,
    ) -> CapacityOutcome {
        let Fresh { basis } = fresh;
        let from = self.state.in_flight().capacity(&basis);
        if let Err(error) = self.permit_write(format!("set the capacity from {from} to {to}")) {
            return CapacityOutcome::Failed(error);
        }
        let operation = self.next_operation();
        let (sent, without_room) = (self.context.cloud.now(), self.state.without_room());
        tracing::info!(group = %self.group_id(), %operation, from, to, "setting the capacity of the node group");
        self.state.send_capacity((from, to), reason, basis.consistency.is_guarded(), Instant::now());
        let outcome = timeout(WRITE_LIMIT, self.context.set_capacity(&basis, to)).await;
        let accepted = Instant::now();
        self.written = Some(accepted);
        let write = |handle| CapacityWrite { from, to, accepted, sent, without_room, handle };
        match outcome.unwrap_or_else(|_elapsed| Err(self.reader.timed_out("set_capacity"))) {
            Ok(acceptance) => {
                self.capacity_accepted(operation, write(acceptance.handle));
                CapacityOutcome::Accepted
            }
            Err(error) if error.outcome_unknown() => self.find_out(operation, write(None), error, attempts).await,
            Err(error @ (CloudError::Conflict(_) | CloudError::Throttled { .. })) => {
                tracing::warn!(group = %self.group_id(), %operation, %error, "capacity not set; trying again if the caller's time allows");
                CapacityOutcome::Retry(error)
            }
            Err(error) => {
                tracing::warn!(group = %self.group_id(), %operation, %error, "capacity not set");
                CapacityOutcome::Failed(self.cloud_error(error))
            }
        }
    }

    fn capacity_accepted(&mut self, operation: OperationId, write: CapacityWrite) {
        let (names, handle) = (self.placeholder_names(), write.handle.clone());
        self.state.accept_capacity(operation, write, &names);
        self.publish();
        let _no_response_waits_for_it = self.follow(operation, handle);
    }

    /// The response to a write was lost. A read that shows its capacity shows that it took effect. Otherwise the outcome stays
    /// unknown: the write may still take effect, so the group is read often until it cannot any more.
    async fn find_out(
        &mut self,
        operation: OperationId,
        write: CapacityWrite,
        error: CloudError,
        attempts: &mut Attempts,
    ) -> CapacityOutcome {
        tracing::warn!(group = %self.group_id(), %operation, %error, "the response to a capacity write was lost; reading the node group to see the outcome");
        self.unsettled_until = Some(write.accepted + SETTLE);
        if self.fresh(attempts).await.is_ok() {
            let shown = &self.state.observation().reading;
            let (is_shown, is_conditional) = (shown.desired == write.to, shown.consistency.is_guarded());
            if is_shown {
                tracing::info!(group = %self.group_id(), %operation, to = write.to, "the capacity write took effect");
                self.unsettled_until = None;
                // A read that fulfils a precondition cannot be older than the write: there is nothing left to wait for.
                if is_conditional {
                    self.state.finish_capacity(write);
                    self.publish();
                } else {
                    // An earlier write of the same capacity may be what the read shows, and this one may land later (seed 142584).
                    self.state.lose_capacity(write.to, Instant::now());
                    self.capacity_accepted(operation, write);
                }
                return CapacityOutcome::Accepted;
            }
        }
        self.state.lose_capacity(write.to, Instant::now());
        self.plan_look();
        CapacityOutcome::Failed(FleetError::OutcomeUnknown { group: self.group_id(), reason: error.to_string() })
    }
}
