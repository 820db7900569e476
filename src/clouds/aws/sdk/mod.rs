//! Calls to AWS through its SDK, and what their errors mean.

pub(super) mod api;
pub(super) mod cache;
pub(super) mod clock;
pub(super) mod connect;
pub(super) mod credentials;
mod environment;
pub(super) mod errors;
#[cfg(test)]
pub(super) mod fake;
mod groups_response;
pub(super) mod http;
pub(super) mod identity;
mod metering;
mod price_list;
mod responses;
pub(super) mod shared_files;
pub(super) mod xml;
