//! Growing the group.

use super::Keeper;
use super::attempts::Attempts;
use super::capacity::CapacityOutcome;
use super::fresh::Fresh;
use crate::cloud::Permit;
use crate::fleet::error::FleetError;
use crate::fleet::limits::OUTDATED_READS;
use crate::fleet::plan;
use crate::fleet::request::{Mutation, Request};
use crate::fleet::state::WriteReason;

impl Keeper {
    /// Grows the group by all that is requested and allowed, with one write.
    pub(super) async fn grow(&mut self, requests: Vec<Request>, fresh: &mut Option<Fresh>, attempts: &mut Attempts) {
        let mut granted = self.judge_growth(requests);
        granted.retain(Request::commit);
        if granted.is_empty() {
            return;
        }
        let delta = granted.iter().map(requested_growth).sum();
        let outcome = self.raise(delta, fresh.take(), attempts).await;
        for request in granted {
            request.respond(outcome.clone());
        }
    }

    fn judge_growth(&self, requests: Vec<Request>) -> Vec<Request> {
        let (mut claimed, mut granted) = (0, Vec::new());
        for request in requests {
            let delta = requested_growth(&request);
            match plan::increase(&self.state, delta, claimed) {
                // Instances whose deletion has an unknown outcome may live on, and would then take the group above its maximum (law 6).
                Ok(()) if plan::increase(&self.state, delta, claimed + self.state.may_live_on()).is_err() => {
                    tracing::warn!(group = %self.group_id(), delta, "scale-up refused: nodes whose deletion may have failed leave too little room below the maximum");
                    let reason =
                        "nodes whose deletion may have failed leave too little room below its maximum".to_owned();
                    request.respond(Err(FleetError::OutcomeUnknown { group: self.group_id(), reason }));
                }
                Ok(()) => {
                    claimed += delta;
                    granted.push(request);
                }
                Err(refusal) => {
                    tracing::warn!(group = %self.group_id(), delta, %refusal, "scale-up refused");
                    request.respond(Err(FleetError::Refused { group: self.group_id(), refusal }));
                }
            }
        }
        granted
    }

    /// Raises the target. Cancelled placeholders are capacity that exists already and only has to be reinstated.
    async fn raise(&mut self, delta: u32, fresh: Option<Fresh>, attempts: &mut Attempts) -> Result<(), FleetError> {
        let mut fresh = self.fresh_or(fresh, attempts).await?;
        let mut reads = 0;
        loop {
            // Another client may have lowered the capacity, too: after some reads, that is what happened.
            if self.state.in_flight().has_unread() || (self.state.may_be_outdated() && reads < OUTDATED_READS) {
                tracing::info!(group = %self.group_id(), delta, "the read may be older than our last write; reading again before growing");
                if !attempts.again().await {
                    return Err(self.contended("its reads do not yet show our last write that the cloud accepted"));
                }
                reads += 1;
                fresh = self.fresh(attempts).await?;
                continue;
            }
            let reinstated = delta.min(self.state.cancelled());
            if reinstated == delta {
                self.reinstate(reinstated);
                return Ok(());
            }
            let Some(to) = plan::raised_capacity(&self.state, delta - reinstated) else {
                tracing::warn!(group = %self.group_id(), delta, "the observation does not allow a scale-up; reading again");
                if !attempts.again().await {
                    return Err(self.contended(&self.why_not_raised()));
                }
                fresh = self.fresh_instances(attempts).await?.into();
                continue;
            };
            match self.write_capacity(fresh, to, WriteReason::Requested, attempts).await {
                CapacityOutcome::Accepted => {
                    self.reinstate(reinstated);
                    return Ok(());
                }
                CapacityOutcome::Retry(error) if attempts.again_after(&error).await => {
                    fresh = self.fresh(attempts).await?;
                }
                CapacityOutcome::Retry(error) => return Err(self.cloud_error(error)),
                CapacityOutcome::Failed(error) => return Err(error),
            }
        }
    }

    /// Why the observation allows no scale-up.
    fn why_not_raised(&self) -> String {
        let census = self.state.census();
        if census.live <= census.capacity {
            return "its capacity reads lower than our last write set it: another client may have lowered it"
                .to_owned();
        }
        let surplus = format!("its live instances ({}) exceed its capacity ({})", census.live, census.capacity);
        match &self.state.observation().reading.removal {
            Permit::Granted => format!("{surplus}: the cloud may be about to delete some"),
            Permit::Withheld(reason) => format!("{surplus}; none is deleted: {reason}"),
        }
    }

    fn reinstate(&mut self, number: u32) {
        if number == 0 {
            return;
        }
        let names = self.placeholder_names();
        self.state.reinstate(number, self.context.cloud.now(), &names);
        self.publish();
    }
}

fn requested_growth(request: &Request) -> u32 {
    match request.mutation {
        Mutation::Increase(delta) => delta,
        Mutation::Decrease(_) | Mutation::Delete(_) => 0,
    }
}
