//! Several accounts: `assumeRole:` and `profile:` of an AWS source, the credentials of each Azure source, and the
//! identity that `check` prints for each source.

use std::sync::Arc;

use headcount::clouds::simulated::{GroupPlan, RESOURCE_GROUP, SUBSCRIPTION, Simulated};
use serde_json::json;

use crate::emulators::Emulator;
use crate::emulators::aws::Aws;
use crate::peers::headcount::{ConfigFile, Server, command, eventually};
use crate::sign_in::Office;

const ROLE: &str = "arn:aws:iam::111111111111:role/headcount";

fn aws(group: &str) -> Aws {
    Aws::start(Arc::new(Simulated::with_groups(1, [GroupPlan::aws(group).sized(0, 10, 2)])))
}

fn source(name: &str, emulator: &Aws, group: &str, more: &str) -> String {
    let url = emulator.url();
    format!(
        "  - name: {name}\n    aws: {{region: us-east-1, endpoint: \"{url}\", nodeGroups: [\"0:10:{group}\"]{more}}}\n"
    )
}

/// What `check` prints for a configuration.
fn checked(config: &ConfigFile, variables: &[(&str, &str)]) -> String {
    let mut check = command(&["check", "--config", &config.path()]);
    let output = check.envs(variables.iter().copied()).output().expect("the binary runs");
    String::from_utf8(output.stdout).expect("UTF-8").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn one_server_serves_two_accounts_each_as_its_own_role() {
    let (own, other) = (aws("own"), aws("other"));
    other.behavior(|behavior| behavior.external_id = Some("ours".to_owned()));
    let role = format!(", assumeRole: {{arn: \"{ROLE}\", externalId: ours, sessionName: prod}}");
    let sources = source("own", &own, "own", "") + &source("other", &other, "other", &role);
    let config = ConfigFile::new(&format!("sources:\n{sources}"));
    let server = Server::with_config(&config);
    let mut client = server.client().await;
    client.until("both are served", async |client| client.node_groups().await.len() == 2).await;
    client.increase("other", 1).await.expect("there is room");
    let assumed = other.requests_with("POST", "Action=AssumeRole");
    assert!(assumed.iter().all(|request| request.field("RoleSessionName").as_deref() == Some("prod")), "{assumed:?}");
    for (emulator, key) in [(&own, "Credential=test/"), (&other, "Credential=ASIAROLE/")] {
        let signed = emulator.requests_with("POST", "Action=DescribeAutoScalingGroups");
        let by = |key: &str| {
            signed.iter().filter(|request| request.header("authorization").is_some_and(|by| by.contains(key))).count()
        };
        assert!(by(key) == signed.len() && !signed.is_empty(), "{key}: {signed:?}");
    }

    let table = checked(&config, &[]);
    assert!(table.contains("own can be read; 1 group; signed in as arn:aws:iam::000000000000:user/test"), "{table}");
    let session = "arn:aws:sts::111111111111:assumed-role/headcount/prod";
    assert!(table.contains(&format!("other can be read; 1 group; signed in as {session}")), "{table}");
}

#[tokio::test]
async fn a_role_that_may_not_be_assumed_is_an_error_of_its_source() {
    let emulator = aws("own");
    emulator.behavior(|behavior| behavior.external_id = Some("theirs".to_owned()));
    let role = format!(", assumeRole: {{arn: \"{ROLE}\"}}");
    let config = ConfigFile::new(&format!("sources:\n{}", source("own", &emulator, "own", &role)));
    let table = checked(&config, &[]);
    assert!(table.contains("own cannot be read:") && table.contains("sts:AssumeRole"), "{table}");
    assert!(
        emulator.requests_with("POST", "Action=DescribeAutoScalingGroups").is_empty(),
        "a call was made without \
    the role"
    );
}

#[tokio::test]
async fn a_profile_of_the_shared_files_signs_the_calls_of_its_source() {
    let emulator = aws("own");
    let files = ConfigFile::new("")
        .beside("credentials", "[prod]\naws_access_key_id = PRODKEY\naws_secret_access_key = secret\n");
    let config = ConfigFile::new(&format!("sources:\n{}", source("own", &emulator, "own", ", profile: prod")));
    let credentials = files.path_of("credentials");
    let table = checked(&config, &[("AWS_SHARED_CREDENTIALS_FILE", &credentials)]);
    assert!(table.contains("own can be read; 1 group"), "{table}");
    let signed = emulator.requests_with("POST", "Action=DescribeAutoScalingGroups");
    let keys: Vec<_> = signed.iter().filter_map(|request| request.header("authorization")).collect();
    assert!(!keys.is_empty() && keys.iter().all(|key| key.contains("Credential=PRODKEY/")), "{keys:?}");
}

#[tokio::test]
async fn a_role_that_a_profile_names_is_assumed_in_the_region_of_the_source() {
    let emulator = aws("own");
    let credentials = "[base]\naws_access_key_id = BASEKEY\naws_secret_access_key = secret\n";
    let config = format!("[profile prod]\nrole_arn = {ROLE}\nsource_profile = base\nrole_session_name = prod\n");
    let files = ConfigFile::new("").beside("credentials", credentials).beside("config", &config);
    let config = ConfigFile::new(&format!("sources:\n{}", source("own", &emulator, "own", ", profile: prod")));
    let (credentials, file, url) = (files.path_of("credentials"), files.path_of("config"), emulator.url());
    let variables = [
        ("AWS_SHARED_CREDENTIALS_FILE", credentials.as_str()),
        ("AWS_CONFIG_FILE", file.as_str()),
        ("AWS_ENDPOINT_URL_STS", url.as_str()),
    ];
    let table = checked(&config, &variables);
    assert!(table.contains("own can be read; 1 group"), "{table}");
    let assumed = emulator.requests_with("POST", "Action=AssumeRole");
    let by = assumed.iter().filter_map(|request| request.header("authorization"));
    assert!(by.clone().count() > 0 && by.into_iter().all(|by| by.contains("BASEKEY/") && by.contains("/us-east-1/")));
    let signed = emulator.requests_with("POST", "Action=DescribeAutoScalingGroups");
    let keys: Vec<_> = signed.iter().filter_map(|request| request.header("authorization")).collect();
    assert!(!keys.is_empty() && keys.iter().all(|key| key.contains("Credential=ASIAROLE/")), "{keys:?}");
}

#[tokio::test]
async fn each_azure_source_signs_in_as_its_own_application() {
    let office = Office::open();
    let source = |name: &str, more: serde_json::Value| {
        let mut azure = json!({
            "endpoint": office.arm.url(), "subscriptionId": SUBSCRIPTION, "resourceGroup": RESOURCE_GROUP,
            "nodeGroups": ["0:10:pool"],
        });
        azure.as_object_mut().expect("keys").extend(more.as_object().expect("keys").clone());
        json!({"name": name, "azure": azure})
    };
    let principal = |number: u8| {
        let id = |what: &str| format!("{what}-{number}");
        json!({"tenantId": id("tenant"), "aadClientId": id("client"), "aadClientSecret": id("secret")})
    };
    let machine = json!({"useManagedIdentityExtension": true});
    let sources = [source("one", principal(1)), source("two", principal(2)), source("three", machine)];
    let config = office.write("headcount.yaml", &json!({"sources": sources}).to_string());
    let service = format!("{}/msi/token", office.arm.url());
    let variables = [("IDENTITY_ENDPOINT", service.as_str()), ("IDENTITY_HEADER", "shared-with-the-service")];
    let server = office.start(&["--config", &config], &variables);
    let mut client = server.client().await;
    client.until("it is served", async |client| client.node_groups().await.len() == 1).await;
    for number in [1, 2] {
        let is_issued = || {
            let path = format!("/tenant-{number}/oauth2/v2.0/token");
            office.arm.issued().iter().any(|issued| issued.asked.path == path)
        };
        eventually("the source has signed in", is_issued).await;
        let issued = office.arm.issued().into_iter().filter(|issued| {
            issued.asked.path == format!("/tenant-{number}/oauth2/v2.0/token")
                && issued.asked.field("client_id") == Some(format!("client-{number}"))
                && issued.asked.field("client_secret") == Some(format!("secret-{number}"))
        });
        let tokens: Vec<_> = issued.map(|issued| format!("Bearer {}", issued.token)).collect();
        let held = |call: &crate::emulators::Request| {
            call.header("authorization").is_some_and(|held| tokens.iter().any(|token| token == held))
        };
        eventually("the source calls with its token", || office.arm.requests().iter().any(held)).await;
    }

    let table = office.check(&config, &variables);
    for (name, identity) in [
        ("one", "application client-1 of tenant tenant-1, with a secret"),
        ("two", "application client-2 of tenant tenant-2, with a secret"),
        ("three", "system-assigned managed identity: application client-of-the-machine"),
    ] {
        assert!(table.contains(&format!("{name} can be read; 1 group; signed in as {identity}")), "{name}: {table}");
    }
}
