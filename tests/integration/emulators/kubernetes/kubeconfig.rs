//! Kubeconfigs for the emulator.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{ApiServer, Guard};

impl ApiServer {
    /// Writes a kubeconfig for this server, and the files it names, into a folder. The token is in the file `token`.
    pub(crate) fn kubeconfig(&self, folder: &Path) -> PathBuf {
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("written");
        write("ca.crt", &self.certificates.authority);
        write("client.crt", &self.certificates.client.0);
        write("client.key", &self.certificates.client.1);
        write("token", &self.cluster().token);
        write("kubeconfig", &self.kubeconfig_text());
        folder.join("kubeconfig")
    }

    /// The same kubeconfig, for a server that needs no other files.
    pub(crate) fn kubeconfig_text(&self) -> String {
        self.kubeconfig_of(match self.state.guard {
            Guard::Open => json!({}),
            Guard::Token => json!({"tokenFile": "token"}),
            Guard::Certificate => json!({"client-certificate": "client.crt", "client-key": "client.key"}),
        })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The CA's certificate.
    pub(crate) fn authority(&self) -> &str {
        &self.certificates.authority
    }

    /// The client's certificate and key.
    pub(crate) fn client_certificate(&self) -> (&str, &str) {
        (&self.certificates.client.0, &self.certificates.client.1)
    }

    /// A kubeconfig for this server, with this user.
    pub(crate) fn kubeconfig_of(&self, user: Value) -> String {
        let scheme = if self.state.guard == Guard::Open { "http" } else { "https" };
        let cluster = json!({"server": format!("{scheme}://{}", self.address), "certificate-authority": "ca.crt"});
        let cluster = if self.state.guard == Guard::Open { json!({"server": cluster["server"]}) } else { cluster };
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": user}],
        })
        .to_string()
    }
}
