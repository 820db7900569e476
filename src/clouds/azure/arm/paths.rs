//! Paths of requests to Azure Resource Manager.

use super::client::ArmCall;
use super::scale_sets::ArmScaleSets;
use crate::cloud::CloudError;

/// A name as a segment of a path. It must not change the path.
pub(super) fn path_segment(call: &ArmCall, name: &str) -> Result<String, CloudError> {
    let safe = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '?', '#', '%']);
    if safe { Ok(name.to_owned()) } else { Err(call.context().refused("the name is invalid")) }
}

impl ArmScaleSets {
    /// The path of a scale set. It is polled if the response to a write names no operation.
    pub(super) fn path(&self, name: &str) -> String {
        let Self { subscription, resource_group, .. } = self;
        let provider = "providers/Microsoft.Compute/virtualMachineScaleSets";
        format!(
            "/subscriptions/{subscription}/resourceGroups/{resource_group}/{provider}/{name}?api-version=2024-07-01"
        )
    }
}
