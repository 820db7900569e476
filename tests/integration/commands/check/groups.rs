//! Findings about groups.

use std::sync::Arc;

use headcount::cloud::{Family, Permit};
use headcount::clouds::simulated::{GroupPlan, Simulated};

use serde_json::{Value, json};

use super::{aws, check, plan};
use crate::commands::{config, texts};
use crate::emulators::arm::{Arm, denied};
use crate::emulators::aws::{Launch, Override};
use crate::emulators::{Emulator, HttpResponse};
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
    let seen = "the Cluster Autoscaler sees";
    found.has("warning spread it spans 2 zones", &["(AZRebalance)", seen, "— aws autoscaling suspend-processes"]);
    found.has("warning spread cannot shrink: the group's Terminate process is suspended", &["resume-processes"]);
    found.has("warning stuck cannot grow: the group's Launch process is suspended", &["resume-processes"]);
    found.has("warning weighted cannot grow: ", &["different weights", "give its instance types the same weight"]);
    found.has(
        "warning scaled its size is also set by scaling policies: cpu-50;",
        &[seen, "— delete them", "--policy-name cpu-50"],
    );
    found.has(
        "warning scaled an instance refresh is under way (InProgress, 40 % done)",
        &[seen, "cancel-instance-refresh --auto-scaling-group-name scaled"],
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
    found.has(
        "error template no template can be built, so it cannot grow from zero: ",
        &["launch template", "— correct what the group launches from"],
    );
    found.has("ok good", &[]);
    let severities: Vec<_> = found.lines.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(severities, ["error", "ok", "ok", "ok", "ok"]);
    assert_eq!(found.code, Some(1));
}

#[tokio::test]
async fn a_managed_node_group_that_eks_does_not_describe_is_a_warning_and_has_a_template() {
    let mut workers = plan("workers");
    for (key, value) in [("eks:cluster-name", "prod"), ("eks:nodegroup-name", "w1")] {
        workers.tags.insert(key.to_owned(), value.to_owned());
    }
    let emulator = aws([workers]);
    let config = config(&emulator, &["0:10:workers"], "");
    check(&config).has("ok workers size 2 in 0:10", &[]);
    emulator.script("GET", "/node-groups/", 99, HttpResponse::json(503, &json!({"message": "upstream timed out"})));
    let found = check(&config);
    let lacks = "warning workers its template lacks the labels and taints of the managed node group w1: unreachable: ";
    found.has(lacks, &["DescribeNodegroup", "allow eks:DescribeNodegroup", "VPC endpoint for EKS"]);
    found.has_no("error workers");
    let output = run(&["template", "workers", "--config", &config.path()]);
    let (table, stderr) = texts(&output);
    let unread = table.lines().find(|line| line.starts_with("unread ")).unwrap_or_default();
    let parts = ["labels and taints of the managed node group w1", "not read: unreachable"];
    assert!(parts.iter().all(|part| unread.contains(part)), "{table}\n{stderr}");
}

#[tokio::test]
async fn a_type_that_neither_a_table_nor_the_cloud_has_is_an_error_with_advice() {
    let emulator = aws([plan("odd")]);
    let unknown = Override { instance_type: Some("x9.huge".to_owned()), ..Override::default() };
    emulator.group_details("odd", |details| details.overrides = vec![unknown]);
    check(&config(&emulator, &["0:10:odd"], "")).has(
        "error odd no template can be built, so it cannot grow from zero: instance type x9.huge is unknown",
        &["unknown — add it to a table under instanceTypes"],
    );
}

#[tokio::test]
async fn groups_that_cannot_grow_by_launches_as_configured_are_warnings() {
    let mut several = plan("several");
    several.zones.push("us-east-1b".to_owned());
    let emulator = aws([plan("web"), several, plan("pool"), plan("mixed"), plan("old")]);
    emulator.group_details("pool", |details| {
        details.settings = "<WarmPoolConfiguration><MinSize>0</MinSize></WarmPoolConfiguration>".to_owned();
    });
    emulator.group_details("mixed", |details| details.on_demand = Some(50));
    emulator.group_details("old", |details| details.launch = Launch::Configuration);
    let groups = ["0:10:web", "0:10:several", "0:10:pool", "0:10:mixed", "0:10:old"];
    let found = check(&config(&emulator, &groups, "groups: [{match: \"*\", launch: synchronous}]"));
    for (group, reason) in [
        ("several", "zones"),
        ("pool", "it has a warm pool"),
        ("mixed", "it has both On-Demand and Spot Instances"),
        ("old", "it has no launch template"),
    ] {
        let start =
            format!("warning {group} launch: synchronous is set for it, and its desired capacity is set instead");
        found.has(&start, &[reason, "docs/aws-launch.md"]);
    }
    found.has_no("warning web launch: synchronous");
    let usual = check(&config(&emulator, &groups, ""));
    usual.has_no("warning pool launch: synchronous");
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
    found.has(
        "warning pool its size is also set by the autoscale setting by-cpu;",
        &["the Cluster Autoscaler sees targets that it did not set", "— switch it off: az monitor"],
    );
    found.has_no("warning calm");
    found.has("ok calm", &[]);
    assert_eq!(found.code, Some(0));
}

/// Each setting of an Auto Scaling group that changes instances by itself: how AWS describes it, the finding, and the
/// command that changes it.
const BY_ITSELF_ON_AWS: [(&str, &str, &str); 4] = [
    (
        "<MaxInstanceLifetime>604800</MaxInstanceLifetime>",
        "warning HC412 MaxInstanceLifetime is 7 days: AWS replaces each instance at that age",
        "update-auto-scaling-group --auto-scaling-group-name web --max-instance-lifetime 0",
    ),
    (
        "<AvailabilityZoneDistribution><CapacityDistributionStrategy>balanced-only</CapacityDistributionStrategy>\
         </AvailabilityZoneDistribution>",
        "warning HC413 its zone distribution is balanced-only: AWS goes on launching in a zone that has no capacity",
        "--availability-zone-distribution CapacityDistributionStrategy=balanced-best-effort",
    ),
    (
        "<Operator><Principal>emr.amazonaws.com</Principal></Operator>",
        "error HC414 its Operator is emr.amazonaws.com: AWS lets nobody else change it",
        "remove it from the configuration",
    ),
    (
        "<WarmPoolConfiguration><MinSize>0</MinSize><PoolState>Stopped</PoolState><InstanceReusePolicy>\
         <ReuseOnScaleIn>true</ReuseOnScaleIn></InstanceReusePolicy></WarmPoolConfiguration>",
        "warning HC415 its warm pool reuses instances (ReuseOnScaleIn)",
        "put-warm-pool --auto-scaling-group-name web --instance-reuse-policy ReuseOnScaleIn=false",
    ),
];

/// The lines of the table about a group, with the code after the severity, and single spaces.
fn lines_about(subject: &str, config: &ConfigFile) -> Vec<String> {
    let (table, stderr) = texts(&run(&["check", "--config", &config.path()]));
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let of_subject = table.lines().map(words).filter(|words| words.get(2).is_some_and(|it| it == subject));
    let lines: Vec<String> = of_subject.map(|words| [&words[..2], &words[3..]].concat().join(" ")).collect();
    assert!(!lines.is_empty(), "{table}{stderr}");
    lines
}

#[track_caller]
fn assert_finding(lines: &[String], start: &str, command: &str) {
    let found = lines
        .iter()
        .any(|line| line.starts_with(start) && line.contains("the Cluster Autoscaler") && line.contains(command));
    assert!(found, "{start} … {command} in\n{}", lines.join("\n"));
}

#[tokio::test]
async fn what_aws_changes_by_itself_is_found_with_the_command_that_changes_it() {
    let emulator = aws([GroupPlan::aws("web").sized(0, 10, 2), plan("calm")]);
    let settings: String = BY_ITSELF_ON_AWS.iter().map(|(xml, ..)| *xml).collect();
    let protected = "<NewInstancesProtectedFromScaleIn>true</NewInstancesProtectedFromScaleIn>";
    emulator.group_details("web", |details| {
        details.settings = settings;
        details.scheduled = vec!["night".to_owned(), "day".to_owned()];
        details.others = (1..=6).map(|number| (format!("i-{number}"), "Terminating:Retained".to_owned())).collect();
    });
    emulator.group_details("calm", |details| details.settings = protected.to_owned());
    let config = config(&emulator, &["0:10:web", "0:10:calm"], "");
    let lines = lines_about("web", &config);
    for (_, start, command) in BY_ITSELF_ON_AWS {
        assert_finding(&lines, start, command);
    }
    let actions = "warning HC404 its size is also set by scheduled actions: night, day;";
    assert_finding(
        &lines,
        actions,
        "delete-scheduled-action --auto-scaling-group-name web --scheduled-action-name night",
    );
    let retained = "warning HC415 6 of its instances stay in Terminating:Retained (i-1, i-2, i-3, i-4, i-5, …):";
    assert_finding(&lines, retained, "--instance-id i-1 --no-should-decrement-desired-capacity");
    let unprotected = "ok HC416 its new instances are not protected from scale-in";
    assert_finding(&lines, unprotected, "--new-instances-protected-from-scale-in");
    assert_eq!(lines_about("calm", &config).len(), 1, "the template alone");
}

/// Each setting of a scale set that changes VMs by itself: a property as ARM shows it, the finding, and what `az vmss
/// update` sets.
fn by_itself_on_azure() -> [(&'static str, Value, &'static str, &'static str); 7] {
    let rolling = json!({"mode": "Rolling", "rollingUpgradePolicy": {"maxSurge": true},
        "automaticOSUpgradePolicy": {"enableAutomaticOSUpgrade": true}});
    let on = json!({"enabled": true});
    let balance = json!({"enabled": true, "rebalanceStrategy": "Recreate", "rebalanceBehavior": "CreateBeforeDelete"});
    let resiliency = json!({
        "resilientVMCreationPolicy": on,
        "resilientVMDeletionPolicy": on,
        "automaticZoneRebalancingPolicy": balance,
    });
    let repairs = json!({"enabled": true, "gracePeriod": "PT10M", "repairAction": "Replace"});
    [
        (
            "automaticRepairsPolicy",
            repairs,
            "automatic repairs are on: Azure deletes",
            "automaticRepairsPolicy.enabled=false",
        ),
        (
            "upgradePolicy",
            rolling.clone(),
            "automatic OS upgrades are on",
            "automaticOSUpgradePolicy.enableAutomaticOSUpgrade=false",
        ),
        ("upgradePolicy", rolling, "rolling upgrades have surge", "upgradePolicy.rollingUpgradePolicy.maxSurge=false"),
        (
            "spotRestorePolicy",
            json!({"enabled": true, "restoreTimeout": "PT1H"}),
            "try-restore is on",
            "spotRestorePolicy.enabled=false",
        ),
        (
            "resiliencyPolicy",
            resiliency.clone(),
            "resilient VM creation is on",
            "resilientVMCreationPolicy.enabled=false",
        ),
        (
            "resiliencyPolicy",
            resiliency.clone(),
            "resilient VM deletion is on",
            "resilientVMDeletionPolicy.enabled=false",
        ),
        (
            "resiliencyPolicy",
            resiliency,
            "automatic zone balance is on",
            "automaticZoneRebalancingPolicy.enabled=false",
        ),
    ]
}

#[tokio::test]
async fn what_azure_changes_by_itself_is_found_with_the_command_that_changes_it() {
    let mut pool = GroupPlan::azure("pool");
    let tags =
        [("aks-managed-poolName", "np1"), ("aks-managed-cluster-name", "prod"), ("aks-managed-cluster-rg", "apps")];
    pool.tags.extend(tags.map(|(key, value)| (key.to_owned(), value.to_owned())));
    let cloud = Simulated::with_groups(7, [pool, GroupPlan::azure("calm"), GroupPlan::azure("restarted")]);
    let emulator = Arm::start(Arc::new(cloud.of_family(Family::Azure)));
    emulator.group_details("pool", |details| {
        details.aks_autoscales = true;
        details.properties.extend(by_itself_on_azure().map(|(name, value, ..)| (name.to_owned(), value)));
    });
    let off = json!({"enabled": false});
    let restart = json!({"enabled": true, "repairAction": "Restart"});
    let manual = json!({"mode": "Manual", "rollingUpgradePolicy": {"maxSurge": true}});
    emulator.group_details("calm", |details| {
        let off = [("automaticRepairsPolicy", off.clone()), ("spotRestorePolicy", off), ("upgradePolicy", manual)];
        details.properties.extend(off.map(|(name, value)| (name.to_owned(), value)));
    });
    emulator.group_details("restarted", |details| {
        details.properties.insert("automaticRepairsPolicy".to_owned(), restart);
    });
    let config = config(&emulator, &["0:10:pool", "0:10:calm", "0:10:restarted"], "");
    let lines = lines_about("pool", &config);
    for (_, _, start, change) in by_itself_on_azure() {
        assert_finding(&lines, &format!("warning HC412 {start}"), &format!("--name pool --set {}", set_path(change)));
    }
    let aks = "warning HC404 its size is also set by the autoscaler of AKS (enableAutoScaling of node pool np1)";
    let off =
        "az aks nodepool update --resource-group apps --cluster-name prod --name np1 --disable-cluster-autoscaler";
    assert_finding(&lines, aks, off);
    assert_eq!(lines_about("calm", &config).len(), 1, "the template alone");
    let restarted = lines_about("restarted", &config);
    assert_finding(
        &restarted,
        "warning HC412 automatic repairs are on: Azure restarts",
        "automaticRepairsPolicy.enabled=false",
    );
}

/// The whole path of a setting that is named by its end.
fn set_path(end: &str) -> String {
    let start = match end {
        _ if end.starts_with("automaticOSUpgradePolicy") => "upgradePolicy.",
        _ if end.starts_with("resilientVM") || end.starts_with("automaticZone") => "resiliencyPolicy.",
        _ => "",
    };
    format!("{start}{end}")
}

#[tokio::test]
async fn without_the_permission_to_read_pools_of_aks_the_rest_is_still_found() {
    let mut pool = GroupPlan::azure("pool");
    let tags =
        [("aks-managed-poolName", "np1"), ("aks-managed-cluster-name", "prod"), ("aks-managed-cluster-rg", "apps")];
    pool.tags.extend(tags.map(|(key, value)| (key.to_owned(), value.to_owned())));
    let emulator = Arm::start(Arc::new(Simulated::with_groups(7, [pool]).of_family(Family::Azure)));
    emulator.group_details("pool", |details| {
        details.properties.insert("spotRestorePolicy".to_owned(), json!({"enabled": true}));
    });
    emulator.script("GET", "agentPools", 99, denied("Microsoft.ContainerService/managedClusters/agentPools/read"));
    let found = check(&config(&emulator, &["0:10:pool"], ""));
    found.has("warning here cannot be checked for settings that conflict", &["denied: AgentPools_List"]);
    found.has("warning pool try-restore is on", &[]);
    assert_eq!(found.code, Some(0), "serving does not need it");
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
