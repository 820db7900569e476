//! Why a template cannot be built.

use thiserror::Error;

/// Why a template cannot be built. Only the group is affected, until its configuration, the tables or the cloud's description
/// change.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TemplateError {
    /// The group names no instance type.
    #[error("group {group}: the group names no instance type; set one in its launch template or scale set")]
    NoType {
        /// The group's ID.
        group: String,
    },
    /// Neither a table nor the cloud knows the type, and neither tags nor the configuration say what it has.
    #[error(
        "group {group}: instance type {type_name} is unknown; add it to a table under instanceTypes: \
         ({table}: {{{type_name}: {{cpu: …, memory: …, arch: …}}}}), or give the group capacity: {{cpu: …, memory: …}}"
    )]
    UnknownType {
        /// The group's ID.
        group: String,
        /// The type.
        type_name: String,
        /// The key of its cloud in a table.
        table: &'static str,
    },
    /// A table knows the type, but not this resource.
    #[error(
        "group {group}: the {resource} of instance type {type_name} is unknown; add it to its entry in a table under \
         instanceTypes:, or give the group capacity: {{{resource}: …}}"
    )]
    Incomplete {
        /// The group's ID.
        group: String,
        /// The type.
        type_name: String,
        /// `cpu` or `memory`.
        resource: &'static str,
    },
    /// The group has no zone to launch in.
    #[error("group {group}: the group has no availability zone; give its Auto Scaling group a subnet")]
    NoZone {
        /// The group's ID.
        group: String,
    },
}
