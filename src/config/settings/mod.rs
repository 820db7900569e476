//! What the configuration says of each kind of source, checked: what the clouds are connected with.

#[cfg(feature = "aws")]
pub mod aws;
#[cfg(feature = "azure")]
pub mod azure;
pub mod simulated;
