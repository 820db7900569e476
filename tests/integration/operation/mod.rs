//! What an operator uses: metrics, the status page, alerts and the dashboard, of the real binary.

mod browser;
mod document;
mod metrics;
mod monitoring;
mod statusz;
mod tools;
mod walk;
