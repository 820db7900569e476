//! The command: which groups it takes, and what it writes.

use std::sync::Arc;

use headcount::clouds::simulated::{GroupPlan, Simulated};

use crate::commands::texts;
use crate::emulators::Emulator;
use crate::emulators::arm::Arm;
use crate::peers::headcount::{ConfigFile, run};

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
