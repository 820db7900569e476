//! Kubernetes Events, where the configuration asks for them.

use std::sync::Arc;

use crate::config::Config;
use crate::fleet::Fleet;
use crate::kubernetes::{Client, EventWriter, OwnPod};

/// Starts to write Events, if the configuration asks for them and this process runs in a pod.
pub(super) fn start(config: &Config, fleet: &Arc<Fleet>) {
    let Some(settings) = &config.events else { return };
    let environment = |name: &str| std::env::var(name).ok();
    let Some(pod) = OwnPod::find(&environment) else {
        tracing::warn!("not writing Kubernetes Events: POD_NAME and POD_NAMESPACE do not name a pod");
        return;
    };
    match Client::new(settings.clone(), &environment) {
        Ok(client) => fleet.write_events(EventWriter::new(client, pod)),
        Err(error) => tracing::warn!(%error, "not writing Kubernetes Events: no Kubernetes API is available"),
    }
}
