//! The pipeline from a group and its instance types to the node, on invented groups.

mod capacity;
mod labels;
mod launch;
mod node;
mod user_data;

use std::collections::BTreeMap;

use k8s_pb::api::core::v1 as oracle;
use prost::Message as _;

use super::*;
use crate::cloud::{
    Architecture, Family, GroupHints, ImageEvidence, ImageFamily, InstanceType, LaunchSpec, LocalDisks, NodeImage,
    ReservedProfile, Taint, TaintEffect, Unread,
};
use crate::instance_types::{Catalog, Quantity, Table};

struct Group {
    family: Family,
    hints: GroupHints,
    launch: LaunchSpec,
    catalog: Catalog,
    overrides: GroupOverrides,
}

fn mk_group(family: Family, types: &[&str]) -> Group {
    let (region, zones) = match family {
        Family::Aws => ("us-east-1", vec!["us-east-1a", "us-east-1c"]),
        Family::Azure => ("westus", vec!["westus-1", "westus-2", "westus-3"]),
    };
    Group {
        family,
        hints: GroupHints::default(),
        launch: LaunchSpec {
            types: types.iter().map(|name| (*name).to_owned()).collect(),
            region: region.into(),
            zones: zones.into_iter().map(str::to_owned).collect(),
            reserved: Some(match family {
                Family::Aws => ReservedProfile::Eks,
                Family::Azure => ReservedProfile::Aks,
            }),
            ..LaunchSpec::default()
        },
        catalog: Catalog::default(),
        overrides: GroupOverrides::default(),
    }
}

impl Group {
    fn build(&self) -> Result<NodeTemplate, TemplateError> {
        let Self { family, hints, launch, catalog, overrides } = self;
        build(&Input { group: "my-group", name: "my-group", family: *family, hints, launch, catalog, overrides })
    }

    fn value(&self, path: &str) -> Option<Value> {
        self.build().unwrap().values.into_iter().find(|value| value.path == path)
    }

    fn get(&self, path: &str) -> Option<String> {
        self.value(path).map(|value| value.value)
    }

    fn table(mut self, text: &str) -> Self {
        self.catalog = Catalog::new(vec![Table::parse(text, "my-table.yaml").unwrap()]);
        self
    }
}

fn map<V>(entries: &[(&str, V)]) -> BTreeMap<String, V>
where
    V: Clone,
{
    entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
}

fn strings(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}
