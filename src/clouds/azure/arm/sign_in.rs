//! The tokens for one endpoint: from the credential in use, which is replaced when its token is refused.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use azure_core::credentials::{AccessToken, TokenCredential};
use hyper::header::HeaderValue;
use tokio::time::Instant;

use super::claims;
use super::errors::ErrorContext;
use crate::cloud::CloudError;
use crate::cloud::secrets::keep_secret;
use crate::limits::AZURE_FILE;

/// The time to get a new token, including retries of the sign-in.
pub(super) const TOKEN_TIMEOUT: Duration = Duration::from_secs(10);
/// The same for a write. The read before it had a token a moment ago, and what waits longer may be sent after its
/// caller has given up (law 9).
pub(super) const TOKEN_TIMEOUT_FOR_WRITE: Duration = Duration::from_secs(1);
/// The time to get a new token while the last one is valid: the call that needs it has seconds.
const RENEW_TIMEOUT: Duration = Duration::from_secs(1);
/// A token that is valid for less than this is not used: the request takes some time to arrive.
const VALID_FOR_MIN: Duration = Duration::from_secs(30);
/// The pause before a token is renewed again, if the renewed one was refused as well. It doubles each time.
const RENEW_PAUSE_MIN: Duration = Duration::from_secs(15);
const RENEW_PAUSE_MAX: Duration = Duration::from_secs(300);

/// Creates a credential without cached tokens.
pub(in crate::clouds::azure) type NewCredential =
    Arc<dyn Fn() -> Result<Arc<dyn TokenCredential>, String> + Send + Sync>;

/// The credential, and the scope that tokens are requested for.
#[derive(Clone)]
pub(in crate::clouds::azure) struct Bearer {
    pub(in crate::clouds::azure) credential: Arc<dyn TokenCredential>,
    pub(in crate::clouds::azure) scope: String,
    /// azure_identity caches a token until it expires and has no way to drop it, so a token that is refused before that
    /// needs a new credential.
    pub(in crate::clouds::azure) renew: NewCredential,
}

impl fmt::Debug for Bearer {
    // The Debug output of a credential may contain a token.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Bearer").field("scope", &self.scope).finish_non_exhaustive()
    }
}

/// Signs in to one endpoint.
pub(super) struct SignIn {
    scope: String,
    current: Mutex<CurrentCredential>,
    /// Held while the credential is created anew.
    renewing: tokio::sync::Mutex<()>,
}

/// The credential in use, and when it may be renewed.
#[derive(Clone)]
struct CurrentCredential {
    credential: Arc<dyn TokenCredential>,
    generation: u64,
    renew: NewCredential,
    /// The last token. During the last minutes of its life, azure_identity returns an error where it gets no new one.
    kept: Option<Kept>,
    /// The earliest time of the next renewal. Each renewal that did not help doubles the pause.
    renew_at: Option<Instant>,
    pause: Duration,
}

/// A token, and from when on the credential is asked for another one.
#[derive(Clone)]
struct Kept {
    token: AccessToken,
    renew_from: Instant,
}

impl Kept {
    fn is_valid(&self) -> bool {
        SystemTime::now() + VALID_FOR_MIN < SystemTime::from(self.token.expires_on)
    }
}

impl SignIn {
    pub(super) fn new(Bearer { credential, scope, renew }: Bearer) -> Self {
        let current = Mutex::new(CurrentCredential::new(credential, 0, renew));
        Self { scope, current, renewing: tokio::sync::Mutex::default() }
    }

    /// A token, and the generation of the credential that it comes from. A new one may take as long as `patience`.
    pub(super) async fn token(
        &self,
        context: ErrorContext<'_>,
        patience: Duration,
    ) -> Result<(HeaderValue, u64), CloudError> {
        let CurrentCredential { credential, generation, kept, .. } = self.current().clone();
        let token = match kept.filter(Kept::is_valid) {
            Some(kept) if Instant::now() < kept.renew_from => kept.token,
            Some(kept) => match self.new_token(&credential, RENEW_TIMEOUT, context).await {
                Ok(token) => self.keep(token, generation, Duration::ZERO),
                Err(error) => {
                    tracing::debug!(%error, "the sign-in service returned no new token; using the last one, which is \
                        still valid");
                    self.keep(kept.token, generation, RENEW_PAUSE_MIN)
                }
            },
            None => self.keep(self.new_token(&credential, patience, context).await?, generation, Duration::ZERO),
        };
        keep_secret(token.token.secret());
        let header = HeaderValue::from_str(&format!("Bearer {}", token.token.secret()));
        let mut header =
            header.map_err(|_| context.refused("the token contains characters that a header cannot hold"))?;
        header.set_sensitive(true);
        Ok((header, generation))
    }

    async fn new_token(
        &self,
        credential: &Arc<dyn TokenCredential>,
        limit: Duration,
        context: ErrorContext<'_>,
    ) -> Result<AccessToken, CloudError> {
        let token = tokio::time::timeout(limit, credential.get_token(&[self.scope.as_str()], None)).await;
        let token =
            token.map_err(|_| CloudError::Unreachable(context.fault(None, &format!("no token within {limit:?}"))))?;
        token.map_err(|error| context.no_token(&error))
    }

    /// Keeps a token of the credential in use. The credential is asked for the next one after `pause`.
    fn keep(&self, token: AccessToken, generation: u64, pause: Duration) -> AccessToken {
        let mut current = self.current();
        if current.generation == generation {
            current.kept = Some(Kept { token: token.clone(), renew_from: Instant::now() + pause });
        }
        token
    }

    /// Whom the tokens are issued to; `None` where they do not say.
    pub(super) async fn application(&self, context: ErrorContext<'_>) -> Result<Option<String>, CloudError> {
        let (header, _) = self.token(context, TOKEN_TIMEOUT).await?;
        Ok(header.to_str().ok().and_then(|held| claims::application(held.strip_prefix("Bearer ")?)))
    }

    /// Drops the token of this generation. Returns whether there is another credential to try.
    pub(super) async fn renew(&self, generation: u64) -> bool {
        let _one_at_a_time = self.renewing.lock().await;
        let now = Instant::now();
        let renew = {
            let current = self.current();
            if current.generation != generation {
                return true;
            }
            if current.renew_at.is_some_and(|at| now < at) {
                return false;
            }
            Arc::clone(&current.renew)
        };
        let Ok(credential) = create(&renew).await else { return false };
        let mut current = self.current();
        if current.generation != generation {
            return true;
        }
        let pause = current.pause;
        *current = CurrentCredential {
            renew_at: Some(now + pause),
            pause: (pause * 2).min(RENEW_PAUSE_MAX),
            ..CurrentCredential::new(credential, generation + 1, renew)
        };
        true
    }

    /// Notes that a request with a token of this generation succeeded. That of an earlier one may have been sent before
    /// Azure refused its token, and says nothing of the current one.
    pub(super) fn token_was_accepted(&self, generation: u64) {
        let mut current = self.current();
        if current.generation == generation {
            (current.renew_at, current.pause) = (None, RENEW_PAUSE_MIN);
        }
    }

    /// Uses this credential from now on, if there is a token for it.
    pub(super) async fn with(&self, new: NewCredential, context: ErrorContext<'_>) -> Result<(), String> {
        let credential = create(&new).await?;
        let token = tokio::time::timeout(TOKEN_TIMEOUT, credential.get_token(&[&self.scope], None)).await;
        let token = token.map_err(|_| format!("no token within {TOKEN_TIMEOUT:?}"))?;
        keep_secret(token.map_err(|error| context.no_token(&error).to_string())?.token.secret());
        let mut current = self.current();
        *current = CurrentCredential::new(credential, current.generation + 1, new);
        Ok(())
    }

    fn current(&self) -> MutexGuard<'_, CurrentCredential> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Creates a credential. It may read files, and a file system that hangs delays no other task.
async fn create(new: &NewCredential) -> Result<Arc<dyn TokenCredential>, String> {
    let new = Arc::clone(new);
    let created = tokio::task::spawn_blocking(move || new());
    match tokio::time::timeout(AZURE_FILE.time(), created).await {
        Ok(created) => created.unwrap_or_else(|panic| Err(panic.to_string())),
        Err(_elapsed) => Err(format!("its files could not be read within {:?}", AZURE_FILE.time())),
    }
}

impl CurrentCredential {
    fn new(credential: Arc<dyn TokenCredential>, generation: u64, renew: NewCredential) -> Self {
        Self { credential, generation, renew, kept: None, renew_at: None, pause: RENEW_PAUSE_MIN }
    }
}

#[cfg(test)]
mod tests;
