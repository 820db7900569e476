//! The real fleet over the simulated cloud, on a paused clock: what is reported to CA and what is written in each
//! situation.

mod cadence;
mod deadline;
mod fixture;
mod growth;
mod held;
mod launches;
mod missing;
mod panics;
mod quota;
mod reading;
mod removal;
mod surplus;
mod template;
mod twins;
