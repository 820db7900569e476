//! Writes Kubernetes Events about what the fleet notices.

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::{Fleet, Notice};
use crate::kubernetes::EventWriter;
use crate::tasks::TaskKind;

impl Fleet {
    /// Starts to write Events, for as long as the fleet lives.
    pub fn write_events(&self, mut writer: EventWriter) {
        let mut notices = self.journal().notices();
        let mut restarts = self.tasks().supervise(TaskKind::Events, "");
        tokio::spawn(async move { while restarts.run(write(&mut writer, &mut notices)).await {} });
    }
}

async fn write(writer: &mut EventWriter, notices: &mut Receiver<Notice>) {
    let mut has_failed = false;
    loop {
        let Notice { reason, note } = match notices.recv().await {
            Ok(notice) => notice,
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        match writer.warn(reason, &note).await {
            // One that was left out, so that there are not too many, shows nothing.
            Ok(is_written) => has_failed &= !is_written,
            Err(error) if !has_failed => {
                has_failed = true;
                tracing::warn!(%error, "Kubernetes Event cannot be written; later ones are tried too");
            }
            Err(_) => {}
        }
    }
}
