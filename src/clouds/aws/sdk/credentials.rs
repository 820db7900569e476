//! Credentials that can change while Headcount runs. The SDK reads the shared credentials file once and keeps what it
//! found forever; after a Secret is rotated, AWS refuses it until a restart. This module builds the whole chain again
//! when the files change and when AWS refuses the credentials. (The SDK reads the token files of IRSA and EKS Pod
//! Identity each time it asks for credentials.)
//!
//! Credentials that expire are replaced early and in the background: no call waits for STS, and while STS refuses a
//! token, the earlier credentials stay in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, Result as Provided, SharedCredentialsProvider, future};
use aws_sdk_autoscaling::config::Credentials;
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::connect;
use super::shared_files::{self, FileStamp, SharedFileError, stamps};
use crate::cloud::CallMeter;
use crate::cloud::secrets::{keep_long_lived_secret, keep_secret};
use crate::cloud::text::error_chain;
use crate::config::settings::aws::Settings;

/// Credentials are replaced this long before they expire. By then, EC2 has new ones, and an outage of STS can last
/// minutes.
const BEFORE_EXPIRY: Duration = Duration::from_secs(5 * 60);
/// After a refusal, and before they expire, credentials are loaded at most this often: STS and the metadata service
/// have limits of their own.
const RELOAD_PAUSE: Duration = Duration::from_secs(5);
/// The same failure is logged at most this often: AWS may refuse credentials for hours.
const LOGGED_EVERY: Duration = Duration::from_secs(5 * 60);
/// Longer than two calls of STS take at most, with their attempts: one for a web identity, and one to assume a role.
const PROVIDED_WITHIN: Duration = Duration::from_secs(45);

/// The credentials of one source.
#[derive(Clone, Debug)]
pub(in crate::clouds::aws) struct ReloadedCredentials(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    settings: Settings,
    calls: CallMeter,
    are_refused: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    provider: Option<SharedCredentialsProvider>,
    known: Option<Credentials>,
    files: Vec<FileStamp>,
    /// When they were last requested.
    asked: Instant,
    /// Whether they are being replaced in the background. There is one replacement at a time, because STS may take
    /// longer than [`RELOAD_PAUSE`].
    is_replacing: bool,
    /// When the log last said that AWS refuses them.
    refusal_logged: Option<Instant>,
    /// When the log last said that they cannot be loaded.
    failure_logged: Option<Instant>,
}

/// Whether a failure is worth a line that was last logged at this moment. Notes the line.
fn is_worth_a_line(logged: &mut Option<Instant>) -> bool {
    let is_due = logged.is_none_or(|logged| logged.elapsed() >= LOGGED_EVERY);
    if is_due {
        *logged = Some(Instant::now());
    }
    is_due
}

impl ReloadedCredentials {
    /// Starts with the credential provider that these settings produced.
    pub(super) fn new(settings: Settings, provider: Option<SharedCredentialsProvider>, calls: CallMeter) -> Self {
        let state = State {
            provider,
            known: None,
            files: stamps(),
            asked: Instant::now(),
            is_replacing: false,
            refusal_logged: None,
            failure_logged: None,
        };
        Self(Arc::new(Shared { settings, calls, are_refused: AtomicBool::new(false), state: Mutex::new(state) }))
    }

    /// Notes that AWS refused the credentials themselves, not the request.
    pub(super) fn were_refused(&self) {
        self.0.are_refused.store(true, Ordering::Relaxed);
    }

    async fn provide(&self) -> Provided {
        let mut state = self.0.state.lock().await;
        self.reload_if_needed(&mut state).await;
        if let Some(known) = state.known.clone().filter(|known| !expires_within(known, Duration::ZERO)) {
            let is_due = expires_within(&known, BEFORE_EXPIRY) && state.asked.elapsed() >= RELOAD_PAUSE;
            if is_due && !state.is_replacing {
                (state.asked, state.is_replacing) = (Instant::now(), true);
                tokio::spawn(self.clone().replace(state.provider.clone(), state.asked));
            }
            return Ok(known);
        }
        state.asked = Instant::now();
        let mut provided = ask(state.provider.as_ref()).await;
        if provided.as_ref().is_err_and(has_lost_its_reason) {
            provided = self.load().await.map(|(provider, known)| {
                state.provider = provider;
                known
            });
        }
        if state.known.is_some() {
            self.0.calls.credentials_renewed(provided.is_ok());
        }
        let provided = provided?;
        state.known = Some(provided.clone());
        Ok(provided)
    }

    /// Replaces credentials that expire soon. If that fails, the earlier ones stay in use until they expire.
    async fn replace(self, provider: Option<SharedCredentialsProvider>, asked: Instant) {
        let provided = ask(provider.as_ref()).await;
        self.0.calls.credentials_renewed(provided.is_ok());
        let mut state = self.0.state.lock().await;
        state.is_replacing = false;
        match provided {
            // If others were loaded meanwhile, those are newer.
            Ok(provided) if state.asked == asked => state.known = Some(provided),
            Ok(_) => {}
            Err(error) if is_worth_a_line(&mut state.failure_logged) => tracing::warn!(
                source = self.0.calls.source(),
                error = error_chain(&error),
                "AWS credentials expire soon and cannot be renewed; continuing with them while they are valid"
            ),
            Err(_) => {}
        }
    }

    async fn reload_if_needed(&self, state: &mut State) {
        let files = stamps();
        let is_changed = files != state.files;
        let is_refused = self.0.are_refused.load(Ordering::Relaxed) && state.asked.elapsed() >= RELOAD_PAUSE;
        if !is_changed && !is_refused {
            return;
        }
        let source = self.0.calls.source();
        if is_changed {
            tracing::info!(source, "the shared AWS files have changed; loading the credentials again");
        } else if is_worth_a_line(&mut state.refusal_logged) {
            tracing::warn!(source, "AWS refused the credentials; loading them again");
        }
        let _logged_and_counted = self.reload(state, files).await;
    }

    /// Loads the credentials now. If that fails, the earlier ones stay in use.
    pub(in crate::clouds::aws) async fn renew(&self) -> Result<(), String> {
        let mut state = self.0.state.lock().await;
        self.reload(&mut state, stamps()).await
    }

    async fn reload(&self, state: &mut State, files: Vec<FileStamp>) -> Result<(), String> {
        self.0.are_refused.store(false, Ordering::Relaxed);
        (state.files, state.asked) = (files, Instant::now());
        let loaded = self.load().await.map_err(|error| error_chain(&error));
        self.0.calls.credentials_renewed(loaded.is_ok());
        match loaded {
            Ok((provider, known)) => {
                (state.provider, state.known) = (provider, Some(known));
                Ok(())
            }
            Err(reason) => {
                if is_worth_a_line(&mut state.failure_logged) {
                    tracing::error!(
                        source = self.0.calls.source(),
                        error = reason,
                        "AWS credentials cannot be loaded; continuing with the previous ones"
                    );
                }
                Err(reason)
            }
        }
    }

    /// Builds the chain again and asks it for credentials. Building it reads the shared files.
    async fn load(&self) -> Result<(Option<SharedCredentialsProvider>, Credentials), CredentialsError> {
        shared_files::check().await.map_err(CredentialsError::invalid_configuration)?;
        let shared = Arc::clone(&self.0);
        let config = aside(async move { connect::sdk_config(&shared.settings).await }).await?;
        let provider = config.credentials_provider();
        let known = ask(provider.as_ref()).await?;
        Ok((provider, known))
    }
}

/// Whether the SDK has said before what is wrong with a profile, and does not say it again: a new chain does.
fn has_lost_its_reason(error: &CredentialsError) -> bool {
    error_chain(error).contains("already taken")
}

impl ProvideCredentials for ReloadedCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.provide())
    }
}

/// The credentials of this provider, redacted in logs and errors: each request contains the session token, and a
/// proxy may return what it received.
#[derive(Debug)]
pub(super) struct SecretCredentials(pub(super) SharedCredentialsProvider);

impl ProvideCredentials for SecretCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(async {
            let provided = self.0.provide_credentials().await?;
            keep_secrets(&provided);
            check_header(&provided)?;
            Ok(provided)
        })
    }
}

/// The credentials of this provider, which a thread of its own asks for. The SDK reads files on the thread that asks, and
/// one that became a pipe after [`shared_files::check`] would hold that thread for good.
#[derive(Debug)]
pub(super) struct CredentialsAside(pub(super) SharedCredentialsProvider);

impl ProvideCredentials for CredentialsAside {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(async {
            let provider = self.0.clone();
            aside(async move { provider.provide_credentials().await }).await?
        })
    }
}

/// Does this on a thread of its own, within a time limit.
async fn aside<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T, CredentialsError> {
    let runtime = Handle::current();
    let working = tokio::task::spawn_blocking(move || runtime.block_on(work));
    let done = tokio::time::timeout(PROVIDED_WITHIN, working).await;
    let done = done.map_err(|_elapsed| CredentialsError::provider_timed_out(PROVIDED_WITHIN))?;
    done.map_err(CredentialsError::unhandled)
}

/// Asks for credentials, and redacts them and the tokens that they are exchanged for in all texts.
async fn ask(provider: Option<&SharedCredentialsProvider>) -> Provided {
    std::env::var("AWS_CONTAINER_AUTHORIZATION_TOKEN").iter().for_each(|token| keep_secret(token));
    let tokens = shared_files::check().await.map_err(CredentialsError::invalid_configuration)?;
    tokens.iter().for_each(|token| keep_secret(token.expose()));
    let provided = match provider.ok_or_else(none)?.provide_credentials().await {
        Ok(provided) => provided,
        Err(error) => {
            let Some(file) = shared_files::unreadable_token_file().await else { return Err(error) };
            return Err(CredentialsError::invalid_configuration(UnreadableTokenFile { file, reason: error }));
        }
    };
    keep_secrets(&provided);
    check_header(&provided)?;
    Ok(provided)
}

/// The SDK panics on a key ID that no header can have: one of a file with a line break at its end.
fn check_header(credentials: &Credentials) -> Result<(), CredentialsError> {
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_plain(credentials.access_key_id()) && credentials.session_token().is_none_or(is_plain) {
        return Ok(());
    }
    Err(CredentialsError::invalid_configuration(
        "the access key ID or the session token has a space, a line break or another character that none has: check \
         AWS_ACCESS_KEY_ID, AWS_SESSION_TOKEN and the Secret that they come from",
    ))
}

/// There are no credentials, and a file with a token cannot be read. The SDK's own error does not name that file; but
/// another profile may be the one that needs it.
#[derive(Debug, Error)]
#[error("there are no credentials, and {file}")]
struct UnreadableTokenFile {
    file: SharedFileError,
    #[source]
    reason: CredentialsError,
}

fn none() -> CredentialsError {
    CredentialsError::not_loaded("no credentials are configured")
}

fn keep_secrets(credentials: &Credentials) {
    // The key of a session expires with it.
    match credentials.session_token() {
        Some(_) => keep_secret(credentials.secret_access_key()),
        None => keep_long_lived_secret(credentials.secret_access_key()),
    }
    credentials.session_token().iter().for_each(|token| keep_secret(token));
}

fn expires_within(credentials: &Credentials, time: Duration) -> bool {
    credentials.expiry().is_some_and(|expiry| expiry <= SystemTime::now() + time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_id_with_a_line_break_is_refused() {
        let of = |id: &str, token: Option<&str>| {
            check_header(&Credentials::new(id, "secret", token.map(str::to_owned), None, "test")).is_ok()
        };
        assert!(of("AKIA1", None) && of("AKIA1", Some("token+/=")));
        assert!(!of("AKIA1\n", None) && !of("AKIA1", Some("a b")) && !of("AKIÄ", None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_repeats_is_logged_once_in_five_minutes() {
        let mut logged = None;
        let mut lines = Vec::new();
        for _ in 0..100 {
            lines.push(is_worth_a_line(&mut logged));
            tokio::time::advance(Duration::from_secs(6)).await;
        }
        assert_eq!(lines.iter().enumerate().filter(|(_, line)| **line).map(|(at, _)| at).collect::<Vec<_>>(), [0, 50]);
    }

    /// Credentials with a new key each time, which take 6 s to get and expire within the minute.
    #[derive(Debug, Default)]
    struct Slow(std::sync::atomic::AtomicU32);

    impl ProvideCredentials for Slow {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            future::ProvideCredentials::new(async {
                let number = self.0.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(6)).await;
                let expiry = SystemTime::now() + Duration::from_secs(60);
                Ok(Credentials::new(format!("KEY{number}"), "secret", None, Some(expiry), "test"))
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn credentials_that_take_longer_than_the_pause_between_two_attempts_are_replaced() {
        let provider = SharedCredentialsProvider::new(Slow::default());
        let credentials = ReloadedCredentials::new(Settings::default(), Some(provider), CallMeter::default());
        let key = async || credentials.provide().await.expect("valid").access_key_id().to_owned();
        assert_eq!(key().await, "KEY0");
        let mut keys = Vec::new();
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            keys.push(key().await);
        }
        keys.dedup();
        assert_eq!(keys, ["KEY0", "KEY1", "KEY2"], "one replacement after the other");
    }
}
