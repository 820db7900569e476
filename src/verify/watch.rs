//! What a run reports as it goes.

use std::time::Duration;

use super::evidence::Observation;
use super::verdict::Finding;

/// What a run reports as it goes.
#[derive(Debug)]
pub enum Event<'a> {
    /// A stage begins.
    Began {
        /// What it does.
        stage: &'static str,
        /// Which one it is, from 1.
        number: usize,
        /// How many there are.
        of: usize,
        /// About how much time is left, for this stage and those after it.
        left: Duration,
    },
    /// A call returned.
    Called(&'a Observation),
    /// A probe found something.
    Found(&'a Finding),
    /// A stage ended early.
    Ended {
        /// The stage.
        stage: &'static str,
        /// Why, with the cloud's own text.
        why: String,
    },
    /// The size that was found is being restored.
    Restoring(u32),
}

/// Follows a run.
pub trait Watch: Send {
    /// Something happened.
    fn happened(&mut self, event: Event<'_>);
}
