//! Writes Kubernetes Events about what the fleet notices.

use std::sync::Arc;

use tokio::sync::broadcast::error::RecvError;

use crate::config::Config;
use crate::fleet::{Fleet, Notice};
use crate::kubernetes::{Client, EventWriter, OwnPod};

/// Starts to write Events, if the configuration asks for them and this process runs in a pod.
pub(super) fn start(config: &Config, fleet: &Arc<Fleet>) {
    let Some(settings) = &config.events else { return };
    let environment = |name: &str| std::env::var(name).ok();
    let Some(pod) = OwnPod::find(&environment) else {
        tracing::warn!("no Kubernetes Events are written: POD_NAME and POD_NAMESPACE are not set");
        return;
    };
    match Client::new(settings.clone(), &environment) {
        Ok(client) => drop(tokio::spawn(write(EventWriter::new(client, pod), Arc::clone(fleet)))),
        Err(error) => tracing::warn!(%error, "no Kubernetes Events are written: there is no Kubernetes API to call"),
    }
}

async fn write(mut writer: EventWriter, fleet: Arc<Fleet>) {
    let mut notices = fleet.journal().notices();
    drop(fleet);
    let mut has_failed = false;
    loop {
        let Notice { reason, note } = match notices.recv().await {
            Ok(notice) => notice,
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        match writer.warn(reason, &note).await {
            Ok(_) => has_failed = false,
            Err(error) if !has_failed => {
                has_failed = true;
                tracing::warn!(%error, "Kubernetes Event cannot be written; later ones are tried too");
            }
            Err(_) => {}
        }
    }
}
