//! `headcount verify`: which groups it takes, and what it writes.

use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;

use headcount::cloud::CapacityIs;
use headcount::clouds::simulated::{GroupPlan, Simulated, seconds};
use headcount::verify::{Probe, Report, Verdict};

use super::texts;
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

/// Capacity and live instances.
type Sizes = (u32, u32);

fn sizes(emulator: &Arm) -> Sizes {
    let sizes = emulator.simulated().world(|world, _| world.group("pool").map(|one| (one.capacity(), one.live())));
    sizes.expect("the group")
}

fn verify(config: &ConfigFile) -> Vec<String> {
    ["verify", "--config", &config.path(), "--group", "pool"].map(str::to_owned).to_vec()
}

fn files(config: &ConfigFile) -> Vec<String> {
    let path = |name: &str| config.folder().join(name).to_str().expect("text").to_owned();
    vec!["--report".to_owned(), path("report.yaml"), "--state".to_owned(), path("state")]
}

/// The command with leave to write, once its next write has arrived.
async fn writing(emulator: &Arm, config: &ConfigFile) -> Child {
    let before = writes(emulator);
    let arguments = [verify(config), files(config), vec!["--allow-writes".to_owned()]].concat();
    let mut command = command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    eventually("a write", || writes(emulator) > before).await;
    child
}

#[tokio::test]
async fn after_sigterm_the_size_is_restored_and_the_report_says_so() {
    let (emulator, config) = emulated(quick());
    let child = writing(&emulator, &config).await;
    let output = end(child, "-TERM");
    let (_, stderr) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("stopped; the size is restored"), "{stderr}");
    assert_eq!(sizes(&emulator), (1, 1), "{stderr}");
    assert!(!config.folder().join("state").exists());
    let report = Report::read(&config.folder().join("report.yaml")).expect("a report");
    assert!(report.is_stopped && report.is_restored);
    assert!(report.findings.iter().any(|finding| finding.seen == "the run ended before it"), "{report:?}");
}

/// Sends a signal to the command, and waits for its end.
fn end(child: Child, signal: &str) -> Output {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
    child.wait_with_output().expect("it ends")
}

/// Kills the command as soon as the group is so. A rerun, which is stopped at its first write, restores the size that
/// the first run found.
async fn kill_and_rerun(what: &str, is_then: impl Fn(Sizes) -> bool) {
    let (emulator, config) = emulated(quick());
    let child = writing(&emulator, &config).await;
    eventually(what, || is_then(sizes(&emulator))).await;
    end(child, "-KILL");
    let sent = writes(&emulator);
    assert!(config.folder().join("state").exists(), "{what}");
    let dry = [&verify(&config)[..], &files(&config)].concat();
    let output = run(&dry.iter().map(String::as_str).collect::<Vec<_>>());
    let (stdout, stderr) = texts(&output);
    assert!(stdout.contains("A run was killed before this one; its size is restored first."), "{stdout}{stderr}");
    assert!(stdout.contains("Size to restore: 1."), "{stdout}");
    // The sizes may go on changing: the first run's last write takes time.
    assert_eq!(writes(&emulator), sent, "without leave, nothing is written");
    let child = writing(&emulator, &config).await;
    let output = end(child, "-TERM");
    assert!(texts(&output).1.contains("stopped; the size is restored"), "{output:?}");
    assert_eq!(sizes(&emulator), (1, 1), "{what}");
    assert!(!config.folder().join("state").exists(), "{what}");
}

#[tokio::test]
async fn after_a_kill_with_a_capacity_that_is_not_filled_the_next_run_restores_the_size() {
    kill_and_rerun("a capacity that is not filled", |(capacity, live)| capacity > live).await;
}

#[tokio::test]
async fn after_a_kill_with_an_instance_more_the_next_run_restores_the_size() {
    kill_and_rerun("an instance more", |sizes| sizes == (2, 2)).await;
}

#[tokio::test]
async fn after_a_kill_with_two_instances_more_the_next_run_restores_the_size() {
    kill_and_rerun("two instances more", |(capacity, _)| capacity == 3).await;
}

/// The page's steps, one by one, with the commands that it names.
#[tokio::test]
async fn a_new_user_gets_from_the_demo_to_a_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let in_folder = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (report, state) = (in_folder("report.yaml"), in_folder("state"));
    let output = run(&["verify", "--demo", "--allow-writes", "--report", &report, "--state", &state]);
    let (stdout, stderr) = texts(&output);
    assert!(output.status.success(), "{stdout}{stderr}");
    assert!(stdout.contains("PROBE") && stdout.contains(&format!("report: {report}")), "{stdout}");
    assert!(stderr.contains("1 of 8: one instance more (about ") && stderr.contains(" minutes left)"), "{stderr}");
    let written = Report::read(report.as_ref()).expect("a report");
    let seconds: f64 = written.steps.iter().map(|step| step.seconds).sum();
    assert!(seconds < 600.0, "{seconds} s of the simulated cloud's time");

    let (emulator, config) = emulated(quick());
    let output = run(&verify(&config).iter().map(String::as_str).collect::<Vec<_>>());
    assert!(texts(&output).0.contains("Nothing was written. Add --allow-writes to run it."), "{output:?}");
    assert_eq!(writes(&emulator), 0);
}

#[test]
fn a_report_is_found_again_in_a_simulated_group_and_what_it_cannot_do_is_named() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reports/simulated-scale-set-nominal.yaml");
    let folder = tempfile::tempdir().expect("a folder");
    let in_folder = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (again, other) = (in_folder("again.yaml"), in_folder("other.yaml"));
    let mut command = command(&["verify", "--against", path, "--report", &again]);
    // Nothing can be written to this folder, as in a pod whose root file system is read-only.
    let output = command.current_dir("/proc").output().expect("the binary runs");
    let (stdout, stderr) = texts(&output);
    assert!(output.status.success(), "{stdout}{stderr}");
    assert!(stdout.contains("Every verdict of the report was found again"), "{stdout}");
    let mut report = Report::read(again.as_ref()).expect("a report");
    assert_eq!(report.behavior.capacity_is, Some(CapacityIs::Nominal));
    let guard = report.findings.iter_mut().find(|finding| finding.probe == Probe::Guard).expect("one for each");
    guard.verdict = Verdict::Broken;
    report.write(other.as_ref()).expect("written");
    let output = run(&["verify", "--against", &other]);
    let (stdout, stderr) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{stdout}{stderr}");
    assert!(stdout.contains("guard: BROKEN in the report, as assumed here"), "{stdout}");
    let output = run(&["verify", "--against", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}
