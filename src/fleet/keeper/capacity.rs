//! Sending one capacity write, finding out what became of it, and reading the group after a write.

use tokio::time::{Instant, timeout};

use super::Keeper;
use crate::cloud::{Acceptance, CloudError};
use crate::fleet::census;
use crate::fleet::doubt::doubt;
use crate::fleet::error::FleetError;
use crate::fleet::limits::{READ_BACK_LIMIT, WRITE_LIMIT};
use crate::fleet::operation::OperationId;
use crate::fleet::state::CapacityWrite;

impl Keeper {
    /// Sends one capacity write. `false` says that it met a conflict and has to be computed anew.
    pub(super) async fn write_capacity(&mut self, to: u32) -> Result<bool, FleetError> {
        let Some(observation) = self.state.observation() else { return Ok(false) };
        let basis = observation.reading.clone();
        let from = census::desired(basis.desired, self.state.operations());
        let operation = self.next_operation();
        let sent = self.around.cloud.now();
        tracing::info!(group = %self.group_id(), %operation, from, to, "setting the capacity");
        self.state.send_capacity(from, to, basis.etag.is_some(), Instant::now());
        let outcome = timeout(WRITE_LIMIT, self.around.cloud.set_capacity(&basis, to)).await;
        let accepted = Instant::now();
        self.written = Some(accepted);
        let write = CapacityWrite { from, to, accepted, sent };
        match outcome.unwrap_or_else(|_elapsed| Err(self.timed_out("set_capacity"))) {
            Ok(acceptance) => {
                let names = self.placeholder_names();
                self.state.accept_capacity(operation, write, acceptance, &names);
                self.read_back().await;
                Ok(true)
            }
            Err(error @ CloudError::Conflict(_)) => {
                tracing::warn!(group = %self.group_id(), %operation, %error, "the group changed under the write");
                Ok(false)
            }
            Err(error) if error.outcome_unknown() => self.find_out(operation, write, error).await,
            Err(error) => {
                tracing::warn!(group = %self.group_id(), %operation, %error, "capacity not set");
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
        tracing::warn!(group = %self.group_id(), %operation, %error, "answer lost; reading the group to find out");
        if self.fresh().await.is_err() {
            return Err(self.cloud_error(error));
        }
        let shown = self.state.observation().map(|observation| &observation.reading);
        let is_checked = shown.is_some_and(|reading| reading.etag.is_some());
        if shown.map(|reading| reading.desired) == Some(write.to) {
            tracing::info!(group = %self.group_id(), %operation, to = write.to, "it took effect");
            // Where writes are checked against a version, this reading cannot be older than the write: nothing is left to wait
            // for, and nobody to ask.
            if !is_checked {
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
    pub(super) async fn read_back(&mut self) {
        match timeout(READ_BACK_LIMIT, self.observe()).await {
            Ok(Ok(Some(observation))) => {
                if doubt(&self.state, &observation).is_none() {
                    self.adopt(observation);
                }
            }
            Ok(Ok(None)) => tracing::warn!(group = %self.group_id(), "gone right after a write"),
            Ok(Err(error)) => tracing::warn!(group = %self.group_id(), %error, "cannot be read after the write"),
            Err(_elapsed) => tracing::warn!(group = %self.group_id(), "cannot be read in time after the write"),
        }
        self.publish();
    }

    pub(super) fn contended(&self) -> FleetError {
        let reason = "it keeps changing under the write".to_owned();
        FleetError::Contended { group: self.group_id(), reason }
    }
}
