//! Findings about groups.

use std::sync::Arc;

use headcount::cloud::{Family, Permit};
use headcount::clouds::simulated::{GroupPlan, Simulated};

use super::{aws, check, plan};
use crate::commands::{config, texts};
use crate::emulators::Emulator;
use crate::emulators::arm::Arm;
use crate::emulators::aws::{Launch, Override};
use crate::peers::headcount::{ConfigFile, run};

#[tokio::test]
async fn settings_that_conflict_with_the_autoscaler_are_warnings_with_advice() {
    let mut spread = GroupPlan::aws("spread").sized(0, 10, 2);
    spread.removal = Permit::Withheld("suspended".to_owned());
    let mut stuck = plan("stuck");
    stuck.growth = Permit::Withheld("suspended".to_owned());
    let emulator = aws([spread, stuck, plan("weighted"), plan("scaled"), plan("bounds")]);
    let weight = |name: &str, weight: &str| Override {
        instance_type: Some(name.to_owned()),
        weight: Some(weight.to_owned()),
        requirements: None,
    };
    emulator.group_details("weighted", |details| {
        details.overrides = vec![weight("m5.large", "1"), weight("m5.xlarge", "2")]
    });
    emulator.group_details("scaled", |details| {
        details.policies = vec!["cpu-50".to_owned()];
        details.refresh = Some("InProgress".to_owned());
    });
    let groups = ["0:10:spread", "0:10:stuck", "0:10:weighted", "0:10:scaled", "1:5:bounds", "0:1:gone"];
    let found = check(&config(&emulator, &groups, "learn: {configMap: mine}"));
    found.has("warning spread it spans 2 zones", &["(AZRebalance) — aws autoscaling suspend-processes"]);
    found.has("warning spread cannot shrink: the group's Terminate process is suspended", &["resume-processes"]);
    found.has("warning stuck cannot grow: the group's Launch process is suspended", &["resume-processes"]);
    found.has("warning weighted cannot grow: ", &["different weights", "give its instance types the same weight"]);
    found.has(
        "warning scaled its size is also set by scaling policies: cpu-50 — delete them",
        &["--policy-name cpu-50"],
    );
    found.has(
        "warning scaled an instance refresh is under way (InProgress, 40 % done)",
        &["cancel-instance-refresh --auto-scaling-group-name scaled"],
    );
    found.has("warning bounds configured as 1:5, but the Auto Scaling group has 0:10; 1:5 is used", &[]);
    found.has("warning gone is in the configuration but does not exist — create it, or correct the name", &[]);
    found.has("warning config", &["nothing is learned; set learn.kubernetes to true"]);
    found.has("ok scaled size 2 in 0:10", &[]);
    found.has_no("error");
    assert_eq!(found.code, Some(0), "none of it prevents Headcount from working");
}

#[tokio::test]
async fn a_group_whose_machines_cannot_be_described_is_an_error_and_comes_first() {
    let emulator = aws([plan("good"), plan("template")]);
    emulator.group_details("template", |details| details.launch = Launch::MissingTemplate);
    let found = check(&config(&emulator, &["0:10:good", "0:10:template"], ""));
    found.has("error template no template can be built, so it cannot grow from zero: ", &["launch template"]);
    found.has("ok good", &[]);
    let severities: Vec<_> = found.lines.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(severities, ["error", "ok", "ok"]);
    assert_eq!(found.code, Some(1));
}

#[tokio::test]
async fn shared_names_and_gpus_in_both_clouds_are_warnings() {
    let one = aws([plan("web").instance_types(&["g4dn.xlarge"])]);
    let two = Arm::start(Arc::new(
        Simulated::with_groups(7, [GroupPlan::azure("web").instance_types(&["Standard_NC24ads_A100_v4"])])
            .of_family(Family::Azure),
    ));
    let settings = |name: &str, emulator: &dyn Fn() -> (String, Vec<String>)| {
        let (cloud, lines) = emulator();
        let lines: String = lines.iter().map(|line| format!("      {line}\n")).collect();
        format!("  - name: {name}\n    {cloud}:\n{lines}      nodeGroups: [\"0:100:web\"]\n")
    };
    let sources = settings("us", &|| (one.cloud().to_owned(), one.settings()))
        + &settings("eu", &|| (two.cloud().to_owned(), two.settings()));
    let both = check(&ConfigFile::new(&format!("sources:\n{sources}")));
    both.has("warning us/web another source also has a group named web, so each is served as source/name — use", &[]);
    both.has("warning eu/web another source also has", &[]);
    both.has("warning config both clouds have GPU groups", &["set it as gpuLabel"]);
    both.has("ok eu/web", &[]);
    let labelled = check(&ConfigFile::new(&format!("gpuLabel: team/gpu\nsources:\n{sources}")));
    labelled.has_no("warning config");
}

#[tokio::test]
async fn a_scale_set_that_azure_monitor_also_scales_is_a_warning() {
    let cloud = Simulated::with_groups(7, [GroupPlan::azure("pool"), GroupPlan::azure("calm")]);
    let emulator = Arm::start(Arc::new(cloud.of_family(Family::Azure)));
    emulator.group_details("pool", |details| details.autoscale = Some("by-cpu".to_owned()));
    let found = check(&config(&emulator, &["0:10:pool", "0:10:calm"], ""));
    found.has("warning pool its size is also set by the autoscale setting by-cpu — switch it off: az monitor", &[]);
    found.has_no("warning calm");
    found.has("ok calm", &[]);
    assert_eq!(found.code, Some(0));
}

#[tokio::test]
async fn commands_in_the_output_quote_names_with_spaces() {
    let name = "my $(reboot) group";
    let mut spaced = GroupPlan::aws(name).sized(0, 10, 2);
    spaced.removal = Permit::Withheld("suspended".to_owned());
    let emulator = aws([spaced]);
    let (table, _) = texts(&run(&["check", "--config", &config(&emulator, &[&format!("0:10:{name}")], "").path()]));
    let commands: Vec<&str> = table.lines().filter(|line| line.contains("aws autoscaling")).collect();
    assert!(commands.len() >= 2, "{table}");
    assert!(commands.iter().all(|line| line.contains("--auto-scaling-group-name 'my $(reboot) group'")), "{table}");
}
