//! A recording in words: what happened, what is decided, and which rule that follows.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tracing::subscriber::with_default;
use tracing_subscriber::fmt::MakeWriter;

use super::lock;
use super::replay::Rule;
use crate::cloud::{CloudError, Permit};
use crate::fleet::keeper::write_note;
use crate::group::{
    Effect, Event, Mutation, Note, OperationId, PollEnd, ReadResult, Refusal, Request, Scope, WriteError,
};

/// What happened.
pub(super) fn event(event: &Event) -> String {
    let none = || "nothing".to_owned();
    match event {
        Event::Started => "the group was observed for the first time".to_owned(),
        Event::Requested(requests) => requests.iter().map(request).collect::<Vec<_>>().join("; "),
        Event::Withdrawn(requests) => {
            let keys: Vec<_> = requests.iter().map(|key| key.0.to_string()).collect();
            format!("the callers of requests {} gave up", keys.join(", "))
        }
        Event::Listed(read, _) => format!("a listing has {}", reading(read)),
        Event::NotListed(..) => "a listing lacks the group".to_owned(),
        Event::Read(read) => format!("the read for the write shows {}", reading(read)),
        Event::ReadBeside(read, _) => format!("a read shows {}", reading(read)),
        Event::Activity(activity) | Event::ActivityBeside(activity) => match activity {
            Ok(activity) => format!(
                "launch activity: {} failed, {} under way, {} launched",
                activity.failures.len(),
                activity.under_way,
                activity.launched.len()
            ),
            Err(error) => format!("launch activity cannot be read: {error}"),
        },
        Event::ReadPanicked(_) => "a read panicked".to_owned(),
        Event::ActivityPanicked => "a read of the launch activity panicked".to_owned(),
        Event::CapacityWritten(outcome) => match outcome {
            Ok(_) => "the cloud accepted the capacity".to_owned(),
            Err(error) => format!("the capacity write failed: {error}"),
        },
        Event::Launched(operation, Ok(result)) => {
            let (instances, failures) = (result.instances.len(), result.failures.len());
            format!("{operation} launched {instances}, and {failures} failures were returned")
        }
        Event::Launched(operation, Err(error)) => format!("{operation} launched nothing: {error}"),
        Event::Deleted(Ok(deletion)) => {
            let parts = [
                (deletion.accepted.len(), "accepted"),
                (deletion.already_gone.len(), "gone already"),
                (deletion.refused.len(), "refused"),
            ];
            let parts = parts.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{number} {what}"));
            let parts: Vec<_> = parts.collect();
            format!("the cloud responded to the deletion: {}", if parts.is_empty() { none() } else { parts.join(", ") })
        }
        Event::Deleted(Err(error)) => format!("the deletion failed: {error}"),
        Event::Polled(operation, end) => poll_end(*operation, end),
        Event::PolledForWrite { ended, error } => {
            let ended = ended.iter().map(|(operation, end)| poll_end(*operation, end));
            let errors = error.iter().map(|error| format!("an operation cannot be polled: {error}"));
            let parts: Vec<_> = ended.chain(errors).collect();
            if parts.is_empty() { "the deletions are still running".to_owned() } else { parts.join("; ") }
        }
        Event::Woke => "time has passed".to_owned(),
    }
}

fn poll_end(operation: OperationId, end: &PollEnd) -> String {
    match end {
        PollEnd::Succeeded => format!("{operation} succeeded"),
        PollEnd::Failed(failure) => format!("{operation} failed: {} {}", failure.code, failure.message),
        PollEnd::Preempted => format!("another operation preempted {operation}"),
        PollEnd::Unpollable => format!("{operation} cannot be polled"),
    }
}

fn request(request: &Request) -> String {
    let what = match &request.mutation {
        Mutation::Increase(delta) => format!("grow by {delta}"),
        Mutation::Decrease(delta) => format!("give back {delta}"),
        Mutation::Delete(nodes) => {
            let ids: Vec<_> = nodes.iter().map(|node| node.id.as_str()).collect();
            format!("delete {}", ids.join(", "))
        }
    };
    format!("request {}: {what}", request.key.0)
}

fn reading(read: &ReadResult) -> String {
    match &read.reading {
        Ok(Some(reading)) => {
            let instances = reading.instances.as_ref().map(|instances| format!(", {} instances", instances.len()));
            let growth = match &reading.growth {
                Permit::Granted => String::new(),
                Permit::Withheld(reason) => format!(", no growth: {reason}"),
            };
            let (desired, min, max) = (reading.desired, reading.min, reading.max);
            format!("capacity {desired} of {min} to {max}{}{growth}", instances.unwrap_or_default())
        }
        Ok(None) => "that the group does not exist".to_owned(),
        Err(error) => format!("nothing: {error}"),
    }
}

/// What is decided, and by which rule. What only concerns the driver is left out.
pub(super) fn decisions(group: &str, effects: &[Effect]) -> Vec<Rule> {
    let is_undo = effects.iter().any(|effect| matches!(effect, Effect::Log(Note::RaisingBack(_))));
    effects.iter().filter_map(|effect| decision(group, effect, is_undo)).collect()
}

fn decision(group: &str, effect: &Effect, is_undo: bool) -> Option<Rule> {
    let (decision, rule) = match effect {
        Effect::Read { scope: Scope::Capacity, .. } => ("read the capacity".to_owned(), FRESH),
        Effect::Read { scope: Scope::Instances, .. } => ("read the capacity and the instances".to_owned(), FRESH),
        Effect::ReadBeside(_) => ("read the group beside the writes".to_owned(), BESIDE),
        Effect::ReadActivity { .. } => ("read the launch activity".to_owned(), FRESH),
        Effect::ReadActivityBeside(_) => ("read the launch activity beside the writes".to_owned(), BESIDE),
        Effect::SetCapacity { basis, to, requests } => {
            let rule = match (requests.is_empty(), is_undo) {
                (false, _) if *to > basis.desired => "laws 1 and 2: what was read just now, and what CA asked for",
                (false, _) => "law 1: no less than the instances that it counts",
                (true, true) => "law 11: room again for the instances that nobody named",
                (true, false) => "law 11: the deferred rest of a reduction",
            };
            (format!("set the capacity from {} to {to}", basis.desired), rule)
        }
        Effect::Launch { operation, number, zone, .. } => (
            match zone {
                Some(zone) => format!("launch {number} in {zone} ({operation})"),
                None => format!("launch {number} ({operation})"),
            },
            "law 7: a launch has a token, and the same token launches nothing twice",
        ),
        Effect::Delete { ids, requests, .. } => {
            let ids: Vec<_> = ids.iter().map(|id| id.as_str()).collect();
            let rule = match requests.is_empty() {
                false => "laws 1 and 6: only what CA named, and not below the minimum",
                true => "law 11: a preempted deletion is sent again",
            };
            (format!("delete {}", ids.join(", ")), rule)
        }
        Effect::Poll(operation, _) => (format!("poll {operation}"), BESIDE),
        Effect::PollForWrite { operations, .. } => {
            let names: Vec<_> = operations.iter().map(|(operation, _)| operation.to_string()).collect();
            (format!("poll {} before the write", names.join(", ")), FRESH)
        }
        Effect::Respond(request, Ok(())) => {
            (format!("respond to request {}: OK", request.0), "law 4: the target and the nodes show it")
        }
        Effect::Respond(request, Err(error)) => (format!("respond to request {}: {error}", request.0), refused(error)),
        Effect::Publish => ("publish the status".to_owned(), "law 3: derived from what was observed and is in flight"),
        Effect::Retire => ("serve the group no longer".to_owned(), GONE),
        Effect::Log(note) => (sentence(group, note), noted(note)?),
        Effect::Begin(_) | Effect::Release(_) | Effect::Adopted(_) => return None,
    };
    Some(Rule { decision, rule })
}

const FRESH: &str = "law 2: a write is computed from a fresh read";
const BESIDE: &str = "law 12: it delays no write";
const UNKNOWN: &str = "law 7: an outcome that is unknown is not guessed";
const DOUBT: &str = "law 5: a reading in doubt is not used";
const MINIMUM: &str = "law 6: never below the minimum";
const MAXIMUM: &str = "never above the maximum";
const PERMITTED: &str = "what the group's settings permit";
const CLOUD: &str = "what the cloud responded";
const GONE: &str = "law 5: two reads do not find it";
const IDENTITY: &str = "law 2: another group of the same name is another group";

/// The rule by which a request is refused.
fn refused(error: &WriteError) -> &'static str {
    match error {
        WriteError::Refused(refusal) => refusal_rule(refusal),
        WriteError::Cloud(error) => cloud_rule(error),
        WriteError::PartlyRefused(_) => CLOUD,
        WriteError::Contended(_) => "laws 1 and 5: what was read does not allow it yet",
        WriteError::NotSent | WriteError::StillRunning => "law 9: a response within the caller's time",
        WriteError::OutcomeUnknown(_) => UNKNOWN,
        WriteError::Gone => GONE,
    }
}

fn refusal_rule(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::AboveMax { .. } | Refusal::Unfilled { .. } | Refusal::NotLoweredYet { .. } => MAXIMUM,
        Refusal::BelowMin { .. } => MINIMUM,
        Refusal::Recreated => IDENTITY,
        Refusal::GrowthWithheld { .. } | Refusal::RemovalWithheld { .. } => PERMITTED,
        Refusal::Foreign { .. } => "what belongs to another cluster is not deleted",
        Refusal::ReadOnly { .. } => "read-only: nothing is written",
    }
}

fn cloud_rule(error: &CloudError) -> &'static str {
    if error.outcome_unknown() { UNKNOWN } else { CLOUD }
}

/// The rule behind what the log says. `None` where another decision of the same step says the same.
fn noted(note: &Note) -> Option<&'static str> {
    Some(match note {
        Note::SettingCapacity(..) | Note::Launching(..) | Note::Deleting(..) => return None,
        Note::CapacityLost(..)
        | Note::CapacityTookEffect(..)
        | Note::LostWriteSettled(_)
        | Note::DeletionLost(..)
        | Note::LaunchUnsettled(..)
        | Note::GrowthBlockedByLostWrite(_) => UNKNOWN,
        Note::DeletionRefused(error) => refused(error),
        Note::GrowthRefused(_, refusal) => refusal_rule(refusal),
        Note::GrowthBlockedByDeletions(_) => MAXIMUM,
        Note::GrowthBlocked(_) => "law 13: no refusal without an end",
        Note::GrowthAwaitsRead(_) => FRESH,
        Note::GrowthNotAllowed(_) => "law 1: it must make room for all that live",
        Note::NothingToDecrease | Note::NotLoweredYet(_) | Note::StillDeferred(_) => {
            "law 1: no less than the instances that it counts"
        }
        Note::InDoubt(_) | Note::InDoubtForWrite(_) | Note::Confirmed(_) => DOUBT,
        Note::Unreadable(_) | Note::Readable | Note::ActivityUnreadable(_) | Note::UnreadableForUndo(_) => {
            "law 5: what cannot be read is not guessed"
        }
        Note::RaisingBack(_) | Note::RaisedBack(_) | Note::NotRaisedBackYet(..) | Note::NotRaisedBack(..) => {
            "law 11: room again for the instances that nobody named"
        }
        Note::NotReplacedYet(..) | Note::NotReplaced(..) => "law 6: what CA had deleted at the minimum is replaced",
        Note::ReadOnly(_) => "read-only: nothing is written",
        Note::Gone => GONE,
        Note::Recreated => IDENTITY,
        Note::LaunchRefused(..)
        | Note::NotLaunched(..)
        | Note::LaunchesWithheld(_)
        | Note::CapacityBusy(..)
        | Note::CapacityRefused(..)
        | Note::NotDeleted(..)
        | Note::DeletionBusy(_)
        | Note::DeletionRefusedByCloud(_)
        | Note::Finished(_)
        | Note::FailedLater(..)
        | Note::Preempted(_)
        | Note::NotResentYet(..)
        | Note::NotResent(..) => CLOUD,
    })
}

/// What the log says, as the log says it.
fn sentence(group: &str, note: &Note) -> String {
    if let Note::RaisedBack(to) = note {
        return format!("the capacity was raised back to {to}");
    }
    let text = Text::default();
    let log = tracing_subscriber::fmt().with_writer(text.clone()).without_time().with_level(false).with_target(false);
    with_default(log.with_ansi(false).finish(), || write_note(group, "", note));
    let bytes = std::mem::take(&mut *lock(&text.0));
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// Collects what is logged.
#[derive(Clone, Debug, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Text {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
