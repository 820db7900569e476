//! The API server as one request needs it: an address, TLS and an `Authorization` header.

use std::sync::Arc;

use hyper::Uri;
use hyper::header::HeaderValue;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use super::cluster_config::{ClusterConfigError, ConnectionSettings, Identity};
use crate::cloud::secrets::{Secret, SecretKey, keep_secret};

/// Everything that one request needs.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) host: String,
    pub(super) port: u16,
    /// Precedes every path; without a slash at its end.
    pub(super) prefix: String,
    /// `None` for plain HTTP.
    pub(super) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// The `Authorization` header.
    pub(super) authorization: Option<HeaderValue>,
}

impl Endpoint {
    /// Puts the settings and an identity together. The identity is not always the settings' own: an exec plugin may
    /// have returned it.
    pub(super) fn new(settings: &ConnectionSettings, identity: Identity) -> Result<Self, ClusterConfigError> {
        let wrong = || ClusterConfigError::Address { server: settings.server.clone() };
        let uri: Uri = settings.server.parse().map_err(|_| wrong())?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong()),
        };
        let host = uri.host().ok_or_else(wrong)?.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let prefix = uri.path().trim_end_matches('/').to_owned();
        let authorization = identity.token.as_ref().map(bearer).transpose()?;
        if authorization.is_some() && !is_tls {
            return Err(ClusterConfigError::Token("is not sent without TLS; write https:// in the kubeconfig"));
        }
        let tls = is_tls.then(|| {
            let name = settings.tls_server_name.clone().unwrap_or_else(|| host.clone());
            let server_name = ServerName::try_from(name.clone());
            let server_name = server_name.map_err(|source| ClusterConfigError::Name { name, source })?;
            Ok((Arc::new(tls(settings.authority.as_deref(), identity.certificate_and_key)?), server_name))
        });
        Ok(Self { host, port, prefix, tls: tls.transpose()?, authorization })
    }

    /// Host and port, for the `Host` header and for messages.
    pub(super) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

fn bearer(token: &Secret) -> Result<HeaderValue, ClusterConfigError> {
    let token = token.expose();
    if token.is_empty() {
        return Err(ClusterConfigError::Token("is empty"));
    }
    keep_secret(token);
    let mut header = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| ClusterConfigError::Token("holds characters that cannot be sent"))?;
    header.set_sensitive(true);
    Ok(header)
}

/// Trusts the cluster's own CA alone: an API server's certificate is not signed by a public one.
fn tls(authority: Option<&[u8]>, identity: Option<(Vec<u8>, SecretKey)>) -> Result<ClientConfig, ClusterConfigError> {
    const AUTHORITY: &str = "cluster's certificate-authority";
    const CLIENT: &str = "client certificate";
    fn unusable(what: &'static str) -> impl Fn(&dyn std::fmt::Display) -> ClusterConfigError {
        move |error| ClusterConfigError::Certificate { what, message: error.to_string() }
    }
    let of_authority = unusable(AUTHORITY);
    let authority = authority.ok_or_else(|| of_authority(&"it is missing; name it in the kubeconfig"))?;
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
    let key = PrivateKeyDer::from_pem_slice(key.expose()).map_err(|error| of_client(&error))?;
    builder.with_client_auth_cert(chain, key).map_err(|error| of_client(&error))
}
