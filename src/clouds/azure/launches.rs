//! The outcomes of launches. Azure keeps no record of launches: VMs and operations report their own failures. Where
//! operations may not be polled, only the provisioning state of the scale set shows a failure.

use std::sync::atomic::Ordering;
use std::time::SystemTime;

use super::Azure;
use super::arm::ReadPurpose;
use super::instances::{UNEXPLAINED, UNEXPLAINED_MESSAGE};
use crate::cloud::{
    CloudError, DeniedCall, Failure, FailureClass, Fault, GroupName, LaunchActivity, OperationHandle, Progress,
    Shortfall,
};

impl Azure {
    /// Polls an operation, and notes whether that is permitted. A token that is refused or cannot be had says nothing
    /// about that: its operation is polled again.
    pub(super) async fn poll(&self, handle: &OperationHandle) -> Result<Progress, CloudError> {
        match self.api.poll(handle).await {
            Err(CloudError::Denied(fault)) if !lacks_permission(&fault) => Err(CloudError::Unreachable(fault)),
            polled => {
                match &polled {
                    Err(CloudError::Denied(_)) => self.are_polls_denied.store(true, Ordering::Relaxed),
                    Ok(_) => self.are_polls_denied.store(false, Ordering::Relaxed),
                    Err(_) => {}
                }
                polled
            }
        }
    }

    /// A scale set that lacks VMs and whose last operation failed has failed to launch them.
    pub(super) async fn failed_launches(
        &self,
        group: &GroupName,
        shortfall: Shortfall,
    ) -> Result<LaunchActivity, CloudError> {
        if shortfall.missing == 0 || !self.are_polls_denied.load(Ordering::Relaxed) {
            return Ok(LaunchActivity::default());
        }
        let at = SystemTime::now();
        let set = self.api.get_scale_set(group.as_str(), ReadPurpose::Write).await?;
        let state = set.and_then(|set| set.provisioning_state);
        let has_failed = state.is_some_and(|state| state.eq_ignore_ascii_case("Failed"));
        let failure = Failure {
            class: FailureClass::OutOfResources,
            code: UNEXPLAINED.to_owned(),
            message: UNEXPLAINED_MESSAGE.to_owned(),
            at,
            is_explained: false,
            is_eviction: false,
        };
        let failures = if has_failed { vec![failure] } else { Vec::new() };
        Ok(LaunchActivity { failures, ..LaunchActivity::default() })
    }

    /// The denied polls of operations, one for each location of the scale sets.
    pub(super) async fn denied_polls(&self) -> Vec<DeniedCall> {
        const LOSS: &str =
            "Headcount learns the outcomes of writes only from readings, and failed launches have no reason";
        let mut denied = Vec::new();
        for location in self.cache.locations() {
            if let Err(error @ CloudError::Denied(_)) = self.api.may_poll(&location).await {
                denied.push(DeniedCall { error, loss: LOSS });
            }
        }
        denied
    }
}

/// Whether a call was denied for lack of a permission, and not for its token.
fn lacks_permission(fault: &Fault) -> bool {
    const CODES: [&str; 2] = ["AuthorizationFailed", "LinkedAuthorizationFailed"];
    fault.code.as_deref().is_some_and(|code| CODES.contains(&code)) || fault.message.starts_with("HTTP 403")
}
