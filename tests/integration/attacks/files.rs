//! Devices, pipes and links in place of files and sockets that Headcount reads or makes.

use std::process::Command;
use std::sync::Arc;

use headcount::clouds::simulated::{GroupPlan, Simulated};
use serde_json::json;

use crate::emulators::Emulator;
use crate::emulators::aws::Aws;
use crate::peers::headcount::{ConfigFile, Server, command};
use crate::peers::process::Finished;
use crate::sign_in::Office;

/// Makes a pipe that no process writes to, in place of the file of this name.
fn put_pipe(path: &str) {
    let beside = format!("{path}.pipe");
    assert!(Command::new("mkfifo").arg(&beside).status().expect("mkfifo runs").success());
    // At no moment is there no file: a reader would say that instead.
    std::fs::rename(beside, path).expect("the same folder");
}

/// It ends with an error that names the file.
fn is_refused(what: &str, command: Command, file: &str) {
    let finished = Finished::of(command);
    assert!(!finished.status.success(), "{what}: {}", finished.output);
    let is_named = finished.output.contains(file) && finished.output.contains(" is not a ");
    assert!(is_named, "{what}: {}", finished.output);
    assert!(finished.peak_mib < 150, "{what}: {} MiB", finished.peak_mib);
}

fn mk_aws() -> (Aws, ConfigFile) {
    let emulator = Aws::start(Arc::new(Simulated::with_groups(1, [GroupPlan::aws("web").sized(0, 5, 1)])));
    let config = ConfigFile::new(&format!(
        "refreshInterval: 1s\nsources: [{{name: here, aws: {{region: us-east-1, endpoint: \"{}\", nodeGroups: \
            [\"0:5:web\"]}}}}]\n",
        emulator.url()
    ));
    (emulator, config)
}

#[test]
fn devices_and_pipes_in_place_of_credentials_of_aws_are_refused() {
    let (_emulator, config) = mk_aws();
    let profile = config.path_of("profile");
    std::fs::write(&profile, "[default]\nrole_arn = arn:aws:iam::1:role/r\nweb_identity_token_file = /dev/zero\n")
        .expect("written");
    let pipe = config.path_of("pipe");
    put_pipe(&pipe);
    let names = [
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        "AWS_CONFIG_FILE",
        "AWS_SHARED_CREDENTIALS_FILE",
    ];
    let each = names.iter().flat_map(|name| [(*name, "/dev/zero", "/dev/zero"), (*name, &pipe, "pipe")]);
    for (name, path, file) in each.chain([("AWS_CONFIG_FILE", profile.as_str(), "/dev/zero")]) {
        let mut groups = command(&["groups", "--config", &config.path(), "--timeout", "20s"]);
        groups.env(name, path).env("AWS_ACCESS_KEY_ID", "").env("AWS_SECRET_ACCESS_KEY", "");
        groups.env("AWS_ROLE_ARN", "arn:aws:iam::000000000000:role/headcount");
        is_refused(&format!("{name}={path}"), groups, file);
    }
}

#[test]
fn empty_variables_of_aws_are_not_set_and_bad_ones_are_named() {
    let (emulator, _) = mk_aws();
    let groups = |name: &str, value: &str| {
        let mut groups = command(&["groups", "--cloud-provider=aws", "--nodes=0:5:web", "--timeout", "20s"]);
        groups.env("AWS_ENDPOINT_URL", emulator.url()).env("AWS_DEFAULT_REGION", "us-east-1").env(name, value);
        Finished::of(groups)
    };
    for name in ["AWS_REGION", "AWS_MAX_ATTEMPTS", "AWS_RETRY_MODE", "AWS_ENDPOINT_URL_AUTO_SCALING", "AWS_PROFILE"] {
        let finished = groups(name, "");
        assert!(finished.status.success(), "{name}: {}", finished.output);
    }
    assert!(groups("AWS_RETRY_MODE", "legacy").status.success(), "other SDKs know it");
    for (name, value) in [("AWS_MAX_ATTEMPTS", "x"), ("AWS_ENDPOINT_URL_EC2", "127.0.0.1:1"), ("AWS_REGION", "us east")]
    {
        let finished = groups(name, value);
        assert!(finished.status.code() == Some(2) && finished.output.contains(name), "{name}: {}", finished.output);
    }
}

#[test]
fn a_token_file_of_aws_that_is_missing_is_named() {
    let (_emulator, config) = mk_aws();
    let missing = config.path_of("missing");
    let agent = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/v1/credentials");
    for name in ["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] {
        let mut groups = command(&["groups", "--config", &config.path(), "--timeout", "20s"]);
        groups.envs([("AWS_ACCESS_KEY_ID", ""), ("AWS_SECRET_ACCESS_KEY", ""), agent, (name, &missing)]);
        groups.env("AWS_ROLE_ARN", "arn:aws:iam::000000000000:role/headcount");
        let finished = Finished::of(groups);
        let is_named = finished.output.contains(&missing) && finished.output.contains("No such file");
        assert!(!finished.status.success() && is_named, "{name}: {}", finished.output);
    }
}

#[tokio::test]
async fn a_pipe_in_place_of_a_token_of_aws_blocks_nothing() {
    let (emulator, config) = mk_aws();
    emulator.behavior(|behavior| behavior.credential_life = std::time::Duration::from_secs(1));
    let config = config.beside("token", "of.the.kubelet");
    let (url, token) = (emulator.url(), config.path_of("token"));
    let variables = [
        ("AWS_ACCESS_KEY_ID", ""),
        ("AWS_SECRET_ACCESS_KEY", ""),
        ("AWS_ENDPOINT_URL", url.as_str()),
        ("AWS_ROLE_ARN", "arn:aws:iam::000000000000:role/headcount"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.as_str()),
    ];
    let server = Server::in_environment(&["--config", &config.path()], &variables);
    let mut client = server.client().await;
    assert_eq!(client.target("web").await, 1);
    put_pipe(&token);
    // Whichever call needs credentials first. Those that live for a second may also expire on their way.
    let refused = server.logged("not a regular file");
    assert!(refused.contains(&token), "{refused}");
    assert_eq!(client.target("web").await, 1);
    assert!(server.probe("/livez").starts_with("HTTP/1.1 200"));
    assert_eq!(server.terminate().code(), Some(0));
}

#[tokio::test]
async fn a_pipe_in_place_of_the_shared_credentials_of_aws_blocks_nothing() {
    let (_emulator, config) = mk_aws();
    let config =
        config.beside("shared", "[default]\naws_access_key_id = AKIAEXAMPLE\naws_secret_access_key = example\n");
    let shared = config.path_of("shared");
    let variables =
        [("AWS_ACCESS_KEY_ID", ""), ("AWS_SECRET_ACCESS_KEY", ""), ("AWS_SHARED_CREDENTIALS_FILE", shared.as_str())];
    let server = Server::in_environment(&["--config", &config.path()], &variables);
    let mut client = server.client().await;
    assert_eq!(client.target("web").await, 1);
    put_pipe(&shared);
    let refused = server.logged("not a regular file");
    assert!(refused.contains(&shared), "{refused}");
    assert_eq!(client.target("web").await, 1, "the credentials from before are still valid");
    assert!(server.probe("/livez").starts_with("HTTP/1.1 200"));
    assert_eq!(server.terminate().code(), Some(0));
}

#[test]
fn devices_and_pipes_in_place_of_credentials_of_azure_are_refused() {
    let office = Office::open();
    let pipe = office.write("pipe", "");
    put_pipe(&pipe);
    for path in ["/dev/zero", pipe.as_str()] {
        for (what, principal) in [
            ("a certificate", json!({"tenantId": "t", "aadClientId": "c", "aadClientCertPath": path})),
            (
                "a service account token",
                json!({"tenantId": "t", "aadClientId": "c", "useFederatedWorkloadIdentityExtension": true,
                       "aadFederatedTokenFile": path}),
            ),
        ] {
            let file = office.write_cloud_config(principal);
            let groups =
                office.command(&["groups", "--cloud-provider=azure", "--nodes=0:10:pool", "--cloud-config", &file]);
            is_refused(what, groups, path);
        }
    }
}

#[test]
fn devices_and_pipes_in_place_of_files_of_tls_and_of_kubernetes_are_refused() {
    let config =
        ConfigFile::new("grpc: {tls: {cert: tls.crt, key: tls.key}}\nsources: [{name: demo, simulated: {}}]\n");
    put_pipe(&config.path_of("tls.crt"));
    let serve =
        command(&["serve", "--config", &config.path(), "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    is_refused("a certificate", serve, "tls.crt");
    let kubeconfig = json!({
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "test", "user": {"tokenFile": "token"}}],
    });
    let config =
        ConfigFile::new("learn: {kubernetes: true, kubeconfig: kubeconfig}\nsources: [{name: demo, simulated: {}}]\n");
    let config = config.beside("kubeconfig", &kubeconfig.to_string());
    put_pipe(&config.path_of("token"));
    is_refused("a token", command(&["check", "--config", &config.path()]), "token");
}

/// A configuration that serves on a Unix socket of this mode.
fn mk_socket(mode: &str) -> ConfigFile {
    let config = ConfigFile::new("");
    let socket = config.path_of("grpc.sock");
    let text = format!(
        "grpc: {{listen: \"unix://{socket}\", socketMode: \"{mode}\"}}\nsources: [{{name: demo, simulated: {{}}}}]\n"
    );
    std::fs::write(config.path(), text).expect("written");
    config
}

#[tokio::test]
async fn a_socket_whose_owner_has_stopped_is_refused() {
    let config = mk_socket("0600");
    let owner = Server::on_configured_listener(&config);
    owner.stand_still().await;
    let second = Finished::of(command(&["serve", "--admin-listen", "127.0.0.1:0", "--config", &config.path()]));
    assert_eq!(second.status.code(), Some(1), "{}", second.output);
    assert!(second.output.contains("another process listens on this socket"), "{}", second.output);
    owner.signal("CONT");
    assert!(!owner.client().await.node_groups().await.is_empty());
}

#[test]
fn a_socket_for_everyone_is_warned_about() {
    let server = Server::on_configured_listener(&mk_socket("0666"));
    server.logged("every user of this host may connect to the Unix socket");
    drop(server);
    let server = Server::on_configured_listener(&mk_socket("0660"));
    assert!(server.lines_with("every user of this host").is_empty());
}
