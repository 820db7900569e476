//! Whether the API of EKS responds.
//!
//! A private cluster without a VPC endpoint for EKS never reaches it: each call ends only with its timeout. While EKS
//! is silent, one call at a time finds out whether it still is, so that the templates of many groups do not wait for as
//! many timeouts.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::super::sdk::cache::{FAILED_CALL_TTL, FAILED_TTL};
use crate::cloud::CloudError;

/// The only call to EKS.
pub(super) const DESCRIBE_NODEGROUP: &str = "DescribeNodegroup";
/// How long a template waits for a managed node group that was never read. Most outages and throttling are shorter; an
/// endpoint that cannot be reached stays so.
pub(in crate::clouds::aws) const NODEGROUP_PATIENCE: Duration = Duration::from_secs(2 * 60);

/// Since when EKS has not responded, if it does not.
#[derive(Debug, Default)]
pub(super) struct EksContact(Mutex<Option<Silence>>);

#[derive(Debug)]
struct Silence {
    since: Instant,
    message: String,
    /// When it is called again.
    until: Instant,
}

impl EksContact {
    /// Makes a call, or returns the error of the last one that got no response.
    pub(super) async fn call<T>(
        &self,
        nodegroup: &str,
        call: impl Future<Output = Result<T, CloudError>>,
    ) -> Result<T, CloudError> {
        if let Some(message) = self.message() {
            return Err(CloudError::unreachable(DESCRIBE_NODEGROUP, nodegroup, message));
        }
        let result = call.await;
        let mut silence = self.lock();
        *silence = result.as_ref().err().and_then(|error| Silence::after(error, silence.as_ref()));
        result
    }

    /// Since when EKS has not responded.
    pub(super) fn silent_since(&self) -> Option<Instant> {
        self.lock().as_ref().map(|silence| silence.since)
    }

    /// Why no call is to be made now. Where one is due, the others of the next minute are not.
    fn message(&self) -> Option<String> {
        let (mut silence, now) = (self.lock(), Instant::now());
        let silence = silence.as_mut()?;
        if now < silence.until {
            return Some(silence.message.clone());
        }
        silence.until = now + FAILED_TTL;
        None
    }

    fn lock(&self) -> MutexGuard<'_, Option<Silence>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Silence {
    /// `None` after an error with a code: EKS responded.
    fn after(error: &CloudError, before: Option<&Self>) -> Option<Self> {
        let CloudError::Unreachable(fault) = error else { return None };
        if fault.code.is_some() {
            return None;
        }
        let now = Instant::now();
        let since = before.map_or(now, |before| before.since);
        let pause = if now.duration_since(since) < NODEGROUP_PATIENCE { FAILED_CALL_TTL } else { FAILED_TTL };
        Some(Self { since, message: fault.message.clone(), until: now + pause })
    }
}
