//! The programs that the tests run Headcount with: Headcount itself, as users run it, and a moto server.

pub(crate) mod headcount;
#[cfg(feature = "aws")]
pub(crate) mod moto;
