//! The constants that a decision depends on, each with its reason. What is assumed of the clouds is in the consistency
//! model ([`crate::cloud::Consistency`]).

use std::time::Duration;

/// After this long in a state that refuses every scale-up, the group is served as one that cannot grow: CA turns to
/// another one. CA backs off a group that refuses for five minutes, and then tries it again.
pub(crate) const REFUSAL_MAX: Duration = Duration::from_secs(60);
/// A deletion waits this long for another one to join it. CA sends one node per call, up to ten calls at a time, and a
/// cloud's write budget per group is small (Azure: 4 a minute, bursts of 12). Where writes are scarce, it waits twice as
/// long: CA was seen to space the calls of one drain 0.2 s apart.
pub(crate) const BATCH_IDLE: Duration = Duration::from_millis(150);
/// A batch of deletions is open for this many of these times at most, so that a caller with 5 s (CA's default) is not
/// kept waiting for others.
pub(crate) const BATCH_IDLES: u32 = 3;
/// Others may join for no longer than this share of a caller's time: the rest is for the read and the write.
pub(crate) const BATCH_SHARE: u32 = 4;
/// A reading that contradicts itself is read again after this time, and this is the longest pause before a write, which
/// reads the group again, is attempted again. A caller has 5 s (CA's default), so a conflict of 2 s costs it two or
/// three attempts.
pub(crate) const READ_AGAIN: Duration = Duration::from_secs(1);
/// The delay between an event that needs a read of the group and that read. Events that come together then cost one
/// read.
pub(crate) const READ_SOON: Duration = Duration::from_millis(50);
/// The cloud must respond to a write within this time if the last listing got no response and nothing has since: CA
/// makes no other call meanwhile. A caller that no other joins gets the error within 1 s.
pub(crate) const LOST_PATIENCE: Duration = Duration::from_millis(700);
/// The first pause before a write is attempted again; it doubles each time. Attempts end as long before the write must have
/// been sent, so that callers get the reason and not only a timeout.
pub(crate) const ATTEMPT_PAUSE_MIN: Duration = Duration::from_millis(100);
/// What a write needs beside the capacity (instances, activities) may take this long: its caller waits, or the cloud may
/// be about to delete instances that nobody named. A reduction is deferred after it, and its caller gets the response.
/// If a read had less time and got no response, nothing follows about the cloud: the caller's time was short.
pub(crate) const DETAIL_LIMIT: Duration = Duration::from_secs(2);
/// CA waits this long for a response by default. If the cloud finishes deletions later, the response to one waits no
/// longer for the outcome, so that an early failure is returned as an error: known failures came within 3 s. A write
/// that no caller waits for is attempted for as long.
pub(crate) const CALLER_WAITS: Duration = Duration::from_secs(5);
/// The longest pause before a launch whose outcome is not known is repeated with its token.
pub(crate) const LAUNCH_PAUSE_MAX: Duration = Duration::from_secs(10);
/// The interval between reads while something may show at any moment: what a write without a response or a launch makes,
/// or instances beyond the capacity while reads may lag. A scale-up that cannot be polled is read again this long after
/// its launches should have begun if instances are still missing: what failed by then is listed before CA's next loop,
/// by default 10 s after the one that scaled up.
pub(crate) const WATCH_EVERY: Duration = Duration::from_secs(3);
/// An operation that no poll and no observation has ended is dropped after this long; observations continue without it. A
/// launch that was refused because the group is set up otherwise, or for lack of a permission, is tried again after as
/// long; until then, capacities are written.
pub(crate) const OPERATION_LIFE: Duration = Duration::from_secs(60 * 60);
/// The most operations of one group that are followed at a time.
pub(crate) const OPERATIONS: usize = 256;
/// What follows from a deletion that failed ends after this long. A preempted one is sent again until then: a cloud that
/// throttles asks for pauses of some seconds, and Azure allows a scale set four writes a minute. A tainted node is left
/// out of the target until then: without an end, CA would not remove what the target leaves out.
pub(crate) const FAILED_DELETION_LIFE: Duration = Duration::from_secs(2 * 60);
/// If the cloud took capacity back and CA never deletes the placeholders, they stay in the target this long: CA's
/// default of `--max-node-provision-time`.
pub(crate) const ROLLED_BACK_LIFE: Duration = Duration::from_secs(15 * 60);
/// Instances are read again after this long even if nothing seems to have changed.
pub(crate) const DETAIL_LIFE: Duration = Duration::from_secs(5 * 60);
