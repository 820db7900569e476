//! Growing the group.

use super::Keeper;
use crate::fleet::error::FleetError;
use crate::fleet::limits::RECOMPUTE;
use crate::fleet::plan;
use crate::fleet::request::{Mutation, Request};

impl Keeper {
    /// Grows the group by all that is asked and allowed, with one write.
    pub(super) async fn grow(&mut self, requests: Vec<Request>) {
        let mut granted = self.judge_growth(requests);
        granted.retain(Request::commit);
        if granted.is_empty() {
            return;
        }
        let outcome = self.raise(granted.iter().map(asked_growth).sum()).await;
        for request in granted {
            request.answer(outcome.clone());
        }
    }

    fn judge_growth(&self, requests: Vec<Request>) -> Vec<Request> {
        let Some(observation) = self.state.observation() else { return Vec::new() };
        let (mut claimed, mut granted) = (0, Vec::new());
        for request in requests {
            let delta = asked_growth(&request);
            match plan::increase(&self.state, observation, delta, claimed) {
                Ok(()) => {
                    claimed += delta;
                    granted.push(request);
                }
                Err(refusal) => {
                    tracing::warn!(group = %self.group_id(), delta, %refusal, "scale-up refused");
                    request.answer(Err(FleetError::Refused { group: self.group_id(), refusal }));
                }
            }
        }
        granted
    }

    /// Raises the target. What is cancelled is capacity that is there already and only has to be wanted again.
    async fn raise(&mut self, delta: u32) -> Result<(), FleetError> {
        for attempt in 0..=RECOMPUTE {
            if attempt > 0 {
                self.fresh().await?;
            } else {
                self.fresh_since_the_last_write().await?;
            }
            let Some(observation) = self.state.observation() else { return Err(self.contended()) };
            let reinstated = delta.min(self.state.cancelled());
            if reinstated == delta {
                self.reinstate(reinstated);
                return Ok(());
            }
            let Some(to) = plan::raised_capacity(&self.state, observation, delta - reinstated) else {
                tracing::warn!(group = %self.group_id(), delta, "the reading does not allow a scale-up; reading again");
                continue;
            };
            if self.write_capacity(to).await? {
                self.reinstate(reinstated);
                return Ok(());
            }
        }
        Err(self.contended())
    }

    fn reinstate(&mut self, number: u32) {
        let names = self.placeholder_names();
        self.state.reinstate(number, self.around.cloud.now(), &names);
        self.publish();
    }
}

fn asked_growth(request: &Request) -> u32 {
    match request.mutation {
        Mutation::Increase(delta) => delta,
        Mutation::Decrease(_) | Mutation::Delete(_) => 0,
    }
}
