//! What an operator uses: metrics, the status page, alerts and the dashboard, of the real binary.

mod browser;
mod document;
#[cfg(all(feature = "aws", feature = "azure"))]
mod events;
#[cfg(all(target_os = "linux", feature = "aws", feature = "azure"))]
mod memory;
mod metrics;
mod monitoring;
mod statusz;
mod tools;
mod walk;
