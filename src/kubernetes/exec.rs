//! Exec plugins: programs such as `aws eks get-token` and `kubelogin` that print credentials
//! (<https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins>).
//!
//! `kube` can run them too, but without a time limit and with Headcount's terminal.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::jiff::Timestamp;
use kube::config::{Cluster, ExecConfig, ExecInteractiveMode};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::cluster_config::Identity;
use crate::cloud::secrets::{Secret, SecretKey};
use crate::limits::PLUGIN_OUTPUT;

/// How much of a plugin's stderr a message quotes, in characters.
const STDERR_CHARACTERS_MAX: usize = 300;
/// Credentials are replaced this long before they expire, in seconds.
const EXPIRY_MARGIN_SECONDS: i64 = 60;
/// The versions of the plugin protocol that Kubernetes supports.
const API_VERSIONS: [&str; 2] = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];
/// The extension of a kubeconfig's cluster with the configuration for its plugin.
const CLUSTER_EXTENSION: &str = "client.authentication.k8s.io/exec";

/// Why there are no credentials.
#[derive(Debug, Error)]
#[error("the exec plugin {command:?} {message}")]
pub struct ExecError {
    command: String,
    message: String,
}

/// A plugin as a kubeconfig names it. Not `Debug`: its arguments and environment may hold secrets.
#[derive(Clone, PartialEq)]
pub(super) struct ExecPlugin {
    command: PathBuf,
    args: Vec<String>,
    env: Vec<(String, String)>,
    api_version: String,
    /// The description of the cluster that the plugin gets, if it asks for one.
    cluster: Option<Value>,
    install_hint: Option<String>,
}

/// What a plugin prints.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredential {
    api_version: String,
    kind: String,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Option<Timestamp>,
    #[serde(default, deserialize_with = "secret")]
    token: Option<Secret>,
    client_certificate_data: Option<String>,
    #[serde(default, deserialize_with = "secret")]
    client_key_data: Option<Secret>,
}

fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
    Option::<String>::deserialize(deserializer).map(|text| text.map(Secret::new))
}

struct Issued {
    plugin: ExecPlugin,
    identity: Identity,
    /// `None` if the credentials are used until the API server refuses them.
    expires: Option<Timestamp>,
}

/// The credentials that a plugin printed last, for as long as they are valid.
#[derive(Default)]
pub(super) struct ExecCache(Mutex<Option<Issued>>);

impl ExecCache {
    /// Returns credentials. Runs the plugin if there are none that are still valid.
    pub(super) async fn identity(&self, plugin: &ExecPlugin) -> Result<Identity, ExecError> {
        let mut cached = self.0.lock().await;
        let soon = Timestamp::now().as_second() + EXPIRY_MARGIN_SECONDS;
        if let Some(issued) = cached.as_ref().filter(|issued| issued.plugin == *plugin)
            && issued.expires.is_none_or(|expires| expires.as_second() > soon)
        {
            return Ok(issued.identity.clone());
        }
        *cached = None;
        let issued = plugin.run().await?;
        Ok(cached.insert(issued).identity.clone())
    }

    /// Forgets the credentials: the API server refused them.
    pub(super) async fn forget(&self) {
        *self.0.lock().await = None;
    }
}

impl ExecPlugin {
    /// Checks what a kubeconfig says about a plugin.
    pub(super) fn new(
        exec: &ExecConfig,
        cluster: &Cluster,
        authority: Option<&[u8]>,
        kubeconfig: &Path,
    ) -> Result<Self, String> {
        let command = exec.command.as_deref().filter(|command| !command.is_empty());
        let command = command.ok_or("its user's exec has no command")?;
        let api_version = exec.api_version.clone().unwrap_or_default();
        if !API_VERSIONS.contains(&api_version.as_str()) {
            return Err(format!("its user's exec has apiVersion {api_version:?}; write {}", API_VERSIONS.join(" or ")));
        }
        if exec.interactive_mode == Some(ExecInteractiveMode::Always) {
            return Err("its user's exec needs a terminal (interactiveMode: Always), which is not supported".to_owned());
        }
        // As in client-go: a name is looked up in PATH, a relative path starts at the kubeconfig's folder.
        let is_path = command.contains('/');
        let command = match kubeconfig.parent() {
            Some(folder) if is_path => folder.join(command),
            _ => PathBuf::from(command),
        };
        let pair = |entry: &std::collections::HashMap<String, String>| {
            Some((entry.get("name")?.clone(), entry.get("value")?.clone()))
        };
        Ok(Self {
            command,
            args: exec.args.clone().unwrap_or_default(),
            env: exec.env.iter().flatten().filter_map(pair).collect(),
            api_version,
            cluster: exec.provide_cluster_info.then(|| cluster_info(cluster, authority)),
            install_hint: exec.install_hint.clone(),
        })
    }

    /// The command, for messages.
    pub(super) fn name(&self) -> String {
        self.command.display().to_string()
    }

    fn failed(&self, message: impl Into<String>) -> ExecError {
        ExecError { command: self.name(), message: message.into() }
    }

    async fn run(&self) -> Result<Issued, ExecError> {
        let printed = timeout(PLUGIN_OUTPUT.time(), self.output()).await;
        let printed = printed
            .unwrap_or_else(|_elapsed| Err(self.failed(format!("took longer than {:?}", PLUGIN_OUTPUT.time()))))?;
        self.credentials(&printed)
    }

    /// Reads what the program printed.
    fn credentials(&self, printed: &[u8]) -> Result<Issued, ExecError> {
        // No message quotes the output: it is a secret.
        let printed: ExecCredential = serde_json::from_slice(printed).map_err(|error| {
            self.failed(format!("printed no ExecCredential (line {}, column {})", error.line(), error.column()))
        })?;
        if printed.kind != "ExecCredential" || printed.api_version != self.api_version {
            return Err(self.failed(format!(
                "printed {} {} instead of {} ExecCredential",
                printed.api_version, printed.kind, self.api_version
            )));
        }
        let status = printed.status.ok_or_else(|| self.failed("printed an ExecCredential without status"))?;
        let certificate_and_key = match (status.client_certificate_data, status.client_key_data) {
            (Some(certificate), Some(key)) => {
                Some((certificate.into_bytes(), SecretKey::new(key.expose().as_bytes().to_vec())))
            }
            (None, None) => None,
            _ => return Err(self.failed("printed only one of clientCertificateData and clientKeyData")),
        };
        let token = status.token.filter(|token| !token.expose().is_empty());
        if token.is_none() && certificate_and_key.is_none() {
            return Err(self.failed("printed neither a token nor a client certificate"));
        }
        let identity = Identity { token, certificate_and_key };
        Ok(Issued { plugin: self.clone(), identity, expires: status.expiration_timestamp })
    }

    /// Runs the program and returns what it printed.
    async fn output(&self) -> Result<Vec<u8>, ExecError> {
        let mut spec = json!({"interactive": false});
        if let Some(cluster) = &self.cluster {
            spec["cluster"] = cluster.clone();
        }
        let info = json!({"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec});
        let mut command = Command::new(&self.command);
        command.args(&self.args).envs(self.env.iter().cloned()).env("KUBERNETES_EXEC_INFO", info.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| {
            let hint = self.install_hint.as_ref().map(|hint| format!("; {}", hint.trim())).unwrap_or_default();
            self.failed(format!("cannot be started: {error}{hint}"))
        })?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (stdout, stderr) = tokio::join!(bounded(stdout), bounded(stderr));
        let status = child.wait().await.map_err(|error| self.failed(format!("cannot be waited for: {error}")))?;
        if status.success() {
            return Ok(stdout);
        }
        let stderr = String::from_utf8_lossy(&stderr);
        let said: String = stderr.trim().chars().take(STDERR_CHARACTERS_MAX).collect();
        Err(self.failed(format!("failed with {status}: {said}")))
    }
}

/// Whether an exec plugin may print this.
pub(super) fn parse_plugin_output(printed: &[u8]) -> bool {
    let plugin = |api_version: &str| ExecPlugin {
        command: PathBuf::new(),
        args: Vec::new(),
        env: Vec::new(),
        api_version: api_version.to_owned(),
        cluster: None,
        install_hint: None,
    };
    API_VERSIONS.iter().any(|version| plugin(version).credentials(printed).is_ok())
}

/// Reads to the end, but not more than credentials can be.
async fn bounded(from: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        // After an error, nothing more can be read. The exit status and the parser decide whether the output is usable.
        let _incomplete = from.take(PLUGIN_OUTPUT.bytes as u64).read_to_end(&mut bytes).await;
    }
    bytes
}

/// The description of the cluster that a plugin gets with `provideClusterInfo: true`.
fn cluster_info(cluster: &Cluster, authority: Option<&[u8]>) -> Value {
    let config = cluster.extensions.iter().flatten().find(|extension| extension.name == CLUSTER_EXTENSION);
    json!({
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "certificate-authority-data": authority.map(|pem| STANDARD.encode(pem)),
        "config": config.map(|extension| &extension.extension),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_plugin_that_hangs_is_killed() {
        let plugin = ExecPlugin {
            command: PathBuf::from("sleep"),
            args: vec!["1000".to_owned()],
            env: Vec::new(),
            api_version: API_VERSIONS[0].to_owned(),
            cluster: None,
            install_hint: None,
        };
        let error = plugin.run().await.err().unwrap().to_string();
        assert_eq!(error, "the exec plugin \"sleep\" took longer than 30s");
    }

    #[tokio::test]
    async fn a_plugin_that_is_missing_is_reported_with_its_install_hint() {
        let exec = ExecConfig {
            api_version: Some(API_VERSIONS[1].to_owned()),
            command: Some("bin/no-such-plugin".to_owned()),
            install_hint: Some("install it\n".to_owned()),
            ..ExecConfig::default()
        };
        let plugin = ExecPlugin::new(&exec, &Cluster::default(), None, Path::new("/etc/headcount/kubeconfig")).unwrap();
        let error = plugin.run().await.err().unwrap().to_string();
        assert!(error.contains("\"/etc/headcount/bin/no-such-plugin\" cannot be started: "), "{error}");
        assert!(error.ends_with("; install it"), "{error}");
    }
}
