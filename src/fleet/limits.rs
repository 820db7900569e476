//! Most limits and intervals of the fleet, each with its reason; the others are in the module that uses them.

use std::time::Duration;

/// The most requests that wait for one group. CA sends at most ten at a time, so more than this are a caller's mistake.
pub(crate) const MAILBOX: usize = 1024;
/// The most nodes in one DeleteNodes call. The largest groups that the clouds allow have a few thousand.
pub(crate) const NODES_PER_CALL: usize = 5_000;
/// The most bytes of a provider ID. Those of both clouds have fewer than 400.
pub(crate) const ID_BYTES_MAX: usize = 512;
/// A source is busy for this long after something happened in it: CA's next few loops, and the launches that they
/// cause.
pub(crate) const BUSY_FOR: Duration = Duration::from_secs(2 * 60);
/// An idle source is listed at least this often, unless the configuration sets its interval.
pub(crate) const IDLE_DEFAULT_MAX: Duration = Duration::from_secs(5 * 60);
/// The sources of a standby are listed at least this often, because `/livez?max-age=15m` must succeed.
pub(crate) const STANDBY_INTERVAL_MAX: Duration = Duration::from_secs(5 * 60);
/// The longest time between two pages of a listing. A cloud that lists a whole source at once has this long for all of
/// it.
pub(crate) const PAGE_LIMIT: Duration = Duration::from_secs(60);
/// A read of one group may take this long: longer than the slowest page seen, shorter than a refresh interval or two.
pub(crate) const READ_LIMIT: Duration = Duration::from_secs(20);
/// A write that was sent may take this long, even if its caller is gone.
pub(crate) const WRITE_LIMIT: Duration = Duration::from_secs(30);
/// An operation is polled at this interval, unless the cloud asks for another one.
pub(crate) const POLL_EVERY: Duration = Duration::from_secs(3);
/// An operation is polled at this interval while the response to its caller may wait for it (`CALLER_WAITS`), and never
/// more often.
pub(crate) const POLL_MIN: Duration = Duration::from_secs(1);
/// A scale-up is polled this long after it was accepted, and after half of its time so far: what fails at once is
/// listed within 3 s.
pub(crate) const POLL_LAUNCH_MIN: Duration = Duration::from_millis(2_500);
/// The longest interval between two polls of a scale-up: CA looks as often by default.
pub(crate) const POLL_LAUNCH_MAX: Duration = Duration::from_secs(10);
/// The longest pause between two polls, whatever the cloud asks for: a failure that shows late is a scale-up that comes
/// late.
pub(crate) const POLL_PAUSE_MAX: Duration = Duration::from_secs(60);
/// Polls end when none has succeeded for this long.
pub(crate) const POLLS_FAIL_FOR: Duration = Duration::from_secs(120);
/// One poll may take this long.
pub(crate) const POLL_LIMIT: Duration = Duration::from_secs(10);
/// Operations of one group that are polled at a time for a write.
pub(crate) const POLLS_AT_A_TIME: usize = 16;
/// Polls end after this many responses in a row that deny the poll or report no such operation. A single one may come
/// from a permission that is just being granted, or from a replica that lags.
pub(crate) const POLLS_REFUSED_MAX: u32 = 2;
/// A new instance or placeholder without an error is not listed for this long: see [`super::snapshot::Unlisted`].
pub(crate) const UNLISTED_FOR: Duration = Duration::from_secs(6);
/// A node whose instance is gone still belongs to its group for this long: the Node object outlives the instance.
pub(crate) const GONE_NODE_LIFE: Duration = Duration::from_secs(10 * 60);
/// After this long, the sources that could be listed are served without the others.
pub(crate) const WAIT_FOR_ALL_SOURCES: Duration = Duration::from_secs(60);
/// `Refresh` waits this long for the listing it started; CA calls it before every loop.
pub(crate) const REFRESH_WAIT: Duration = Duration::from_secs(2);
/// `Refresh` fails if all readings are older than this, or than three times the interval between listings if that is
/// longer: of a source that cannot be read, than its interval and two of a busy source.
pub(crate) const STALE_AFTER: Duration = Duration::from_secs(2 * 60);
/// The first listing waits this long for the groups to adopt their readings, because they are not served before that.
pub(crate) const FIRST_ADOPTION_LIMIT: Duration = Duration::from_secs(15);
/// Later listings wait this long, so that one group's slow call delays no other group's reading (law 8).
pub(crate) const ADOPTION_LIMIT: Duration = Duration::from_secs(2);
/// The longest pause of a source that cannot be read and does not say for how long.
pub(crate) const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// Budgets of calls in one line of the log, the scarcest first. A cloud can have some for each group.
pub(crate) const BUDGETS_SHOWN: usize = 20;
/// A cloud that asks for a shorter pause is called again as if it had asked for none.
pub(crate) const RETRY_AFTER_MIN: Duration = Duration::from_secs(1);
/// Templates are rebuilt after this long.
pub(crate) const TEMPLATE_LIFE: Duration = Duration::from_secs(10 * 60);
/// Templates of a launch spec that can change without the group changing (`$Latest`) are rebuilt after this long. A new
/// instance type must show within 90 s, and an idle source is listed every 60 s.
pub(crate) const FLOATING_TEMPLATE_LIFE: Duration = Duration::from_secs(25);
/// A template that could not be built is tried again after this long. So is one that was built without something that
/// could not be read: from the tables alone, or without the machine image.
pub(crate) const TEMPLATE_RETRY: Duration = Duration::from_secs(60);
/// A template that could not be built because the cloud could not be read is tried again after this long, usually with
/// the next refresh. Until then, the group cannot grow from zero.
pub(crate) const TEMPLATE_RETRY_SOON: Duration = Duration::from_secs(10);
/// A lookup of instance types may take this long. After that, the tables are used, within the time of the build.
pub(crate) const TYPES_LIMIT: Duration = Duration::from_secs(30);
/// Templates built at a time per source.
pub(crate) const TEMPLATE_BUILDS: usize = 4;
/// Template builds waiting per source.
pub(crate) const TEMPLATE_QUEUE: usize = 4096;
/// How often the quotas of a source are read. Azure changes them by hand, and usage changes with each VM of the
/// subscription.
pub(crate) const QUOTAS_EVERY: Duration = Duration::from_secs(10 * 60);
/// How often they are read while one leaves a node group no room at all. What CA gives back in one group leaves room in
/// others.
pub(crate) const QUOTAS_WHILE_FULL: Duration = Duration::from_secs(60);
/// The shortest interval between two readings, after launches that a quota refused.
pub(crate) const QUOTAS_AGAIN: Duration = Duration::from_secs(10);
/// How long reading them may take: one call for each location, and one for its VM sizes.
pub(crate) const QUOTAS_LIMIT: Duration = Duration::from_secs(60);
/// How often the fleet learns from the watched nodes. A group must have been empty for ten minutes before CA needs its
/// figures.
pub const LEARN_EVERY: Duration = Duration::from_secs(60);
/// The shortest interval between two looks at the cluster's nodes, because kubelets change them all the time.
pub(crate) const NODES_EVERY: Duration = Duration::from_secs(1);
/// How long a watch of the nodes may fail until that is logged. One whose connection broke is resumed sooner.
pub(crate) const WATCH_RESUMES_WITHIN: Duration = Duration::from_secs(5);
/// How long the first list of all nodes may take.
pub(crate) const NODES_LIMIT: Duration = Duration::from_secs(2 * 60);
/// How long a command waits to read what was learned.
pub(crate) const RECALL_LIMIT: Duration = Duration::from_secs(5);
