//! Deleting instances: exactly those named, each with its share of the desired capacity.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_autoscaling::types::Activity;
use tokio::task::JoinSet;

use super::super::sdk::api::{AutoScalingApi, BATCH};
use super::super::sdk::cache::UNKNOWN_FORM_TTL;
use super::super::sdk::errors::is_unknown_form;
use super::Groups;
use super::ids::instance_of;
use crate::cloud::{CloudError, Deletion, GroupReading, InstanceState, ProviderId};

const OPERATION: &str = "TerminateInstanceInAutoScalingGroup";
/// Single terminations under way at once; EC2 Auto Scaling throttles an account, not a group.
const SINGLES_AT_ONCE: usize = 8;
/// Waits before a termination that met another activity of its group is sent again: that one had no effect.
const BACKOFF: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(600)];

/// An instance to terminate: the ID the caller knows, and EC2's.
#[derive(Clone, Debug)]
struct Target {
    id: ProviderId,
    instance: String,
}

impl Groups {
    /// Terminates the named instances.
    pub(in crate::clouds::aws) async fn terminate(
        &self,
        basis: &GroupReading,
        ids: &[ProviderId],
    ) -> Result<Deletion, CloudError> {
        let mut deletion = Deletion::default();
        let targets = targets(basis, ids, &mut deletion);
        let mut batches = targets.chunks(BATCH);
        for batch in batches.by_ref() {
            let Err(error) = self.terminate_batch(basis, batch, &mut deletion).await else { continue };
            if deletion.accepted.is_empty() {
                return Err(error);
            }
            // Something was accepted, and the caller must know of it: the rest is refused, each with the reason.
            let rest = batch.iter().chain(batches.flatten());
            deletion.refused.extend(rest.map(|target| (target.id.clone(), error.clone())));
            break;
        }
        Ok(deletion)
    }

    async fn terminate_batch(
        &self,
        basis: &GroupReading,
        batch: &[Target],
        deletion: &mut Deletion,
    ) -> Result<(), CloudError> {
        let group = basis.name.as_str();
        if batch.len() == 1 || self.no_batch_form.get(&()).is_some() {
            return self.terminate_singly(batch, deletion).await;
        }
        let instances: Vec<String> = batch.iter().map(|target| target.instance.clone()).collect();
        let error = match self.scaling.terminate_instances(group, &instances).await {
            Ok(activities) => {
                accept(group, batch, &activities, deletion);
                return Ok(());
            }
            Err(error) => error,
        };
        if is_unknown_form(&error) {
            tracing::info!(%group, %error, "instances are terminated one by one for some time");
            self.no_batch_form.put((), (), UNKNOWN_FORM_TTL);
        }
        match error {
            // Nothing was done: either the form is not known here, or one of the instances spoils it for all.
            CloudError::Refused(_) | CloudError::NotFound(_) => self.terminate_singly(batch, deletion).await,
            // Whether something was done is for the caller to find out, by reading the group.
            error => Err(error),
        }
    }

    async fn terminate_singly(&self, batch: &[Target], deletion: &mut Deletion) -> Result<(), CloudError> {
        let (mut waiting, mut sent) = (batch.iter().cloned(), JoinSet::new());
        // Why the call as a whole cannot go on, and those it was found out with.
        let mut stopped: Option<CloudError> = None;
        let mut unsettled = Vec::new();
        loop {
            while stopped.is_none() && sent.len() < SINGLES_AT_ONCE {
                let Some(target) = waiting.next() else { break };
                sent.spawn(terminate_one(Arc::clone(&self.scaling), target));
            }
            let Some(joined) = sent.join_next().await else { break };
            let (target, answer) =
                joined.map_err(|error| CloudError::unintelligible(OPERATION, "a task", error.to_string()))?;
            match answer {
                Ok(()) => deletion.accepted.push(target.id),
                Err(CloudError::NotFound(_)) => deletion.already_gone.push(target.id),
                Err(error) if stops(&error) => {
                    unsettled.push((target.id, error.clone()));
                    // Where several stop it, the one that leaves the outcome open is what the caller must know.
                    if !stopped.as_ref().is_some_and(CloudError::outcome_unknown) {
                        stopped = Some(error);
                    }
                }
                Err(error) => deletion.refused.push((target.id, error)),
            }
        }
        let Some(error) = stopped else { return Ok(()) };
        if deletion.accepted.is_empty() {
            return Err(error);
        }
        deletion.refused.extend(unsettled);
        deletion.refused.extend(waiting.map(|target| (target.id, error.clone())));
        Ok(())
    }
}

// Whether the next termination would meet the same.
fn stops(error: &CloudError) -> bool {
    error.outcome_unknown() || matches!(error, CloudError::Throttled { .. } | CloudError::Denied(_))
}

// What is going is not terminated again: each time would lower the desired capacity again (#4095, #2930). And what the
// group does not list is not terminated at all: the single form names no group, so it would reach into another.
fn targets(basis: &GroupReading, ids: &[ProviderId], deletion: &mut Deletion) -> Vec<Target> {
    let mut targets: Vec<Target> = Vec::with_capacity(ids.len());
    for id in ids {
        let Some(instance) = instance_of(id) else {
            let message = "the ID is not of the form aws:///zone/i-…";
            deletion.refused.push((id.clone(), CloudError::refused(OPERATION, id.as_str(), message)));
            continue;
        };
        let listed = basis
            .instances
            .as_ref()
            .map(|instances| instances.iter().find(|listed| listed.id == *id).map(|found| found.state));
        match listed {
            Some(None | Some(InstanceState::Deleting)) => deletion.already_gone.push(id.clone()),
            _ if targets.iter().any(|target| target.instance == instance) => {}
            _ => targets.push(Target { id: id.clone(), instance }),
        }
    }
    targets
}

async fn terminate_one(scaling: Arc<dyn AutoScalingApi>, target: Target) -> (Target, Result<(), CloudError>) {
    for wait in BACKOFF {
        match scaling.terminate_instance(&target.instance).await {
            Err(CloudError::Conflict(fault)) => {
                tracing::debug!(instance = %target.instance, %fault, "the group is busy; the termination is sent again");
                tokio::time::sleep(wait).await;
            }
            answer => return (target, answer),
        }
    }
    let answer = scaling.terminate_instance(&target.instance).await;
    (target, answer)
}

// One activity to an instance, "Terminating EC2 instance: i-…". An answer that names none is an answer all the same.
fn accept(group: &str, batch: &[Target], activities: &[Activity], deletion: &mut Deletion) {
    let text: Vec<&str> = activities.iter().filter_map(|activity| activity.description()).collect();
    let is_named = |target: &&Target| text.iter().any(|text| text.contains(target.instance.as_str()));
    let (named, unnamed): (Vec<&Target>, Vec<&Target>) = batch.iter().partition(is_named);
    if named.is_empty() || activities.len() >= batch.len() {
        deletion.accepted.extend(batch.iter().map(|target| target.id.clone()));
        return;
    }
    tracing::warn!(%group, accepted = named.len(), asked = batch.len(), "a part of the instances is being terminated");
    deletion.accepted.extend(named.into_iter().map(|target| target.id.clone()));
    let left_out = |target: &Target| {
        let message = "the group started no activity for this instance";
        (target.id.clone(), CloudError::unintelligible(OPERATION, &target.instance, message))
    };
    deletion.refused.extend(unnamed.into_iter().map(left_out));
}
