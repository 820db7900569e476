//! A mutation on its way to a keeper.
//!
//! One atomic step decides whether it is sent. If the caller gives up first, it is never sent. If the keeper commits to sending it
//! first, it is finished even if the caller goes away (law 9).

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::deadline::Deadline;
use super::error::FleetError;
use super::limits::RESPOND_EARLY;
use super::plan::NamedNode;
use super::request_id::RequestId;
use crate::cloud::{Identity, ProviderId};

/// What a request changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// More nodes.
    Increase(u32),
    /// Take back capacity that has not become a node.
    Decrease(u32),
    /// Delete the named nodes.
    Delete(Vec<NamedNode>),
}

impl Mutation {
    /// The nodes that it names.
    pub(super) fn named(&self) -> impl Iterator<Item = &ProviderId> {
        let nodes: &[NamedNode] = if let Self::Delete(nodes) = self { nodes } else { &[] };
        nodes.iter().map(|node| &node.id)
    }
}

/// A mutation, as the keeper has it.
#[derive(Debug)]
pub(super) struct Request {
    /// What to change.
    pub mutation: Mutation,
    /// The time it has.
    pub deadline: Deadline,
    /// The call that it came with.
    pub id: Option<RequestId>,
    /// The group as it was known when the keeper took it. It is not carried out on another one of the same name.
    pub group: Option<Identity>,
    stage: Arc<AtomicU8>,
    reply: oneshot::Sender<Result<(), FleetError>>,
}

/// A mutation, as its caller has it.
#[derive(Debug)]
pub(super) struct Pending {
    deadline: Deadline,
    stage: Arc<AtomicU8>,
    outcome: oneshot::Receiver<Result<(), FleetError>>,
}

const WAITING: u8 = 0;
const SENT: u8 = 1;
const DROPPED: u8 = 2;
const BEGUN: u8 = 3;

impl Request {
    /// A new mutation, and the end to wait for it on.
    pub(super) fn new(mutation: Mutation, deadline: Deadline) -> (Self, Pending) {
        let stage = Arc::new(AtomicU8::new(WAITING));
        let (reply, outcome) = oneshot::channel();
        (
            Self { mutation, deadline, id: RequestId::current(), group: None, stage: Arc::clone(&stage), reply },
            Pending { deadline, stage, outcome },
        )
    }

    /// Whether it may be sent now. If so, its caller can no longer cancel it.
    pub(super) fn commit(&self) -> bool {
        if Instant::now() >= self.deadline.send_by {
            return false;
        }
        matches!(self.stage.load(Ordering::Acquire), SENT | BEGUN)
            || self.stage.compare_exchange(WAITING, SENT, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Notes that part of it took effect. From now on, no response says that nothing was sent.
    pub(super) fn begin(&self) {
        self.stage.store(BEGUN, Ordering::Release);
    }

    /// Notes that nothing was sent after all: the cloud refused it, or a read must come first. Its caller may cancel it again,
    /// unless part of it took effect before.
    pub(super) fn withdraw(&self) {
        let _not_sent = self.stage.compare_exchange(SENT, WAITING, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Until when it may be attempted. The response comes a moment before the caller's time is up, so that the caller sees the reason.
    pub(super) fn attempt_until(&self) -> Instant {
        self.deadline.send_by - RESPOND_EARLY
    }

    /// Responds to the caller, if it still waits.
    pub(super) fn respond(self, outcome: Result<(), FleetError>) {
        let _caller_gone = self.reply.send(outcome);
    }
}

impl Pending {
    /// Waits for the outcome, within the limit.
    pub(super) async fn outcome(mut self, group: &Arc<str>) -> Result<(), FleetError> {
        let (send_by, stage) = (self.deadline.send_by, Arc::clone(&self.stage));
        // The keeper drops a request whose time ran out; it drops all of them where it ends.
        let not_served = |_| {
            let group = Arc::clone(group);
            Err(match stage.load(Ordering::Acquire) {
                BEGUN => FleetError::StillRunning { group },
                _ if Instant::now() < send_by => FleetError::NotServed { group },
                _ => FleetError::NotSent { group },
            })
        };
        tokio::select! {
            biased;
            outcome = &mut self.outcome => return outcome.unwrap_or_else(not_served),
            () = sleep_until(send_by) => {}
        }
        if self.stage.compare_exchange(WAITING, DROPPED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return Err(FleetError::NotSent { group: Arc::clone(group) });
        }
        tokio::select! {
            biased;
            outcome = &mut self.outcome => outcome.unwrap_or_else(not_served),
            () = sleep_until(self.deadline.respond_by) => Err(FleetError::StillRunning { group: Arc::clone(group) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// What the caller of a request hears once the keeper has dropped it after its time.
    async fn outcome_after(handle: impl FnOnce(&Request)) -> FleetError {
        let now = Instant::now();
        let deadline = Deadline { send_by: now + Duration::from_secs(4), respond_by: now + Duration::from_secs(5) };
        let (request, pending) = Request::new(Mutation::Increase(1), deadline);
        assert!(request.commit(), "in time");
        handle(&request);
        let group = Arc::from("g");
        let keeper = async {
            tokio::time::sleep(Duration::from_millis(4500)).await;
            assert!(!request.commit(), "too late");
            drop(request);
        };
        let (outcome, ()) = tokio::join!(pending.outcome(&group), keeper);
        outcome.expect_err("never sent in whole")
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_request_of_which_nothing_took_effect_is_said_not_to_be_sent() {
        let refused = outcome_after(Request::withdraw).await;
        assert!(matches!(refused, FleetError::NotSent { .. }), "{refused}");
        let begun = |request: &Request| {
            request.begin();
            request.withdraw();
        };
        let partly_done = outcome_after(begun).await;
        assert!(matches!(partly_done, FleetError::StillRunning { .. }), "{partly_done}");
    }
}
