//! One binary for all tests that use Headcount from outside: each binary links the cloud SDKs.

mod architecture;
mod fleet;
