//! Lowering a capacity by what CA gave back, as far as that is safe at this moment. The rest stays deferred.

use serde::{Deserialize, Serialize};

use super::Group;
use super::event::{Effect, Note, Scope};
use super::job::{Answer, Call, CapacityOutcome, Progress};
use super::limits::DETAIL_LIMIT;
use super::plan;
use super::reading::Need;
use super::refusal::WriteError;
use super::removal::Removal;
use super::state::WriteReason;
use super::time::Time;
use crate::cloud::{CloudError, Shortfall};

/// How far a reduction is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Lowering {
    step: Step,
    /// Whether its callers have a response only once it was sent or deferred. Then its first read has little time.
    is_first_read: bool,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Step {
    /// The instances are being read, for the second time if they were not steady.
    Read { is_second: bool },
    /// The launches under way are being read.
    Activity,
    /// The new capacity was sent.
    Sent,
}

impl Lowering {
    /// A reduction whose callers wait.
    pub(super) fn for_callers(job: &mut Progress, now: Time) -> Self {
        job.read_briefly(now);
        Self { step: Step::Read { is_second: false }, is_first_read: true }
    }

    /// A deferred reduction, by what was just read.
    pub(super) fn deferred() -> Self {
        Self { step: Step::Read { is_second: false }, is_first_read: false }
    }
}

impl Group {
    /// Goes on with a reduction. `None` while it waits. What takes too long, or what the cloud refuses, stays deferred.
    pub(super) fn lower(
        &mut self,
        job: &mut Progress,
        lowering: &mut Lowering,
        callers: &[Removal],
    ) -> Option<Result<(), WriteError>> {
        loop {
            match lowering.step {
                Step::Read { is_second } => match self.need(job, Scope::Instances) {
                    Need::Waiting => return None,
                    Need::Failed(error) if lowering.is_first_read && !matches!(error, WriteError::Gone) => {
                        self.log(Note::NotLoweredYet(Box::new(error)));
                        return Some(Ok(()));
                    }
                    Need::Failed(error) => return Some(Err(error)),
                    Need::Met => {
                        lowering.is_first_read = false;
                        if !self.state.is_steady() && !is_second {
                            job.take_fresh();
                            lowering.step = Step::Read { is_second: true };
                            continue;
                        }
                        lowering.step = Step::Activity;
                        let shortfall = Shortfall { missing: 0, since: self.cloud_time };
                        self.effects.push(Effect::ReadActivity { shortfall, limit: DETAIL_LIMIT });
                        job.call = Some(Call::Activity);
                        return None;
                    }
                },
                Step::Activity => {
                    let Answer::Activity(activity) = job.take_answer() else { return None };
                    // Instances that the cloud has begun to launch and does not list yet. Where the cloud does not
                    // permit to read them, the listed instances have to do. If they cannot be read at the moment:
                    // unknown is not 0 (law 5).
                    let under_way = match activity {
                        Ok(activity) => self.state.to_come(&activity),
                        Err(error) => {
                            let is_denied = matches!(error, CloudError::Denied(_));
                            self.activity_failed(error);
                            if !is_denied {
                                return Some(Ok(()));
                            }
                            0
                        }
                    };
                    let Some(to) = plan::reduced_capacity(&self.state, under_way) else { return Some(Ok(())) };
                    let requests = callers.iter().map(|removal| removal.request.key).collect();
                    if let Err(error) = self.send_capacity(job, to, WriteReason::Requested, requests) {
                        return Some(Err(error));
                    }
                    lowering.step = Step::Sent;
                    return None;
                }
                Step::Sent => match self.capacity_outcome(job)? {
                    CapacityOutcome::Accepted => return Some(Ok(())),
                    CapacityOutcome::Retry(error) if job.attempts.again(self.now, Some(&error)) => {
                        lowering.step = Step::Read { is_second: false };
                        job.take_fresh();
                        return None;
                    }
                    CapacityOutcome::Retry(error) => {
                        self.log(Note::StillDeferred(Box::new(error.into())));
                        return Some(Ok(()));
                    }
                    // An error would end CA's whole loop, before it scales up any group (`fixNodeGroupSize`).
                    CapacityOutcome::Failed(error @ WriteError::Cloud(_)) => {
                        self.log(Note::StillDeferred(Box::new(error)));
                        return Some(Ok(()));
                    }
                    CapacityOutcome::Failed(error) => return Some(Err(error)),
                },
            }
        }
    }
}
