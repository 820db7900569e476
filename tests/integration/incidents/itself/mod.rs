//! Headcount's own commands: they write nothing, and they report what they wait for and what fails.

use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use headcount::clouds::simulated::{GroupPlan, Simulated};
use serde_json::Value;

use crate::emulators::Emulator;
use crate::emulators::arm::Arm;
use crate::emulators::aws::Aws;
use crate::emulators::kubernetes::ApiServer;
use crate::peers::headcount::{ConfigFile, command, run};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);

fn source(name: &str, emulator: &impl Emulator, group: &str) -> String {
    let settings: String = emulator.settings().iter().map(|line| format!("      {line}\n")).collect();
    format!("  - name: {name}\n    {}:\n{settings}      nodeGroups: [\"0:20:{group}\"]\n", emulator.cloud())
}

fn output_of(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// A group of 10 with a surplus of 4, which the cloud launched itself.
fn with_surplus(seed: u64, plan: GroupPlan) -> Arc<Simulated> {
    let name = plan.name.clone();
    let simulated = Simulated::with_groups(seed, [plan.sized(0, 20, 10)]);
    simulated.launch_surplus(&name, 4, LONG).expect("it exists");
    Arc::new(simulated)
}

#[tokio::test]
async fn reading_commands_write_nothing() {
    let aws = Aws::start(with_surplus(1, GroupPlan::aws("asg")));
    let arm = Arm::start(with_surplus(2, GroupPlan::azure("vmss")));
    let config = ConfigFile::new(&format!("sources:\n{}{}", source("us", &aws, "asg"), source("eu", &arm, "vmss")));
    let groups = run(&["groups", "-o", "json", "--config", &config.path()]);
    let (rows, stderr) = output_of(&groups);
    assert!(groups.status.success(), "{stderr}");
    let rows: Value = serde_json::from_str(&rows).expect("JSON");
    for row in rows.as_array().expect("rows") {
        assert_eq!((&row["desired"], &row["live"]), (&10.into(), &14.into()), "{row}");
    }
    for group in ["asg", "vmss"] {
        let template = run(&["template", group, "--config", &config.path()]);
        assert!(template.status.success(), "{}", output_of(&template).1);
    }
    let _findings = run(&["check", "--config", &config.path()]);
    for action in ["SetDesiredCapacity", "Terminate"] {
        assert!(aws.requests_with("POST", action).is_empty(), "{action}");
    }
    assert!(arm.requests().iter().all(|request| request.method == "GET"));
    assert!(!aws.requests().is_empty() && !arm.requests().is_empty());
}

#[tokio::test]
async fn groups_command_is_patient_for_long() {
    let arm = Arm::start(Arc::new(Simulated::with_groups(2, [GroupPlan::azure("vmss").sized(0, 20, 10)])));
    arm.simulated().faults(|faults| faults.down = true);
    let config = ConfigFile::new(&format!("sources:\n{}", source("eu", &arm, "vmss")));
    for (option, limit) in [(None, "30s"), (Some("--timeout=3s"), "3s")] {
        let arguments = ["groups", "--config", &config.path()].map(str::to_owned);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(option).collect();
        let output = run(&arguments);
        let (rows, stderr) = output_of(&output);
        assert_eq!((output.status.code(), rows.as_str()), (Some(1), ""));
        assert!(stderr.contains("headcount: reading eu ("), "it prints what it waits for: {stderr}");
        assert!(stderr.contains(&format!("gave up after {limit}: ")), "{stderr}");
        assert!(stderr.contains("; headcount check says what to do about it"), "more time does not help: {stderr}");
    }
}

#[tokio::test]
async fn no_ca_bundle() {
    let nowhere = "/nonexistent/ca.pem";
    let config = ConfigFile::new(
        "sources:\n  - name: us\n    aws:\n      region: us-east-1\n      nodeGroups: [\"0:1:asg\"]\n  - name: eu\n    azure:\n      \
         subscriptionId: 00000000-0000-0000-0000-000000000000\n      resourceGroup: rg\n      useManagedIdentityExtension: true\n      nodeGroups: [\"0:1:vmss\"]\n",
    );
    for name in ["serve", "groups", "check"] {
        let listen: &[&str] =
            if name == "serve" { &["--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"] } else { &[] };
        let path = config.path();
        let arguments: Vec<&str> = [name, "--config", &path].into_iter().chain(listen.iter().copied()).collect();
        let output = command(&arguments).env("SSL_CERT_FILE", nowhere).output().expect("the binary runs");
        let (_, stderr) = output_of(&output);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        for source in ["us", "eu"] {
            let beginning = format!("headcount: source {source}: no root certificates");
            let lines: Vec<&str> = stderr.lines().filter(|line| line.starts_with(&beginning)).collect();
            let [line] = lines[..] else { panic!("{name}: not one line of {source}: {stderr}") };
            assert!(line.contains(&format!("SSL_CERT_FILE={nowhere}")) && line.contains("ca-certificates"), "{line}");
            assert_eq!(line.matches("source ").count(), 1, "{line}");
        }
        assert!(!stderr.contains("panicked"), "{stderr}");
    }

    // Plain HTTP needs no certificates.
    let aws = Aws::start(Arc::new(Simulated::with_groups(1, [GroupPlan::aws("asg").sized(0, 20, 3)])));
    let arm = Arm::start(Arc::new(Simulated::with_groups(2, [GroupPlan::azure("vmss").sized(0, 20, 3)])));
    let config = ConfigFile::new(&format!("sources:\n{}{}", source("us", &aws, "asg"), source("eu", &arm, "vmss")));
    let output = command(&["groups", "-o", "json", "--config", &config.path()])
        .env("SSL_CERT_FILE", nowhere)
        .output()
        .expect("the binary runs");
    let (rows, stderr) = output_of(&output);
    assert!(output.status.success(), "{stderr}");
    assert_eq!(serde_json::from_str::<Value>(&rows).expect("JSON").as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn check_says_what_it_skipped() {
    let aws = Aws::start(Arc::new(Simulated::with_groups(1, [GroupPlan::aws("asg").sized(0, 10, 2)])));
    let api = ApiServer::plain();
    for access in
        ["learn: {kubernetes: true, kubeconfig: kubeconfig}", "kubernetes: {taints: true, kubeconfig: kubeconfig}"]
    {
        let sources = source("us", &aws, "asg");
        let config = ConfigFile::new(&format!("{access}\nsources:\n{sources}"));
        let config = config.beside("kubeconfig", &api.kubeconfig_text());
        let (findings, stderr) = output_of(&run(&["check", "-o", "json", "--config", &config.path()]));
        let findings: Value = serde_json::from_str(&findings).unwrap_or_else(|_| panic!("{stderr}"));
        let findings = findings.as_array().expect("findings").iter();
        let mut skipped =
            findings.filter(|finding| finding["code"] == "HC505").map(|finding| finding["what"].to_string());
        let skipped =
            skipped.next().unwrap_or_else(|| panic!("HC501 to HC504 are skipped without a word, with {access}"));
        assert!(skipped.contains("its flags are not checked: no Deployment in the namespace kube-system"), "{skipped}");
    }
}
