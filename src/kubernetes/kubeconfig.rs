//! A kubeconfig file: the cluster and the user of its current context.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::access::{AccessError, Identity, Opening, read, read_text};

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct File {
    #[serde(default)]
    current_context: String,
    #[serde(default)]
    contexts: Vec<NamedContext>,
    #[serde(default)]
    clusters: Vec<NamedCluster>,
    #[serde(default)]
    users: Vec<NamedUser>,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Context {
    cluster: String,
    user: String,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority: Option<String>,
    certificate_authority_data: Option<String>,
    insecure_skip_tls_verify: bool,
    tls_server_name: Option<String>,
    proxy_url: Option<String>,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    user: User,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct User {
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<String>,
    client_certificate: Option<String>,
    client_certificate_data: Option<String>,
    client_key: Option<String>,
    client_key_data: Option<String>,
    exec: Option<IgnoredAny>,
    auth_provider: Option<IgnoredAny>,
    username: Option<IgnoredAny>,
}

/// Reads the file, and the files that it names.
pub(super) fn open(path: &Path) -> Result<Opening, AccessError> {
    let bad = |message: String| AccessError::Kubeconfig { path: path.to_owned(), message };
    let text = read_text(path)?;
    let options = serde_saphyr::options! { with_snippet: false };
    let file: File = serde_saphyr::from_str_with_options(&text, options).map_err(|error| bad(error.to_string()))?;
    let context = file.contexts.into_iter().find(|context| context.name == file.current_context);
    let context = context.ok_or_else(|| bad(format!("there is no context {:?}", file.current_context)))?.context;
    let cluster = file.clusters.into_iter().find(|cluster| cluster.name == context.cluster);
    let cluster = cluster.ok_or_else(|| bad(format!("there is no cluster {:?}", context.cluster)))?.cluster;
    let user = file.users.into_iter().find(|user| user.name == context.user).map(|user| user.user).unwrap_or_default();
    if cluster.insecure_skip_tls_verify {
        return Err(bad("insecure-skip-tls-verify is not supported; name the cluster's certificate-authority".into()));
    }
    if cluster.proxy_url.is_some() {
        return Err(bad("proxy-url is not supported".into()));
    }
    let beside = |name: &str| path.parent().map_or_else(|| PathBuf::from(name), |folder| folder.join(name));
    let either = |data: &Option<String>, name: &Option<String>, key: &str| match (data, name) {
        (Some(data), _) => STANDARD.decode(data.trim()).map(Some).map_err(|error| bad(format!("{key}-data: {error}"))),
        (None, Some(name)) => read(&beside(name)).map(Some),
        (None, None) => Ok(None),
    };
    let certificate = either(&user.client_certificate_data, &user.client_certificate, "client-certificate")?;
    let key = either(&user.client_key_data, &user.client_key, "client-key")?;
    let token = match (&user.token_file, user.token) {
        (Some(file), _) => Some(read_text(&beside(file))?.trim().to_owned()),
        (None, token) => token,
    };
    let needs_more = user.exec.is_some() || user.auth_provider.is_some() || user.username.is_some();
    if needs_more && token.is_none() && certificate.is_none() {
        return Err(bad(
            "its user signs in by exec, auth-provider or password, which is not supported; use a token, a tokenFile or a \
             client certificate"
                .into(),
        ));
    }
    let certificate_and_key = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err(bad("client-certificate and client-key have to be given together".into())),
    };
    Ok(Opening {
        server: cluster.server,
        server_name: cluster.tls_server_name,
        authority: either(
            &cluster.certificate_authority_data,
            &cluster.certificate_authority,
            "certificate-authority",
        )?,
        identity: Identity { token, certificate_and_key },
    })
}
