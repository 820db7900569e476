//! A kubeconfig file: the cluster and the user of its current context, and settings that are refused.
//!
//! `kube` has the file's types. It is read here and not by `kube`, so that its size is limited, no message quotes a
//! line of it (it contains secrets), and no plugin runs unless the configuration allows it.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::{AuthInfo, Cluster, Kubeconfig};
use secrecy::ExposeSecret as _;

use super::cluster_config::{
    ClusterConfigError, ConnectionSettings, Credentials, Identity, read as read_file, read_text,
};
use super::exec::ExecPlugin;
use crate::cloud::secrets::{Secret, SecretKey};

/// Reads the file, and the files that it names.
pub(super) fn read(path: &Path, allow_exec: bool) -> Result<ConnectionSettings, ClusterConfigError> {
    parse(&read_text(path)?, path, allow_exec)
}

/// Reads the text of such a file. `path` names the file.
pub(super) fn parse(text: &str, path: &Path, allow_exec: bool) -> Result<ConnectionSettings, ClusterConfigError> {
    let file = File(path);
    let options = serde_saphyr::options! { with_snippet: false };
    let parsed: Kubeconfig =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| file.refuse(error.to_string()))?;
    let (cluster, user) = file.current(parsed)?;
    if cluster.insecure_skip_tls_verify == Some(true) {
        let message = "insecure-skip-tls-verify is not supported; name the cluster's certificate-authority";
        return Err(file.refuse(message.to_owned()));
    }
    if cluster.proxy_url.is_some() {
        return Err(file.refuse("proxy-url is not supported".to_owned()));
    }
    let authority = file.either(
        cluster.certificate_authority_data.as_deref(),
        cluster.certificate_authority.as_deref(),
        "certificate-authority",
    )?;
    let credentials = file.credentials(&user, &cluster, authority.as_deref(), allow_exec)?;
    Ok(ConnectionSettings {
        server: cluster.server.unwrap_or_default(),
        tls_server_name: cluster.tls_server_name,
        authority,
        credentials,
    })
}

/// The path of the kubeconfig, which messages name and other paths are relative to.
struct File<'a>(&'a Path);

impl File<'_> {
    fn refuse(&self, message: String) -> ClusterConfigError {
        ClusterConfigError::Kubeconfig { path: self.0.to_owned(), message }
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.0.parent().map_or_else(|| PathBuf::from(name), |folder| folder.join(name))
    }

    /// The cluster and the user of the current context.
    fn current(&self, file: Kubeconfig) -> Result<(Cluster, AuthInfo), ClusterConfigError> {
        let name = file.current_context.unwrap_or_default();
        let context = file.contexts.into_iter().find(|context| context.name == name);
        let context = context.ok_or_else(|| self.refuse(format!("there is no context {name:?}")))?;
        let context = context.context.unwrap_or_default();
        let cluster = file.clusters.into_iter().find(|cluster| cluster.name == context.cluster);
        let cluster = cluster.ok_or_else(|| self.refuse(format!("there is no cluster {:?}", context.cluster)))?;
        let user = file.auth_infos.into_iter().find(|user| Some(&user.name) == context.user.as_ref());
        Ok((cluster.cluster.unwrap_or_default(), user.and_then(|user| user.auth_info).unwrap_or_default()))
    }

    /// The value in the file itself, or in a file that it names.
    fn either(&self, data: Option<&str>, name: Option<&str>, key: &str) -> Result<Option<Vec<u8>>, ClusterConfigError> {
        match (data, name) {
            (Some(data), _) => {
                STANDARD.decode(data.trim()).map(Some).map_err(|error| self.refuse(format!("{key}-data: {error}")))
            }
            (None, Some(name)) => read_file(&self.beside(name)).map(Some),
            (None, None) => Ok(None),
        }
    }

    fn credentials(
        &self,
        user: &AuthInfo,
        cluster: &Cluster,
        authority: Option<&[u8]>,
        allow_exec: bool,
    ) -> Result<Credentials, ClusterConfigError> {
        let certificate = user.client_certificate_data.as_deref();
        let certificate = self.either(certificate, user.client_certificate.as_deref(), "client-certificate")?;
        let key = user.client_key_data.as_ref().map(|key| key.expose_secret());
        let key = self.either(key, user.client_key.as_deref(), "client-key")?;
        let certificate_and_key = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, SecretKey::new(key))),
            (None, None) => None,
            _ => return Err(self.refuse("client-certificate and client-key must be set together".to_owned())),
        };
        let token = match &user.token_file {
            Some(file) => Some(Secret::new(read_text(&self.beside(file))?.trim())),
            None => user.token.as_ref().map(|token| Secret::new(token.expose_secret())),
        };
        // As in client-go, a plugin runs only if there are no other credentials.
        if token.is_none() && certificate_and_key.is_none() {
            if let Some(exec) = &user.exec {
                let plugin =
                    ExecPlugin::new(exec, cluster, authority, self.0).map_err(|message| self.refuse(message))?;
                if !allow_exec {
                    return Err(self.refuse(format!(
                        "its user signs in with the exec plugin {:?}, which Headcount may not run; set \
                         kubernetes.allowExec: true, or use a token, a tokenFile or a client certificate",
                        plugin.name()
                    )));
                }
                return Ok(Credentials::Exec(plugin));
            }
            if user.auth_provider.is_some() || user.username.is_some() {
                return Err(self.refuse(
                    "its user signs in by auth-provider or password, which is not supported; use a token, a tokenFile, a \
                     client certificate or an exec plugin"
                        .to_owned(),
                ));
            }
        }
        Ok(Credentials::Static(Identity { token, certificate_and_key }))
    }
}
