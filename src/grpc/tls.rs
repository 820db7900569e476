//! TLS whose certificate, key and client CA are replaced while it serves.
//!
//! The files are read anew from time to time and compared by content: a Kubernetes secret is replaced by swapping a
//! symbolic link above them, which leaves nothing to be notified of in the files themselves. The server's certificate
//! and the CA of its clients live in one [`ServerConfig`], which is swapped whole.

mod files;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use rustls::ServerConfig;
use tokio::time::MissedTickBehavior;
use tracing::{error, info};

use files::Files;
pub use files::{TlsError, TlsSettings};

/// How often the files are read. The kubelet takes about a minute to bring a new secret to a pod, so reading more often
/// gains nothing; the files are small and local.
const RELOAD_EVERY: Duration = Duration::from_secs(10);

/// TLS as the files said when they were last good.
#[derive(Debug)]
pub struct LiveTls {
    settings: TlsSettings,
    config: ArcSwap<ServerConfig>,
    /// Why the files as they are now are not what is in use.
    reload_error: ArcSwapOption<String>,
    /// What `config` was made from, for [`LiveTls::watch`] to start from.
    loaded: Files,
}

impl LiveTls {
    /// Reads the files and checks them.
    pub fn load(settings: TlsSettings) -> Result<Self, TlsError> {
        if settings.client_ca.is_none() && !settings.allowed_clients.is_empty() {
            return Err(TlsError::AllowedWithoutClientCa);
        }
        let loaded = Files::read(&settings)?;
        let config = ArcSwap::new(loaded.server_config(&settings)?);
        Ok(Self { settings, config, reload_error: ArcSwapOption::empty(), loaded })
    }

    /// What to make the next connection with.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }

    /// The names of which a client's certificate must have one; empty if every certified client is let in.
    pub fn allowed_clients(&self) -> &[String] {
        &self.settings.allowed_clients
    }

    /// Why the files as they are now cannot be used; `None` while they are what is in use.
    pub fn reload_error(&self) -> Option<Arc<String>> {
        self.reload_error.load_full()
    }

    /// Replaces the configuration whenever the files have changed, for ever.
    ///
    /// Files that are no good leave the configuration as it is, and are complained of once until they change again.
    pub async fn watch(self: Arc<Self>) {
        self.watch_every(RELOAD_EVERY).await;
    }

    pub(super) async fn watch_every(self: Arc<Self>, period: Duration) {
        let mut ticks = tokio::time::interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = Ok(self.loaded.clone());
        loop {
            ticks.tick().await;
            let settings = self.settings.clone();
            // A failed read is remembered by its words, so that it too is complained of once.
            let read = tokio::task::spawn_blocking(move || Files::read(&settings).map_err(|error| error.to_string()));
            let Ok(found) = read.await else { continue };
            if found != last {
                self.replace(&found);
                last = found;
            }
        }
    }

    fn replace(&self, found: &Result<Files, String>) {
        let config = match found {
            Ok(files) => files.server_config(&self.settings).map_err(|error| error.to_string()),
            Err(error) => Err(error.clone()),
        };
        match config {
            Ok(config) => {
                self.config.store(config);
                self.reload_error.store(None);
                info!("the TLS files have changed; new connections use them");
            }
            Err(error) => {
                error!(%error, "the TLS files have changed and are no good; the former ones stay in use");
                self.reload_error.store(Some(Arc::new(error)));
            }
        }
    }
}
