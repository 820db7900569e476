//! Every way to sign in, logged at `trace`: no secret of it is in the log, a metric, a page, an error or the output of
//! a command, even if the cloud sends back everything that it knows.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use azure_core::base64::encode;
use headcount::clouds::simulated::{GroupPlan, Simulated};
use rcgen::{CertificateParams, KeyPair, PKCS_RSA_SHA256, RsaKeySize};
use serde_json::{Value, json};

use super::certificates::{Authority, Validity, is_served};
use crate::emulators::aws::{self, Aws};
use crate::emulators::kubernetes::{ApiServer, mk_node};
use crate::emulators::{Emulator, arm};
use crate::peers::headcount::{ConfigFile, Server, command};
use crate::sign_in::Office;

/// Everything that may be logged, that of libraries included: they are logged only where they are named.
const EVERYTHING: &str = "trace,aws_config=trace,aws_sdk_autoscaling=trace,aws_sdk_sts=trace,aws_smithy_runtime=trace,\
    aws_runtime=trace,azure_core=trace,azure_identity=trace,typespec_client_core=trace,hyper=trace,hyper_util=trace,\
    h2=trace,rustls=trace";

const KEY: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLETRACE";
const SESSION: &str = "IQoJb3JpZ2luX2VjEXAMPLE//////////trace+token==";
const TOKEN: &str = "of.the.kubelet/for+the=trace";

/// What left a process.
struct Said(Vec<String>);

impl Said {
    /// Everything that a server shows.
    fn by(server: &Server) -> Self {
        let mut texts = server.lines_with("");
        let pages = ["/livez", "/readyz", "/metrics", "/statusz", "/statusz?format=json", "/debug/recordings"];
        texts.extend(pages.map(|page| server.probe_as(page, "localhost")));
        Self(texts)
    }

    fn and(mut self, text: impl Into<String>) -> Self {
        self.0.push(text.into());
        self
    }

    /// Everything that a command prints.
    fn by_command(mut command: Command) -> Self {
        let output = command.output().expect("the binary runs");
        Self([output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).to_vec())
    }

    /// None of these is in any of it: as it is, in base64, or as a form has it.
    fn has_none_of(&self, flow: &str, secrets: &[impl AsRef<str>]) {
        assert!(self.0.iter().any(|text| text.len() > 100), "{flow}: it says something");
        for secret in secrets.iter().map(AsRef::as_ref) {
            assert!(secret.len() >= 8, "{flow}: {secret} is no secret");
            let form: String = secret.bytes().map(in_a_form).collect();
            for hidden in [secret, &encode(secret), &form, &form.to_lowercase()] {
                let shown = self.0.iter().find(|text| text.contains(hidden));
                assert!(shown.is_none(), "{flow}: {hidden} is in {shown:?}");
            }
        }
    }
}

fn in_a_form(byte: u8) -> String {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    }
}

/// AWS, with these variables in the environment and these lines in the source.
async fn aws_flow(flow: &str, variables: &[(&str, &str)], source: &str, secrets: &[&str]) {
    let emulator = Aws::start(Arc::new(Simulated::with_groups(1, [GroupPlan::aws("web").sized(0, 5, 1)])));
    let config = ConfigFile::new(&format!(
        "refreshInterval: 1s\nsources: [{{name: here, aws: {{region: us-east-1, nodeGroups: \
            [\"0:5:web\"]{source}}}}}]\n"
    ));
    let config = config.beside("token", TOKEN).beside("credentials", &shared_credentials());
    let (url, token, credentials) = (emulator.url(), config.path_of("token"), config.path_of("credentials"));
    let agent = format!("{url}/v1/credentials");
    let placed = variables.iter().map(|(name, value)| {
        let value = match *value {
            "<token>" => token.as_str(),
            "<credentials>" => &credentials,
            "<agent>" => &agent,
            value => value,
        };
        (*name, value)
    });
    let mut all = vec![("AWS_ENDPOINT_URL", url.as_str()), ("AWS_ACCESS_KEY_ID", ""), ("AWS_SECRET_ACCESS_KEY", "")];
    all.extend(placed);
    let server = Server::in_environment(&["--config", &config.path(), "--log", EVERYTHING], &all);
    let mut client = server.client().await;
    client.until("served", async |client| !client.node_groups().await.is_empty()).await;
    client.increase("web", 1).await.expect("signed in");
    // The session tokens that the emulator issued are secrets, too.
    let sent = emulator.requests();
    let mut all_secrets: Vec<String> = secrets.iter().map(|secret| (*secret).to_owned()).collect();
    all_secrets.extend(sent.iter().filter_map(|request| request.header("x-amz-security-token").map(str::to_owned)));
    let echo = format!("you sent {}", all_secrets.join(" and "));
    emulator.script("POST", "DescribeAutoScalingGroups", 10_000, aws::error(403, "AccessDenied", &echo));
    server.logged("source cannot be listed");
    let refused = client.increase("web", 1).await.expect_err("refused").message().to_owned();
    let mut check =
        command(&["check", "--config", &config.path(), "-o", "json", "--timeout", "3s", "--log", EVERYTHING]);
    check.envs(all.iter().copied());
    Said::by(&server).and(refused).has_none_of(flow, &all_secrets);
    // It signs in on its own, and does not know the server's tokens.
    Said::by_command(check).has_none_of(flow, secrets);
}

fn shared_credentials() -> String {
    format!(
        "[default]\naws_access_key_id = AKIAEXAMPLE\naws_secret_access_key = {KEY}\naws_session_token = {SESSION}\n"
    )
}

/// Azure, with this cloud-config file and these variables.
async fn azure_flow(
    flow: &str,
    (office, cloud_config): (Office, Value),
    variables: &[(&str, &str)],
    secrets: &[&str],
    kept: &[&str],
) {
    let arguments = ["--config", &office.write_config(cloud_config), "--log", EVERYTHING];
    let server = office.start(&arguments, variables);
    let mut client = server.client().await;
    assert_eq!(client.target("pool").await, 2, "{flow}");
    client.increase("pool", 1).await.expect("signed in");
    let mut all_secrets: Vec<String> = secrets.iter().map(|secret| (*secret).to_owned()).collect();
    for issued in office.arm.issued() {
        all_secrets.extend([Some(issued.token), issued.asked.field("client_assertion")].into_iter().flatten());
    }
    let echo = format!("you sent {}", all_secrets.join(" and "));
    // What is not sent: a key, and the signature in the address of an operation.
    all_secrets.extend(kept.iter().map(|secret| (*secret).to_owned()));
    all_secrets.push("MIIH".repeat(16));
    office.arm.script("GET", "/virtualMachineScaleSets", 10_000, arm::error(403, "AuthorizationFailed", &echo));
    server.logged("source cannot be listed");
    let refused = client.increase("pool", 1).await.err().map(|status| status.message().to_owned());
    let mut check = office.command(&[&["check", "-o", "json", "--timeout", "3s"], &arguments[..]].concat());
    check.envs(variables.iter().copied());
    Said::by(&server).and(refused.unwrap_or_default()).has_none_of(flow, &all_secrets);
    // It signs in on its own, and does not know the server's tokens.
    Said::by_command(check).has_none_of(flow, &[secrets, kept].concat());
}

/// The Kubernetes API, with this kubeconfig and its files.
fn kubernetes_flow(flow: &str, api: &ApiServer, user: impl Fn(&Path) -> Value, secrets: &[&str]) {
    let config = ConfigFile::new(
        "learn: {kubernetes: true}\nkubernetes: {kubeconfig: kubeconfig, allowExec: true}\n\
         sources: [{name: demo, simulated: {}}]\n",
    );
    api.kubeconfig(config.folder());
    let printed = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": TOKEN},
    });
    let user = user(config.folder());
    let config = config.beside("kubeconfig", &api.kubeconfig_of(user)).beside("credential", &printed.to_string());
    api.set_nodes([mk_node("node", "aws:///us-east-1a/i-1", 8 << 20)]);
    let server = Server::start(&["--config", &config.path(), "--log", EVERYTHING]);
    let began = std::time::Instant::now();
    while !api.is_delivered() {
        assert!(began.elapsed() < crate::peers::headcount::PATIENCE, "{flow}: no watch");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    api.set_down(true);
    server.logged("nodes cannot be watched");
    let check = command(&["check", "--config", &config.path(), "-o", "json", "--timeout", "3s", "--log", EVERYTHING]);
    Said::by(&server).has_none_of(flow, secrets);
    Said::by_command(check).has_none_of(flow, secrets);
}

/// The longest line of a key in PEM.
fn line_of(pem: &str) -> &str {
    pem.lines().filter(|line| !line.starts_with("---")).max_by_key(|line| line.len()).expect("a line")
}

/// The variables with keys of AWS.
const KEYS: [(&str, &str); 3] =
    [("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", KEY), ("AWS_SESSION_TOKEN", SESSION)];

#[tokio::test(flavor = "multi_thread")]
async fn keys_in_the_environment_are_not_shown_at_any_level() {
    aws_flow("keys of the environment", &KEYS, "", &[KEY, SESSION]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_credentials_are_not_shown_at_any_level() {
    let shared = [("AWS_SHARED_CREDENTIALS_FILE", "<credentials>")];
    aws_flow("shared credentials", &shared, "", &[KEY, SESSION]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_assumed_role_is_not_shown_at_any_level() {
    let role = ", assumeRole: {arn: \"arn:aws:iam::000000000000:role/other\", externalId: an-external-id}";
    aws_flow("an assumed role", &KEYS, role, &[KEY, SESSION]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_web_identity_is_not_shown_at_any_level() {
    let identity = [("AWS_ROLE_ARN", "arn:aws:iam::000000000000:role/r"), ("AWS_WEB_IDENTITY_TOKEN_FILE", "<token>")];
    aws_flow("a web identity", &identity, "", &[TOKEN]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_identity_is_not_shown_at_any_level() {
    let agent =
        [("AWS_CONTAINER_CREDENTIALS_FULL_URI", "<agent>"), ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "<token>")];
    aws_flow("a pod identity", &agent, "", &[TOKEN]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_secret_of_azure_is_not_shown_at_any_level() {
    let principal = json!({"tenantId": "tenant-1", "aadClientId": "client-1", "aadClientSecret": KEY});
    azure_flow("a client secret", (Office::open(), principal), &[], &[KEY], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_azure_is_not_shown_at_any_level() {
    let office = Office::open();
    let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).expect("a key");
    let certificate = CertificateParams::new(vec!["headcount".to_owned()]).and_then(|it| it.self_signed(&key));
    let key = key.serialize_pem();
    let file = office.write("principal.pem", &format!("{}{key}", certificate.expect("a certificate").pem()));
    let principal = json!({"tenantId": "tenant-1", "aadClientId": "client-1", "aadClientCertPath": file});
    azure_flow("a certificate", (office, principal), &[], &[], &[line_of(&key)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workload_identity_is_not_shown_at_any_level() {
    let office = Office::open();
    let file = office.write("token", TOKEN);
    let webhook = [
        ("AZURE_TENANT_ID", "tenant-1"),
        ("AZURE_CLIENT_ID", "client-1"),
        ("AZURE_FEDERATED_TOKEN_FILE", file.as_str()),
    ];
    let identity = json!({"useFederatedWorkloadIdentityExtension": true});
    azure_flow("a workload identity", (office, identity), &webhook, &[TOKEN], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_managed_identity_is_not_shown_at_any_level() {
    let office = Office::open();
    let service = format!("{}/msi/token", office.arm.url());
    let managed = [("IDENTITY_ENDPOINT", service.as_str()), ("IDENTITY_HEADER", KEY)];
    let identity = json!({"useManagedIdentityExtension": true});
    azure_flow("a managed identity", (office, identity), &managed, &[KEY], &[]).await;
}

#[test]
fn a_token_of_kubernetes_is_not_shown_at_any_level() {
    let api = ApiServer::with_token(TOKEN);
    kubernetes_flow("a token of Kubernetes", &api, |_| json!({"token": TOKEN}), &[TOKEN]);
}

#[test]
fn a_file_with_a_token_of_kubernetes_is_not_shown_at_any_level() {
    let api = ApiServer::with_token(TOKEN);
    kubernetes_flow("a file with a token of Kubernetes", &api, |_| json!({"tokenFile": "token"}), &[TOKEN]);
}

#[test]
fn what_an_exec_plugin_prints_is_not_shown_at_any_level() {
    let api = ApiServer::with_token(TOKEN);
    let exec = |folder: &Path| {
        json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "cat", "args": [folder.join("credential")],
            "env": [{"name": "PLUGIN_KEY", "value": KEY}], "interactiveMode": "Never",
        }})
    };
    kubernetes_flow("an exec plugin", &api, exec, &[TOKEN, KEY]);
}

#[test]
fn a_client_certificate_of_kubernetes_is_not_shown_at_any_level() {
    let api = ApiServer::with_certificates();
    let (_, key) = api.client_certificate();
    let user = |_: &Path| json!({"client-certificate": "client.crt", "client-key": "client.key"});
    kubernetes_flow("a client certificate of Kubernetes", &api, user, &[line_of(key)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keys_of_tls_are_not_shown_at_any_level() {
    let authority = Authority::new("ca");
    let certificate = authority.server(Validity::Now);
    let config = ConfigFile::new(
        "grpc: {tls: {cert: tls.crt, key: tls.key, clientCa: ca.crt, allowedClients: [cluster-autoscaler]}}\n\
         sources: [{name: demo, simulated: {}}]\n",
    );
    let config = config.beside("tls.crt", &certificate.chain).beside("tls.key", &certificate.key);
    let config = config.beside("ca.crt", &authority.pem());
    let server = Server::start(&["--config", &config.path(), "--log", EVERYTHING]);
    let client = authority.client("cluster-autoscaler", Vec::new());
    assert!(is_served(server.grpc(), &authority, Some(&client)).await);
    // The files are replaced by broken ones: a key in place of a certificate.
    std::fs::write(config.path_of("tls.crt"), &certificate.key).expect("written");
    server.signal("HUP");
    server.logged("tls.crt contains no certificate");
    Said::by(&server).has_none_of("TLS", &[line_of(&certificate.key), line_of(&client.key)]);
}
