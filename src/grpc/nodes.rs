//! The response of NodeGroupNodes, and the limit on its size.

use prost::Message;
use tonic::Status;

use super::proto::NodeGroupNodesResponse;

/// The largest response that CA accepts: the default of gRPC in Go, which CA does not change.
const RESPONSE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Returns the response unchanged if it fits, or else without the texts of failures. If that does not fit either, it is
/// an error: CA would remove the nodes that a shortened list lacks.
pub(super) fn fitting(id: &str, mut response: NodeGroupNodesResponse) -> Result<NodeGroupNodesResponse, Status> {
    if response.encoded_len() <= RESPONSE_BYTES_MAX {
        return Ok(response);
    }
    let errors = response.instances.iter_mut().filter_map(|instance| instance.status.as_mut()?.error_info.as_mut());
    // CA drops an error without a code.
    errors.for_each(|error| error.error_message.clear());
    let bytes = response.encoded_len();
    if bytes <= RESPONSE_BYTES_MAX {
        tracing::warn!(
            group = id,
            "the list of instances is too long for CA; the messages of failed launches are left out"
        );
        return Ok(response);
    }
    let instances = response.instances.len();
    Err(Status::resource_exhausted(format!(
        "node group {id}: the list of its {instances} instances has {bytes} bytes, and the Cluster Autoscaler receives at most \
         {RESPONSE_BYTES_MAX}; split the node group"
    )))
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::super::proto::{Instance, InstanceErrorInfo, InstanceStatus};
    use super::*;

    fn mk_response(instances: usize, message: &str) -> NodeGroupNodesResponse {
        let error = InstanceErrorInfo {
            error_code: "InsufficientInstanceCapacity".to_owned(),
            error_message: message.to_owned(),
            instance_error_class: 1,
        };
        let status = InstanceStatus { instance_state: 2, error_info: Some(error) };
        let instance =
            |number| Instance { id: format!("aws:///us-east-1a/i-{number:017}"), status: Some(status.clone()) };
        NodeGroupNodesResponse { instances: (0..instances).map(instance).collect() }
    }

    #[test]
    fn a_list_is_complete_or_an_error() {
        let small = mk_response(100, "text");
        assert_eq!(fitting("g", small.clone()).expect("fits"), small);
        let long = fitting("g", mk_response(30_000, &"x".repeat(200))).expect("fits without texts");
        assert_eq!(long.instances.len(), 30_000);
        assert!(long.encoded_len() <= RESPONSE_BYTES_MAX);
        let error =
            long.instances[0].status.as_ref().and_then(|status| status.error_info.as_ref()).expect("still failed");
        assert_eq!((error.error_code.as_str(), error.error_message.as_str()), ("InsufficientInstanceCapacity", ""));
        let refused = fitting("g", mk_response(100_000, "")).expect_err("does not fit");
        assert_eq!(refused.code(), Code::ResourceExhausted);
    }
}
