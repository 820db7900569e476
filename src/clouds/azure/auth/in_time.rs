//! A time limit for a whole sign-in, retries included. Its error names the host that did not respond, which neither
//! azure_identity nor the call that needs the token knows.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use azure_core::credentials::{AccessToken, TokenCredential, TokenRequestOptions};
use azure_core::error::ErrorKind;
use thiserror::Error;
use tokio::time::timeout;

/// Shorter than the time that a call waits for its token, and longer than that of the retries.
const SIGN_IN_LIMIT: Duration = Duration::from_secs(9);

/// A sign-in that did not end.
#[derive(Debug, Error)]
#[error("{host} issued none within {SIGN_IN_LIMIT:?}")]
struct NoneInTime {
    host: String,
}

/// A credential that signs in at this host.
#[derive(Debug)]
pub(super) struct InTime {
    credential: Arc<dyn TokenCredential>,
    host: String,
}

impl InTime {
    pub(super) fn new(credential: Arc<dyn TokenCredential>, host: String) -> Self {
        Self { credential, host }
    }
}

#[async_trait]
impl TokenCredential for InTime {
    async fn get_token(
        &self,
        scopes: &[&str],
        options: Option<TokenRequestOptions<'_>>,
    ) -> azure_core::Result<AccessToken> {
        let late = |_elapsed| azure_core::Error::new(ErrorKind::Io, NoneInTime { host: self.host.clone() });
        timeout(SIGN_IN_LIMIT, self.credential.get_token(scopes, options)).await.map_err(late)?
    }
}
