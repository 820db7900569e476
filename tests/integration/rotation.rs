//! Credentials that change on disk under a running server: each is picked up without a restart, and one that does not
//! work leaves the earlier one in use.

mod configuration;
mod service_accounts;

use std::sync::Arc;
use std::time::Duration;

use headcount::clouds::simulated::{GroupPlan, RESOURCE_GROUP, SUBSCRIPTION, Simulated};
use rcgen::{CertificateParams, KeyPair, PKCS_RSA_SHA256, RsaKeySize};
use serde_json::{Value, json};

use crate::emulators::aws::Aws;
use crate::emulators::{Emulator, HttpResponse};
use crate::peers::headcount::{Client, ConfigFile, Server, eventually};
use crate::sign_in::Office;

fn principal(secret: &str) -> Value {
    json!({"tenantId": "tenant-1", "aadClientId": "client-1", "aadClientSecret": secret})
}

/// The field of each token request, oldest first, without repetitions: a signal and the check every ten seconds may find
/// the same file.
fn asked_with(office: &Office, field: &str) -> Vec<String> {
    let mut asked: Vec<String> = office.arm.issued().iter().filter_map(|issued| issued.asked.field(field)).collect();
    asked.dedup();
    asked
}

/// Waits until a call to Resource Manager carries the newest token.
async fn newest_token_is_used(office: &Office) {
    let newest = office.arm.issued().last().expect("a token").token.clone();
    let held = format!("Bearer {newest}");
    let uses = || office.arm.requests().iter().any(|request| request.header("authorization") == Some(held.as_str()));
    eventually("the newest token is used", uses).await;
}

/// The value of a counter with these labels.
fn counted(server: &Server, sample: &str) -> String {
    let metrics = server.probe("/metrics");
    let value = metrics.lines().find_map(|line| line.strip_prefix(sample)).map(|value| value.trim().to_owned());
    value.unwrap_or_else(|| panic!("no {sample} in {metrics}"))
}

#[tokio::test]
async fn a_client_secret_that_changes_in_the_cloud_config_is_used_without_a_signal() {
    let office = Office::open();
    let server = office.serve(principal("first-secret"), &[]);
    let mut client = server.client().await;
    assert_eq!(client.target("pool").await, 2);
    office.write_cloud_config(principal("second-secret"));
    eventually("the new secret is used", || asked_with(&office, "client_secret").contains(&"second-secret".to_owned()))
        .await;
    server.logged("source credentials reloaded");
    newest_token_is_used(&office).await;
    client.increase("pool", 1).await.expect("signed in");
}

#[tokio::test]
async fn a_client_secret_that_does_not_work_leaves_the_earlier_one_in_use() {
    let office = Office::open();
    let refusal =
        json!({"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret provided."});
    office.arm.script("POST", "client_secret=wrong-secret", 10_000, HttpResponse::json(401, &refusal));
    let server = office.serve(principal("first-secret"), &[]);
    let mut client = server.client().await;
    assert_eq!(client.target("pool").await, 2);
    office.write_cloud_config(principal("wrong-secret"));
    server.signal("HUP");
    let line = server.logged("source credentials cannot be used; continuing with the previous ones");
    assert!(line.contains("AADSTS7000215") && !line.contains("wrong-secret"), "{line}");
    client.increase("pool", 1).await.expect("signed in as before");
    // The check every ten seconds may have tried it as well.
    let refused = || office.arm.requests_with("POST", "client_secret=wrong-secret").len().to_string();
    let failures = "headcount_cloud_credential_renewals_total{source=\"azure\",result=\"failure\"}";
    eventually("each refusal is counted", || counted(&server, failures) == refused()).await;
    office.write_cloud_config(principal("third-secret"));
    server.signal("HUP");
    server.logged("source credentials reloaded");
    newest_token_is_used(&office).await;
    assert_eq!(asked_with(&office, "client_secret"), ["first-secret", "third-secret"]);
    client.increase("pool", 1).await.expect("signed in again");
}

#[tokio::test]
async fn a_client_secret_that_changes_in_headcount_yaml_is_used_without_a_signal() {
    let office = Office::open();
    let config = |secret: &str| {
        let azure = json!({
            "endpoint": office.arm.url(), "subscriptionId": SUBSCRIPTION, "resourceGroup": RESOURCE_GROUP,
            "tenantId": "tenant-1", "aadClientId": "client-1", "aadClientSecret": secret, "nodeGroups": ["0:10:pool"],
        });
        json!({"sources": [{"name": "here", "azure": azure}]}).to_string()
    };
    let file = office.write("headcount.yaml", &config("first-secret"));
    let server = office.start(&["--config", &file], &[]);
    let mut client = server.client().await;
    assert_eq!(client.target("pool").await, 2);
    office.write("headcount.yaml", &config("second-secret"));
    server.logged("source credentials reloaded");
    newest_token_is_used(&office).await;
    client.increase("pool", 1).await.expect("signed in again");
    assert_eq!(asked_with(&office, "client_secret"), ["first-secret", "second-secret"]);
}

#[tokio::test]
async fn a_secret_for_another_resource_group_waits_for_the_restart_that_moves_the_source_there() {
    let office = Office::open();
    let config = |secret: &str, resource_group: &str| {
        let azure = json!({
            "endpoint": office.arm.url(), "subscriptionId": SUBSCRIPTION, "resourceGroup": resource_group,
            "tenantId": "tenant-1", "aadClientId": "client-1", "aadClientSecret": secret, "nodeGroups": ["0:10:pool"],
        });
        json!({"sources": [{"name": "here", "azure": azure}]}).to_string()
    };
    let file = office.write("headcount.yaml", &config("first-secret", RESOURCE_GROUP));
    let server = office.start(&["--config", &file], &[]);
    let mut client = server.client().await;
    assert_eq!(client.target("pool").await, 2);
    office.write("headcount.yaml", &config("second-secret", "other"));
    server.signal("HUP");
    server.logged("source credentials changed together with the account");
    office.write("headcount.yaml", &config("third-secret", RESOURCE_GROUP));
    server.signal("HUP");
    server.logged("source credentials reloaded");
    assert_eq!(asked_with(&office, "client_secret"), ["first-secret", "third-secret"]);
    client.increase("pool", 1).await.expect("signed in again");
}

#[tokio::test]
async fn another_application_in_the_cloud_config_is_used_without_a_signal() {
    let office = Office::open();
    let server = office.serve(principal("of-the-first"), &[]);
    let mut client = server.client().await;
    assert_eq!(client.target("pool").await, 2);
    let other = json!({"tenantId": "tenant-2", "aadClientId": "client-2", "aadClientSecret": "of-the-second"});
    office.write_cloud_config(other);
    server.logged("source credentials reloaded");
    newest_token_is_used(&office).await;
    client.increase("pool", 1).await.expect("signed in again");
    assert_eq!(asked_with(&office, "client_id"), ["client-1", "client-2"]);
    assert_eq!(office.arm.issued().last().expect("a token").asked.path, "/tenant-2/oauth2/v2.0/token");
}

/// A new certificate and its key.
fn pem() -> String {
    let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).expect("a key");
    let certificate = CertificateParams::new(vec!["headcount".to_owned()]).and_then(|it| it.self_signed(&key));
    format!("{}{}", certificate.expect("a certificate").pem(), key.serialize_pem())
}

/// The headers of the assertions so far, without repetitions. Each names its certificate.
fn certificates(office: &Office) -> Vec<String> {
    let assertions = asked_with(office, "client_assertion").into_iter();
    let mut headers: Vec<_> = assertions.filter_map(|all| all.split('.').next().map(str::to_owned)).collect();
    headers.dedup();
    headers
}

#[tokio::test]
async fn a_certificate_that_is_renewed_signs_the_next_assertion_without_a_signal() {
    let office = Office::open();
    // azure_identity renews a token five minutes before it expires: this one is used for two seconds.
    office.arm.behavior(|behavior| behavior.token_life = Duration::from_secs(302));
    let file = office.write("principal.pem", &pem());
    let server = office.serve(json!({"tenantId": "t", "aadClientId": "c", "aadClientCertPath": file}), &[]);
    let mut client = server.client().await;
    assert_eq!(client.target("pool").await, 2);
    office.write("principal.pem", &pem());
    let renewed = async |client: &mut Client| {
        // The call is refused because of the maximum, but only after a fresh read of the group.
        let _refused = client.increase("pool", 100).await;
        certificates(&office).len() == 2
    };
    client.until("the new certificate signs", renewed).await;
    client.increase("pool", 1).await.expect("signed in again");
}

#[tokio::test]
async fn a_certificate_that_is_renewed_signs_the_next_assertion_at_sighup() {
    let office = Office::open();
    let file = office.write("principal.pem", &pem());
    let server = office.serve(json!({"tenantId": "t", "aadClientId": "c", "aadClientCertPath": file}), &[]);
    let mut client = server.client().await;
    assert_eq!(client.target("pool").await, 2);
    office.write("principal.pem", "not a certificate");
    server.signal("HUP");
    server.logged("source credentials cannot be used");
    client.increase("pool", 1).await.expect("signed in as before");
    office.write("principal.pem", &pem());
    server.signal("HUP");
    server.logged("source credentials reloaded");
    assert_eq!(certificates(&office).len(), 2);
    newest_token_is_used(&office).await;
}

#[tokio::test]
async fn aws_credentials_that_change_in_the_shared_file_are_used_and_bad_ones_are_not() {
    let emulator = Aws::start(Arc::new(Simulated::with_groups(1, [GroupPlan::aws("web").sized(0, 5, 1)])));
    let keys = |key: &str| format!("[default]\naws_access_key_id = {key}\naws_secret_access_key = {key}-secret\n");
    let config = ConfigFile::new(&format!(
        "refreshInterval: 1s\nsources: [{{name: here, aws: {{region: us-east-1, endpoint: \"{}\", profile: default, \
         nodeGroups: [\"0:5:web\"]}}}}]\n",
        emulator.url()
    ));
    let config = config.beside("credentials", &keys("FIRSTKEY"));
    let file = config.path_of("credentials");
    // As tools write it: whoever reads it meanwhile sees the one before.
    let write = |text: &str| {
        let new = format!("{file}.new");
        std::fs::write(&new, text).expect("written");
        std::fs::rename(&new, &file).expect("renamed");
    };
    let server = Server::in_environment(&["--config", &config.path()], &[("AWS_SHARED_CREDENTIALS_FILE", &file)]);
    let mut client = server.client().await;
    assert_eq!(client.node_groups().await.len(), 1);
    let signed_by = |key: &str| {
        let credential = format!("Credential={key}/");
        let by = |request: &crate::emulators::Request| {
            request.header("authorization").is_some_and(|header| header.contains(&credential))
        };
        emulator.requests().iter().filter(|request| by(request)).count()
    };
    write("[default]\nnothing = useful\n");
    server.logged("AWS credentials cannot be loaded; continuing with the previous ones");
    client.increase("web", 1).await.expect("signed as before");
    write(&keys("SECONDKEY"));
    eventually("the new key signs", || signed_by("SECONDKEY") > 0).await;
    write(&keys("THIRDKEY"));
    server.signal("HUP");
    eventually("the newest key signs", || signed_by("THIRDKEY") > 0).await;
    client.increase("web", 1).await.expect("signed again");
    let failures = counted(&server, "headcount_cloud_credential_renewals_total{source=\"here\",result=\"failure\"}");
    assert_eq!(failures, "1");
}

#[tokio::test]
async fn a_configuration_that_cannot_be_reloaded_is_counted() {
    let text = "sources: [{name: demo, simulated: {}}]\n";
    let config = ConfigFile::new(text);
    let server = Server::with_config(&config);
    for (text, line, result) in [
        ("sources: 7\n", "configuration cannot be reloaded", "failure"),
        (text, "configuration reloaded; nothing has changed", "success"),
    ] {
        std::fs::write(config.path(), text).expect("written");
        server.signal("HUP");
        server.logged(line);
        assert_eq!(
            counted(&server, &format!("headcount_config_reloads_total{{result=\"{result}\"}}")),
            "1",
            "{result}"
        );
    }
}
