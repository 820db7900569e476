//! A proxy or a sign-in service sends our own secrets back: no text that leaves the process contains them.

use std::sync::Arc;

use headcount::clouds::simulated::{GroupPlan, Simulated};
use serde_json::json;

use crate::emulators::aws::{self, Aws};
use crate::emulators::{Emulator, HttpResponse, arm};
use crate::peers::headcount::{ConfigFile, Server, command};
use crate::sign_in::Office;

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const TOKEN: &str = "IQoJb3JpZ2luX2VjEXAMPLE//////////session+token==";
const ENCODED: &str = "IQoJb3JpZ2luX2VjEXAMPLE%2F%2F%2F%2F%2F%2F%2F%2F%2F%2Fsession%2Btoken%3D%3D";

/// None of these texts is in the log, the probes or the status page, but their replacement is.
fn shows_none_of(server: &Server, secrets: &[&str]) {
    let mut texts = server.lines_with("");
    texts.extend(["/readyz", "/statusz?format=json", "/metrics"].map(|page| server.probe(page)));
    for secret in secrets {
        let shown: Vec<_> = texts.iter().filter(|text| text.contains(secret)).collect();
        assert!(shown.is_empty(), "{shown:?}");
    }
    assert!(texts.iter().any(|text| text.contains("[redacted]")), "{texts:#?}");
}

#[test]
fn a_session_token_of_aws_that_is_sent_back_is_redacted() {
    let emulator = Aws::start(Arc::new(Simulated::with_groups(1, [GroupPlan::aws("web").sized(0, 5, 1)])));
    let echo = format!("x-amz-security-token: {TOKEN}; form {ENCODED}; key {SECRET}");
    emulator.script("POST", "DescribeAutoScalingGroups", 10_000, aws::error(403, "AccessDenied", &echo));
    let config = ConfigFile::new(&format!(
        "sources: [{{name: here, aws: {{region: us-east-1, endpoint: \"{}\", nodeGroups: [\"0:5:web\"]}}}}]\n",
        emulator.url()
    ));
    let variables = [("AWS_SECRET_ACCESS_KEY", SECRET), ("AWS_SESSION_TOKEN", TOKEN)];
    let server = Server::in_environment(&["--config", &config.path(), "--log", "trace"], &variables);
    let line = server.logged("source cannot be listed");
    assert!(line.contains("x-amz-security-token: [redacted]"), "{line}");
    shows_none_of(&server, &[TOKEN, ENCODED, SECRET]);
    let output = command(&["check", "--config", &config.path(), "-o", "json"]).envs(variables).output();
    let output = String::from_utf8(output.expect("the binary runs").stdout).expect("UTF-8");
    assert!(output.contains("[redacted]") && !output.contains(TOKEN) && !output.contains(SECRET), "{output}");
}

#[tokio::test]
async fn a_token_of_azure_that_is_sent_back_is_redacted() {
    let office = Office::open();
    let principal = json!({"tenantId": "tenant-1", "aadClientId": "client-1", "aadClientSecret": "secret-of-the-file"});
    let server = office.start(&["--config", &office.write_config(principal)], &[]);
    assert_eq!(server.client().await.target("pool").await, 2);
    let token = office.arm.issued().remove(0).token;
    let echo = format!("the request had Authorization: Bearer {token}");
    office.arm.script("GET", "/virtualMachineScaleSets", 10_000, arm::error(403, "AuthorizationFailed", &echo));
    let line = server.logged("source cannot be listed");
    assert!(line.contains("Bearer [redacted]"), "{line}");
    shows_none_of(&server, &[&token]);
}

#[test]
fn a_secret_that_the_sign_in_service_repeats_is_redacted() {
    let office = Office::open();
    let echo = json!({"error": "invalid_client", "error_description": "not client_secret=secret%2Fof%20the%20file"});
    office.arm.script("POST", "/oauth2/v2.0/token", 10_000, HttpResponse::json(401, &echo));
    let principal = json!({"tenantId": "tenant-1", "aadClientId": "client-1", "aadClientSecret": "secret/of the file"});
    let server = office.serve(principal, &[]);
    let line = server.logged("source cannot be listed");
    assert!(line.contains("the sign-in service refused with status 401") && !line.contains("client_secret"), "{line}");
    let status = server.probe("/statusz?format=json");
    assert!(!status.contains("of the file") && !status.contains("of%20the%20file"), "{status}");
}
