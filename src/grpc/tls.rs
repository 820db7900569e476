//! TLS with certificate, key and client CA that are reloaded while the server runs.
//!
//! The files are read periodically and compared by content: Kubernetes replaces a secret by swapping a symbolic link above
//! the files, which file notifications miss. The server's certificate and the client CA are in one [`ServerConfig`], which is
//! swapped as a whole.

mod files;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use rustls::ServerConfig;
use tokio::time::MissedTickBehavior;
use tracing::{error, info};

use files::Files;
pub use files::{TlsError, TlsSettings};

/// How often the files are read. The kubelet takes about a minute to update a secret in a pod, so reading more often gains
/// nothing. The files are small and local.
const RELOAD_EVERY: Duration = Duration::from_secs(10);

/// TLS from the last valid version of the files.
#[derive(Debug)]
pub struct LiveTls {
    settings: TlsSettings,
    config: ArcSwap<ServerConfig>,
    /// Why the current files are not in use.
    reload_error: ArcSwapOption<String>,
    /// The end of each certificate's validity, by its role.
    expiry: ArcSwap<Vec<(&'static str, f64)>>,
    /// The files that `config` was made from; [`LiveTls::watch`] compares with them.
    loaded: Files,
}

impl LiveTls {
    /// Reads and checks the files.
    pub fn load(settings: TlsSettings) -> Result<Self, TlsError> {
        if settings.client_ca.is_none() && !settings.allowed_clients.is_empty() {
            return Err(TlsError::AllowedWithoutClientCa);
        }
        let loaded = Files::read(&settings)?;
        let config = ArcSwap::new(loaded.server_config(&settings)?);
        let expiry = ArcSwap::from_pointee(loaded.expiry());
        Ok(Self { settings, config, reload_error: ArcSwapOption::empty(), expiry, loaded })
    }

    /// Returns the configuration for the next connection.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }

    /// The names of which a client's certificate must have one. If empty, every client with a valid certificate may connect.
    pub fn allowed_clients(&self) -> &[String] {
        &self.settings.allowed_clients
    }

    /// The end of the validity of the certificates in use in seconds since the Unix epoch, by role: `cert` and `clientCa`. Of
    /// several client CAs, it is that of the first to expire.
    pub fn expiry(&self) -> Vec<(&'static str, f64)> {
        self.expiry.load().to_vec()
    }

    /// Why the current files cannot be used; `None` while they are in use.
    pub fn reload_error(&self) -> Option<Arc<String>> {
        self.reload_error.load_full()
    }

    /// Reloads the files whenever they change, forever.
    ///
    /// Invalid files leave the configuration as it is, and are logged once until they change again.
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
            // The text of a failed read is kept, so that it too is logged only once.
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
                self.expiry.store(Arc::new(found.as_ref().map(Files::expiry).unwrap_or_default()));
                self.reload_error.store(None);
                info!("TLS files reloaded; new connections use them");
            }
            Err(error) => {
                error!(%error, "TLS files have changed but cannot be used; continuing with the previous ones");
                self.reload_error.store(Some(Arc::new(error)));
            }
        }
    }
}
