//! One binary for all tests that use Headcount from outside: each binary links the cloud SDKs.

mod architecture;
#[cfg(feature = "aws")]
mod contract;
mod fleet;
#[cfg(feature = "aws")]
mod peers;
mod serving;
mod simulation;
