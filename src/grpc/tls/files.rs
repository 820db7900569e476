//! The files that TLS is configured from.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{InconsistentKeys, RootCertStore, ServerConfig};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::chain::ShortChains;
use super::error::TlsError;
use crate::cloud::secrets::SecretKey;
use crate::limits::{TLS_FILE, read_file};

/// The files that TLS is configured from, and the clients that may connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// The server's certificate, followed by its intermediate certificates, PEM.
    pub cert: PathBuf,
    /// The private key of the first certificate, PEM.
    pub key: PathBuf,
    /// The certificates of the CAs that sign the clients' certificates, PEM. Without it, clients need no certificate.
    pub client_ca: Option<PathBuf>,
    /// The names of which a client's certificate must have one, as its common name or as an alternative name. If
    /// empty, every client with a certificate from `client_ca` may connect.
    pub allowed_clients: Vec<String>,
}

/// The contents of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Files {
    cert: Vec<u8>,
    key: SecretKey,
    client_ca: Option<(PathBuf, Vec<u8>)>,
}

impl Files {
    pub(super) fn read(settings: &TlsSettings) -> Result<Self, TlsError> {
        let client_ca = match &settings.client_ca {
            Some(path) => Some((path.clone(), read(path)?)),
            None => None,
        };
        Ok(Self { cert: read(&settings.cert)?, key: SecretKey::new(read(&settings.key)?), client_ca })
    }

    /// The end of the certificates' validity, by role.
    pub(super) fn expiry(&self) -> Vec<(&'static str, f64)> {
        // Of a chain, only the first is the server's own.
        let cert = not_after(&self.cert).into_iter().next().map(|at| ("cert", at));
        let client_ca = self.client_ca.as_ref().and_then(|(_, pem)| not_after(pem).into_iter().reduce(f64::min));
        cert.into_iter().chain(client_ca.map(|at| ("clientCa", at))).collect()
    }

    /// Fails if the server's certificate has expired, or is not valid yet.
    pub(super) fn check_validity(&self, settings: &TlsSettings) -> Result<(), TlsError> {
        let chain = certificates(&settings.cert, &self.cert)?;
        // A certificate that cannot be parsed fails elsewhere, with a better reason.
        let parsed = chain.first().and_then(|leaf| X509Certificate::from_der(leaf).ok());
        match parsed.map(|(_, leaf)| leaf.validity().clone()) {
            Some(validity) if !validity.is_valid() => Err(TlsError::NotValidNow {
                cert: settings.cert.clone(),
                from: validity.not_before.to_string(),
                to: validity.not_after.to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// What verifies the certificates of clients.
    pub(super) fn verifier(&self) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
        let Some((path, ca)) = &self.client_ca else { return Ok(None) };
        client_verifier(path, ca, Arc::new(aws_lc_rs::default_provider())).map(Some)
    }

    pub(super) fn server_config(&self, settings: &TlsSettings) -> Result<Arc<ServerConfig>, TlsError> {
        // Explicit, so that nothing depends on the process-wide default.
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Versions)?;
        let builder = match self.verifier()? {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let chain = certificates(&settings.cert, &self.cert)?;
        let key = PrivateKeyDer::from_pem_slice(self.key.expose()).map_err(|source| match source {
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
        // A resumed session would skip the check of the client's certificate. The Cluster Autoscaler keeps one long
        // connection, so it would gain nothing from resumption.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }
}

/// Reads these bytes as each of the files.
pub(in crate::grpc) fn parse(bytes: &[u8]) {
    let (path, pem) = (PathBuf::from("tls.pem"), bytes.to_vec());
    let settings = TlsSettings {
        cert: path.clone(),
        key: path.clone(),
        client_ca: Some(path.clone()),
        allowed_clients: Vec::new(),
    };
    let files = Files { cert: pem.clone(), key: SecretKey::new(pem.clone()), client_ca: Some((path, pem)) };
    let _used = (files.expiry(), files.check_validity(&settings), files.server_config(&settings));
}

/// When each certificate in a PEM file expires, in seconds since the Unix epoch.
fn not_after(pem: &[u8]) -> Vec<f64> {
    let certificates = CertificateDer::pem_slice_iter(pem).flatten();
    let times = certificates.filter_map(|der| {
        let (_, certificate) = x509_parser::parse_x509_certificate(&der).ok()?;
        // Exact up to 2^53 seconds.
        certificate.validity().not_after.to_datetime().unix_timestamp().to_string().parse().ok()
    });
    times.collect()
}

fn client_verifier(
    path: &Path,
    ca: &[u8],
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, ca)? {
        roots.add(certificate).map_err(|source| TlsError::BadRoot { path: path.to_owned(), source })?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|source| TlsError::BadClientCa { path: path.to_owned(), source })?;
    Ok(Arc::new(ShortChains(verifier)))
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    read_file(path, TLS_FILE).map_err(|source| match source.kind() {
        io::ErrorKind::InvalidInput => TlsError::NotAFile { path: path.to_owned() },
        _ => TlsError::Unreadable { path: path.to_owned(), source },
    })
}

/// Returns the certificates in a PEM file, at least one.
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
    fn each_error_names_its_file() {
        let authority = Authority::new("ca");
        let (ca, leaf, other) = (authority.pem(), authority.server(), authority.server());
        let (cert, key) = (leaf.cert.as_str(), leaf.key.as_str());
        let broken = "-----BEGIN CERTIFICATE-----\nnot base64!\n-----END CERTIFICATE-----\n";
        let empty = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (cert, key, ca, expected) in [
            (None, Some(key), Some(ca.as_str()), "tls.crt cannot be read: No such file"),
            (Some(cert), None, Some(ca.as_str()), "tls.key cannot be read: No such file"),
            (Some(cert), Some(key), None, "ca.crt cannot be read: No such file"),
            (Some(key), Some(key), Some(ca.as_str()), "tls.crt contains no certificate"),
            (Some(cert), Some(cert), Some(ca.as_str()), "tls.key contains no private key"),
            (Some(cert), Some(key), Some(""), "ca.crt contains no certificate"),
            (Some(cert), Some(other.key.as_str()), Some(ca.as_str()), "tls.key does not match the first certificate"),
            (Some(broken), Some(key), Some(ca.as_str()), "tls.crt is not valid PEM"),
            (Some(empty), Some(key), Some(ca.as_str()), "tls.crt with key "),
            (Some(cert), Some(key), Some(empty), "ca.crt contains a certificate that cannot be a CA"),
        ] {
            let error = load(cert, key, ca).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(load(Some(cert), Some(key), Some(ca.as_str())).is_ok());
    }

    #[test]
    fn allowed_clients_need_a_client_ca() {
        let settings = TlsSettings {
            cert: "tls.crt".into(),
            key: "tls.key".into(),
            client_ca: None,
            allowed_clients: vec!["cluster-autoscaler".into()],
        };
        assert!(matches!(LiveTls::load(settings), Err(TlsError::AllowedWithoutClientCa)));
    }
}
