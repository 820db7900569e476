//! How often the probes look, and for how long.

use std::time::Duration;

use crate::cloud::Consistency;

/// The most instances that a group may have when it is set aside.
pub const VMS_AT_START_MAX: u32 = 2;
/// The default of `--max-instances`.
pub const INSTANCES_MAX_DEFAULT: u32 = 4;
/// How many instances of their own the probes need at a time, at most.
pub const OWN_INSTANCES_MAX: u32 = 2;
/// How many instances the probes launch in all, at most: for what it costs.
pub(super) const LAUNCHES_MAX: u32 = 12;

/// The interval between reads that measure a lag.
pub(super) const LAG_EVERY: Duration = Duration::from_secs(1);
/// So many reads in a row must show a write: reads may show an older state again.
pub(super) const LAG_STREAK: u32 = 5;
/// A lag is measured for this long. It is twice what is assumed at most.
pub(super) const LAG_LIMIT: Duration = Duration::from_secs(2 * Consistency::LAG.as_secs());
/// The interval between reads that wait for instances.
pub(super) const WAIT_EVERY: Duration = Duration::from_secs(3);
/// How long a launch or a deletion may take.
pub(super) const INSTANCE_LIMIT: Duration = Duration::from_secs(10 * 60);
/// How long an instance that vanished is watched for being replaced or left out.
pub(super) const MISSING_WATCH: Duration = Duration::from_secs(60);
/// How long a group is watched for terminating a surplus. AWS was seen to take 20 s (autoscaler #10147).
pub(super) const SCALE_IN_WATCH: Duration = Duration::from_secs(3 * 60);
/// How long protected instances are watched for being terminated all the same.
pub(super) const PROTECTED_WATCH: Duration = Duration::from_secs(90);
/// How long an abandoned write is watched. It is twice what is assumed at most.
pub(super) const LATE_WATCH: Duration = Duration::from_secs(2 * Consistency::LATE.as_secs());
/// The longest that a call counts for when one is abandoned halfway.
pub(super) const ABANDON_MAX: Duration = Duration::from_secs(2);

/// How often a call is attempted that the cloud throttles, does not answer or refuses as a conflict.
pub(super) const ATTEMPTS: u32 = 10;
/// The pause between two attempts, unless the cloud asks for another one.
pub(super) const ATTEMPT_PAUSE: Duration = Duration::from_secs(3);
/// The longest pause that a cloud may ask for.
pub(super) const ATTEMPT_PAUSE_MAX: Duration = Duration::from_secs(60);

/// Bringing the group to a size may take this long.
pub(super) const SETTLE_LIMIT: Duration = Duration::from_secs(15 * 60);
/// Launches that a capacity asks for may take this long to show before the capacity counts as unfilled.
pub(super) const UNFILLED_AFTER: Duration = Duration::from_secs(45);
/// A surplus that the group is to terminate itself may stay this long before it is deleted by name.
pub(super) const SURPLUS_AFTER: Duration = Duration::from_secs(2 * 60);
/// What the evidence of a report keeps.
pub(super) const EVIDENCE_MAX: usize = 2_000;
/// The longest code of an error that a report keeps.
pub(super) const CODE_CHARS_MAX: usize = 64;
/// The longest text that a report keeps. Messages are cut before, to 600 characters.
pub(super) const TEXT_CHARS_MAX: usize = 400;
/// The most texts of one call.
pub(super) const TEXTS_MAX: usize = 4;
/// The most responses of one call: a listing can have many pages.
pub(super) const RESPONSES_MAX: usize = 8;
/// How long a group is watched for what a failed launch leaves, and for another attempt.
pub(super) const FAILED_WATCH: Duration = Duration::from_secs(90);
