#![doc = include_str!("../ARCHITECTURE.md")]

pub mod admin;
pub mod check;
pub mod cli;
pub mod cloud;
pub mod clouds;
pub mod config;
pub mod demo;
pub mod fleet;
mod group;
pub mod grpc;
pub mod instance_types;
pub mod kubernetes;
pub mod limits;
pub mod metrics;
#[cfg(all(feature = "aws", feature = "azure"))]
pub mod parsers;
pub mod prices;
#[cfg(test)]
mod properties;
pub mod tasks;
pub mod template;
pub mod verify;
