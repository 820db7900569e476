//! One binary for all tests that use Headcount from outside, because each binary would link the cloud SDKs.

#![cfg_attr(not(all(feature = "aws", feature = "azure")), allow(dead_code))] // the clouds' tests use the rest

#[macro_use]
mod delegate;

mod accuracy;
mod architecture;
#[cfg(all(feature = "aws", feature = "azure"))]
mod attacks;
#[cfg(all(feature = "aws", feature = "azure"))]
mod autoscaler;
mod bad_input;
#[cfg(all(feature = "aws", feature = "azure"))]
mod busy_minute;
#[cfg(all(feature = "aws", feature = "azure"))]
mod commands;
#[cfg(feature = "aws")]
mod contract;
#[cfg(feature = "aws")]
mod delivery;
mod document;
#[cfg(all(feature = "aws", feature = "azure"))]
mod emulators;
mod fleet;
mod in_process;
#[cfg(all(feature = "aws", feature = "azure"))]
mod incidents;
#[cfg(all(feature = "aws", feature = "azure"))]
mod installation;
#[cfg(all(feature = "aws", feature = "azure"))]
mod learning;
#[cfg(all(feature = "aws", feature = "azure"))]
mod new_instances;
mod operation;
mod peers;
mod prices;
#[cfg(all(feature = "aws", feature = "azure"))]
mod quotas;
mod recordings;
#[cfg(all(feature = "aws", feature = "azure"))]
mod rotation;
mod serving;
#[cfg(all(feature = "aws", feature = "azure"))]
mod sign_in;
mod simulation;
#[cfg(feature = "aws")]
mod soak;
#[cfg(all(feature = "aws", feature = "azure"))]
mod supervision;
#[cfg(all(feature = "aws", feature = "azure"))]
mod templates;
mod verify;
mod wire;
