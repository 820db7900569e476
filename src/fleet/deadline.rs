//! The moments that bound a call: until when its write may be sent, and until when its caller gets a response.

use std::time::Duration;

use tokio::time::Instant;

/// How much earlier than the caller's deadline a call gets its response. The caller's clock started earlier than ours, by the
/// way of the request, and the answer has to travel too; our own answer says more than the caller's `DEADLINE_EXCEEDED`.
const ANSWER_MARGIN: Duration = Duration::from_millis(50);

/// The answer's margin is at most the timeout divided by this: a short timeout must leave time to do something.
const ANSWER_MARGIN_DIVISOR: u32 = 10;

/// How much earlier than the caller's deadline a write must have been sent: the time in which a cloud usually accepts
/// one, so that the caller still hears what became of it.
const SEND_MARGIN: Duration = Duration::from_millis(500);

/// Below this timeout [`SEND_MARGIN`] would leave less than half of it, so half of it is the margin.
const SHORT_TIMEOUT: Duration = Duration::from_secs(1);

/// What the caller's timeout leaves Headcount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// When the caller must have a response.
    pub answer_by: Instant,
    /// The last moment at which a write may still be sent to a cloud; never after `answer_by`.
    pub send_by: Instant,
}

impl Deadline {
    /// The deadline of a call that has just come in and that the caller waits this long for.
    pub fn within(timeout: Duration) -> Self {
        let now = Instant::now();
        let answer_margin = ANSWER_MARGIN.min(timeout / ANSWER_MARGIN_DIVISOR);
        let send_margin = if timeout < SHORT_TIMEOUT { timeout / 2 } else { SEND_MARGIN };
        Self { answer_by: now + (timeout - answer_margin), send_by: now + (timeout - send_margin) }
    }
}
