//! Reading one group from its cloud. Every read has a time limit.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::context::KeeperContext;
use crate::cloud::{
    CloudError, GroupName, GroupReading, LaunchActivity, OperationHandle, Progress, ReadOnlyCloud, Shortfall,
};
use crate::fleet::claims::Claims;
use crate::fleet::clock::Clock;
use crate::fleet::limits::{POLLS_AT_A_TIME, READ_LIMIT};
use crate::fleet::reach::Reach;
use crate::fleet::snapshot::GroupKey;
use crate::group::{Event, OperationId, PollEnd, READ_AGAIN, ReadResult};

/// Reads one group. Cheap to clone: reads beside the keeper have one of their own.
#[derive(Clone)]
pub(super) struct GroupReader {
    cloud: ReadOnlyCloud,
    group: GroupName,
    key: GroupKey,
    claims: Arc<Claims>,
    reach: Arc<Reach>,
    clock: Clock,
}

impl GroupReader {
    /// A reader of this group.
    pub(super) fn new(context: &KeeperContext, key: &GroupKey) -> Self {
        Self {
            cloud: Arc::clone(&context.cloud),
            group: key.name.clone(),
            key: key.clone(),
            claims: Arc::clone(&context.claims),
            reach: Arc::clone(&context.reach),
            clock: context.clock,
        }
    }

    /// Reads the group and its instances.
    pub(super) async fn instances(&self, limit: Duration) -> ReadResult {
        let (begun, at) = (self.clock.now(), self.cloud.now());
        let read = timeout(limit.min(READ_LIMIT), self.cloud.observe(&self.group)).await;
        ReadResult { reading: self.noted("read of the instances", read), begun, at }
    }

    /// Reads the group and its instances for a write.
    pub(super) async fn instances_for_write(&self, limit: Duration) -> ReadResult {
        let (begun, at) = (self.clock.now(), self.cloud.now());
        let read = timeout(limit.min(READ_LIMIT), self.cloud.observe_for_write(&self.group)).await;
        ReadResult { reading: self.noted("read of the instances", read), begun, at }
    }

    /// Reads the group's capacity and precondition; its instances only where the cloud returns them in the same call.
    pub(super) async fn capacity(&self, limit: Duration) -> ReadResult {
        let (begun, at) = (self.clock.now(), self.cloud.now());
        let read = timeout(limit.min(READ_LIMIT), self.cloud.read_capacity(&self.group)).await;
        ReadResult { reading: self.noted("read of the capacity", read), begun, at }
    }

    /// Reads the group and its instances, beside the keeper. A group is gone only if the cloud reports so twice: a
    /// keeper that starts again has forgotten which of its writes may still take effect.
    pub(super) async fn instances_or_gone_twice(&self) -> ReadResult {
        let first = self.instances(READ_LIMIT).await;
        if !matches!(first.reading, Ok(None)) {
            return first;
        }
        sleep(READ_AGAIN).await;
        self.instances(READ_LIMIT).await
    }

    /// What the cloud reports of recent launches.
    pub(super) async fn launch_activity(
        &self,
        shortfall: Shortfall,
        limit: Duration,
    ) -> Result<LaunchActivity, CloudError> {
        let read = timeout(limit.min(READ_LIMIT), self.cloud.launch_activity(&self.group, shortfall)).await;
        read.unwrap_or_else(|_elapsed| Err(self.timed_out("read of the launch activity")))
    }

    /// Polls operations once, each: those that have ended, and why one of the others could not be polled.
    pub(super) async fn poll_once(&self, operations: Vec<(OperationId, OperationHandle)>, limit: Duration) -> Event {
        let until = Instant::now() + limit;
        let polls = operations.into_iter().map(|(operation, handle)| async move {
            let polled = timeout_at(until, self.cloud.follow(&handle)).await;
            (operation, polled.unwrap_or_else(|_elapsed| Err(self.timed_out("poll"))))
        });
        let mut polls = stream::iter(polls).buffer_unordered(POLLS_AT_A_TIME);
        let (mut ended, mut error) = (Vec::new(), None);
        while let Some((operation, polled)) = polls.next().await {
            match polled {
                Ok(Progress::Running { .. }) => {}
                Ok(Progress::Succeeded) => ended.push((operation, PollEnd::Succeeded)),
                Ok(Progress::Failed(failure)) => ended.push((operation, PollEnd::Failed(failure))),
                Ok(Progress::Preempted) => ended.push((operation, PollEnd::Preempted)),
                Err(missed) => error = error.or(Some(missed)),
            }
        }
        Event::PolledForWrite { ended, error }
    }

    /// The result of a read. A successful one shows that the cloud responds.
    fn noted(
        &self,
        operation: &'static str,
        read: Result<Result<Option<GroupReading>, CloudError>, Elapsed>,
    ) -> Result<Option<Box<GroupReading>>, CloudError> {
        let read = read.unwrap_or_else(|_elapsed| Err(self.timed_out(operation)));
        if read.is_ok() {
            self.reach.regain();
        }
        // What another source serves is none of this one's: its keeper ends as if the group were gone.
        let own = |reading: &GroupReading| reading.identity.is_none() || !self.claims.is_left(&self.key);
        read.map(|reading| reading.filter(own).map(Box::new))
    }

    pub(super) fn timed_out(&self, operation: &'static str) -> CloudError {
        CloudError::unreachable(operation, self.group.as_str(), "no response in time")
    }
}
