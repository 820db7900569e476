//! TLS with certificate, key and client CA that are reloaded while the server runs.
//!
//! The files are read periodically and compared by content: Kubernetes replaces a secret by swapping a symbolic link
//! above the files, which file notifications miss. The server's certificate and the client CA are in one
//! [`ServerConfig`], which is swapped as a whole.

mod chain;
mod error;
mod files;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::{ArcSwap, ArcSwapOption};
use prometheus_client::metrics::counter::Counter;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use tokio::sync::{Notify, watch};
use tokio::time::MissedTickBehavior;
use tracing::{error, info, warn};

pub use error::TlsError;
use files::Files;
pub use files::TlsSettings;
pub(super) use files::parse;

use crate::metrics::FamilySpec;

/// Versions of the files that could not be used.
pub const TLS_RELOAD_FAILURES: FamilySpec = FamilySpec::counter(
    "headcount_tls_reload_failures",
    &[],
    "Versions of the TLS files that could not be used; the previous ones stay in use, and /readyz reports it",
);

/// How often the files are read. The kubelet takes about a minute to update a secret in a pod, so reading more often
/// gains nothing. The files are small and local.
const RELOAD_EVERY: Duration = Duration::from_secs(10);
/// Files that cannot be used are read once more after this time: certificate and key may be read while only one of them is
/// new.
const WRITTEN_WITHIN: Duration = Duration::from_millis(500);

/// TLS from the last valid version of the files.
#[derive(Debug)]
pub struct LiveTls {
    settings: TlsSettings,
    current: ArcSwap<Current>,
    reload_error: ArcSwapOption<ReloadError>,
    /// The end of each certificate's validity, by its role.
    expiry: ArcSwap<Vec<(&'static str, f64)>>,
    /// The files at the start; [`LiveTls::watch`] compares later versions with them.
    loaded: Files,
    reload_failures: Counter,
    /// Grows with each reload.
    reloads: watch::Sender<u64>,
    wanted: Notify,
}

#[derive(Debug)]
struct Current {
    config: Arc<ServerConfig>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
}

/// Why the current files are not in use.
#[derive(Clone, Debug)]
pub struct ReloadError {
    /// The reason.
    pub reason: String,
    /// Since when.
    pub since: SystemTime,
}

impl LiveTls {
    /// Reads and checks the files.
    pub fn load(settings: TlsSettings) -> Result<Self, TlsError> {
        if settings.client_ca.is_none() && !settings.allowed_clients.is_empty() {
            return Err(TlsError::AllowedWithoutClientCa);
        }
        let loaded = Files::read(&settings)?;
        let current = Current::of(&loaded, &settings)?;
        if let Err(error) = loaded.check_validity(&settings) {
            warn!(%error, "clients will reject the server's certificate");
        }
        let expiry = ArcSwap::from_pointee(loaded.expiry());
        Ok(Self {
            settings,
            current: ArcSwap::from_pointee(current),
            reload_error: ArcSwapOption::empty(),
            expiry,
            loaded,
            reload_failures: Counter::default(),
            reloads: watch::channel(0).0,
            wanted: Notify::new(),
        })
    }

    /// Returns the configuration for the next connection.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.load().config)
    }

    /// The names of which a client's certificate must have one. If empty, every client with a valid certificate may
    /// connect.
    pub fn allowed_clients(&self) -> &[String] {
        &self.settings.allowed_clients
    }

    /// The end of the validity of the certificates in use in seconds since the Unix epoch, by role: `cert` and
    /// `clientCa`. Of several client CAs, it is that of the first to expire.
    pub fn expiry(&self) -> Vec<(&'static str, f64)> {
        self.expiry.load().to_vec()
    }

    /// Whether a client that presented these certificates would still be admitted.
    pub(super) fn still_trusts(&self, certificates: &[CertificateDer<'_>]) -> bool {
        match (&self.current.load().verifier, certificates.split_first()) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(verifier), Some((leaf, rest))) => verifier.verify_client_cert(leaf, rest, UnixTime::now()).is_ok(),
        }
    }

    /// Changes with each reload.
    pub(super) fn reloads(&self) -> watch::Receiver<u64> {
        self.reloads.subscribe()
    }

    /// Why the current files cannot be used; `None` while they are in use.
    pub fn reload_error(&self) -> Option<Arc<ReloadError>> {
        self.reload_error.load_full()
    }

    /// How many versions of the files could not be used.
    pub fn reload_failures(&self) -> Counter {
        self.reload_failures.clone()
    }

    /// Reads the files now.
    pub fn reload(&self) {
        self.wanted.notify_one();
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
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.wanted.notified() => {}
            }
            let Some(mut found) = self.read().await else { continue };
            if found != last && self.usable(&found).is_err() {
                tokio::time::sleep(WRITTEN_WITHIN).await;
                let Some(again) = self.read().await else { continue };
                found = again;
            }
            // A certificate that was not valid yet becomes valid without a change of the file.
            if found != last || self.reload_error.load().is_some() {
                self.replace(&found);
                last = found;
            }
        }
    }

    /// What the files hold now. The text of a failed read is kept, so that it is logged only once. `None` while the
    /// runtime is shutting down.
    async fn read(&self) -> Option<Result<Files, String>> {
        let settings = self.settings.clone();
        let read = tokio::task::spawn_blocking(move || Files::read(&settings).map_err(|error| error.to_string()));
        match read.await {
            Ok(found) => Some(found),
            // If reading panicked, this task panics too.
            Err(error) => error.try_into_panic().map_or(None, |panic| std::panic::resume_unwind(panic)),
        }
    }

    fn usable(&self, found: &Result<Files, String>) -> Result<Current, String> {
        let files = found.as_ref().map_err(Clone::clone)?;
        let current = Current::of(files, &self.settings).map_err(|error| error.to_string())?;
        files.check_validity(&self.settings).map_err(|error| error.to_string())?;
        Ok(current)
    }

    fn replace(&self, found: &Result<Files, String>) {
        match self.usable(found) {
            Ok(current) => {
                self.current.store(Arc::new(current));
                self.expiry.store(Arc::new(found.as_ref().map(Files::expiry).unwrap_or_default()));
                self.reload_error.store(None);
                self.reloads.send_modify(|reloads| *reloads += 1);
                info!("TLS files reloaded; new connections use them");
            }
            Err(reason) => {
                if self.reload_error.load().as_ref().is_some_and(|known| known.reason == reason) {
                    return;
                }
                self.reload_failures.inc();
                let failed = ReloadError { reason: reason.clone(), since: SystemTime::now() };
                self.reload_error.store(Some(Arc::new(failed)));
                error!(error = %reason, "TLS files have changed but cannot be used; continuing with the previous ones");
            }
        }
    }
}

impl Current {
    fn of(files: &Files, settings: &TlsSettings) -> Result<Self, TlsError> {
        Ok(Self { config: files.server_config(settings)?, verifier: files.verifier()? })
    }
}
