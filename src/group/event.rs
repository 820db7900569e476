//! What goes into the machine of a node group, and what comes out of it.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::doubt::Doubt;
use super::operation::OperationId;
use super::refusal::{Refusal, WriteError};
use super::request::{Request, RequestKey};
use super::time::Time;
use crate::cloud::{
    Acceptance, CloudError, Deletion, Failure, GroupReading, LaunchActivity, LaunchResult, OperationHandle, ProviderId,
    Shortfall, ZoneName,
};

/// Something that happened to a node group. Nothing else changes what is known about it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Event {
    /// The group was observed for the first time.
    Started,
    /// CA requests changes.
    Requested(Vec<Request>),
    /// The callers of these requests gave up before anything was sent for them.
    Withdrawn(BTreeSet<RequestKey>),
    /// A listing has the group.
    Listed(ReadResult, ListingKey),
    /// A listing that began then lacks the group.
    NotListed(Time, ListingKey),
    /// A read that a write waits for has ended.
    Read(ReadResult),
    /// A read beside the writes has ended.
    ReadBeside(ReadResult, Option<ListingKey>),
    /// A read of the launch activity that a write waits for has ended.
    Activity(Result<LaunchActivity, CloudError>),
    /// A read of the launch activity beside the writes has ended.
    ActivityBeside(Result<LaunchActivity, CloudError>),
    /// A read beside the writes panicked.
    ReadPanicked(Option<ListingKey>),
    /// A read of the launch activity beside the writes panicked.
    ActivityPanicked,
    /// The cloud responded to a capacity write.
    CapacityWritten(Result<Acceptance, CloudError>),
    /// The cloud responded to a launch.
    Launched(OperationId, Result<LaunchResult, CloudError>),
    /// The cloud responded to a deletion.
    Deleted(Result<Deletion, CloudError>),
    /// The polls of an operation have ended.
    Polled(OperationId, PollEnd),
    /// Operations that a write counts on were polled once.
    PolledForWrite {
        /// Those that have ended.
        ended: Vec<(OperationId, PollEnd)>,
        /// Why one of the others could not be polled.
        error: Option<CloudError>,
    },
    /// A moment has come that the machine waits for.
    Woke,
}

/// What one read of the group returned.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ReadResult {
    /// The group; `None` where the cloud reports that it does not exist.
    pub reading: Result<Option<Box<GroupReading>>, CloudError>,
    /// When the read began.
    pub begun: Time,
    /// The same moment by the cloud's clock.
    pub at: SystemTime,
}

/// Names a listing that waits until the group has adopted its reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct ListingKey(pub u64);

/// How the polls of an operation end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PollEnd {
    /// It succeeded, or the cloud has forgotten it.
    Succeeded,
    /// It failed.
    Failed(Failure),
    /// The cloud preferred another operation.
    Preempted,
    /// It cannot be polled: observations decide what became of it.
    Unpollable,
}

/// What a read for a write returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Scope {
    /// The capacity and the precondition; the instances only where the cloud returns them in the same call.
    Capacity,
    /// The instances as well.
    Instances,
}

/// What the driver of a node group is to do, in this order.
#[derive(Clone, Debug, Serialize)]
pub(crate) enum Effect {
    /// Read the group for a write: [`Event::Read`].
    Read {
        /// What of it.
        scope: Scope,
        /// How long the read may take.
        limit: Duration,
    },
    /// Read the group and its instances beside the writes: [`Event::ReadBeside`].
    ReadBeside(Option<ListingKey>),
    /// Read the launch activity for a write: [`Event::Activity`].
    ReadActivity {
        /// What it has to explain.
        shortfall: Shortfall,
        /// How long the read may take.
        limit: Duration,
    },
    /// Read the launch activity beside the writes: [`Event::ActivityBeside`].
    ReadActivityBeside(Shortfall),
    /// Set the capacity: [`Event::CapacityWritten`]. If any of these requests has been given up, nothing is sent:
    /// [`Event::Withdrawn`].
    SetCapacity {
        /// The group as it was read.
        basis: Box<GroupReading>,
        /// The new capacity.
        to: u32,
        /// What it is sent for.
        requests: Vec<RequestKey>,
    },
    /// Launch instances, beside everything else: [`Event::Launched`]. The same operation again is the same launch.
    /// Requests as above.
    Launch {
        /// Names the launch in the group.
        operation: OperationId,
        /// The group as it was read.
        basis: Box<GroupReading>,
        /// How many instances.
        number: u32,
        /// The zone to launch them in, where each is served.
        #[serde(skip_serializing_if = "Option::is_none")]
        zone: Option<ZoneName>,
        /// What it is sent for.
        requests: Vec<RequestKey>,
    },
    /// Delete these instances: [`Event::Deleted`]. Requests as above.
    Delete {
        /// The group as it was read, with the instances that this was decided on.
        basis: Box<GroupReading>,
        /// The instances.
        ids: Vec<ProviderId>,
        /// What it is sent for.
        requests: Vec<RequestKey>,
    },
    /// Poll an operation to its end: [`Event::Polled`].
    Poll(OperationId, OperationHandle),
    /// Poll these operations once, for a write: [`Event::PolledForWrite`].
    PollForWrite {
        /// The operations.
        operations: Vec<(OperationId, OperationHandle)>,
        /// How long all of it may take.
        limit: Duration,
    },
    /// Part of a request took effect: its caller is not told any more that nothing was sent.
    Begin(RequestKey),
    /// Nothing was sent for a request after all: its caller may give it up again.
    Release(RequestKey),
    /// Respond to a request.
    Respond(RequestKey, Result<(), WriteError>),
    /// A listing need not wait for this group any more.
    Adopted(ListingKey),
    /// Publish the status.
    Publish,
    /// The group no longer exists.
    Retire,
    /// Something worth a line in the log.
    Log(Note),
}

/// What the log says about a decision.
#[derive(Clone, Debug, Serialize)]
pub(crate) enum Note {
    /// A capacity write is sent.
    SettingCapacity(OperationId, u32, u32),
    /// The cloud did not accept a capacity write, for a reason that may pass.
    CapacityBusy(OperationId, CloudError),
    /// The cloud refused a capacity write.
    CapacityRefused(OperationId, CloudError),
    /// A capacity write got no response.
    CapacityLost(OperationId, CloudError),
    /// A read shows that a capacity write without a response took effect.
    CapacityTookEffect(OperationId, u32),
    /// A capacity write without a response took effect after all, or nothing has shown it in the time it may take.
    LostWriteSettled(bool),
    /// A launch of this many instances is sent, or sent again, in this zone if each is served.
    Launching(OperationId, u32, Option<ZoneName>),
    /// The cloud was busy, or the outcome of a launch is not known: it is sent again with its token.
    LaunchUnsettled(OperationId, CloudError),
    /// The cloud refused a launch.
    LaunchRefused(OperationId, CloudError),
    /// A launch made this many instances fewer than requested.
    NotLaunched(OperationId, u32, Failure),
    /// The cloud does not offer launches for the group, or not to us.
    LaunchesWithheld(CloudError),
    /// A deletion is sent.
    Deleting(OperationId, Vec<ProviderId>),
    /// The cloud refused to delete an instance.
    NotDeleted(OperationId, ProviderId, CloudError),
    /// A deletion got no response.
    DeletionLost(OperationId, CloudError),
    /// The cloud did not accept a deletion, for a reason that may pass.
    DeletionBusy(CloudError),
    /// The cloud refused a deletion.
    DeletionRefusedByCloud(CloudError),
    /// A deletion is refused.
    DeletionRefused(Box<WriteError>),
    /// CA gives back more than is missing.
    NothingToDecrease,
    /// A scale-up is refused.
    GrowthRefused(u32, Refusal),
    /// A scale-up is refused because of deletions with an unknown outcome.
    GrowthBlockedByDeletions(u32),
    /// A scale-up is refused because a capacity write got no response.
    GrowthBlockedByLostWrite(u32),
    /// Nothing has allowed a scale-up for a while: the group is served as one that cannot grow.
    GrowthBlocked(String),
    /// A scale-up waits for a read that shows our last write.
    GrowthAwaitsRead(u32),
    /// A scale-up waits for an observation that allows it.
    GrowthNotAllowed(u32),
    /// A reduction waits for a list of instances.
    NotLoweredYet(Box<WriteError>),
    /// A reduction was not accepted.
    StillDeferred(Box<WriteError>),
    /// An observation is in doubt.
    InDoubt(Doubt),
    /// A read for a write is in doubt.
    InDoubtForWrite(Doubt),
    /// A second observation agrees with one that was in doubt.
    Confirmed(Doubt),
    /// The group cannot be read.
    Unreadable(CloudError),
    /// The group can be read again.
    Readable,
    /// Launch activity cannot be read.
    ActivityUnreadable(CloudError),
    /// The group cannot be read to raise its capacity back.
    UnreadableForUndo(Box<WriteError>),
    /// The capacity is raised back.
    RaisingBack(u32),
    /// The capacity was raised back.
    RaisedBack(u32),
    /// The capacity was not raised back yet.
    NotRaisedBackYet(u32, CloudError),
    /// The capacity could not be raised back.
    NotRaisedBack(u32, Box<WriteError>),
    /// An operation succeeded.
    Finished(OperationId),
    /// An operation failed after it was accepted.
    FailedLater(OperationId, Failure),
    /// Another operation preempted one.
    Preempted(OperationId),
    /// A preempted deletion is sent again later.
    NotResentYet(Vec<ProviderId>, Box<WriteError>),
    /// A preempted deletion is not sent again.
    NotResent(Vec<ProviderId>, Box<WriteError>),
    /// The capacity was not raised yet for instances that were deleted at the maximum.
    NotReplacedYet(u32, Box<WriteError>),
    /// The capacity is not raised for instances that were deleted at the maximum.
    NotReplaced(u32, Box<WriteError>),
    /// A write is refused because Headcount only reads.
    ReadOnly(String),
    /// The group is another one of the same name.
    Recreated,
    /// The group no longer exists.
    Gone,
}
