//! Writes a capacity table from live discovery, for users to review, edit and add to the configuration.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::entry::Entry;
use crate::cloud::{Family, InstanceType};

/// The YAML of a table of these types, sorted by name, one a line. [`super::Table::parse`] reads it.
pub fn export(family: Family, types: &[InstanceType]) -> String {
    let key = match family {
        Family::Aws => "aws",
        Family::Azure => "azure",
    };
    let sorted: BTreeMap<&str, Entry> = types.iter().map(|live| (live.name.as_str(), Entry::from(live))).collect();
    let mut yaml = String::from(
        "# From live discovery. nominalMemory is what the cloud sells; Headcount subtracts what the hypervisor and the kernel keep.\n\
         # If you know what the kubelet reports, write it as `memory`, which Headcount uses unchanged.\n",
    );
    if sorted.is_empty() {
        // Writing to a String cannot fail.
        let _ = writeln!(yaml, "{key}: {{}}");
        return yaml;
    }
    let _ = writeln!(yaml, "{key}:");
    for (name, entry) in sorted {
        let _ = writeln!(yaml, "  {name}: {entry}");
    }
    yaml
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::Architecture;
    use crate::instance_types::Table;

    #[test]
    fn an_exported_table_can_be_read() {
        let live = InstanceType {
            name: "Standard_D2ps_v5".into(),
            cpus: 2,
            memory_mib: 8192,
            architecture: Architecture::Arm64,
            accelerators: Vec::new(),
            network_pods: None,
            local_disk_bytes: None,
        };
        let yaml = export(Family::Azure, std::slice::from_ref(&live));
        assert!(yaml.ends_with("azure:\n  Standard_D2ps_v5: {cpu: 2, nominalMemory: 8Gi, arch: arm64}\n"), "{yaml}");
        let table = Table::parse(&yaml, "exported.yaml").unwrap();
        assert_eq!(table.get(Family::Azure, &live.name), Some(&Entry::from(&live)));
        assert!(Table::parse(&export(Family::Aws, &[]), "empty.yaml").is_ok());
    }
}
