//! Every bound and cadence of the fleet, each with its reason.

use std::time::Duration;

/// Deletes wait this long for another one to join: CA sends one node per call, up to ten at a time, and a cloud's write
/// budget per group is small (Azure: 4 a minute, bursts of 12).
pub(crate) const BATCH_IDLE: Duration = Duration::from_millis(150);
/// ... and this long at most, so that a caller with 5 s (CA's default) is not kept waiting for others.
pub(crate) const BATCH_OPEN_MAX: Duration = Duration::from_millis(500);
/// Requests waiting at one group. CA sends at most ten at a time; the rest is somebody's mistake.
pub(crate) const MAILBOX: usize = 1024;
/// Nodes in one DeleteNodes call. The largest groups the clouds allow hold a few thousand.
pub(crate) const NODES_PER_CALL: usize = 5_000;
/// A source is busy for this long after something happened in it: CA's next few loops, and the launches that they cause.
pub(crate) const BUSY_FOR: Duration = Duration::from_secs(2 * 60);
/// An idle source is listed at least this often where nothing else is configured.
pub(crate) const IDLE_DEFAULT_MAX: Duration = Duration::from_secs(5 * 60);
/// So is that of a standby: `/livez?max-age=15m` must stay green.
pub(crate) const STANDBY_INTERVAL_MAX: Duration = Duration::from_secs(5 * 60);
/// A reading that contradicts itself is read again after this time.
pub(crate) const CONFIRM_AFTER: Duration = Duration::from_secs(1);
/// A read for a write that got less time than this and no response says nothing about the cloud: the caller was short of time.
pub(crate) const READ_PATIENCE: Duration = Duration::from_secs(2);
/// A read of one group may take this long: longer than the slowest page seen, shorter than a refresh interval or two.
pub(crate) const READ_LIMIT: Duration = Duration::from_secs(20);
/// A listing may go this long without a page. A cloud that lists a whole source at once has this long for all of it.
pub(crate) const PAGE_LIMIT: Duration = Duration::from_secs(60);
/// A write that was sent may take this long, whatever became of its caller.
pub(crate) const WRITE_LIMIT: Duration = Duration::from_secs(30);
/// A group is read this long after something happened that a read shows, so that what happens together is read once.
pub(crate) const LOOK_SOON: Duration = Duration::from_millis(50);
/// Attempts end this long before the last moment for sending, so that callers get the reason and not a bare timeout.
pub(crate) const RESPOND_EARLY: Duration = Duration::from_millis(100);
/// The first pause before a write is attempted again; it doubles each time.
pub(crate) const ATTEMPT_PAUSE_MIN: Duration = Duration::from_millis(100);
/// ... up to this. A caller has 5 s (CA's default), so a conflict of 2 s costs it two or three attempts.
pub(crate) const ATTEMPT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Fresh instances for a reduction may take this long while its caller waits. After that the reduction stays owed, and the
/// caller gets its response: a target that CA lowered is never raised by that.
pub(crate) const LOWER_LIMIT: Duration = Duration::from_secs(2);
/// A write that no caller waits for is attempted for this long.
pub(crate) const OWN_WRITE_LIMIT: Duration = Duration::from_secs(5);
/// The response to a deletion waits this long for its outcome where the cloud finishes it later: a failure that comes early is
/// returned as one. Failures that were seen came within 3 s, and CA waits for 5 s by default.
pub(crate) const HOLD_MAX: Duration = Duration::from_secs(5);
/// An operation is polled this often where the cloud does not ask for another pause.
pub(crate) const POLL_EVERY: Duration = Duration::from_secs(3);
/// An operation is polled this often while the response to its caller may wait for it (`HOLD_MAX`), and never more often.
pub(crate) const POLL_MIN: Duration = Duration::from_secs(1);
/// One poll may take this long.
pub(crate) const POLL_LIMIT: Duration = Duration::from_secs(10);
/// Polls end after this many responses in a row that the poll is not permitted, or that there is no such operation: one may be
/// a permission that is being granted, or a replica that lags.
pub(crate) const POLLS_REFUSED_MAX: u32 = 2;
/// How long a read may lag behind a write that the cloud accepted (neither cloud promises read-after-write).
pub(crate) const SETTLE: Duration = Duration::from_secs(30);
/// A capacity below our last accepted write is read again this many times, within 2.5 s. Then it counts as another client's change.
pub(crate) const OUTDATED_READS: u32 = 5;
/// How long an Auto Scaling group may take from a new capacity to the first launch that it tells of. Until then what it is
/// about to launch is not known, and nothing is lowered.
pub(crate) const LAUNCH_BEGINS: Duration = Duration::from_secs(5);
/// A raise back waits this long to learn which instances the cloud launched for reasons of its own: the cloud may be about to delete
/// instances that nobody named.
pub(crate) const HEAL_ACTIVITY_LIMIT: Duration = Duration::from_secs(1);
/// How long after a reduction an instance may still appear that the cloud had already begun to launch. AWS was seen to
/// take 20 s from SetDesiredCapacity to the first termination (autoscaler #10147).
pub(crate) const HEAL_WINDOW: Duration = Duration::from_secs(30);
/// Readings in the heal window.
pub(crate) const HEAL_READ_EVERY: Duration = Duration::from_secs(3);
/// An operation that nothing was heard of for this long is forgotten; observations continue without it.
pub(crate) const OPERATION_LIFE: Duration = Duration::from_secs(60 * 60);
/// Operations of one group that are followed at a time.
pub(crate) const OPERATIONS: usize = 256;
/// A preempted deletion is sent again for this long: a cloud that throttles asks for pauses of some seconds, and Azure allows a scale
/// set four writes a minute.
pub(crate) const RESUBMIT_LIMIT: Duration = Duration::from_secs(2 * 60);
/// Capacity that the cloud itself took back stays in the target this long if CA never deletes its placeholders: CA's own
/// max-node-provision-time.
pub(crate) const ROLLED_BACK_LIFE: Duration = Duration::from_secs(15 * 60);
/// Instances are read again after this long even where nothing seems to have changed.
pub(crate) const DETAIL_LIFE: Duration = Duration::from_secs(5 * 60);
/// A new instance or placeholder without an error is not listed for this long: see [`super::snapshot::Newcomers`].
pub(crate) const UNLISTED: Duration = Duration::from_secs(6);
/// A node whose instance is gone keeps its group this long: the Node object lingers after the machine.
pub(crate) const GONE_NODE_LIFE: Duration = Duration::from_secs(10 * 60);
/// After this long, sources that are good are served although others never were.
pub(crate) const WAIT_FOR_ALL_SOURCES: Duration = Duration::from_secs(60);
/// `Refresh` waits this long for the listing it started; CA calls it before every loop.
pub(crate) const REFRESH_WAIT: Duration = Duration::from_secs(2);
/// Readings are this old at most before `Refresh` fails, or three times as far apart as listings are if that is longer.
pub(crate) const STALE_AFTER: Duration = Duration::from_secs(2 * 60);
/// The first listing waits this long for the groups to adopt their readings before it counts as done: until then they are not served.
pub(crate) const FIRST_ADOPTION_LIMIT: Duration = Duration::from_secs(15);
/// Later ones wait this long, so that one group's slow call delays no other group's reading (law 8).
pub(crate) const ADOPTION_LIMIT: Duration = Duration::from_secs(2);
/// The longest pause of a source that cannot be read and does not say for how long.
pub(crate) const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// Budgets of calls in one line of the log, the scarcest first. A cloud can have some for each group.
pub(crate) const BUDGETS_SHOWN: usize = 20;
/// A cloud that asks for a longer pause than this is called again all the same.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(30 * 60);
/// Templates are rebuilt after this long.
pub(crate) const TEMPLATE_LIFE: Duration = Duration::from_secs(10 * 60);
/// Templates of a launch spec that can change without the group changing (`$Latest`) are rebuilt after this long. A new
/// instance type must show within 90 s, and an idle source is listed every 60 s.
pub(crate) const FLOATING_TEMPLATE_LIFE: Duration = Duration::from_secs(25);
/// A template that could not be built is tried again after this long, and so is one that is built from the tables because
/// the cloud could not be asked for its instance types.
pub(crate) const TEMPLATE_RETRY: Duration = Duration::from_secs(60);
/// A template that could not be built because the cloud could not be asked is tried again after this long: with the next
/// refresh, as a rule. Until then the group cannot grow from zero.
pub(crate) const TEMPLATE_RETRY_SOON: Duration = Duration::from_secs(10);
/// Templates built at a time per source.
pub(crate) const TEMPLATE_BUILDS: usize = 4;
/// Template builds waiting per source.
pub(crate) const TEMPLATE_QUEUE: usize = 4096;
/// How often the fleet learns from the watched nodes: a group has to have been empty for ten minutes before anybody asks what
/// a node of it was like.
pub const LEARN_EVERY: Duration = Duration::from_secs(60);
/// How often at most the cluster's nodes are looked at: kubelets change them all the time.
pub(crate) const NODES_EVERY: Duration = Duration::from_secs(1);
/// How long the first list of all nodes may take.
pub(crate) const NODES_LIMIT: Duration = Duration::from_secs(2 * 60);
/// A command that only wants to know what was learned waits this long for it.
pub(crate) const RECALL_LIMIT: Duration = Duration::from_secs(5);
