//! The time limits of a call: when its write must have been sent, and when its caller must have a response.

use std::time::Duration;

use tokio::time::Instant;

/// How much earlier than the caller's deadline a call gets its response. The request has already taken some time to
/// arrive, and the response takes some to return. Our own response says more than the caller's `DEADLINE_EXCEEDED`.
const RESPONSE_MARGIN: Duration = Duration::from_millis(50);

/// [`RESPONSE_MARGIN`] is at most the timeout divided by this, so that a short timeout leaves time for the call itself.
const RESPONSE_MARGIN_DIVISOR: u32 = 10;

/// How much earlier than the caller's deadline a write must have been sent. A cloud usually accepts a write within this
/// time, so the caller still gets the outcome.
const SEND_MARGIN: Duration = Duration::from_millis(500);

/// For timeouts shorter than this, [`SEND_MARGIN`] would be more than half of the timeout, so the margin is half of it.
const SHORT_TIMEOUT: Duration = Duration::from_secs(1);

/// The time limits of one call, from its caller's timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// When the caller must have a response.
    pub respond_by: Instant,
    /// The last moment at which a write may still be sent to a cloud; never after `respond_by`.
    pub send_by: Instant,
}

impl Deadline {
    /// The deadline of a call that has just arrived with this timeout.
    pub fn within(timeout: Duration) -> Self {
        let now = Instant::now();
        let response_margin = RESPONSE_MARGIN.min(timeout / RESPONSE_MARGIN_DIVISOR);
        let send_margin = if timeout < SHORT_TIMEOUT { timeout / 2 } else { SEND_MARGIN };
        Self { respond_by: now + (timeout - response_margin), send_by: now + (timeout - send_margin) }
    }
}
