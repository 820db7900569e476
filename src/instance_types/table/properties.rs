use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::cloud::{Accelerator, Architecture, InstanceType};
use crate::instance_types::export;
use crate::properties::{Written, config, costly, pieces, slipped};

const GOOD: &str = "# ours\naws:\n  m5.large: {cpu: \"2\", nominalMemory: 8Gi, arch: amd64, pods: 29}\n  \
                    c5d.large: {memory: 16Gi}\nazure:\n  Standard_NC24ads_A100_v4:\n    cpu: 24\n    nvidia.com/gpu: \"1\"\n";
const PIECES: [&str; 16] =
    ["aws:", "azure:", "\n", "\n  ", "m5.large", ": ", "{", "}", "[", "cpu", "memory", "8Gi", "-1", "&a ", "*a", "'"];

/// An error names a place in the text and is short.
fn is_fair(text: &str, error: &TableError) -> bool {
    let lines = text.lines().count() as u64 + 1;
    error.line <= lines && error.to_string().len() < 400 + text.len()
}

fn any_type() -> impl Strategy<Value = InstanceType> {
    let architecture = prop_oneof![Just(Architecture::Amd64), Just(Architecture::Arm64)];
    let parts = ("[a-z][a-z0-9]{1,5}\\.[a-z0-9]{1,8}", 0..500_u32, 0..50_000_000_u64, architecture, 0..17_u32);
    parts.prop_map(|(name, cpus, memory_mib, architecture, count)| InstanceType {
        name,
        cpus,
        memory_mib,
        architecture,
        accelerators: vec![Accelerator { resource: "nvidia.com/gpu".to_owned(), count }],
        network_pods: (count > 8).then_some(cpus),
        local_disk_bytes: (count > 4).then_some(u64::from(cpus) << 30),
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_text_is_a_table_or_an_error_that_says_what_is_wrong(text in pieces(&PIECES)) {
        if let Err(error) = Table::parse(&text, "mine.yaml") {
            prop_assert!(is_fair(&text, &error), "{}", error);
        }
    }

    #[test]
    fn what_is_exported_is_read_back(types in vec(any_type(), 0..8)) {
        let yaml = export(Family::Aws, &types);
        let table = Table::parse(&yaml, "mine.yaml").expect("of our own making");
        for live in &types {
            prop_assert!(table.get(Family::Aws, &live.name).is_some(), "{}", live.name);
        }
        let last = types.iter().rev().fold(BTreeMap::new(), |mut last: BTreeMap<&str, Entry>, live| {
            last.entry(&live.name).or_insert_with(|| Entry::from(live));
            last
        });
        for (name, entry) in last {
            prop_assert_eq!(table.get(Family::Aws, name), Some(&entry));
        }
    }
}

proptest! {
    #![proptest_config(costly())]

    #[test]
    fn a_damaged_table_is_a_table_or_an_error_that_says_what_is_wrong(Written(bytes) in slipped(GOOD)) {
        let text = String::from_utf8_lossy(&bytes);
        match Table::parse(&text, "mine.yaml") {
            Err(error) => prop_assert!(is_fair(&text, &error), "{}", error),
            Ok(table) => {
                for entry in table.types(Family::Aws).values().chain(table.types(Family::Azure).values()) {
                    let quantities = [entry.cpu, entry.memory, entry.nominal_memory].into_iter().flatten();
                    let mut quantities = quantities.chain(entry.resources.values().copied());
                    prop_assert!(quantities.all(|quantity| !quantity.is_negative()), "{}", entry);
                }
            }
        }
    }
}
