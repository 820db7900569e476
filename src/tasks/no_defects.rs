//! What builds without the feature `faults` have in place of `defects`: no task panics on request.

use super::TaskKind;

/// No defects.
#[derive(Debug, Default)]
pub(super) struct Defects {}

impl Defects {
    /// Never ends.
    pub(super) fn meet<T>(&self, _: TaskKind) -> impl Future<Output = T> + use<T> {
        std::future::pending()
    }
}
