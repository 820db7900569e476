//! Terminates the named instances, and lowers the desired capacity by one for each that it counts.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aws_sdk_autoscaling::types::Activity;
use tokio::task::JoinSet;

use super::super::sdk::api::{AutoScalingApi, BATCH};
use super::super::sdk::cache::UNKNOWN_FORM_TTL;
use super::super::sdk::errors::is_unknown_form;
use super::Groups;
use super::ids::instance_of;
use crate::cloud::{CloudError, Counts, Deletion, GroupReading, InstanceState, ProviderId};

const OPERATION: &str = "TerminateInstanceInAutoScalingGroup";
/// The most single terminations at a time. EC2 Auto Scaling throttles the whole account, not one group.
const SINGLES_AT_ONCE: usize = 8;
/// Waits before a termination is sent again because the group was busy. The refused one had no effect.
const BACKOFF: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(600)];

/// After a batch that met a conflict, this many conflicts without an acceptance mean that the whole group is busy. The other
/// terminations are not sent, so that a busy group does not cost one call per instance.
const CONFLICTS_MAX: usize = 2;

/// An instance to terminate: its provider ID and its EC2 ID.
#[derive(Clone, Debug)]
struct Target {
    id: ProviderId,
    instance: String,
    /// Whether the desired capacity counts the instance. It does not count one in standby. If asked to lower the capacity for such
    /// an instance, AWS would do so, and then terminate another instance of its own choice.
    is_counted: bool,
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
        let (counted, standby): (Vec<Target>, Vec<Target>) = targets.into_iter().partition(|target| target.is_counted);
        let mut batches = counted.chunks(BATCH).chain(standby.chunks(BATCH));
        for batch in batches.by_ref() {
            let Err(error) = self.terminate_batch(basis, batch, &mut deletion).await else { continue };
            if deletion.accepted.is_empty() {
                return Err(error);
            }
            // Some terminations were accepted, and the caller must know which. The others are refused, each with the reason.
            deletion.refused.extend(batch.iter().map(|target| (target.id.clone(), error.clone())));
            let unsent = unsent(&error);
            deletion.refused.extend(batches.flatten().map(|target| (target.id.clone(), unsent.clone())));
            break;
        }
        // A busy group refused everything. The caller reads the group and tries again, as long as its own caller waits.
        let is_busy = |(_, error): &(ProviderId, CloudError)| matches!(error, CloudError::Conflict(_));
        let is_untouched = deletion.accepted.is_empty() && deletion.already_gone.is_empty();
        match deletion.refused.first() {
            Some((_, error)) if is_untouched && deletion.refused.iter().all(is_busy) => Err(error.clone()),
            _ => Ok(deletion),
        }
    }

    async fn terminate_batch(
        &self,
        basis: &GroupReading,
        batch: &[Target],
        deletion: &mut Deletion,
    ) -> Result<(), CloudError> {
        let group = basis.name.as_str();
        if batch.len() == 1 || self.no_batch_form.get(&()).is_some() {
            return self.terminate_singly(batch, Singles::default(), deletion).await;
        }
        let instances: Vec<String> = batch.iter().map(|target| target.instance.clone()).collect();
        let decrements = batch.iter().all(|target| target.is_counted);
        let error = match self.scaling.terminate_instances(group, &instances, decrements).await {
            Ok(activities) => {
                accept(group, batch, &activities, deletion);
                return Ok(());
            }
            Err(error) => error,
        };
        if is_unknown_form(&error) {
            tracing::info!(%group, %error, "batch termination failed; terminating instances one by one for 10 minutes");
            self.no_batch_form.put((), (), UNKNOWN_FORM_TTL);
        }
        match error {
            // Nothing was done: AWS does not know the batch form here, or it refused the batch because of one instance.
            CloudError::Refused(_) | CloudError::NotFound(_) => {
                self.terminate_singly(batch, Singles::default(), deletion).await
            }
            // Nothing was done here either: one of the instances is busy, or the whole group.
            CloudError::Conflict(_) => self.terminate_around_busy(batch, deletion).await,
            // The outcome may be unknown. The caller reads the group to find out.
            error => Err(error),
        }
    }

    /// Terminates the instances of a batch that met a conflict, except those that are busy. Each time, it begins after the instances
    /// that the last attempt began with, so that busy ones do not keep the others from being tried.
    async fn terminate_around_busy(&self, batch: &[Target], deletion: &mut Deletion) -> Result<(), CloudError> {
        let first = self.next_probe.fetch_add(CONFLICTS_MAX, Ordering::Relaxed) % batch.len();
        let (before, after) = batch.split_at(first);
        self.terminate_singly(&[after, before].concat(), Singles::probing(), deletion).await
    }

    async fn terminate_singly(
        &self,
        batch: &[Target],
        mut singles: Singles,
        deletion: &mut Deletion,
    ) -> Result<(), CloudError> {
        let (mut waiting, mut sent) = (batch.iter().cloned(), JoinSet::new());
        loop {
            while singles.may_send(sent.len()) {
                let Some(target) = waiting.next() else { break };
                sent.spawn(terminate_one(Arc::clone(&self.scaling), target, singles.waits));
            }
            let Some(joined) = sent.join_next().await else { break };
            let (target, response) =
                joined.map_err(|error| CloudError::unintelligible(OPERATION, "a task", error.to_string()))?;
            singles.note(target, response, deletion);
        }
        let Some(error) = singles.stopped else { return Ok(()) };
        // Where the outcome is unknown, the caller must know which terminations were sent and which were not.
        if deletion.accepted.is_empty() && (!error.outcome_unknown() || singles.failed.len() == batch.len()) {
            return Err(error);
        }
        deletion.refused.extend(singles.failed);
        let unsent = unsent(&error);
        deletion.refused.extend(waiting.map(|target| (target.id, unsent.clone())));
        Ok(())
    }
}

/// Single terminations: how they are sent, and what stops them.
#[derive(Debug)]
struct Singles {
    /// While the whole group may be busy: the conflicts so far. One termination is sent at a time.
    conflicts: Option<usize>,
    /// The waits before a termination that met a conflict is sent again.
    waits: &'static [Duration],
    /// The error that keeps the remaining terminations from being sent.
    stopped: Option<CloudError>,
    /// The terminations that failed with such an error.
    failed: Vec<(ProviderId, CloudError)>,
}

impl Default for Singles {
    fn default() -> Self {
        Self { conflicts: None, waits: &BACKOFF, stopped: None, failed: Vec::new() }
    }
}

impl Singles {
    /// After a batch that met a conflict. None is sent again: the caller tries those that are busy again.
    fn probing() -> Self {
        Self { conflicts: Some(0), waits: &[], ..Self::default() }
    }

    fn may_send(&self, under_way: usize) -> bool {
        let at_once = if self.conflicts.is_some() { 1 } else { SINGLES_AT_ONCE };
        self.stopped.is_none() && under_way < at_once
    }

    fn note(&mut self, target: Target, response: Result<(), CloudError>, deletion: &mut Deletion) {
        match response {
            Ok(()) => {
                self.conflicts = None;
                deletion.accepted.push(target.id);
            }
            Err(CloudError::NotFound(_)) => deletion.already_gone.push(target.id),
            Err(error) if stops(&error) => {
                self.failed.push((target.id, error.clone()));
                // If one of several such errors leaves the outcome unknown, the caller must see that one.
                if !self.stopped.as_ref().is_some_and(CloudError::outcome_unknown) {
                    self.stopped = Some(error);
                }
            }
            Err(error) => {
                self.note_conflict(&error);
                deletion.refused.push((target.id, error));
            }
        }
    }

    fn note_conflict(&mut self, error: &CloudError) {
        let (Some(conflicts), CloudError::Conflict(_)) = (&mut self.conflicts, error) else { return };
        *conflicts += 1;
        if *conflicts == CONFLICTS_MAX {
            self.stopped = Some(error.clone());
        }
    }
}

// The error of a termination that was not sent because an earlier one ended with `error`. Its outcome is known.
fn unsent(error: &CloudError) -> CloudError {
    if !error.outcome_unknown() {
        return error.clone();
    }
    let fault = error.fault();
    CloudError::conflict(OPERATION, &fault.subject, format!("not sent, because an earlier termination failed: {error}"))
}

// Whether the next termination would fail in the same way.
fn stops(error: &CloudError) -> bool {
    error.outcome_unknown() || matches!(error, CloudError::Throttled { .. } | CloudError::Denied(_))
}

// An instance being terminated is not terminated again, because that would lower the desired capacity again (#4095, #2930).
// An instance that the group does not list is not terminated at all: the single form names no group, so it would take the
// instance from another group.
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
            .map(|instances| instances.iter().find(|listed| listed.id == *id).map(|found| (found.state, found.counts)));
        match listed {
            Some(None | Some((InstanceState::Deleting, _))) => deletion.already_gone.push(id.clone()),
            _ if targets.iter().any(|target| target.instance == instance) => {}
            listed => {
                let is_counted = !matches!(listed, Some(Some((_, Counts::No))));
                targets.push(Target { id: id.clone(), instance, is_counted });
            }
        }
    }
    targets
}

async fn terminate_one(
    scaling: Arc<dyn AutoScalingApi>,
    target: Target,
    waits: &'static [Duration],
) -> (Target, Result<(), CloudError>) {
    for wait in waits {
        match scaling.terminate_instance(&target.instance, target.is_counted).await {
            Err(CloudError::Conflict(fault)) => {
                tracing::debug!(instance = %target.instance, %fault, "Auto Scaling group is busy; retrying the termination");
                tokio::time::sleep(*wait).await;
            }
            response => return (target, response),
        }
    }
    let response = scaling.terminate_instance(&target.instance, target.is_counted).await;
    (target, response)
}

// AWS returns one activity per instance, "Terminating EC2 instance: i-…". If no activity names an instance, all are taken as
// accepted.
fn accept(group: &str, batch: &[Target], activities: &[Activity], deletion: &mut Deletion) {
    let text: Vec<&str> = activities.iter().filter_map(|activity| activity.description()).collect();
    let is_named = |target: &&Target| text.iter().any(|text| text.contains(target.instance.as_str()));
    let (named, unnamed): (Vec<&Target>, Vec<&Target>) = batch.iter().partition(is_named);
    if named.is_empty() || activities.len() >= batch.len() {
        deletion.accepted.extend(batch.iter().map(|target| target.id.clone()));
        return;
    }
    tracing::warn!(%group, accepted = named.len(), asked = batch.len(), "AWS accepted the termination of only some of the instances");
    deletion.accepted.extend(named.into_iter().map(|target| target.id.clone()));
    let not_started = |target: &Target| {
        let message = "the group started no activity for this instance";
        (target.id.clone(), CloudError::refused(OPERATION, &target.instance, message))
    };
    deletion.refused.extend(unnamed.into_iter().map(not_started));
}
