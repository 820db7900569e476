//! Azure Resource Manager: the calls that Headcount makes, and what their responses mean. Imports [`super::http`],
//! [`super::throttle`] and [`super::auth`], and nothing of the domain.

mod api;
mod claims;
mod client;
mod connect;
pub(super) mod decode;
mod errors;
mod lro;
#[cfg(test)]
mod no_awaited_builders;
pub(super) mod operations;
mod other_calls;
mod parse;
mod paths;
#[cfg(test)]
mod recorded;
mod scale_sets;
mod sdk_call;
mod sign_in;

#[cfg(test)]
pub(super) use api::InstanceViewStatus;
pub(super) use api::{
    AgentPool, AksCluster, AutoscaleSetting, BadItem, MachineList, MachineQuery, Orchestration, OwnChanges,
    ReadPurpose, RepairAction, ScaleSet, ScaleSetApi, Size, Usage, VirtualMachine,
};
pub use api::{ROLE_ACTIONS, VERIFY_ROLE_ACTIONS};
pub(super) use claims::application;
pub use connect::ConnectError;
pub(super) use errors::{ErrorContext, FORCE_DELETE_NOT_ALLOWED, OPERATION_NOT_ALLOWED, classify};
pub(super) use parse::parse_page;
pub(super) use scale_sets::ArmScaleSets;
