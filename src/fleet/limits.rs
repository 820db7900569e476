//! Most limits and intervals of the fleet, each with its reason; the others are in the module that uses them.

use std::time::Duration;

/// A deletion waits this long for another one to join it. CA sends one node per call, up to ten calls at a time, and a cloud's
/// write budget per group is small (Azure: 4 a minute, bursts of 12).
pub(crate) const BATCH_IDLE: Duration = Duration::from_millis(150);
/// ... and this long at most, so that a caller with 5 s (CA's default) is not kept waiting for others.
pub(crate) const BATCH_OPEN_MAX: Duration = Duration::from_millis(500);
/// The most requests that wait for one group. CA sends at most ten at a time, so more than this are a caller's mistake.
pub(crate) const MAILBOX: usize = 1024;
/// The most nodes in one DeleteNodes call. The largest groups that the clouds allow have a few thousand.
pub(crate) const NODES_PER_CALL: usize = 5_000;
/// A source is busy for this long after something happened in it: CA's next few loops, and the launches that they cause.
pub(crate) const BUSY_FOR: Duration = Duration::from_secs(2 * 60);
/// An idle source is listed at least this often, unless the configuration sets its interval.
pub(crate) const IDLE_DEFAULT_MAX: Duration = Duration::from_secs(5 * 60);
/// The sources of a standby are listed at least this often, because `/livez?max-age=15m` must succeed.
pub(crate) const STANDBY_INTERVAL_MAX: Duration = Duration::from_secs(5 * 60);
/// A reading that contradicts itself is read again after this time.
pub(crate) const CONFIRM_AFTER: Duration = Duration::from_secs(1);
/// If a read for a write had less time than this and got no response, nothing follows about the cloud: the caller's time was short.
pub(crate) const READ_PATIENCE: Duration = Duration::from_secs(2);
/// A read of one group may take this long: longer than the slowest page seen, shorter than a refresh interval or two.
pub(crate) const READ_LIMIT: Duration = Duration::from_secs(20);
/// The longest time between two pages of a listing. A cloud that lists a whole source at once has this long for all of it.
pub(crate) const PAGE_LIMIT: Duration = Duration::from_secs(60);
/// A write that was sent may take this long, even if its caller is gone.
pub(crate) const WRITE_LIMIT: Duration = Duration::from_secs(30);
/// The delay between an event that needs a read of the group and that read. Events that come together then cost one read.
pub(crate) const LOOK_SOON: Duration = Duration::from_millis(50);
/// Attempts end this long before the write must have been sent, so that callers get the reason and not only a timeout.
pub(crate) const RESPOND_EARLY: Duration = Duration::from_millis(100);
/// The cloud must respond to a write within this time if the last listing got no response and nothing has since: CA makes no other
/// call meanwhile. With the time in which others may join the write, its caller gets the error within 1 s.
pub(crate) const LOST_PATIENCE: Duration = Duration::from_millis(700);
/// The first pause before a write is attempted again; it doubles each time.
pub(crate) const ATTEMPT_PAUSE_MIN: Duration = Duration::from_millis(100);
/// ... up to this. A caller has 5 s (CA's default), so a conflict of 2 s costs it two or three attempts.
pub(crate) const ATTEMPT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Reading the instances for a reduction may take this long while its caller waits. After that, the reduction is deferred and the
/// caller gets its response. The target stays as CA lowered it.
pub(crate) const LOWER_LIMIT: Duration = Duration::from_secs(2);
/// A write that no caller waits for is attempted for this long.
pub(crate) const OWN_WRITE_LIMIT: Duration = Duration::from_secs(5);
/// If the cloud finishes deletions later, the response to a deletion waits this long for the outcome, so that an early failure is
/// returned as an error. Known failures came within 3 s, and CA waits for 5 s by default.
pub(crate) const HOLD_MAX: Duration = Duration::from_secs(5);
/// An operation is polled at this interval, unless the cloud asks for another one.
pub(crate) const POLL_EVERY: Duration = Duration::from_secs(3);
/// An operation is polled at this interval while the response to its caller may wait for it (`HOLD_MAX`), and never more often.
pub(crate) const POLL_MIN: Duration = Duration::from_secs(1);
/// The longest pause between two polls, whatever the cloud asks for: a failure that shows late is a scale-up that comes late.
pub(crate) const POLL_PAUSE_MAX: Duration = Duration::from_secs(60);
/// Polls end when none has succeeded for this long.
pub(crate) const POLLS_FAIL_FOR: Duration = Duration::from_secs(120);
/// One poll may take this long.
pub(crate) const POLL_LIMIT: Duration = Duration::from_secs(10);
/// Polls end after this many responses in a row that deny the poll or report no such operation. A single one may come from a
/// permission that is just being granted, or from a replica that lags.
pub(crate) const POLLS_REFUSED_MAX: u32 = 2;
/// How long a read may lag behind a write that the cloud accepted (neither cloud promises read-after-write).
pub(crate) const SETTLE: Duration = Duration::from_secs(30);
/// A capacity below our last accepted write is read again this many times, within 2.5 s. Then it counts as another client's change.
pub(crate) const OUTDATED_READS: u32 = 5;
/// How long an Auto Scaling group may take from a new capacity to the first launch in its activities. Until then, it is not known
/// what the group is about to launch, so nothing is lowered.
pub(crate) const LAUNCH_BEGINS: Duration = Duration::from_secs(5);
/// A scale-up that cannot be polled is read again this long after the cloud accepted it, if instances are still missing. A launch that
/// failed by then is listed as failed before CA's next loop, which by default begins 10 s after the one that scaled up.
pub(crate) const LAUNCH_SHOWS: Duration = Duration::from_secs(8);
/// A heal waits this long for the activities, which show what the cloud launched for reasons of its own. It does not wait longer,
/// because the cloud may be about to delete instances that nobody named.
pub(crate) const HEAL_ACTIVITY_LIMIT: Duration = Duration::from_secs(1);
/// A surplus of the cloud's own may have begun this long before a write of ours: an instance refresh replaces one batch after another.
pub(crate) const OWN_SURPLUS: Duration = Duration::from_secs(600);
/// How long after a reduction an instance may still appear that the cloud had already begun to launch. AWS was seen to
/// take 20 s from SetDesiredCapacity to the first termination (autoscaler #10147).
pub(crate) const HEAL_WINDOW: Duration = Duration::from_secs(30);
/// The interval between reads during [`HEAL_WINDOW`].
pub(crate) const HEAL_READ_EVERY: Duration = Duration::from_secs(3);
/// An operation that no poll and no observation has ended is dropped after this long; observations continue without it.
pub(crate) const OPERATION_LIFE: Duration = Duration::from_secs(60 * 60);
/// The most operations of one group that are followed at a time.
pub(crate) const OPERATIONS: usize = 256;
/// A preempted deletion is sent again for this long: a cloud that throttles asks for pauses of some seconds, and Azure allows a scale
/// set four writes a minute.
pub(crate) const RESUBMIT_LIMIT: Duration = Duration::from_secs(2 * 60);
/// If the cloud took capacity back and CA never deletes the placeholders, they stay in the target this long: CA's default of
/// --max-node-provision-time.
pub(crate) const ROLLED_BACK_LIFE: Duration = Duration::from_secs(15 * 60);
/// Instances are read again after this long even if nothing seems to have changed.
pub(crate) const DETAIL_LIFE: Duration = Duration::from_secs(5 * 60);
/// A new instance or placeholder without an error is not listed for this long: see [`super::snapshot::Unlisted`].
pub(crate) const UNLISTED_FOR: Duration = Duration::from_secs(6);
/// A node whose instance is gone still belongs to its group for this long: the Node object outlives the instance.
pub(crate) const GONE_NODE_LIFE: Duration = Duration::from_secs(10 * 60);
/// After this long, the sources that could be listed are served without the others.
pub(crate) const WAIT_FOR_ALL_SOURCES: Duration = Duration::from_secs(60);
/// `Refresh` waits this long for the listing it started; CA calls it before every loop.
pub(crate) const REFRESH_WAIT: Duration = Duration::from_secs(2);
/// `Refresh` fails if all readings are older than this, or than three times the interval between listings if that is longer.
pub(crate) const STALE_AFTER: Duration = Duration::from_secs(2 * 60);
/// The first listing waits this long for the groups to adopt their readings, because they are not served before that.
pub(crate) const FIRST_ADOPTION_LIMIT: Duration = Duration::from_secs(15);
/// Later listings wait this long, so that one group's slow call delays no other group's reading (law 8).
pub(crate) const ADOPTION_LIMIT: Duration = Duration::from_secs(2);
/// The longest pause of a source that cannot be read and does not say for how long.
pub(crate) const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// Budgets of calls in one line of the log, the scarcest first. A cloud can have some for each group.
pub(crate) const BUDGETS_SHOWN: usize = 20;
/// If a cloud asks for a longer pause, it is called again after this long.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(30 * 60);
/// Templates are rebuilt after this long.
pub(crate) const TEMPLATE_LIFE: Duration = Duration::from_secs(10 * 60);
/// Templates of a launch spec that can change without the group changing (`$Latest`) are rebuilt after this long. A new
/// instance type must show within 90 s, and an idle source is listed every 60 s.
pub(crate) const FLOATING_TEMPLATE_LIFE: Duration = Duration::from_secs(25);
/// A template that could not be built is tried again after this long. So is one that was built without something that could not be
/// read: from the tables alone, or without the machine image.
pub(crate) const TEMPLATE_RETRY: Duration = Duration::from_secs(60);
/// A template that could not be built because the cloud could not be read is tried again after this long, usually with the next
/// refresh. Until then, the group cannot grow from zero.
pub(crate) const TEMPLATE_RETRY_SOON: Duration = Duration::from_secs(10);
/// Templates built at a time per source.
pub(crate) const TEMPLATE_BUILDS: usize = 4;
/// Template builds waiting per source.
pub(crate) const TEMPLATE_QUEUE: usize = 4096;
/// How often the fleet learns from the watched nodes. A group must have been empty for ten minutes before CA needs its figures.
pub const LEARN_EVERY: Duration = Duration::from_secs(60);
/// The shortest interval between two looks at the cluster's nodes, because kubelets change them all the time.
pub(crate) const NODES_EVERY: Duration = Duration::from_secs(1);
/// How long the first list of all nodes may take.
pub(crate) const NODES_LIMIT: Duration = Duration::from_secs(2 * 60);
/// How long a command waits to read what was learned.
pub(crate) const RECALL_LIMIT: Duration = Duration::from_secs(5);
