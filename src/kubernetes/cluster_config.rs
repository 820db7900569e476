//! Where the API server's address and credentials are written: in the pod's service account, or in a kubeconfig.
//!
//! All files are read again for every request. A kubelet replaces the token of a service account within the hour, and
//! CAs are replaced too; requests are so few that reading is cheaper than watching the files.

use std::io;
use std::path::{Path, PathBuf};

use rustls::pki_types::InvalidDnsNameError;
use thiserror::Error;

use super::exec::ExecPlugin;
use super::kubeconfig;
use super::names::is_name;
use crate::cloud::secrets::{Secret, SecretKey};
use crate::limits::{CLUSTER_FILE, read_file};

/// Where kubelets put a service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Why the API server cannot be called.
#[derive(Debug, Error)]
pub enum ClusterConfigError {
    /// Headcount does not run in a pod, and no kubeconfig is configured.
    #[error(
        "not in a pod with a service account (KUBERNETES_SERVICE_HOST is not set, or {SERVICE_ACCOUNT} is missing); set \
         kubernetes.kubeconfig, or mount the service account"
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
    /// The address is not a URL of an API server.
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
    /// Certificates that cannot be used.
    #[error("the {what} cannot be used: {message}")]
    Certificate {
        /// Which.
        what: &'static str,
        /// Why not.
        message: String,
    },
    /// A token that cannot or must not be sent.
    #[error("the token {0}")]
    Token(&'static str),
}

/// Where the API server's address and credentials are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterConfig {
    /// In the service account of the pod.
    ServiceAccount {
        /// The API server, `https://host:port`.
        server: String,
        /// The folder with `token`, `ca.crt` and `namespace`.
        folder: PathBuf,
    },
    /// In a kubeconfig file.
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Whether Headcount may run the exec plugin in the file.
        allow_exec: bool,
    },
}

/// The content of the files.
pub(super) struct ConnectionSettings {
    pub(super) server: String,
    /// The name in the API server's certificate, where it is not the host's.
    pub(super) tls_server_name: Option<String>,
    /// PEM.
    pub(super) authority: Option<Vec<u8>>,
    pub(super) credentials: Credentials,
}

/// How Headcount signs in.
pub(super) enum Credentials {
    /// The files hold everything.
    Static(Identity),
    /// A program has to be run for it.
    Exec(ExecPlugin),
}

/// What Headcount signs in with.
#[derive(Clone, Default)]
pub(super) struct Identity {
    pub(super) token: Option<Secret>,
    /// Both PEM.
    pub(super) certificate_and_key: Option<(Vec<u8>, SecretKey)>,
}

impl ClusterConfig {
    /// The kubeconfig, or else the pod's service account. Only checks that there is one; reads nothing yet.
    pub fn find(
        kubeconfig: Option<PathBuf>,
        allow_exec: bool,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ClusterConfigError> {
        if let Some(path) = kubeconfig {
            return Ok(Self::Kubeconfig { path, allow_exec });
        }
        let set = |name: &str| environment(name).filter(|value| !value.is_empty()).ok_or(ClusterConfigError::Nowhere);
        let (host, port) = (set("KUBERNETES_SERVICE_HOST")?, set("KUBERNETES_SERVICE_PORT")?);
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let folder = PathBuf::from(SERVICE_ACCOUNT);
        if !folder.join("token").exists() {
            return Err(ClusterConfigError::Nowhere);
        }
        Ok(Self::ServiceAccount { server: format!("https://{host}:{port}"), folder })
    }

    /// The pod's own namespace.
    pub(super) fn namespace(&self) -> Option<String> {
        let Self::ServiceAccount { folder, .. } = self else { return None };
        let namespace = read_text(&folder.join("namespace")).ok()?.trim().to_owned();
        is_name(&namespace).then_some(namespace)
    }

    /// Reads all files. Runs no plugin.
    pub(super) fn read(&self) -> Result<ConnectionSettings, ClusterConfigError> {
        match self {
            Self::ServiceAccount { server, folder } => Ok(ConnectionSettings {
                server: server.clone(),
                tls_server_name: None,
                authority: Some(read(&folder.join("ca.crt"))?),
                credentials: Credentials::Static(Identity {
                    token: Some(Secret::new(read_text(&folder.join("token"))?.trim())),
                    certificate_and_key: None,
                }),
            }),
            Self::Kubeconfig { path, allow_exec } => kubeconfig::read(path, *allow_exec),
        }
    }
}

/// Reads a file of a plausible size.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, ClusterConfigError> {
    read_file(path, CLUSTER_FILE).map_err(|source| ClusterConfigError::Unreadable { path: path.to_owned(), source })
}

/// Reads a text file of a plausible size.
pub(super) fn read_text(path: &Path) -> Result<String, ClusterConfigError> {
    String::from_utf8(read(path)?)
        .map_err(|error| ClusterConfigError::Unreadable { path: path.to_owned(), source: io::Error::other(error) })
}
