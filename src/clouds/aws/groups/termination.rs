//! Terminates the named instances, and lowers the desired capacity by one for each that it counts.

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aws_sdk_autoscaling::types::Activity;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use super::super::sdk::api::{AutoScalingApi, BATCH};
use super::super::sdk::cache::UNKNOWN_FORM_TTL;
use super::super::sdk::errors::is_unknown_form;
use super::Groups;
use super::ids::instance_of;
use crate::cloud::{CloudError, Counts, Deletion, GroupReading, InstanceState, ProviderId};

const OPERATION: &str = "TerminateInstanceInAutoScalingGroup";
/// The most single terminations at a time. EC2 Auto Scaling throttles the whole account, not one group.
const SINGLES_AT_ONCE: usize = 8;
/// Terminations are sent for this long, and those under way are finished. CA waits 5 s, and untaints what it has no
/// response for.
const SEND_FOR: Duration = Duration::from_secs(3);

/// After a batch that met a conflict, this many conflicts without an acceptance mean that the whole group is busy. The
/// other terminations are not sent, so that a busy group does not cost one call per instance.
const CONFLICTS_MAX: usize = 2;

/// An instance to terminate: its provider ID and its EC2 ID.
#[derive(Clone, Debug)]
struct Target {
    id: ProviderId,
    instance: String,
    /// Whether the desired capacity counts the instance. It does not count one in standby. If asked to lower the
    /// capacity for such an instance, AWS would do so, and then terminate another instance of its own choice.
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
        let send_until = Instant::now() + SEND_FOR;
        let mut stopped = None;
        for batch in counted.chunks(BATCH).chain(standby.chunks(BATCH)) {
            if Instant::now() >= send_until {
                stopped.get_or_insert_with(|| not_in_time(&basis.name));
            }
            match &stopped {
                None => stopped = self.terminate_batch(basis, batch, send_until, &mut deletion).await,
                Some(error) => refuse(batch, &unsent(error), &mut deletion),
            }
        }
        outcome(deletion, stopped)
    }

    /// Terminates one batch, and notes what became of each instance. Returns the error that keeps later batches from
    /// being sent.
    async fn terminate_batch(
        &self,
        basis: &GroupReading,
        batch: &[Target],
        send_until: Instant,
        deletion: &mut Deletion,
    ) -> Option<CloudError> {
        let group = basis.name.as_str();
        if batch.len() == 1 || self.no_batch_form.get(&()).is_some() {
            return self.terminate_singly(batch, Singles::until(send_until), deletion).await;
        }
        let instances: Vec<String> = batch.iter().map(|target| target.instance.clone()).collect();
        let decrements = batch.iter().all(|target| target.is_counted);
        let error = match self.scaling.terminate_instances(group, &instances, decrements).await {
            Ok(activities) => {
                accept(group, batch, &activities, deletion);
                return None;
            }
            Err(error) => error,
        };
        if is_unknown_form(&error) {
            tracing::info!(%group, %error, "batch termination failed; terminating instances one by one for 10 minutes");
            self.no_batch_form.put((), (), UNKNOWN_FORM_TTL);
        }
        match error {
            // Nothing was done: AWS does not know the batch form here, or it refused the batch because of one instance.
            CloudError::Refused(_) => self.terminate_singly(batch, Singles::until(send_until), deletion).await,
            // One of them has left the group. The form for one instance names no group: if it is in another one by now, it
            // would be terminated there.
            CloudError::NotFound(_) => {
                let singles = Singles::until(send_until).of_group(group);
                self.terminate_singly(batch, singles, deletion).await
            }
            // Nothing was done here either: one of the instances is busy, or the whole group.
            CloudError::Conflict(_) => self.terminate_around_busy(batch, send_until, deletion).await,
            // The outcome may be unknown. The caller reads the group to find out.
            error => {
                refuse(batch, &error, deletion);
                Some(error)
            }
        }
    }

    /// Terminates the instances of a batch that met a conflict, except those that are busy. Each time, it begins after
    /// the instances that the last attempt began with, so that busy ones do not keep the others from being tried.
    async fn terminate_around_busy(
        &self,
        batch: &[Target],
        send_until: Instant,
        deletion: &mut Deletion,
    ) -> Option<CloudError> {
        let first = self.next_probe.fetch_add(CONFLICTS_MAX, Ordering::Relaxed) % batch.len();
        let (before, after) = batch.split_at(first);
        self.terminate_singly(&[after, before].concat(), Singles::probing(send_until), deletion).await
    }

    async fn terminate_singly(
        &self,
        batch: &[Target],
        mut singles: Singles,
        deletion: &mut Deletion,
    ) -> Option<CloudError> {
        let (mut waiting, mut sent) = (batch.iter(), FuturesUnordered::new());
        loop {
            while singles.may_send(sent.len()) {
                let Some(target) = waiting.next() else { break };
                sent.push(terminate_one(&*self.scaling, singles.group.clone(), target));
            }
            let Some((target, response)) = sent.next().await else { break };
            singles.finish(target, response, deletion);
        }
        if waiting.len() > 0 && singles.stopped.is_none() {
            singles.stopped = Some(not_in_time(&batch[0].id));
        }
        let error = singles.stopped?;
        refuse(waiting.as_slice(), &unsent(&error), deletion);
        Some(error)
    }
}

/// Single terminations: how they are sent, and what stops them.
#[derive(Debug)]
struct Singles {
    /// While the whole group may be busy: the conflicts so far. One termination is sent at a time.
    conflicts: Option<usize>,
    /// Until when they are sent.
    send_until: Instant,
    /// The error that keeps the remaining terminations from being sent.
    stopped: Option<CloudError>,
    /// The group that each names, where AWS knows that form.
    group: Option<String>,
}

impl Singles {
    fn until(send_until: Instant) -> Self {
        Self { conflicts: None, send_until, stopped: None, group: None }
    }

    /// Each names the group.
    fn of_group(self, group: &str) -> Self {
        Self { group: Some(group.to_owned()), ..self }
    }

    /// After a batch that met a conflict.
    fn probing(send_until: Instant) -> Self {
        Self { conflicts: Some(0), ..Self::until(send_until) }
    }

    fn may_send(&self, under_way: usize) -> bool {
        let at_once = if self.conflicts.is_some() { 1 } else { SINGLES_AT_ONCE };
        self.stopped.is_none() && under_way < at_once && Instant::now() < self.send_until
    }

    fn finish(&mut self, target: &Target, response: Result<(), CloudError>, deletion: &mut Deletion) {
        let id = target.id.clone();
        match response {
            Ok(()) => {
                self.conflicts = None;
                deletion.accepted.push(id);
            }
            Err(CloudError::NotFound(_)) => deletion.already_gone.push(id),
            Err(error) => {
                // If one of several such errors leaves the outcome unknown, the caller must see that one.
                if stops(&error) && !self.stopped.as_ref().is_some_and(CloudError::outcome_unknown) {
                    self.stopped = Some(error.clone());
                }
                self.note_conflict(&error);
                deletion.refused.push((id, error));
            }
        }
    }

    fn note_conflict(&mut self, error: &CloudError) {
        let (Some(conflicts), CloudError::Conflict(_)) = (&mut self.conflicts, error) else { return };
        *conflicts += 1;
        if *conflicts == CONFLICTS_MAX && self.stopped.is_none() {
            self.stopped = Some(error.clone());
        }
    }
}

fn refuse(batch: &[Target], error: &CloudError, deletion: &mut Deletion) {
    deletion.refused.extend(batch.iter().map(|target| (target.id.clone(), error.clone())));
}

// If nothing was done at all, the error alone says so, and the caller may send everything again. As soon as the outcome
// of one termination is unknown, the caller must know of which (law 7), unless it is that of all.
fn outcome(deletion: Deletion, stopped: Option<CloudError>) -> Result<Deletion, CloudError> {
    if !deletion.accepted.is_empty() || deletion.refused.is_empty() {
        return Ok(deletion);
    }
    let unknown = deletion.refused.iter().filter(|(_, error)| error.outcome_unknown()).count();
    // A busy group refused everything. The caller reads the group and tries again, as long as its own caller waits.
    let is_busy = deletion.refused.iter().all(|(_, error)| matches!(error, CloudError::Conflict(_)));
    match (stopped, deletion.refused.first()) {
        (Some(error), _) if unknown == 0 || unknown == deletion.refused.len() => Err(error),
        (None, Some((_, error))) if is_busy && deletion.already_gone.is_empty() => Err(error.clone()),
        _ => Ok(deletion),
    }
}

// The error of the terminations that there was no time for. The caller tries again, as long as its own caller waits.
fn not_in_time(subject: &impl fmt::Display) -> CloudError {
    CloudError::conflict(
        OPERATION,
        &subject.to_string(),
        "not sent, because AWS responded too slowly to the ones before",
    )
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
    let is_of_all = matches!(error, CloudError::Throttled { .. } | CloudError::Denied(_) | CloudError::NotSent(_));
    is_of_all || error.outcome_unknown()
}

// An instance being terminated is not terminated again, because that would lower the desired capacity again (#4095,
// #2930). An instance that the group does not list is not terminated at all: the single form names no group, so it
// would take the instance from another group.
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

async fn terminate_one<'a>(
    scaling: &dyn AutoScalingApi,
    group: Option<String>,
    target: &'a Target,
) -> (&'a Target, Result<(), CloudError>) {
    let response = match group {
        Some(group) => {
            let instance = std::slice::from_ref(&target.instance);
            scaling.terminate_instances(&group, instance, target.is_counted).await.map(drop)
        }
        None => scaling.terminate_instance(&target.instance, target.is_counted).await,
    };
    (target, response)
}

// AWS returns one activity per instance, "Terminating EC2 instance: i-…". If no activity names an instance, all are
// taken as accepted.
fn accept(group: &str, batch: &[Target], activities: &[Activity], deletion: &mut Deletion) {
    let text: Vec<&str> = activities.iter().filter_map(|activity| activity.description()).collect();
    let is_named = |target: &&Target| text.iter().any(|text| text.contains(target.instance.as_str()));
    let (named, unnamed): (Vec<&Target>, Vec<&Target>) = batch.iter().partition(is_named);
    if named.is_empty() || activities.len() >= batch.len() {
        deletion.accepted.extend(batch.iter().map(|target| target.id.clone()));
        return;
    }
    tracing::warn!(%group, accepted = named.len(), asked = batch.len(), "AWS accepted the termination of only some of \
        the instances");
    deletion.accepted.extend(named.into_iter().map(|target| target.id.clone()));
    let not_started = |target: &Target| {
        let message = "the group started no activity for this instance";
        (target.id.clone(), CloudError::refused(OPERATION, &target.instance, message))
    };
    deletion.refused.extend(unnamed.into_iter().map(not_started));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_termination_is_not_sent_where_none_can_be() {
        let CloudError::Refused(fault) = CloudError::refused(OPERATION, "i-1", "no route") else { unreachable!() };
        assert!(stops(&CloudError::NotSent(fault.clone())));
        assert!(!stops(&CloudError::Refused(fault)), "the next one may be accepted");
    }
}
