//! The implementations of [`crate::cloud::Cloud`]. Only `cli`, `demo`, `parsers` and the tests name them.

#[cfg(feature = "aws")]
pub mod aws;
#[cfg(feature = "azure")]
pub mod azure;
#[cfg(any(feature = "aws", feature = "azure"))]
mod bounds;
#[cfg(any(feature = "aws", feature = "azure"))]
mod listing_size;
#[cfg(any(feature = "aws", feature = "azure"))]
mod node_tag;
#[cfg(any(feature = "aws", feature = "azure"))]
mod page_walk;
#[cfg(any(feature = "aws", feature = "azure"))]
mod roots;
pub mod simulated;
#[cfg(any(feature = "aws", feature = "azure"))]
mod warnings;
#[cfg(any(feature = "aws", feature = "azure"))]
mod windows;
