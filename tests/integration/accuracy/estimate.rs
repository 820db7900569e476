//! Headcount's estimate for a type, through the template as the server builds it.

use std::collections::BTreeMap;

use headcount::cloud::{Family, GroupHints, LaunchSpec, NodeImage, OperatingSystem, ReservedProfile};
use headcount::instance_types::{Catalog, Quantity, Table};
use headcount::template::{GroupOverrides, Input, ReservedRule, build};

use super::observed::{Node, Practice, quantity};

/// A group of which only the type and the configuration are known.
pub(crate) struct Group<'a> {
    pub(crate) family: Family,
    pub(crate) type_name: &'a str,
    pub(crate) operating_system: OperatingSystem,
    pub(crate) image: Option<NodeImage>,
    pub(crate) catalog: Catalog,
    pub(crate) overrides: GroupOverrides,
}

/// A template's resources.
#[derive(Debug)]
pub(crate) struct Estimate {
    pub(crate) capacity: BTreeMap<String, Quantity>,
    pub(crate) allocatable: BTreeMap<String, Quantity>,
}

/// The shipped tables; a type that they no longer list has an entry as a user would write it.
fn catalog(node: &Node) -> Catalog {
    let Node { type_name, cpu, nominal_memory_mib, .. } = node;
    if Catalog::default().resolve(node.family(), type_name).is_some() {
        return Catalog::default();
    }
    assert_eq!(type_name, "Standard_NC6");
    let text = format!("azure: {{{type_name}: {{cpu: {cpu}, nominalMemory: {nominal_memory_mib}Mi}}}}");
    Catalog::new(vec![Table::parse(&text, "retired.yaml").expect("a table")])
}

impl<'a> Group<'a> {
    /// The group that would launch this node, with the node's settings.
    pub(crate) fn of(node: &'a Node, practice: Option<&Practice>) -> Self {
        let own = || Practice { profile: ReservedProfile::Kubeadm, rule: ReservedRule::default() };
        let practice = practice.cloned().unwrap_or_else(own);
        let reserved = ReservedRule { profile: Some(practice.profile), max_pods: node.max_pods(), ..practice.rule };
        let capacity = node.hugepages.iter().map(|(name, pages)| (name.clone(), quantity(pages))).collect();
        Self {
            family: node.family(),
            type_name: &node.type_name,
            operating_system: node.operating_system(),
            image: node.node_image(),
            catalog: catalog(node),
            overrides: GroupOverrides { capacity, reserved, ..GroupOverrides::default() },
        }
    }

    pub(crate) fn estimate(&self) -> Estimate {
        let launch = LaunchSpec {
            types: vec![self.type_name.to_owned()],
            region: "r".into(),
            zones: vec!["r-1".into()],
            operating_system: self.operating_system,
            image: self.image,
            ..LaunchSpec::default()
        };
        let input = Input {
            group: "group",
            name: "group",
            family: self.family,
            hints: &GroupHints::default(),
            launch: &launch,
            catalog: &self.catalog,
            overrides: &self.overrides,
        };
        let status = build(&input).expect(self.type_name).node.status.expect("a status");
        let read = |resources: BTreeMap<String, headcount::template::node::Quantity>| {
            resources.into_iter().map(|(name, value)| (name, quantity(&value.string.expect("a figure")))).collect()
        };
        Estimate { capacity: read(status.capacity), allocatable: read(status.allocatable) }
    }
}
