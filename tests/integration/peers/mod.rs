//! The programs that the tests run Headcount with: Headcount itself, as users run it, and a moto server; and where
//! they listen.

#[cfg(feature = "aws")]
mod free_address;
pub(crate) mod headcount;
#[cfg(feature = "aws")]
pub(crate) mod moto;
#[cfg(feature = "aws")]
pub(crate) mod process;

#[cfg(feature = "aws")]
pub(crate) use free_address::free_address;
