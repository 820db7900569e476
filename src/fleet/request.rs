//! A mutation on its way to a keeper.
//!
//! One atomic step decides whether it is sent. If the caller gives up first, it is never sent. If the keeper commits to
//! sending it first, it is finished even if the caller goes away (law 9).

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::deadline::Deadline;
use super::error::FleetError;
use super::request_id::RequestId;
use crate::cloud::ZoneName;
use crate::group::Mutation;

/// A mutation, as the keeper receives it.
#[derive(Debug)]
pub(super) struct Incoming {
    /// What to change.
    pub mutation: Mutation,
    /// The zone whose node group it is for; `None` where the whole group is one.
    pub zone: Option<ZoneName>,
    /// The time it has.
    pub deadline: Deadline,
    /// The caller.
    pub caller: Caller,
}

/// The caller of a mutation, as the keeper has it.
#[derive(Debug)]
pub(super) struct Caller {
    /// The call.
    pub id: Option<RequestId>,
    send_by: Instant,
    stage: Arc<SharedStage>,
    reply: oneshot::Sender<Result<(), FleetError>>,
}

/// A mutation, as its caller has it.
#[derive(Debug)]
pub(super) struct Pending {
    deadline: Deadline,
    stage: Arc<SharedStage>,
    outcome: oneshot::Receiver<Result<(), FleetError>>,
}

/// How far a mutation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing was sent for it.
    Waiting,
    /// A write was sent for it, or is about to be.
    Sent,
    /// Its caller gave up before.
    Dropped,
    /// Part of it took effect.
    Begun,
}

/// A stage that the keeper and the caller change.
#[derive(Debug)]
struct SharedStage(AtomicU8);

impl SharedStage {
    fn get(&self) -> Stage {
        match self.0.load(Ordering::Acquire) {
            0 => Stage::Waiting,
            1 => Stage::Sent,
            2 => Stage::Dropped,
            _ => Stage::Begun,
        }
    }

    fn set(&self, stage: Stage) {
        self.0.store(stage as u8, Ordering::Release);
    }

    /// Goes from one stage to another, if it is at that one.
    fn advance(&self, from: Stage, to: Stage) -> bool {
        self.0.compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl Incoming {
    /// A new mutation of the group, or of a zone of it, and the end to wait for it on.
    pub(super) fn new(mutation: Mutation, zone: Option<ZoneName>, deadline: Deadline) -> (Self, Pending) {
        let stage = Arc::new(SharedStage(AtomicU8::new(Stage::Waiting as u8)));
        let (reply, outcome) = oneshot::channel();
        let send_by = deadline.send_by;
        let caller = Caller { id: RequestId::current(), send_by, stage: Arc::clone(&stage), reply };
        (Self { mutation, zone, deadline, caller }, Pending { deadline, stage, outcome })
    }
}

impl Caller {
    /// Whether a write may be sent for it now. If so, the caller can no longer give it up.
    pub(super) fn commit(&self) -> bool {
        Instant::now() < self.send_by
            && (matches!(self.stage.get(), Stage::Sent | Stage::Begun)
                || self.stage.advance(Stage::Waiting, Stage::Sent))
    }

    /// Notes that part of it took effect. From now on, no response says that nothing was sent.
    pub(super) fn begin(&self) {
        self.stage.set(Stage::Begun);
    }

    /// Notes that nothing was sent after all: the cloud refused it, or a read must come first. The caller may give it
    /// up again, unless part of it took effect before.
    pub(super) fn release(&self) {
        self.stage.advance(Stage::Sent, Stage::Waiting);
    }

    /// Responds to the caller, if it still waits.
    pub(super) fn respond(self, outcome: Result<(), FleetError>) {
        let _caller_gone = self.reply.send(outcome);
    }
}

impl Pending {
    /// Waits for the outcome, within the limit.
    pub(super) async fn outcome(&mut self, group: &Arc<str>) -> Result<(), FleetError> {
        let (send_by, stage) = (self.deadline.send_by, Arc::clone(&self.stage));
        // The keeper drops a request whose time ran out; it drops all of them where it ends.
        let not_served = |_| {
            let group = Arc::clone(group);
            Err(match stage.get() {
                Stage::Sent | Stage::Begun => FleetError::StillRunning { group },
                _ if Instant::now() < send_by => FleetError::NotServed { group },
                _ => FleetError::NotSent { group },
            })
        };
        tokio::select! {
            biased;
            outcome = &mut self.outcome => return outcome.unwrap_or_else(not_served),
            () = sleep_until(send_by) => {}
        }
        if self.stage.advance(Stage::Waiting, Stage::Dropped) {
            return Err(FleetError::NotSent { group: Arc::clone(group) });
        }
        tokio::select! {
            biased;
            outcome = &mut self.outcome => outcome.unwrap_or_else(not_served),
            () = sleep_until(self.deadline.respond_by) => Err(FleetError::StillRunning { group: Arc::clone(group) }),
        }
    }
}

/// The caller has gone: nothing is sent for it any more.
impl Drop for Pending {
    fn drop(&mut self) {
        self.stage.advance(Stage::Waiting, Stage::Dropped);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// What the caller of a request hears once the keeper has dropped it after its time.
    async fn outcome_after(handle: impl FnOnce(&Caller)) -> FleetError {
        let now = Instant::now();
        let deadline = Deadline { send_by: now + Duration::from_secs(4), respond_by: now + Duration::from_secs(5) };
        let (incoming, mut pending) = Incoming::new(Mutation::Increase(1), None, deadline);
        let request = incoming.caller;
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
        let refused = outcome_after(Caller::release).await;
        assert!(matches!(refused, FleetError::NotSent { .. }), "{refused}");
        let begun = |request: &Caller| {
            request.begin();
            request.release();
        };
        let partly_done = outcome_after(begun).await;
        assert!(matches!(partly_done, FleetError::StillRunning { .. }), "{partly_done}");
    }
}
