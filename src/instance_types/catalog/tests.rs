use super::*;
use crate::cloud::Accelerator;

fn table(text: &str, file: &str) -> Table {
    Table::parse(text, file).unwrap()
}

fn live(name: &str, cpus: u32, memory_mib: u64) -> InstanceType {
    let accelerators = vec![Accelerator { resource: "nvidia.com/gpu".into(), count: 4 }; 2];
    let architecture = Architecture::Amd64;
    InstanceType {
        name: name.into(),
        cpus,
        memory_mib,
        architecture,
        accelerators,
        network_pods: Some(30),
        local_disk_bytes: None,
    }
}

#[test]
fn later_tables_win_resource_by_resource() {
    let catalog = Catalog::new(vec![
        table("aws: {m5.large: {cpu: 3, memory: 7Gi, pods: 20}}", "one.yaml"),
        table("aws: {m5.large: {cpu: 4, nvidia.com/gpu: 1}}", "two.yaml"),
    ]);
    let m5 = catalog.resolve(Family::Aws, "m5.large").unwrap();
    let cpu = m5.cpu.unwrap();
    assert_eq!((cpu.value.to_string(), cpu.provenance.to_string()), ("4".into(), "user table two.yaml".into()));
    let (runner_up, provenance) = cpu.runner_up.unwrap();
    assert_eq!((runner_up.to_string(), provenance.to_string()), ("3".into(), "user table one.yaml".into()));
    let memory = m5.memory.unwrap();
    assert_eq!(memory.value, MemorySize::Reported("7Gi".parse().unwrap()));
    let nominal =
        (MemorySize::Nominal("8Gi".parse().unwrap()), Provenance::Shipped { version: super::super::SHIPPED_VERSION });
    assert_eq!(memory.runner_up, Some(nominal));
    assert_eq!((m5.pods.unwrap().value, m5.network_pods), (20, Some(29)));
    assert!(m5.resources.contains_key("nvidia.com/gpu"));
}

#[test]
fn live_discovery_is_between_the_users_tables_and_the_shipped_ones() {
    let catalog = Catalog::new(vec![table("aws: {m5.large: {cpu: 4}}", "one.yaml")]);
    assert!(!catalog.knows_live(Family::Aws, "m5.large"));
    catalog.insert_live(Family::Aws, &[live("m5.large", 5, 1024), live("new.large", 7, 2048)]);
    assert!(catalog.knows_live(Family::Aws, "m5.large") && !catalog.knows_live(Family::Azure, "m5.large"));
    let m5 = catalog.resolve(Family::Aws, "m5.large").unwrap();
    assert_eq!(m5.cpu.unwrap().runner_up, Some((Quantity::units(5), Provenance::LiveDiscovery)));
    assert_eq!(m5.memory.unwrap().value, MemorySize::Nominal("1Gi".parse().unwrap()));
    assert_eq!(m5.network_pods, Some(30));
    let new = catalog.resolve(Family::Aws, "new.large").unwrap();
    assert_eq!(new.resources["nvidia.com/gpu"].value, Quantity::units(8));
    assert!(catalog.resolve(Family::Aws, "newer.large").is_none());
}

#[test]
fn azure_ignores_case_and_promotions() {
    let catalog = Catalog::default().with_live(Family::Azure, &[live("Standard_New", 1, 1024)]);
    assert!(catalog.resolve(Family::Azure, "standard_ds2_V2").is_some());
    assert!(catalog.resolve(Family::Azure, "Standard_DS2_v2_Promo").is_some());
    assert!(catalog.knows_live(Family::Azure, "STANDARD_NEW"));
    assert!(catalog.resolve(Family::Aws, "M5.LARGE").is_none());
}

#[test]
fn what_is_kept_of_live_discovery_is_bounded() {
    let types: Vec<_> = (0..=LIVE_TYPES_MAX).map(|number| live(&format!("t{number}"), 1, 1024)).collect();
    let catalog = Catalog::default().with_live(Family::Aws, &types);
    assert!(catalog.knows_live(Family::Aws, "t0") && !catalog.knows_live(Family::Aws, &format!("t{LIVE_TYPES_MAX}")));
}
