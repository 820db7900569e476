//! The tokens for one endpoint: from the credential in use, which is replaced when its token is refused.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use azure_core::credentials::TokenCredential;
use hyper::header::HeaderValue;
use tokio::time::Instant;

use super::claims;
use super::errors::ErrorContext;
use crate::cloud::CloudError;
use crate::cloud::secrets::keep_secret;

/// The time to get a new token, including retries of the sign-in.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(10);
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
    /// azure_identity caches a token until it expires and has no way to drop it, so a token that is refused before that needs
    /// a new credential.
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
}

/// The credential in use, and when it may be renewed.
#[derive(Clone)]
struct CurrentCredential {
    credential: Arc<dyn TokenCredential>,
    generation: u64,
    renew: NewCredential,
    /// The earliest time of the next renewal. Each renewal that did not help doubles the pause.
    renew_at: Option<Instant>,
    pause: Duration,
}

impl SignIn {
    pub(super) fn new(Bearer { credential, scope, renew }: Bearer) -> Self {
        Self { scope, current: Mutex::new(CurrentCredential::new(credential, 0, renew)) }
    }

    /// A token, and the generation of the credential that it comes from.
    pub(super) async fn token(&self, context: ErrorContext<'_>) -> Result<(HeaderValue, u64), CloudError> {
        let CurrentCredential { credential, generation, .. } = self.current().clone();
        let scopes = [self.scope.as_str()];
        let token = tokio::time::timeout(TOKEN_TIMEOUT, credential.get_token(&scopes, None));
        let token = token
            .await
            .map_err(|_| CloudError::Unreachable(context.fault(None, &format!("no token within {TOKEN_TIMEOUT:?}"))))?;
        let token = token.map_err(|error| context.no_token(&error))?;
        keep_secret(token.token.secret());
        let header = HeaderValue::from_str(&format!("Bearer {}", token.token.secret()));
        let mut header =
            header.map_err(|_| context.refused("the token contains characters that a header cannot hold"))?;
        header.set_sensitive(true);
        Ok((header, generation))
    }

    /// Whom the tokens are issued to; `None` where they do not say.
    pub(super) async fn application(&self, context: ErrorContext<'_>) -> Result<Option<String>, CloudError> {
        let (header, _) = self.token(context).await?;
        Ok(header.to_str().ok().and_then(|held| claims::application(held.strip_prefix("Bearer ")?)))
    }

    /// Drops the token of this generation. Returns whether there is another credential to try.
    pub(super) fn renew(&self, generation: u64) -> bool {
        let mut current = self.current();
        if current.generation != generation {
            return true;
        }
        let now = Instant::now();
        if current.renew_at.is_some_and(|at| now < at) {
            return false;
        }
        let renew = Arc::clone(&current.renew);
        let Ok(credential) = renew() else { return false };
        let pause = current.pause;
        *current = CurrentCredential {
            renew_at: Some(now + pause),
            pause: (pause * 2).min(RENEW_PAUSE_MAX),
            ..CurrentCredential::new(credential, generation + 1, renew)
        };
        true
    }

    /// Notes that a request with the current credential succeeded.
    pub(super) fn token_was_accepted(&self) {
        let mut current = self.current();
        (current.renew_at, current.pause) = (None, RENEW_PAUSE_MIN);
    }

    /// Uses this credential from now on, if there is a token for it.
    pub(super) async fn with(&self, new: NewCredential, context: ErrorContext<'_>) -> Result<(), String> {
        let credential = new()?;
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

impl CurrentCredential {
    fn new(credential: Arc<dyn TokenCredential>, generation: u64, renew: NewCredential) -> Self {
        Self { credential, generation, renew, renew_at: None, pause: RENEW_PAUSE_MIN }
    }
}
