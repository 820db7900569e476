//! Seeing operations to their end, and the two things that are done without being asked: raising a group back that was
//! lowered under an instance that came up (#10147), and lowering what CA took back as soon as that is safe.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::Keeper;
use crate::cloud::{CloudError, Failure, FailureClass, Instance, InstanceState, OperationHandle, Progress, ProviderId};
use crate::fleet::census;
use crate::fleet::limits::{FOLLOW_EVERY, HEAL_READ_EVERY, LAUNCH_BEGINS, READ_LIMIT};
use crate::fleet::operation::{Kind, Operation, OperationId};
use crate::fleet::plan;

impl Keeper {
    /// Asks the cloud about each unfinished operation, and reads the group again where one has ended.
    pub(super) async fn follow(&mut self) {
        self.follow_at = None;
        let open: Vec<(OperationId, OperationHandle)> = self.state.operations().iter().filter_map(unfinished).collect();
        let mut ask_after: Option<Duration> = None;
        let mut ended = self.is_healing() || self.owes_for_a_moment();
        for (operation, handle) in open {
            match timeout(READ_LIMIT, self.around.cloud.follow(&handle)).await {
                Ok(Ok(Progress::Running { ask_after: wish })) => ask_after = ask_after.max(wish),
                Ok(Ok(Progress::Succeeded)) | Ok(Err(CloudError::NotFound(_))) => {
                    tracing::info!(group = %self.group_id(), %operation, "finished");
                    self.state.succeed(operation, Instant::now());
                    ended = true;
                }
                Ok(Ok(Progress::Failed(failure))) => self.operation_failed(operation, &failure).await,
                Ok(Ok(Progress::Preempted)) => self.operation_preempted(operation).await,
                Ok(Err(error)) => tracing::warn!(group = %self.group_id(), %operation, %error, "cannot be followed"),
                Err(_elapsed) => tracing::warn!(group = %self.group_id(), %operation, "cannot be followed in time"),
            }
        }
        if ended && let Some(observation) = self.read_or_warn().await {
            self.consider(observation, None).await;
        }
        self.plan_follow(ask_after);
    }

    async fn operation_failed(&mut self, operation: OperationId, failure: &Failure) {
        tracing::warn!(
            group = %self.group_id(), %operation, code = %failure.code, message = %failure.message,
            "the cloud accepted the operation, and it failed"
        );
        // Without a new reading the operation stays, and is asked about again.
        let observation = match self.read_until_believed().await {
            Ok(observation) => observation,
            Err(error) => {
                tracing::warn!(group = %self.group_id(), %operation, %error, "cannot be read after the failure; later again");
                return;
            }
        };
        let names = self.placeholder_names();
        self.state.fail(operation, failure, observation, &names);
        self.publish();
    }

    /// Another operation got ahead. A deletion is asked for once more, of what is still there and in no other one, together
    /// with all others under way: by themselves those would be preempted by this one, and so on for ever.
    async fn operation_preempted(&mut self, operation: OperationId) {
        let preempted = self.state.operations().iter().find(|candidate| candidate.id == operation);
        let named = preempted.and_then(|one| match &one.kind {
            Kind::Delete { ids, resubmitted: false, .. } => Some(ids.clone()),
            _ => None,
        });
        let failure = Failure {
            class: FailureClass::Other,
            code: "OperationPreempted".to_owned(),
            message: "another operation got ahead of this one".to_owned(),
            at: self.around.cloud.now(),
            is_explained: true,
        };
        self.operation_failed(operation, &failure).await;
        let again = named.map(|named| self.to_delete_again(&named)).filter(|ids| !ids.is_empty());
        let Some(again) = again else { return };
        if let Err(error) = self.write_deletion_again(&again, true).await {
            tracing::warn!(group = %self.group_id(), %operation, %error, "cannot be asked for again");
        }
    }

    /// Of these, what lives and no other deletion under way names, and with it all that those name; nothing if there is none.
    fn to_delete_again(&self, named: &BTreeSet<ProviderId>) -> Vec<ProviderId> {
        let Some(observation) = self.state.observation() else { return Vec::new() };
        let going = census::going(self.state.operations());
        let is_left = |instance: &Instance| {
            named.contains(&instance.id)
                && instance.state != InstanceState::Deleting
                && !going.contains_key(&instance.id)
        };
        if !observation.instances.iter().any(is_left) {
            return Vec::new();
        }
        let due = observation.instances.iter().filter(|one| is_left(one) || going.contains_key(&one.id));
        due.map(|instance| instance.id.clone()).collect()
    }

    /// After every observation: raise back, lower what is owed, and see when to look again.
    pub(super) async fn settle(&mut self) {
        self.heal().await;
        self.lower_owed().await;
        self.plan_follow(None);
    }

    /// Raises the capacity back where an instance came up while it was being lowered.
    async fn heal(&mut self) {
        if self.to_heal().is_none() {
            return;
        }
        if let Err(error) = self.fresh().await {
            tracing::warn!(group = %self.group_id(), %error, "cannot be read to raise the capacity back");
            return;
        }
        let Some(to) = self.to_heal() else { return };
        tracing::warn!(group = %self.group_id(), to, "an instance came up while the capacity was lowered; raising it back");
        if let Err(error) = self.write_capacity(to).await {
            tracing::error!(group = %self.group_id(), to, %error, "the capacity could not be raised back");
        }
    }

    fn to_heal(&self) -> Option<u32> {
        self.state.observation().and_then(|observation| plan::healed_capacity(&self.state, observation))
    }

    /// Whether a reduction was sent so recently that an instance may still come up under it.
    fn is_healing(&self) -> bool {
        self.state.has_just_lowered(Instant::now())
    }

    /// Whether a reduction is owed that nothing but time stands in the way of. The next listing may be ten minutes away.
    fn owes_for_a_moment(&self) -> bool {
        let Some(observation) = self.state.observation().filter(|_| self.state.cancelled() > 0) else { return false };
        !self.state.is_steady() || self.state.has_just_grown(observation)
    }

    /// Writes a reduction that was unsafe when it was asked for, once it is safe.
    async fn lower_owed(&mut self) {
        let owed = |keeper: &Self| {
            let observation = keeper.state.observation()?;
            let under_way = observation.activity.under_way;
            plan::reduced_capacity(&keeper.state, observation, under_way).filter(|_| keeper.state.cancelled() > 0)
        };
        if owed(self).is_none() {
            return;
        }
        let outcome = match self.fresh().await {
            Ok(()) => self.lower().await,
            Err(error) => Err(error),
        };
        if let Err(error) = outcome {
            tracing::warn!(group = %self.group_id(), %error, "an owed reduction could not be written; tried again later");
        }
    }

    fn plan_follow(&mut self, ask_after: Option<Duration>) {
        let unfinished = self.state.operations().iter().any(|operation| unfinished(operation).is_some());
        let pause = if self.is_healing() {
            HEAL_READ_EVERY
        } else if unfinished {
            ask_after.unwrap_or(FOLLOW_EVERY).max(FOLLOW_EVERY / 3)
        } else if self.owes_for_a_moment() {
            LAUNCH_BEGINS
        } else {
            self.follow_at = None;
            return;
        };
        let at = Instant::now() + pause;
        self.follow_at = Some(self.follow_at.map_or(at, |planned| planned.min(at)));
    }
}

fn unfinished(operation: &Operation) -> Option<(OperationId, OperationHandle)> {
    let handle = operation.handle.clone().filter(|_| operation.finished.is_none())?;
    Some((operation.id, handle))
}
