//! Credentials that can change while Headcount runs. The SDK reads the shared credentials file once and keeps what it found
//! forever; a Secret that is rotated is then refused until a restart. Here, a change of the files and a refusal by AWS both
//! have the whole chain built and asked again. (The SDK reads a web identity token anew each time it needs credentials.)

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use aws_credential_types::provider::{ProvideCredentials, Result as Provided, SharedCredentialsProvider, future};
use aws_sdk_autoscaling::config::Credentials;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::connect;
use crate::config::settings::aws::Settings;

/// Credentials are replaced this long before they expire, as the SDK's own cache does.
const BEFORE_EXPIRY: Duration = Duration::from_secs(10);
/// After a refusal, credentials are loaded again at most this often: STS and the metadata service have limits of their own.
const RELOAD_PAUSE: Duration = Duration::from_secs(5);

/// The credentials of one source.
#[derive(Clone, Debug)]
pub(super) struct ReloadedCredentials(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    settings: Settings,
    are_refused: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    provider: Option<SharedCredentialsProvider>,
    known: Option<Credentials>,
    files: Vec<Option<(SystemTime, u64)>>,
    loaded: Instant,
}

impl ReloadedCredentials {
    /// Credentials from this provider, which is what a chain made with these settings had.
    pub(super) fn new(settings: Settings, provider: Option<SharedCredentialsProvider>) -> Self {
        let state = State { provider, known: None, files: stamps(), loaded: Instant::now() };
        Self(Arc::new(Shared { settings, are_refused: AtomicBool::new(false), state: Mutex::new(state) }))
    }

    /// AWS refused the credentials themselves, and not what was done with them.
    pub(super) fn were_refused(&self) {
        self.0.are_refused.store(true, Ordering::Relaxed);
    }

    async fn provide(&self) -> Provided {
        let mut state = self.0.state.lock().await;
        self.reload_if_needed(&mut state).await;
        if let Some(known) = state.known.as_ref().filter(|known| !expires_soon(known)) {
            return Ok(known.clone());
        }
        let none =
            || aws_credential_types::provider::error::CredentialsError::not_loaded("no credentials are configured");
        let provided = state.provider.as_ref().ok_or_else(none)?.provide_credentials().await?;
        state.known = Some(provided.clone());
        Ok(provided)
    }

    async fn reload_if_needed(&self, state: &mut State) {
        let files = stamps();
        let is_changed = files != state.files;
        let is_refused = self.0.are_refused.load(Ordering::Relaxed) && state.loaded.elapsed() >= RELOAD_PAUSE;
        if !is_changed && !is_refused {
            return;
        }
        if is_changed {
            tracing::info!("the shared AWS files have changed; loading the credentials again");
        } else {
            tracing::warn!("AWS refused the credentials; loading them again");
        }
        self.0.are_refused.store(false, Ordering::Relaxed);
        let provider = connect::sdk_config(&self.0.settings).await.credentials_provider();
        *state = State { provider, known: None, files, loaded: Instant::now() };
    }
}

impl ProvideCredentials for ReloadedCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.provide())
    }
}

fn expires_soon(credentials: &Credentials) -> bool {
    credentials.expiry().is_some_and(|expiry| expiry <= SystemTime::now() + BEFORE_EXPIRY)
}

/// When each of the shared files was changed last, and its size. `None` where there is no such file.
fn stamps() -> Vec<Option<(SystemTime, u64)>> {
    let stamp = |path: PathBuf| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    shared_files().map(stamp).collect()
}

fn shared_files() -> impl Iterator<Item = PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let files = [("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"), ("AWS_CONFIG_FILE", ".aws/config")];
    files
        .into_iter()
        .map(move |(variable, usual)| std::env::var_os(variable).map_or_else(|| home.join(usual), PathBuf::from))
}
