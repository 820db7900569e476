//! Why a watch does not run.

use std::sync::Arc;

use super::KubernetesError;

/// The last thing that went wrong with a watch. `kube`'s watcher reports that a watch failed, but not that the next one
/// was accepted.
pub(super) struct WatchFailure {
    error: Arc<KubernetesError>,
    watches_accepted: u64,
}

impl WatchFailure {
    /// A failure after the API server had accepted as many watches of this kind.
    pub(super) fn new(error: KubernetesError, watches_accepted: u64) -> Self {
        Self { error: Arc::new(error), watches_accepted }
    }

    /// The error, unless the API server has accepted another watch since.
    pub(super) fn lasting(&self, watches_accepted: u64) -> Option<Arc<KubernetesError>> {
        (self.watches_accepted == watches_accepted).then(|| Arc::clone(&self.error))
    }
}
