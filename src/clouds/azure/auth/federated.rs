//! Sign-in with the token of a Kubernetes service account: workload identity.
//!
//! azure_identity has a credential for it that caches the file for ten minutes. The kubelet renews the token when a
//! fifth of its lifetime is left, which can be less than that. A sign-in happens about once an hour, so here the file
//! is read for each one. <https://learn.microsoft.com/entra/workload-id/workload-identity-federation>

use std::path::PathBuf;

use async_trait::async_trait;
use azure_core::error::ErrorKind;
use azure_core::http::ClientMethodOptions;
use azure_identity::ClientAssertion;
use thiserror::Error;

use super::credential_file;
use crate::cloud::secrets::{Secret, keep_secret};

/// What is wrong with the token file.
#[derive(Debug, Error)]
pub(in crate::clouds::azure) enum FederatedError {
    #[error(
        "workload identity needs {0}; label the pod azure.workload.identity/use: \"true\", so that the webhook sets it, or \
         set it in the configuration"
    )]
    Unset(&'static str),
    #[error("cannot read the service account token in {path}: {source}; check the projected volume of the pod")]
    File { path: PathBuf, source: std::io::Error },
    #[error("the service account token file {path} is empty; check the projected volume of the pod")]
    Empty { path: PathBuf },
}

/// The file that the kubelet keeps a valid token in.
#[derive(Debug)]
pub(super) struct TokenFile(PathBuf);

impl TokenFile {
    /// Reads the file once, so that a bad file is reported at startup.
    pub(super) fn new(path: PathBuf) -> Result<Self, FederatedError> {
        let file = Self(path);
        file.token(credential_file::read(&file.0))?;
        Ok(file)
    }

    fn token(&self, read: std::io::Result<Vec<u8>>) -> Result<Secret, FederatedError> {
        let path = || self.0.clone();
        let not_text = |error| std::io::Error::new(std::io::ErrorKind::InvalidData, error);
        let text = read.and_then(|bytes| String::from_utf8(bytes).map_err(not_text));
        let text = text.map_err(|source| FederatedError::File { path: path(), source })?;
        let token = text.trim();
        if token.is_empty() {
            return Err(FederatedError::Empty { path: path() });
        }
        keep_secret(token);
        Ok(Secret::new(token))
    }
}

/// Whether a file holds a token.
pub(in crate::clouds::azure) fn parse_token(bytes: &[u8]) -> bool {
    TokenFile(PathBuf::new()).token(Ok(bytes.to_vec())).is_ok()
}

#[async_trait]
impl ClientAssertion for TokenFile {
    async fn secret(&self, _options: Option<ClientMethodOptions<'_>>) -> azure_core::Result<String> {
        let read = credential_file::read_later(self.0.clone()).await;
        // azure_identity puts it into the form at once.
        let token = self.token(read).map(|token| token.expose().to_owned());
        token.map_err(|error| azure_core::Error::new(ErrorKind::Credential, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_token_file_is_read_for_every_sign_in() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("token");
        assert!(matches!(TokenFile::new(path.clone()), Err(FederatedError::File { .. })));
        std::fs::write(&path, "\n").expect("written");
        assert!(matches!(TokenFile::new(path.clone()), Err(FederatedError::Empty { .. })));
        std::fs::write(&path, "first\n").expect("written");
        let file = TokenFile::new(path.clone()).expect("a token");
        assert_eq!(file.secret(None).await.expect("a token"), "first");
        std::fs::write(&path, "second").expect("written");
        assert_eq!(file.secret(None).await.expect("a token"), "second");
        std::fs::remove_file(&path).expect("removed");
        let error = file.secret(None).await.expect_err("nothing to read");
        assert!(error.to_string().contains("cannot read the service account token"), "{error}");
    }
}
