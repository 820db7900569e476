//! Why TLS files cannot be used.

use std::io;
use std::path::PathBuf;

use rustls::pki_types::pem;
use rustls::server::VerifierBuilderError;
use thiserror::Error;

use crate::limits::TLS_FILE;

/// Why the files cannot be used. Retrying helps only after they have changed.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file is missing, or Headcount may not read it.
    #[error("TLS file {path} cannot be read: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// A file is something that could block or exhaust the process.
    #[error("TLS file {path} is not a regular file of at most {} bytes", TLS_FILE.bytes)]
    NotAFile {
        /// The file.
        path: PathBuf,
    },
    /// The server's certificate is not valid now.
    #[error("TLS certificate {cert} is valid from {from} to {to}, and not now; renew it, or check the clock")]
    NotValidNow {
        /// The certificate's file.
        cert: PathBuf,
        /// The start of its validity.
        from: String,
        /// The end of its validity.
        to: String,
    },
    /// A file is not PEM.
    #[error("TLS file {path} is not valid PEM: {source}")]
    NotPem {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: pem::Error,
    },
    /// A certificate file contains no certificate.
    #[error("TLS file {path} contains no certificate (no \"BEGIN CERTIFICATE\" line)")]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The key file contains no key.
    #[error("TLS file {path} contains no private key (no \"BEGIN PRIVATE KEY\" line, nor one for RSA or EC)")]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// The key belongs to another certificate.
    #[error(
        "TLS key {key} does not match the first certificate in {cert}; use the key that the certificate was issued for"
    )]
    KeyMismatch {
        /// The key's file.
        key: PathBuf,
        /// The certificate's file.
        cert: PathBuf,
    },
    /// rustls does not support the certificate or the key.
    #[error("TLS certificate {cert} with key {key} cannot be used: {source}")]
    Unusable {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// The reason.
        #[source]
        source: rustls::Error,
    },
    /// A certificate in the CA file cannot be a trust anchor.
    #[error("client CA file {path} contains a certificate that cannot be a CA: {source}")]
    BadRoot {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: rustls::Error,
    },
    /// The CA file cannot be used to verify clients.
    #[error("client CA file {path} cannot be used to verify clients: {source}")]
    BadClientCa {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: VerifierBuilderError,
    },
    /// Client names are listed, but there is no CA to verify them.
    #[error(
        "allowedClients needs clientCa: without a CA, the names of clients cannot be verified; set grpc.tls.clientCa"
    )]
    AllowedWithoutClientCa,
    /// The crypto library does not support the TLS versions.
    #[error("cannot set up TLS 1.2 and 1.3: {0}")]
    Versions(#[source] rustls::Error),
}
