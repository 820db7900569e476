//! Compiles `proto/` with protox, a protoc in Rust: no tool has to be installed.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message as _;

const PROTOS: [&str; 4] =
    ["proto/externalgrpc.proto", "proto/node.proto", "proto/pod.proto", "proto/resource_slice.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(PROTOS, ["proto"])?;
    // For gRPC reflection, so that grpcurl needs no .proto file.
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .build_transport(false)
        // Sorted maps make the encoded node the same every time, so that it can be compared and cached.
        .btree_map(".k8s")
        // Answered from memory: a template is shared, not copied.
        .bytes(".clusterautoscaler.cloudprovider.v1.externalgrpc.NodeGroupTemplateNodeInfoResponse")
        .compile_fds(descriptors)?;
    Ok(())
}
