//! stub
#![allow(missing_docs)]
pub mod node;
pub mod overrides {
    #[derive(Clone, Debug, Default)]
    pub struct GroupOverrides;
    impl GroupOverrides {
        pub fn merge(self, _under: &Self) -> Self {
            self
        }
    }
}
#[derive(Debug, Default)]
pub struct NodeTemplate {
    pub bytes: prost::bytes::Bytes,
}
pub struct Input<'a> {
    pub group: &'a str,
    pub family: crate::cloud::Family,
    pub hints: &'a crate::cloud::GroupHints,
    pub machine: &'a crate::cloud::Machine,
    pub catalog: &'a crate::instance_types::Catalog,
    pub overrides: &'a overrides::GroupOverrides,
}
pub fn build(_input: &Input<'_>) -> Result<NodeTemplate, String> {
    Ok(NodeTemplate::default())
}
