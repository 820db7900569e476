//! The subset of v1.Node that a template fills, generated from `proto/node.proto`.
#![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, rust_2018_idioms)]

include!(concat!(env!("OUT_DIR"), "/k8s.rs"));
