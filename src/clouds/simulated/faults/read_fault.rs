//! Faults in what a read shows.

use std::time::Duration;

/// A fault in the group that a response shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadFault {
    /// Its capacity is wrong.
    Capacity(u32),
    /// Its list of instances is empty.
    NoInstances,
    /// It is missing.
    Missing,
    /// It is shown as it was this long ago.
    Stale(Duration),
    /// It cannot be decoded.
    Broken,
}
