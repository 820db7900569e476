//! The validated settings of each cloud, which `clouds` connects with.

#[cfg(feature = "aws")]
pub mod aws;
#[cfg(feature = "azure")]
pub mod azure;
pub mod simulated;
