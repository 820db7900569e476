//! Throttling: decides which calls may be sent, from what Azure's responses say about its budgets. Imports only
//! [`super::http`].

mod call_budgets;
mod info;
mod limiter;
mod pace;

pub(super) use info::{Bucket, ThrottleInfo};
pub(super) use limiter::CallLimiter;
pub(super) use pace::{Pace, TURN_MAX, Turn};
