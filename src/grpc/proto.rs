//! The protocol's messages and service, generated from `proto/externalgrpc.proto`.
#![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, clippy::unwrap_used, rust_2018_idioms)]

tonic::include_proto!("clusterautoscaler.cloudprovider.v1.externalgrpc");

/// Every message and service of `proto/`, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
