//! Sign-in with a certificate. azure_identity would use OpenSSL for it. Here the cryptography library that TLS
//! already uses signs the assertion, and the crate only sends it.
//! <https://learn.microsoft.com/entra/identity-platform/certificate-credentials>

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use aws_lc_rs::digest::{SHA256, digest};
use azure_core::base64::encode_url_safe;
use azure_core::error::ErrorKind;
use azure_core::http::ClientMethodOptions;
use azure_identity::ClientAssertion;
use rustls::SignatureScheme;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use thiserror::Error;

use super::credential_file;
use crate::cloud::secrets::{Secret, SecretKey, keep_secret};

/// An assertion is used at once; this allows for clock skew.
const LIFETIME: Duration = Duration::from_secs(600);

/// What is wrong with a certificate file.
#[derive(Debug, Error)]
pub(in crate::clouds::azure) enum CertificateError {
    #[error("cannot read {path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    #[error(
        "{path} does not contain a certificate and an unencrypted RSA key in PEM format; convert a PFX file with \
         `openssl pkcs12 -in FILE -nodes -out {path}.pem`, store it in a Kubernetes secret, and remove the password from the configuration"
    )]
    Form { path: PathBuf },
}

/// A certificate and its key. The file is read for every assertion, so a renewed certificate is used.
pub(super) struct Certificate {
    path: PathBuf,
    audience: String,
    client_id: String,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Certificate").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Certificate {
    /// Reads the file once, so that a bad file is reported at startup.
    pub(super) fn new(
        path: PathBuf,
        encrypted: bool,
        authority: &str,
        tenant_id: &str,
        client_id: String,
    ) -> Result<Self, CertificateError> {
        let audience = format!("{}/{tenant_id}/oauth2/v2.0/token", authority.trim_end_matches('/'));
        let certificate = Self { path, audience, client_id };
        let read = credential_file::read(&certificate.path);
        let pem = read.map_err(|source| CertificateError::File { path: certificate.path.clone(), source })?;
        let signed = certificate.assertion(&SecretKey::new(pem), SystemTime::now());
        signed.filter(|_| !encrypted).ok_or_else(|| CertificateError::Form { path: certificate.path.clone() })?;
        Ok(certificate)
    }

    fn assertion(&self, pem: &SecretKey, now: SystemTime) -> Option<Secret> {
        let pem = pem.expose();
        let certificate = CertificateDer::from_pem_slice(pem).ok()?;
        let key = PrivateKeyDer::from_pem_slice(pem).ok()?;
        let signer = any_supported_type(&key).ok()?.choose_scheme(&[SignatureScheme::RSA_PSS_SHA256])?;
        let from = now.duration_since(UNIX_EPOCH).ok()?.as_secs();
        let thumbprint = encode_url_safe(digest(&SHA256, &certificate));
        let header = json!({ "alg": "PS256", "typ": "JWT", "x5t#S256": thumbprint.trim_end_matches('=') });
        let claims = json!({
            "aud": self.audience,
            "iss": self.client_id,
            "sub": self.client_id,
            "jti": format!("{:032x}", fastrand::u128(..)),
            "nbf": from,
            "exp": from + LIFETIME.as_secs(),
        });
        let encode = |bytes: &[u8]| encode_url_safe(bytes).trim_end_matches('=').to_owned();
        let text = format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes()));
        let signature = signer.sign(text.as_bytes()).ok()?;
        Some(Secret::new(format!("{text}.{}", encode(&signature))))
    }
}

/// Whether a file holds a certificate and a key that can sign an assertion.
pub(in crate::clouds::azure) fn parse_certificate(pem: &[u8]) -> bool {
    let certificate = Certificate { path: PathBuf::new(), audience: String::new(), client_id: String::new() };
    certificate.assertion(&SecretKey::new(pem.to_vec()), SystemTime::now()).is_some()
}

#[async_trait]
impl ClientAssertion for Certificate {
    async fn secret(&self, _options: Option<ClientMethodOptions<'_>>) -> azure_core::Result<String> {
        let failed = |text: String| azure_core::Error::with_message(ErrorKind::Credential, text);
        let pem = credential_file::read_later(self.path.clone()).await.map_err(|error| failed(error.to_string()))?;
        let assertion = self.assertion(&SecretKey::new(pem), SystemTime::now());
        let assertion =
            assertion.ok_or_else(|| failed(CertificateError::Form { path: self.path.clone() }.to_string()))?;
        keep_secret(assertion.expose());
        // azure_identity puts it into the form at once.
        Ok(assertion.expose().to_owned())
    }
}

#[cfg(test)]
mod tests;
