//! The command: which groups it takes, and what it writes.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use headcount::clouds::simulated::{GroupPlan, Simulated, seconds};
use headcount::verify::Report;

use crate::commands::texts;
use crate::emulators::Emulator;
use crate::emulators::arm::Arm;
use crate::peers::headcount::{ConfigFile, command, eventually, run};

fn emulated(plan: GroupPlan) -> (Arm, ConfigFile) {
    let emulator = Arm::start(Arc::new(Simulated::with_groups(7, [plan])));
    let mut lines = vec!["sources:\n  - name: here\n    azure:".to_owned()];
    lines.extend(emulator.settings().iter().map(|line| format!("      {line}")));
    lines.push("      nodeGroups: [\"0:10:pool\"]\nprices: {live: false}\n".to_owned());
    let config = ConfigFile::new(&lines.join("\n"));
    (emulator, config)
}

fn writes(emulator: &Arm) -> usize {
    emulator.requests().iter().filter(|request| request.method != "GET").count()
}

#[test]
fn a_group_that_is_not_set_aside_is_refused_with_the_reason() {
    let (emulator, config) = emulated(GroupPlan::azure("pool").sized(0, 10, 1));
    let output = run(&["verify", "--config", &config.path(), "--group", "pool", "--allow-writes"]);
    let (_, stderr) = texts(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("does not carry the tag headcount-verify=allowed"), "{stderr}");
    let output = run(&["verify", "--config", &config.path(), "--group", "other", "--allow-writes"]);
    assert!(texts(&output).1.contains("no source has a node group other"), "{output:?}");
    assert_eq!(writes(&emulator), 0);
}

#[test]
fn without_leave_it_says_what_it_would_do_and_what_that_costs() {
    let (emulator, config) = emulated(GroupPlan::azure("pool").sized(0, 10, 1).set_aside());
    let output = run(&["verify", "--config", &config.path(), "--group", "pool"]);
    let (stdout, stderr) = texts(&output);
    assert!(output.status.success(), "{stderr}");
    assert!(stdout.starts_with("Laws 1 and 11 do not hold for pool"), "{stdout}");
    assert!(stdout.contains("Cost: about ") && stdout.contains(" USD per instance and hour"), "{stdout}");
    assert!(stdout.contains("deletion-named-twice") && stdout.contains("Nothing was written."), "{stdout}");
    assert_eq!(writes(&emulator), 0);
}

fn quick() -> GroupPlan {
    GroupPlan::azure("pool").sized(0, 10, 1).launch_time(seconds(0, 1)).delete_time(seconds(0, 1)).set_aside()
}

/// The command with leave to write, once its first write has arrived.
async fn writing(emulator: &Arm, config: &ConfigFile) -> Child {
    let (report, state) = (config.folder().join("report.yaml"), config.folder().join("state"));
    let (report, state) = (report.to_str().expect("text"), state.to_str().expect("text"));
    let files = ["--report", report, "--state", state];
    let arguments = ["verify", "--config", &config.path(), "--group", "pool", "--allow-writes"];
    let mut command = command(&[&arguments[..], &files].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    eventually("a write", || writes(emulator) > 0).await;
    child
}

#[tokio::test]
async fn after_sigterm_the_size_is_restored_and_the_report_says_so() {
    let (emulator, config) = emulated(quick());
    let child = writing(&emulator, &config).await;
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
    let output = child.wait_with_output().expect("it ends");
    let (_, stderr) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("stopped; the size is restored"), "{stderr}");
    let sizes = emulator.simulated().world(|world, _| world.group("pool").map(|one| (one.capacity(), one.live())));
    assert_eq!(sizes, Some((1, 1)), "{stderr}");
    assert!(!config.folder().join("state").exists());
    let report = std::fs::read_to_string(config.folder().join("report.yaml")).expect("a report");
    let report: Report = serde_saphyr::from_str(&report).expect("YAML");
    assert!(report.is_stopped && report.is_restored);
    assert!(report.findings.iter().any(|finding| finding.seen == "the run ended before it"), "{report:?}");
}

#[tokio::test]
async fn after_a_kill_the_next_run_says_that_it_restores_the_size_first() {
    let (emulator, config) = emulated(quick());
    let mut child = writing(&emulator, &config).await;
    child.kill().expect("killed");
    child.wait().expect("ended");
    let state = config.folder().join("state");
    let state = state.to_str().expect("text");
    let before = writes(&emulator);
    let output = run(&["verify", "--config", &config.path(), "--group", "pool", "--state", state]);
    let (stdout, stderr) = texts(&output);
    assert!(stdout.contains("A run was killed before this one; its size is restored first."), "{stdout}{stderr}");
    assert!(stdout.contains("Size to restore: 1."), "{stdout}");
    assert_eq!(writes(&emulator), before, "without leave, nothing is written");
}
