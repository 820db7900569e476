//! Writes a capacity table from live discovery, for users to review, edit and add to the configuration.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::entry::Entry;
use crate::cloud::text::yaml_string;
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
        let _ = writeln!(yaml, "  {}: {entry}", key_of(name));
    }
    yaml
}

/// A name as a key. Clouds' names are plain words; others are quoted.
fn key_of(name: &str) -> Cow<'_, str> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    // A plain word could be a number, a Boolean or nothing; those begin otherwise, or have no such letter.
    let is_word = name.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && name.contains(|letter: char| "._".contains(letter) || letter.is_ascii_digit());
    if is_word && name.chars().all(is_plain) { Cow::Borrowed(name) } else { Cow::Owned(yaml_string(name)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::Architecture;
    use crate::instance_types::Table;

    #[test]
    fn a_name_of_any_characters_is_one_key() {
        for name in
            ["m5.large", "Standard_D2ps_v5", "true", "1e3", "a: {b: c}", "x\n  y", "\u{202e}m5", "\u{9b}", "- a", "#"]
        {
            let table: std::collections::BTreeMap<String, u32> =
                serde_saphyr::from_str(&format!("{}: 1\n", key_of(name))).expect(name);
            assert_eq!(table.keys().collect::<Vec<_>>(), [name]);
        }
        assert_eq!(key_of("m5.large"), "m5.large");
    }

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
