//! Exec plugins of kubeconfigs, as `aws eks get-token` and `kubelogin` are: a shell script takes their place.

use std::path::Path;

use headcount::kubernetes::KubernetesApi;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::fixture::{client, client_of};
use crate::emulators::kubernetes::ApiServer;
use crate::peers::headcount::{ConfigFile, run};

const API_VERSION: &str = "client.authentication.k8s.io/v1beta1";

/// Writes a kubeconfig whose user signs in with a script, and the script.
fn folder(api: &ApiServer) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let user = json!({"exec": {
        "apiVersion": API_VERSION,
        "command": "sh",
        "args": [path("plugin.sh")],
        "env": [{"name": "STUB_FOLDER", "value": folder.path()}],
        "interactiveMode": "IfAvailable",
        "provideClusterInfo": true,
    }});
    let script = "echo \"$KUBERNETES_EXEC_INFO\" >> \"$STUB_FOLDER/runs\"\ncat \"$STUB_FOLDER/credential\"\n";
    std::fs::write(path("plugin.sh"), script).expect("written");
    std::fs::write(path("ca.crt"), api.authority()).expect("written");
    std::fs::write(path("kubeconfig"), api.kubeconfig_of(user)).expect("written");
    folder
}

/// Sets what the script prints.
fn print(folder: &Path, status: Value) {
    let credential = json!({"apiVersion": API_VERSION, "kind": "ExecCredential", "status": status});
    std::fs::write(folder.join("credential"), credential.to_string()).expect("written");
}

/// The input of the script, run by run.
fn runs(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("runs")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[tokio::test]
async fn a_plugins_token_is_used_until_it_expires_or_is_refused() {
    let api = ApiServer::with_token("first");
    let folder = folder(&api);
    let client = client_of(folder.path(), true).expect("allowed");
    assert!(runs(folder.path()).is_empty(), "only a request needs credentials");
    print(folder.path(), json!({"token": "first", "expirationTimestamp": "2100-01-01T00:00:00Z"}));
    client.check_nodes().await.expect("signed in");
    client.get_config_map().await.expect("signed in");
    let told = runs(folder.path());
    assert_eq!(told.len(), 1);
    assert_eq!((&told[0]["apiVersion"], &told[0]["spec"]["interactive"]), (&json!(API_VERSION), &json!(false)));
    assert!(told[0]["spec"]["cluster"]["server"].as_str().expect("a server").starts_with("https://127.0.0.1:"));

    api.expect_token("second");
    print(folder.path(), json!({"token": "second", "expirationTimestamp": "2020-01-01T00:00:00Z"}));
    let error = client.get_config_map().await.expect_err("the token was revoked").to_string();
    assert!(error.contains("401"), "{error}");
    client.get_config_map().await.expect("the plugin ran again");
    client.get_config_map().await.expect("the plugin ran again because its token had expired");
    assert_eq!(runs(folder.path()).len(), 3);
}

#[tokio::test]
async fn a_plugins_client_certificate_is_used() {
    let api = ApiServer::with_certificates();
    let folder = folder(&api);
    let (certificate, key) = api.client_certificate();
    print(folder.path(), json!({"clientCertificateData": certificate, "clientKeyData": key}));
    let client = client_of(folder.path(), true).expect("allowed");
    client.check_nodes().await.expect("signed in");
}

#[tokio::test]
async fn a_failing_plugin_is_an_error_that_quotes_no_secret() {
    let api = ApiServer::with_token("t");
    let folder = folder(&api);
    let client = client_of(folder.path(), true).expect("allowed");
    let error = client.get_config_map().await.expect_err("no credential").to_string();
    assert!(error.contains("the exec plugin \"sh\" failed with exit status: 1: cat: "), "{error}");
    for (printed, expected) in [
        ("secret", "printed no ExecCredential (line 1, column 1)"),
        (r#"{"kind": "ExecCredential", "apiVersion": "v1"}"#, "printed v1 ExecCredential instead of client."),
    ] {
        std::fs::write(folder.path().join("credential"), printed).expect("written");
        let error = client.get_config_map().await.expect_err(expected).to_string();
        assert!(error.contains(expected) && !error.contains("secret"), "{error}");
    }
    print(folder.path(), json!({}));
    let error = client.get_config_map().await.expect_err("nothing in it").to_string();
    assert!(error.contains("printed neither a token nor a client certificate"), "{error}");
    assert!(api.requests().is_empty());
}

#[tokio::test]
async fn a_plugin_is_not_run_where_the_configuration_does_not_allow_it() {
    let api = ApiServer::with_token("t");
    let folder = folder(&api);
    print(folder.path(), json!({"token": "t"}));
    let error = client_of(folder.path(), false).err().expect("refused").to_string();
    assert!(error.contains("set kubernetes.allowExec: true"), "{error}");

    let kubeconfig = folder.path().join("kubeconfig");
    let groups = |kubernetes: &str| {
        let sources = "sources: [{name: a, simulated: {}}]";
        let kubernetes = format!("kubernetes: {{kubeconfig: {}{kubernetes}}}", kubeconfig.display());
        run(&[
            "groups",
            "--config",
            &ConfigFile::new(&format!("{kubernetes}\nlearn: {{kubernetes: true}}\n{sources}\n")).path(),
        ])
    };
    let refused = groups("");
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{message}");
    assert!(
        message.contains("the kubeconfig cannot be used: ") && message.contains("kubernetes.allowExec"),
        "{message}"
    );
    assert!(runs(folder.path()).is_empty());
    let allowed = groups(", allowExec: true");
    assert!(allowed.status.success(), "{}", String::from_utf8_lossy(&allowed.stderr));
}

#[tokio::test]
async fn a_token_in_the_kubeconfig_wins_over_its_plugin() {
    let api = ApiServer::with_token("t");
    let folder = folder(&api);
    let user = json!({"token": "t", "exec": {"apiVersion": API_VERSION, "command": "false"}});
    std::fs::write(folder.path().join("kubeconfig"), api.kubeconfig_of(user)).expect("written");
    client(folder.path()).check_nodes().await.expect("signed in");
}
