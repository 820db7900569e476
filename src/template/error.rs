//! Why a template cannot be built.

use thiserror::Error;

/// Why the template of a group cannot be built. Only that group is affected, until its configuration, the tables or the
/// cloud's description change. Whoever shows the error names the group.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TemplateError {
    /// The group names no instance type.
    #[error("the group names no instance type; set one in its launch template or scale set")]
    NoType,
    /// Neither a table nor the cloud knows the type, and neither tags nor the configuration say what it has.
    #[error(
        "instance type {type_name} is unknown; add it to a table under instanceTypes: \
         ({table}: {{{type_name}: {{cpu: …, memory: …, arch: …}}}}), or give the group capacity: {{cpu: …, memory: …}}"
    )]
    UnknownType {
        /// The type.
        type_name: String,
        /// The key of its cloud in a table.
        table: &'static str,
    },
    /// A table knows the type, but not this resource.
    #[error(
        "the {resource} of instance type {type_name} is unknown; add it to its entry in a table under instanceTypes:, \
         or give the group capacity: {{{resource}: …}}"
    )]
    Incomplete {
        /// The type.
        type_name: String,
        /// `cpu` or `memory`.
        resource: &'static str,
    },
    /// The group has no zone to launch in.
    #[error("the group has no availability zone; give its Auto Scaling group a subnet")]
    NoZone,
}
