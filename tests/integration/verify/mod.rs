//! `headcount verify`: its page, its reports, and runs through the real clients against the emulators.

#[cfg(all(feature = "aws", feature = "azure"))]
mod emulated;
mod page;
mod probing;
pub(crate) mod reports;
