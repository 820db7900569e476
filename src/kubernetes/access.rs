//! Where the API server is, and who calls: the pod's service account, or a kubeconfig.
//!
//! All files are read anew for every call. A kubelet replaces the token of a service account before its hour is over,
//! and CAs are replaced too; calls are so few that reading is cheaper than watching.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hyper::Uri;
use hyper::header::HeaderValue;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;

use super::kubeconfig;

/// Where kubelets put a service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// No token, certificate or kubeconfig is nearly as large: a larger file was named by mistake.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why the API server cannot be called.
#[derive(Debug, Error)]
pub enum AccessError {
    /// Neither in a pod nor told where else.
    #[error(
        "not in a pod with a service account (KUBERNETES_SERVICE_HOST is not set, or {SERVICE_ACCOUNT} is missing); set \
         learn.kubeconfig, or mount the service account"
    )]
    Nowhere,
    /// A file is missing, too large or may not be read.
    #[error("{path}: cannot be read: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A kubeconfig that cannot be used.
    #[error("{path}: {message}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why not, and what would be right.
        message: String,
    },
    /// The address is none.
    #[error("{server:?} is not the address of an API server; write https://host:port")]
    Address {
        /// The address as given.
        server: String,
    },
    /// The API server's name cannot be in a certificate.
    #[error("{name:?} cannot be the API server's name: {source}")]
    Name {
        /// The name.
        name: String,
        /// Why not.
        #[source]
        source: InvalidDnsNameError,
    },
    /// The certificates cannot be used.
    #[error("the {what} cannot be used: {message}")]
    Certificate {
        /// Which.
        what: &'static str,
        /// Why not.
        message: String,
    },
    /// A token that cannot be sent, or must not be.
    #[error("the token {0}")]
    Token(&'static str),
}

/// Where what is needed for a call is to be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// In a pod.
    ServiceAccount {
        /// The API server, `https://host:port`.
        server: String,
        /// The folder with `token`, `ca.crt` and `namespace`.
        folder: PathBuf,
    },
    /// In a kubeconfig file.
    Kubeconfig(PathBuf),
}

/// What the files say.
pub(super) struct Opening {
    pub(super) server: String,
    /// The name in the API server's certificate, where it is not the host's.
    pub(super) server_name: Option<String>,
    /// PEM.
    pub(super) authority: Option<Vec<u8>>,
    pub(super) identity: Identity,
}

/// Who calls.
#[derive(Default)]
pub(super) struct Identity {
    pub(super) token: Option<String>,
    /// Both PEM.
    pub(super) certificate_and_key: Option<(Vec<u8>, Vec<u8>)>,
}

/// All that one call needs.
pub(super) struct Door {
    pub(super) host: String,
    pub(super) port: u16,
    /// What stands before every path, without a slash at its end.
    pub(super) prefix: String,
    /// Plain HTTP where it is absent.
    pub(super) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// The `Authorization` header.
    pub(super) authorization: Option<HeaderValue>,
}

impl Access {
    /// The kubeconfig, or else the pod's service account. Nothing is read yet but whether there is one.
    pub fn find(
        kubeconfig: Option<PathBuf>,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, AccessError> {
        if let Some(path) = kubeconfig {
            return Ok(Self::Kubeconfig(path));
        }
        let set = |name: &str| environment(name).filter(|value| !value.is_empty()).ok_or(AccessError::Nowhere);
        let (host, port) = (set("KUBERNETES_SERVICE_HOST")?, set("KUBERNETES_SERVICE_PORT")?);
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let folder = PathBuf::from(SERVICE_ACCOUNT);
        if !folder.join("token").exists() {
            return Err(AccessError::Nowhere);
        }
        Ok(Self::ServiceAccount { server: format!("https://{host}:{port}"), folder })
    }

    /// The pod's own namespace.
    pub(super) fn namespace(&self) -> Option<String> {
        let Self::ServiceAccount { folder, .. } = self else { return None };
        let namespace = read_text(&folder.join("namespace")).ok()?.trim().to_owned();
        (!namespace.is_empty()).then_some(namespace)
    }

    /// Reads all there is to read.
    pub(super) fn open(&self) -> Result<Door, AccessError> {
        let opening = match self {
            Self::ServiceAccount { server, folder } => Opening {
                server: server.clone(),
                server_name: None,
                authority: Some(read(&folder.join("ca.crt"))?),
                identity: Identity {
                    token: Some(read_text(&folder.join("token"))?.trim().to_owned()),
                    certificate_and_key: None,
                },
            },
            Self::Kubeconfig(path) => kubeconfig::open(path)?,
        };
        opening.door()
    }
}

impl Opening {
    fn door(self) -> Result<Door, AccessError> {
        let wrong = || AccessError::Address { server: self.server.clone() };
        let uri: Uri = self.server.parse().map_err(|_| wrong())?;
        let under_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong()),
        };
        let host = uri.host().ok_or_else(wrong)?.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(if under_tls { 443 } else { 80 });
        let prefix = uri.path().trim_end_matches('/').to_owned();
        let Self { server_name, authority, identity, .. } = self;
        let authorization = identity.token.as_deref().map(bearer).transpose()?;
        if authorization.is_some() && !under_tls {
            return Err(AccessError::Token("is not sent without TLS; write https:// in the kubeconfig"));
        }
        let tls = under_tls.then(|| {
            let name = server_name.unwrap_or_else(|| host.clone());
            let server_name = ServerName::try_from(name.clone());
            let server_name = server_name.map_err(|source| AccessError::Name { name, source })?;
            Ok((Arc::new(config(authority.as_deref(), identity.certificate_and_key)?), server_name))
        });
        Ok(Door { host, port, prefix, tls: tls.transpose()?, authorization })
    }
}

fn bearer(token: &str) -> Result<HeaderValue, AccessError> {
    if token.is_empty() {
        return Err(AccessError::Token("is empty"));
    }
    let mut header = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| AccessError::Token("holds characters that cannot be sent"))?;
    header.set_sensitive(true);
    Ok(header)
}

/// Trusts the cluster's own CA alone: an API server's certificate is signed by no public one.
fn config(authority: Option<&[u8]>, identity: Option<(Vec<u8>, Vec<u8>)>) -> Result<ClientConfig, AccessError> {
    const AUTHORITY: &str = "cluster's certificate-authority";
    const CLIENT: &str = "client certificate";
    fn unusable(what: &'static str) -> impl Fn(&dyn std::fmt::Display) -> AccessError {
        move |error| AccessError::Certificate { what, message: error.to_string() }
    }
    let of_authority = unusable(AUTHORITY);
    let authority = authority.ok_or_else(|| of_authority(&"it is not named; the kubeconfig has to name it"))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority) {
        let certificate = certificate.map_err(|error| of_authority(&error))?;
        roots.add(certificate).map_err(|error| of_authority(&error))?;
    }
    if roots.is_empty() {
        return Err(of_authority(&"there is no certificate in it"));
    }
    let of_client = unusable(CLIENT);
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| of_client(&error))?
        .with_root_certificates(roots);
    let Some((certificate, key)) = identity else { return Ok(builder.with_no_client_auth()) };
    let chain = CertificateDer::pem_slice_iter(&certificate).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| of_client(&error))?;
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| of_client(&error))?;
    builder.with_client_auth_cert(chain, key).map_err(|error| of_client(&error))
}

/// Reads a file of sane size.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, AccessError> {
    let unreadable = |source| AccessError::Unreadable { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(unreadable(io::Error::other("it is larger than 1 MiB")));
    }
    Ok(bytes)
}

/// The same, of a text.
pub(super) fn read_text(path: &Path) -> Result<String, AccessError> {
    String::from_utf8(read(path)?)
        .map_err(|error| AccessError::Unreadable { path: path.to_owned(), source: io::Error::other(error) })
}
