//! Throttling: which calls may be sent, by what Azure's responses say of its budgets. Names only [`super::http`].

mod call_budgets;
mod info;
mod limiter;

pub(super) use info::{Bucket, ThrottleInfo};
pub(super) use limiter::CallLimiter;
