//! What the log says about a group's decisions.

use std::time::SystemTime;

use super::Keeper;
use crate::cloud::ProviderId;
use crate::fleet::journal::Decision;
use crate::group::{Note, Refusal, WriteError};

impl Keeper {
    pub(super) fn log(&mut self, note: Note) {
        match &note {
            Note::RaisedBack(to) => self.record_undo(*to, "ok"),
            Note::NotRaisedBack(to, _) => self.record_undo(*to, "failed"),
            Note::Recreated => self.await_no_template(),
            _ => {}
        }
        write(&self.group_id(), &self.key.source, &note);
    }

    fn record_undo(&self, to: u32, result: &'static str) {
        self.context.journal.decide(Decision {
            at: SystemTime::now(),
            group: self.group_id().to_string(),
            action: format!("raise the capacity back to {to}"),
            result,
            reason: "more instances live than our own write left room for".to_owned(),
            request_id: None,
        });
    }
}

/// Writes what the log says about a decision of this group.
pub(in crate::fleet) fn write(group: &str, source: &str, note: &Note) {
    match note {
        Note::SettingCapacity(operation, from, to) => {
            tracing::info!(%group, %operation, from, to, "setting the capacity of the node group");
        }
        Note::CapacityBusy(operation, error) => {
            tracing::warn!(%group, %operation, %error, "the cloud did not accept a new capacity of the node \
                group; trying again if the caller's time allows");
        }
        Note::CapacityRefused(operation, error) => {
            tracing::warn!(%group, %operation, %error, "the cloud refused to set the capacity of the node group");
        }
        Note::CapacityLost(operation, error) => {
            tracing::warn!(%group, %operation, %error, "the outcome of a capacity write is unknown; reading the node \
                group to see it");
        }
        Note::LostWriteSettled(true) => {
            tracing::info!(%group, "a read shows that a capacity write whose outcome was unknown took effect");
        }
        Note::LostWriteSettled(false) => {
            tracing::warn!(%group, "no read shows a capacity write whose outcome was unknown; scale-ups continue");
        }
        Note::CapacityTookEffect(operation, to) => {
            tracing::info!(%group, %operation, to, "the capacity write took effect");
        }
        Note::Launching(operation, number, zone) => {
            tracing::info!(%group, zone = zone.as_deref(), %operation, number, "launching instances in the node group");
        }
        Note::LaunchUnsettled(operation, error) => {
            tracing::warn!(%group, %operation, %error, "a launch was not accepted, or its response was lost; it is \
                sent again with its token, which launches nothing twice");
        }
        Note::LaunchRefused(operation, error) => {
            tracing::warn!(%group, %operation, %error, "the cloud refused to launch instances");
        }
        Note::NotLaunched(operation, number, failure) => {
            let (code, reason) = (&failure.code, &failure.message);
            tracing::warn!(%group, %operation, number, %code, %reason, "some instances of a scale-up were not \
                launched");
        }
        Note::LaunchesWithheld(error) => {
            tracing::warn!(%group, %error, "the cloud does not launch instances in the node group on request; setting \
                its capacity instead");
        }
        Note::Deleting(operation, ids) => {
            tracing::info!(%group, %operation, instances = ids.len(), ids = ?FirstIds(ids), "deleting instances");
        }
        Note::NotDeleted(operation, instance, error) => {
            tracing::warn!(%group, %operation, %instance, %error, "the cloud refused to delete an instance");
        }
        Note::DeletionLost(operation, error) => {
            tracing::warn!(%group, %operation, %error, "the outcome of a deletion is unknown; it is not sent again \
                until a read shows it");
        }
        Note::DeletionBusy(error) => {
            tracing::warn!(%group, %error, "the cloud did not accept a deletion; reading the node group again");
        }
        Note::DeletionRefusedByCloud(error) => tracing::warn!(%group, %error, "the cloud refused a deletion"),
        // In read-only mode, the line above has what would be written.
        Note::DeletionRefused(error) if matches!(**error, WriteError::Refused(Refusal::ReadOnly { .. })) => {}
        Note::DeletionRefused(error) => tracing::warn!(%group, %error, "deletion refused"),
        Note::NothingToDecrease => {
            tracing::warn!(%group, "nothing to decrease: the node group has every instance that its capacity asks for");
        }
        Note::GrowthRefused(delta, refusal) => tracing::warn!(%group, delta, %refusal, "scale-up refused"),
        Note::GrowthBlockedByDeletions(delta) => {
            tracing::warn!(%group, delta, "scale-up refused: nodes whose deletion may have failed leave too little \
                room");
        }
        Note::GrowthBlockedByLostWrite(delta) => {
            tracing::warn!(%group, delta, "scale-up refused: an earlier capacity write got no response and may still \
                take effect");
        }
        Note::GrowthBlocked(reason) => {
            tracing::warn!(%group, %source, reason, "node group has refused every scale-up for a minute; served as \
                one that cannot grow");
        }
        Note::GrowthAwaitsRead(delta) => {
            tracing::info!(%group, delta, "the read may be older than our last write; reading again before growing");
        }
        Note::GrowthNotAllowed(delta) => {
            tracing::warn!(%group, delta, "the observation does not allow a scale-up; reading again");
        }
        Note::NotLoweredYet(error) => {
            tracing::warn!(%group, %error, "capacity not lowered yet: instances cannot be read in time");
        }
        Note::StillDeferred(error) => {
            tracing::warn!(%group, %error, "a deferred reduction could not be written; it is tried again later");
        }
        Note::InDoubt(why) => {
            tracing::warn!(%group, %source, %why, "observation is in doubt; not published until a second one confirms \
                it");
        }
        Note::InDoubtForWrite(why) => {
            tracing::warn!(%group, %why, "observation is in doubt; waiting for a second one before writing");
        }
        Note::Confirmed(why) => {
            tracing::warn!(%group, %source, %why, "a second read confirms the observation in doubt; it is used now");
        }
        Note::Unreadable(error) => {
            tracing::warn!(%group, %source, %error, "node group cannot be read; serving the last observation");
        }
        Note::Readable => tracing::info!(%group, %source, "node group can be read again"),
        Note::ActivityUnreadable(error) => {
            tracing::warn!(%group, %error, "launch activity cannot be read; failed launches are listed without a \
                reason");
        }
        Note::UnreadableForUndo(error) => {
            tracing::warn!(%group, %error, "node group cannot be read to raise its capacity back");
        }
        Note::RaisingBack(to) => {
            tracing::warn!(%group, to, "more instances live than our own write left room for; raising the capacity \
                back");
        }
        // The list of the last decisions has it.
        Note::RaisedBack(_) => {}
        Note::NotRaisedBackYet(to, error) => tracing::warn!(%group, to, %error, "capacity not raised back yet"),
        Note::NotRaisedBack(to, error) => {
            tracing::error!(%group, to, %error, "the capacity could not be raised back");
        }
        Note::Finished(operation) => tracing::info!(%group, %operation, "operation finished"),
        Note::FailedLater(operation, failure) => {
            let (code, reason) = (&failure.code, &failure.message);
            tracing::warn!(%group, %operation, %code, %reason, "the cloud accepted the operation, and it failed later");
        }
        Note::Preempted(operation) => {
            tracing::warn!(%group, %operation, "another operation preempted an operation of the node group");
        }
        Note::NotResentYet(ids, error) => {
            let ids = FirstIds(ids);
            tracing::warn!(%group, %error, ?ids, "a preempted deletion could not be sent again yet");
        }
        Note::NotResent(ids, error) => {
            let ids = FirstIds(ids);
            tracing::warn!(%group, %error, ?ids, "a preempted deletion could not be sent again; its nodes live on");
        }
        Note::NotReplacedYet(number, error) => {
            tracing::warn!(%group, %error, number, "replacements of deleted instances could not be requested yet");
        }
        Note::NotReplaced(number, error) => {
            tracing::warn!(%group, %error, number, "replacements of deleted instances are not requested; the node \
                group is below its minimum");
        }
        Note::ReadOnly(intended) => tracing::info!(%group, intended, "read-only: the write is refused"),
        Note::Recreated => {
            tracing::warn!(%group, %source, "node group was deleted and created again under its name; operations on \
                the old one are dropped");
        }
        Note::Gone => tracing::warn!(%group, %source, "node group no longer exists; no longer served"),
    }
}

/// The first few IDs, for a log line.
struct FirstIds<'a>(&'a [ProviderId]);

impl std::fmt::Debug for FirstIds<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const SHOWN: usize = 10;
        formatter.debug_list().entries(self.0.iter().take(SHOWN).map(ProviderId::as_str)).finish()
    }
}
