//! Incidents of other providers, replayed through the real server, the real clients and the emulators of the simulated
//! cloud. The numbers are those of kubernetes/autoscaler issues.

mod aws;
mod azure;
mod clouds;
mod itself;
mod killed;
mod page;
mod protocol;
