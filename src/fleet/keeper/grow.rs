//! Growing the group.

use std::mem;

use super::Keeper;
use super::attempts::Attempts;
use super::batch::{respond_all, respond_out_of_time};
use super::capacity::CapacityOutcome;
use super::fresh::Fresh;
use crate::cloud::{CloudError, Missing, Permit};
use crate::fleet::error::FleetError;
use crate::fleet::limits::OUTDATED_READS;
use crate::fleet::plan;
use crate::fleet::request::{Mutation, Request};
use crate::fleet::state::WriteReason;

impl Keeper {
    /// Grows the group by all that is requested and allowed, with one write.
    pub(super) async fn grow(&mut self, requests: Vec<Request>, fresh: &mut Option<Fresh>, attempts: &mut Attempts) {
        if requests.is_empty() {
            return;
        }
        let unused = fresh.take();
        let fresh = match self.fresh_or(unused, attempts).await {
            Ok(fresh) => fresh,
            Err(error) => return respond_all(requests, &error),
        };
        let mut growth = Growth { requests, reads: 0 };
        let outcome = self.raise(&mut growth, fresh, attempts).await;
        for request in growth.requests {
            request.respond(outcome.clone());
        }
    }

    /// What may be requested now, after the last read: another client may have used the room meanwhile, and a caller's time may be up.
    fn granted(&self, growth: &mut Growth) -> u32 {
        growth.requests = self.judge_growth(mem::take(&mut growth.requests));
        growth.requests.retain(Request::commit);
        growth.requests.iter().map(requested_growth).sum()
    }

    fn judge_growth(&self, requests: Vec<Request>) -> Vec<Request> {
        let (mut claimed, mut granted) = (0, Vec::new());
        for request in requests {
            let delta = requested_growth(&request);
            match plan::increase(&self.state, delta, claimed) {
                // Instances whose deletion has an unknown outcome may live on, and would then take the group above its maximum (law 6).
                Ok(()) if plan::increase(&self.state, delta, claimed + self.state.may_live_on()).is_err() => {
                    tracing::warn!(group = %self.group_id(), delta, "scale-up refused: nodes whose deletion may have failed leave too little room below the maximum");
                    let reason = "nodes whose deletion may have failed leave too little room below its maximum";
                    request.respond(Err(self.contended(reason)));
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

    /// Raises the target. Cancelled placeholders are capacity that exists already and only has to be reinstated, if the cloud launches
    /// what is missing by itself.
    async fn raise(
        &mut self,
        growth: &mut Growth,
        mut fresh: Fresh,
        attempts: &mut Attempts,
    ) -> Result<(), FleetError> {
        loop {
            let delta = self.granted(growth);
            if delta == 0 {
                return Ok(());
            }
            // Another client may have lowered the capacity, too: after some reads, that is what happened.
            if self.state.in_flight().has_unread() || (self.state.may_be_outdated() && growth.reads < OUTDATED_READS) {
                tracing::info!(group = %self.group_id(), delta, "the read may be older than our last write; reading again before growing");
                let error = self.contended("its reads do not yet show our last write that the cloud accepted");
                if !growth.wait(attempts, error.clone()).await {
                    return Err(error);
                }
                growth.reads += 1;
                fresh = self.fresh(attempts).await?;
                continue;
            }
            let is_retried = self.state.observation().reading.consistency.missing == Missing::Retried;
            let reinstated = if is_retried { delta.min(self.state.cancelled()) } else { 0 };
            if reinstated == delta {
                self.reinstate(reinstated);
                return Ok(());
            }
            let Some(to) = plan::raised_capacity(&self.state, delta - reinstated) else {
                tracing::warn!(group = %self.group_id(), delta, "the observation does not allow a scale-up; reading again");
                let error = self.contended(&self.why_not_raised());
                if !growth.wait(attempts, error.clone()).await {
                    return Err(error);
                }
                fresh = self.fresh_instances(attempts).await?.into();
                continue;
            };
            match self.write_capacity(fresh, to, WriteReason::Requested, attempts).await {
                CapacityOutcome::Accepted => {
                    self.reinstate(reinstated);
                    return Ok(());
                }
                CapacityOutcome::Retry(error) => {
                    let refused = self.cloud_error(error.clone());
                    if !growth.wait_after(&error, attempts, refused.clone()).await {
                        return Err(refused);
                    }
                    fresh = self.fresh(attempts).await?;
                }
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

/// The scale-ups of one batch that have no response yet.
struct Growth {
    requests: Vec<Request>,
    /// How often the group was read again because a read may be older than our last write.
    reads: u32,
}

impl Growth {
    /// Waits before the next attempt. Those that have no time for it get the error; `false` where none has.
    async fn wait(&mut self, attempts: &mut Attempts, error: FleetError) -> bool {
        self.requests = respond_out_of_time(mem::take(&mut self.requests), attempts.next(), &error);
        !self.requests.is_empty() && attempts.again().await
    }

    /// As [`Growth::wait`], for as long as the cloud asked for after `refusal`.
    async fn wait_after(&mut self, refusal: &CloudError, attempts: &mut Attempts, error: FleetError) -> bool {
        self.requests = respond_out_of_time(mem::take(&mut self.requests), attempts.next_after(refusal), &error);
        !self.requests.is_empty() && attempts.again_after(refusal).await
    }
}

fn requested_growth(request: &Request) -> u32 {
    match request.mutation {
        Mutation::Increase(delta) => delta,
        Mutation::Decrease(_) | Mutation::Delete(_) => 0,
    }
}
