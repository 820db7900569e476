//! `headcount instance-types export`

use std::sync::Arc;

use headcount::cloud::Family;
use headcount::clouds::simulated::{GroupPlan, Simulated};
use headcount::instance_types::Table;

use super::{config, empty, texts};
use crate::emulators::arm::Arm;
use crate::emulators::aws::Aws;
use crate::peers::headcount::{ConfigFile, run};
use crate::peers::moto::Moto;

/// The table that is written for the source `here`.
fn exported(config: &ConfigFile) -> String {
    let output = run(&["instance-types", "export", "--source", "here", "--config", &config.path()]);
    let (table, stderr) = texts(&output);
    assert!(output.status.success(), "{stderr}");
    table
}

fn entries(text: &str, family: Family) -> Vec<(String, String)> {
    let table = Table::parse(text, "exported.yaml").expect("it can be read again");
    table.types(family).iter().map(|(name, entry)| (name.clone(), entry.to_string())).collect()
}

fn holds(entries: &[(String, String)], name: &str, entry: &str) {
    assert!(entries.contains(&(name.to_owned(), entry.to_owned())), "{name} in {entries:?}");
}

#[tokio::test]
async fn all_types_of_a_region_are_written_and_read_again_with_the_same_figures() {
    let emulator = Aws::start(empty());
    let found = entries(&exported(&config(&emulator, &["0:1:web"], "")), Family::Aws);
    assert_eq!(found.len(), 14);
    holds(
        &found,
        "m5.large",
        "{cpu: 2, nominalMemory: 8Gi, arch: amd64, pods: 29, vpc.amazonaws.com/PrivateIPv4Address: 9}",
    );
    holds(
        &found,
        "m6g.large",
        "{cpu: 2, nominalMemory: 8Gi, arch: arm64, pods: 29, vpc.amazonaws.com/PrivateIPv4Address: 9}",
    );
    holds(
        &found,
        "g4dn.xlarge",
        "{cpu: 4, nominalMemory: 16Gi, arch: amd64, pods: 29, nvidia.com/gpu: 1, \
            vpc.amazonaws.com/PrivateIPv4Address: 9}",
    );
    holds(
        &found,
        "p4d.24xlarge",
        "{cpu: 96, nominalMemory: 1152Gi, arch: amd64, pods: 737, nvidia.com/gpu: 8, \
            vpc.amazonaws.com/PrivateIPv4Address: 49}",
    );
}

#[tokio::test]
async fn all_sizes_of_a_location_are_written_and_read_again_with_the_same_figures() {
    let emulator = Arm::start(Arc::new(Simulated::with_groups(7, [GroupPlan::azure("pool")]).of_family(Family::Azure)));
    let found = entries(&exported(&config(&emulator, &["0:1:pool"], "")), Family::Azure);
    assert_eq!(found.len(), 7);
    holds(&found, "standard_d4ps_v5", "{cpu: 4, nominalMemory: 16Gi, arch: arm64}");
    holds(&found, "standard_nc24ads_a100_v4", "{cpu: 24, nominalMemory: 220Gi, arch: amd64, nvidia.com/gpu: 1}");
    holds(&found, "standard_e8-4ds_v5", "{cpu: 4, nominalMemory: 64Gi, arch: amd64}");
    holds(&found, "standard_b1ls", "{cpu: 1, nominalMemory: 512Mi, arch: amd64}");
}

#[tokio::test]
async fn an_exported_table_gives_the_same_figures_with_more_trust() {
    let emulator = Aws::start(Arc::new(Simulated::with_groups(7, [GroupPlan::aws("web")])));
    let template = |config: &ConfigFile| {
        let output = run(&["template", "web", "--config", &config.path()]);
        let (rows, stderr) = texts(&output);
        let row = rows.lines().find(|line| line.starts_with("capacity.memory")).map(str::to_owned);
        row.unwrap_or_else(|| panic!("{rows}{stderr}"))
    };
    let plain = config(&emulator, &["0:1:web"], "");
    let before = template(&plain);
    let table = exported(&plain);
    let after = template(&config(&emulator, &["0:1:web"], "instanceTypes: [table.yaml]").beside("table.yaml", &table));
    let memory = |row: &str| row.split_whitespace().nth(1).map(str::to_owned);
    assert_eq!(memory(&before), memory(&after));
    assert!(before.contains("live discovery") && after.contains("user table"), "{before}\n{after}");
}

#[tokio::test]
async fn the_types_of_moto_agree_with_the_shipped_table() {
    let Some(exported) = Moto::exported_types().await else { return };
    let exported = Table::parse(exported, "exported.yaml").expect("it can be read again");
    let types = exported.types(Family::Aws);
    assert!(types.len() > 500, "{} types", types.len());
    for name in ["m5.large", "c5.xlarge", "r6g.2xlarge", "t3.micro"] {
        let shipped = Table::shipped(Family::Aws).get(Family::Aws, name).expect(name);
        let live = types.get(name).expect(name);
        assert_eq!((live.cpu, live.nominal_memory), (shipped.cpu, shipped.nominal_memory), "{name}");
        assert_eq!((live.architecture, live.pods), (shipped.architecture, shipped.pods), "{name}");
    }
}

#[tokio::test]
async fn a_source_is_chosen_by_its_name_and_one_that_cannot_be_read_is_a_failure() {
    let two = ConfigFile::new("sources: [{name: a, simulated: {}}, {name: b, simulated: {}}]\n");
    for (arguments, code, part) in [
        (vec!["--source", "c"], Some(2), "--source c: no such source in the configuration; choose one of: a, b"),
        (vec![], Some(2), "the configuration has several sources; choose one with --source NAME: a, b"),
        (vec!["--source", "b"], Some(0), ""),
    ] {
        let mut all = vec!["instance-types", "export"];
        all.extend(arguments);
        let path = two.path();
        all.extend(["--config", &path]);
        let output = run(&all);
        let (table, stderr) = texts(&output);
        assert_eq!(output.status.code(), code, "{stderr}");
        assert!(stderr.contains(part) && (code == Some(0)) != table.is_empty(), "{stderr}");
    }
    let gone = "{region: us-east-1, endpoint: \"http://127.0.0.1:1\", nodeGroups: [\"0:1:a\"]}";
    let gone = ConfigFile::new(&format!("sources: [{{name: us, aws: {gone}}}]\n"));
    let output = run(&["instance-types", "export", "--config", &gone.path()]);
    assert_eq!(output.status.code(), Some(1));
    let (table, stderr) = texts(&output);
    assert!(table.is_empty() && stderr.contains("source us: unreachable: DescribeInstanceTypes"), "{stderr}");
}
