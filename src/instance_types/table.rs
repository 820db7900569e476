//! A capacity table: the two that ship in the binary, and those that users give.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_saphyr::Spanned;
use thiserror::Error;

use super::entry::Entry;
use super::provenance::Provenance;
use crate::cloud::Family;

/// The date of the shipped tables.
pub const SHIPPED_VERSION: &str = "2026-11-21";

const AWS: &str = include_str!("../../instance-types/aws.yaml");
const AZURE: &str = include_str!("../../instance-types/azure.yaml");

/// Each is parsed when it is first used: a source on one cloud does not pay for the other's table.
static SHIPPED_AWS: LazyLock<Table> = LazyLock::new(|| Table::shipped_from("instance-types/aws.yaml", AWS));
static SHIPPED_AZURE: LazyLock<Table> = LazyLock::new(|| Table::shipped_from("instance-types/azure.yaml", AZURE));

/// The instance types of one file.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    provenance: Provenance,
    /// By name, in the form of [`fold`].
    aws: BTreeMap<String, Entry>,
    azure: BTreeMap<String, Entry>,
}

/// What is wrong with a table, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{origin}:{line}:{column}: {message}")]
pub struct TableError {
    /// The file.
    pub origin: String,
    /// From 1; 0 where it is not known.
    pub line: u64,
    /// From 1; 0 where it is not known.
    pub column: u64,
    /// What is wrong there.
    pub message: String,
}

impl Table {
    /// Reads the YAML of a table. `origin` is the file's name, for messages and as [`Provenance::UserTable`].
    pub fn parse(text: &str, origin: &str) -> Result<Self, TableError> {
        Self::parse_as(text, origin, Provenance::UserTable { file: origin.into() })
    }

    /// The table of a cloud that ships in the binary.
    pub fn shipped(family: Family) -> &'static Self {
        match family {
            Family::Aws => &SHIPPED_AWS,
            Family::Azure => &SHIPPED_AZURE,
        }
    }

    /// Where its figures come from.
    pub fn provenance(&self) -> &Provenance {
        &self.provenance
    }

    /// The entry of a type.
    pub fn get(&self, family: Family, name: &str) -> Option<&Entry> {
        self.types(family).get(&*fold(family, name))
    }

    /// Every type of a cloud, by name (lower case for Azure).
    pub fn types(&self, family: Family) -> &BTreeMap<String, Entry> {
        match family {
            Family::Aws => &self.aws,
            Family::Azure => &self.azure,
        }
    }

    fn parse_as(text: &str, origin: &str, provenance: Provenance) -> Result<Self, TableError> {
        let options = serde_saphyr::options! { with_snippet: false };
        let document: Document = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            let (line, column) = error.location().map_or((0, 0), |at| (at.line(), at.column()));
            let message = match error.without_snippet() {
                serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
                    format!("the key {key:?} is written twice; keep one of them")
                }
                other => other.to_string(),
            };
            let message = message.strip_suffix(&format!(" at line {line}, column {column}")).unwrap_or(&message);
            TableError { origin: origin.to_owned(), line, column, message: message.to_owned() }
        })?;
        let by_name = |family, types: Types| {
            let mut entries = BTreeMap::new();
            for (name, entry) in types.0 {
                if entries.insert(fold(family, &name.value).into_owned(), entry).is_some() {
                    // YAML itself refuses a repeated key; this one differs in case, which the cloud ignores.
                    return Err(TableError {
                        origin: origin.to_owned(),
                        line: name.referenced.line(),
                        column: name.referenced.column(),
                        message: format!("{} is listed twice", name.value),
                    });
                }
            }
            Ok(entries)
        };
        let aws = by_name(Family::Aws, document.aws)?;
        let azure = by_name(Family::Azure, document.azure)?;
        Ok(Self { provenance, aws, azure })
    }

    fn shipped_from(origin: &str, text: &str) -> Self {
        let provenance = Provenance::Shipped { version: SHIPPED_VERSION };
        Self::parse_as(text, origin, provenance.clone()).unwrap_or_else(|error| {
            // A test parses both, so this is not reached. Without a table, each type is simply unknown.
            tracing::error!(%error, "the capacity table in the binary cannot be read; its instance types are unknown");
            Self { provenance, aws: BTreeMap::new(), azure: BTreeMap::new() }
        })
    }
}

/// A type's name for comparison: Azure ignores case, and nodes' labels carry both spellings.
pub(super) fn fold(family: Family, name: &str) -> std::borrow::Cow<'_, str> {
    match family {
        Family::Azure if name.bytes().any(|byte| byte.is_ascii_uppercase()) => name.to_ascii_lowercase().into(),
        Family::Aws | Family::Azure => name.into(),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    aws: Types,
    #[serde(default)]
    azure: Types,
}

/// Types with the places of their names.
#[derive(Default)]
struct Types(Vec<(Spanned<String>, Entry)>);

impl<'de> Deserialize<'de> for Types {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TypesVisitor;
        impl<'de> Visitor<'de> for TypesVisitor {
            type Value = Types;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("instance types, each with its resources")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Types, A::Error> {
                let mut types = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    types.push(entry);
                }
                Ok(Types(types))
            }
        }
        deserializer.deserialize_map(TypesVisitor)
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::Architecture;

    #[test]
    fn a_table_has_the_figures_in_its_text_and_no_others() {
        let text = "aws:\n  c5d.large: {memory: 16Gi}\n  m5.large: {cpu: \"2\", nominalMemory: 8Gi, arch: amd64, pods: 29}\n\
                    azure:\n  Standard_NC24ads_A100_v4: {cpu: 24, nominalMemory: 220Gi, nvidia.com/gpu: \"1\"}\n";
        let table = Table::parse(text, "my-table.yaml").unwrap();
        assert_eq!(table.get(Family::Aws, "c5d.large").unwrap().to_string(), "{memory: 16Gi}");
        let m5 = table.get(Family::Aws, "m5.large").unwrap();
        assert_eq!((m5.pods, m5.architecture), (Some(29), Some(Architecture::Amd64)));
        let a100 = table.get(Family::Azure, "standard_nc24ADS_a100_V4").unwrap();
        assert_eq!(a100.to_string(), "{cpu: 24, nominalMemory: 220Gi, nvidia.com/gpu: 1}");
        assert_eq!(table.get(Family::Aws, "M5.large"), None);
        assert_eq!(table.provenance().to_string(), "user table my-table.yaml");
    }

    #[test]
    fn an_error_in_a_table_names_the_place_and_the_reason() {
        for (text, expected) in [
            ("aws:\n  m5.large: {memroy: 8Gi}\n", "t.yaml:2:14: unknown resource \"memroy\"; expected cpu, memory"),
            ("aws:\n  m5.large:\n    memory: 8Gx\n", "t.yaml:3:13: \"8Gx\" is not a quantity"),
            ("aws:\n  m5.large: {memory: -8Gi}\n", "t.yaml:2:22: -8Gi is negative"),
            ("aws:\n  m5.large: {pods: 2.5}\n", "t.yaml:2:20: pods: \"2.5\" is not a whole number"),
            ("aws:\n  m5.large: {arch: x86_64}\n", "t.yaml:2:20: unknown arch \"x86_64\"; expected amd64 or arm64"),
            ("gcp:\n  n1: {cpu: 1}\n", "t.yaml:1:1: unknown field"),
            ("azure:\n  Standard_A: {cpu: 1}\n  standard_a: {cpu: 2}\n", "t.yaml:3:3: standard_a is listed twice"),
            ("aws:\n  a: {cpu: 1}\n  a: {cpu: 2}\n", "t.yaml:3:3: the key \"a\" is written twice; keep one of them"),
            ("aws: [1]\n", "t.yaml:1:6:"),
            ("aws: {m5.large: 8Gi}\n", "t.yaml:1:17:"),
            ("aws: {\n", "t.yaml:"),
        ] {
            let error = Table::parse(text, "t.yaml").expect_err(text).to_string();
            assert!(error.starts_with(expected), "{text}\n{error}\n{expected}");
            assert!(!error.contains(" at line "), "{error}");
        }
    }

    #[test]
    fn the_shipped_tables_are_complete() {
        for (family, text, least) in [(Family::Aws, AWS, 1300), (Family::Azure, AZURE, 1300)] {
            assert!(text.contains(&format!("# version: {SHIPPED_VERSION}\n")), "{family:?}");
            let started = std::time::Instant::now();
            let table = Table::parse(text, "shipped").unwrap();
            println!("{family:?}: {} types in {:?}", table.types(family).len(), started.elapsed());
            assert!(table.types(family).len() > least);
            for (name, entry) in table.types(family) {
                assert!(entry.cpu.is_some_and(|cpu| !cpu.is_zero()), "{name}");
                assert!(entry.nominal_memory.is_some_and(|memory| !memory.is_zero()), "{name}");
                assert!(entry.architecture.is_some() && entry.memory.is_none(), "{name}");
                assert_eq!(entry.pods.is_some(), family == Family::Aws, "{name}");
            }
            assert!(!Table::shipped(family).types(family).is_empty());
        }
    }

    #[test]
    fn the_shipped_tables_know_the_hard_cases() {
        for (family, name, expected) in [
            (Family::Aws, "c4.xlarge", "{cpu: 4, nominalMemory: 7680Mi, arch: amd64, pods: 58}"),
            (Family::Aws, "m6g.large", "{cpu: 2, nominalMemory: 8Gi, arch: arm64, pods: 29}"),
            (Family::Aws, "g4ad.xlarge", "{cpu: 4, nominalMemory: 16Gi, arch: amd64, pods: 8, amd.com/gpu: 1}"),
            (Family::Azure, "Standard_B1ls", "{cpu: 1, nominalMemory: 512Mi, arch: amd64}"),
            (Family::Azure, "Standard_E8-4ds_v5", "{cpu: 4, nominalMemory: 64Gi, arch: amd64}"),
            (Family::Azure, "Standard_M8-2ms", "{cpu: 2, nominalMemory: 224000Mi, arch: amd64}"),
            (
                Family::Azure,
                "Standard_ND96isr_MI300X_v5",
                "{cpu: 96, nominalMemory: 1850Gi, arch: amd64, amd.com/gpu: 8}",
            ),
            (Family::Azure, "Standard_NV4as_v4", "{cpu: 4, nominalMemory: 14Gi, arch: amd64, amd.com/gpu: 1}"),
        ] {
            assert_eq!(Table::shipped(family).get(family, name).unwrap().to_string(), expected, "{name}");
        }
        let fpga = Table::shipped(Family::Azure).get(Family::Azure, "Standard_NP10s").unwrap();
        assert!(!fpga.resources.contains_key("nvidia.com/gpu"));
    }
}
