//! Several accounts: `assumeRole:` and `profile:` of an AWS source, and who `check` says that each source is.

use std::sync::Arc;

use headcount::clouds::simulated::{GroupPlan, Simulated};

use crate::emulators::Emulator;
use crate::emulators::aws::Aws;
use crate::peers::headcount::{ConfigFile, Server, command};

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
    assert!(emulator.requests_with("POST", "Action=DescribeAutoScalingGroups").is_empty(), "a call without the role");
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
