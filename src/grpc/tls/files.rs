//! The files that TLS is made from, and everything that can be wrong with them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{InconsistentKeys, RootCertStore, ServerConfig};
use thiserror::Error;

/// Which files TLS is made from, and who may connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// The server's certificate and the intermediate ones after it, PEM.
    pub cert: PathBuf,
    /// The private key of the first of them, PEM.
    pub key: PathBuf,
    /// The certificates of the CAs that clients must be certified by, PEM. Without it, clients are not asked who they
    /// are.
    pub client_ca: Option<PathBuf>,
    /// The names of which a client's certificate must have one, as its common name or as an alternative name. Empty:
    /// every client is let in that `client_ca` certifies.
    pub allowed_clients: Vec<String>,
}

/// What is wrong with the files. None of it is retryable until somebody changes them.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file is missing or may not be read.
    #[error("{path}: cannot be read: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A file is not PEM.
    #[error("{path}: is not valid PEM: {source}")]
    NotPem {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: pem::Error,
    },
    /// A file that should hold certificates holds none.
    #[error("{path}: there is no certificate in it (no \"BEGIN CERTIFICATE\" line)")]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The key file holds no key.
    #[error("{path}: there is no private key in it (no \"BEGIN PRIVATE KEY\" line, nor an RSA or EC one)")]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// The key belongs to another certificate.
    #[error("{key}: is not the key of the first certificate in {cert}")]
    KeyMismatch {
        /// The key's file.
        key: PathBuf,
        /// The certificate's file.
        cert: PathBuf,
    },
    /// The certificate or its key is of a kind that cannot be used.
    #[error("{cert} with {key}: cannot be used: {source}")]
    Unusable {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why not.
        #[source]
        source: rustls::Error,
    },
    /// A certificate in the CA file cannot be a root of trust.
    #[error("{path}: a certificate in it cannot serve as a CA: {source}")]
    BadRoot {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: rustls::Error,
    },
    /// No way to verify clients can be made from the CA file.
    #[error("{path}: clients cannot be verified by it: {source}")]
    BadClientCa {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: VerifierBuilderError,
    },
    /// Names are allowed, and nothing certifies them.
    #[error("allowed clients are named, but no client CA is given to certify their names")]
    AllowedWithoutClientCa,
    /// The crypto library lacks what TLS needs.
    #[error("TLS 1.2 and 1.3 cannot be set up: {0}")]
    Versions(#[source] rustls::Error),
}

/// The contents of the files.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Files {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<(PathBuf, Vec<u8>)>,
}

impl std::fmt::Debug for Files {
    // The key stays out of every log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").finish_non_exhaustive()
    }
}

impl Files {
    pub(super) fn read(settings: &TlsSettings) -> Result<Self, TlsError> {
        let read =
            |path: &Path| std::fs::read(path).map_err(|source| TlsError::Unreadable { path: path.to_owned(), source });
        let client_ca = match &settings.client_ca {
            Some(path) => Some((path.clone(), read(path)?)),
            None => None,
        };
        Ok(Self { cert: read(&settings.cert)?, key: read(&settings.key)?, client_ca })
    }

    pub(super) fn server_config(&self, settings: &TlsSettings) -> Result<Arc<ServerConfig>, TlsError> {
        // Given explicitly: nothing here depends on a default of the whole process.
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Versions)?;
        let builder = match &self.client_ca {
            Some((path, ca)) => builder.with_client_cert_verifier(client_verifier(path, ca, provider)?),
            None => builder.with_no_client_auth(),
        };
        let chain = certificates(&settings.cert, &self.cert)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|source| match source {
            pem::Error::NoItemsFound => TlsError::NoKey { path: settings.key.clone() },
            source => TlsError::NotPem { path: settings.key.clone(), source },
        })?;
        let mut config = builder.with_single_cert(chain, key).map_err(|source| match source {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                TlsError::KeyMismatch { key: settings.key.clone(), cert: settings.cert.clone() }
            }
            source => TlsError::Unusable { cert: settings.cert.clone(), key: settings.key.clone(), source },
        })?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        // A resumed session would not look at the client's certificate again, and the one long connection that the
        // Cluster Autoscaler keeps gains nothing by it.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }
}

fn client_verifier(
    path: &Path,
    ca: &[u8],
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, ca)? {
        roots.add(certificate).map_err(|source| TlsError::BadRoot { path: path.to_owned(), source })?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|source| TlsError::BadClientCa { path: path.to_owned(), source })
}

/// The certificates in a PEM file; at least one.
fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|source| TlsError::NotPem { path: path.to_owned(), source })?;
    if certificates.is_empty() {
        return Err(TlsError::NoCertificate { path: path.to_owned() });
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use crate::grpc::authority::Authority;
    use crate::grpc::tls::LiveTls;

    use super::*;

    /// Loads TLS from files with these contents; `None` leaves a file out.
    fn load(cert: Option<&str>, key: Option<&str>, client_ca: Option<&str>) -> Result<LiveTls, TlsError> {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, content) in [("tls.crt", cert), ("tls.key", key), ("ca.crt", client_ca)] {
            if let Some(content) = content {
                std::fs::write(directory.path().join(name), content).expect("a file");
            }
        }
        LiveTls::load(TlsSettings {
            cert: directory.path().join("tls.crt"),
            key: directory.path().join("tls.key"),
            client_ca: Some(directory.path().join("ca.crt")),
            allowed_clients: Vec::new(),
        })
    }

    #[test]
    fn each_fault_in_the_files_is_named_with_its_file() {
        let authority = Authority::new("ca");
        let (ca, leaf, other) = (authority.pem(), authority.server(), authority.server());
        let (cert, key) = (leaf.cert.as_str(), leaf.key.as_str());
        let broken = "-----BEGIN CERTIFICATE-----\nnot base64!\n-----END CERTIFICATE-----\n";
        let empty = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (cert, key, ca, complaint) in [
            (None, Some(key), Some(ca.as_str()), "tls.crt: cannot be read: No such file"),
            (Some(cert), None, Some(ca.as_str()), "tls.key: cannot be read: No such file"),
            (Some(cert), Some(key), None, "ca.crt: cannot be read: No such file"),
            (Some(key), Some(key), Some(ca.as_str()), "tls.crt: there is no certificate in it"),
            (Some(cert), Some(cert), Some(ca.as_str()), "tls.key: there is no private key in it"),
            (Some(cert), Some(key), Some(""), "ca.crt: there is no certificate in it"),
            (
                Some(cert),
                Some(other.key.as_str()),
                Some(ca.as_str()),
                "tls.key: is not the key of the first certificate",
            ),
            (Some(broken), Some(key), Some(ca.as_str()), "tls.crt: is not valid PEM"),
            (Some(empty), Some(key), Some(ca.as_str()), "tls.crt with "),
            (Some(cert), Some(key), Some(empty), "ca.crt: a certificate in it cannot serve as a CA"),
        ] {
            let error = load(cert, key, ca).expect_err(complaint).to_string();
            assert!(error.contains(complaint), "{error}");
        }
        assert!(load(Some(cert), Some(key), Some(ca.as_str())).is_ok());
    }

    #[test]
    fn names_are_not_allowed_without_a_ca_to_certify_them() {
        let settings = TlsSettings {
            cert: "tls.crt".into(),
            key: "tls.key".into(),
            client_ca: None,
            allowed_clients: vec!["cluster-autoscaler".into()],
        };
        assert!(matches!(LiveTls::load(settings), Err(TlsError::AllowedWithoutClientCa)));
    }
}
