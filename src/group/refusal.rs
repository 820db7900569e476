//! Why a node group does not carry out a request.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::cloud::{CloudError, ProviderId};

/// A request that the group's own rules refuse. Nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum Refusal {
    /// A scale-up above the maximum.
    #[error("growing by {delta} would take it from {target} to {} nodes, above its maximum of {max}; raise the \
        maximum to allow more", target.saturating_add(*delta))]
    AboveMax {
        /// How many more nodes were asked for.
        delta: u32,
        /// The target size.
        target: u32,
        /// The maximum.
        max: u32,
    },
    /// A deletion below the minimum.
    #[error(
        "deleting {asked} of its healthy nodes would take it below its minimum of {min}; at most {room} can be deleted; \
            lower the minimum to allow more"
    )]
    BelowMin {
        /// Healthy nodes named.
        asked: u32,
        /// How many of them may be deleted.
        room: u32,
        /// The minimum.
        min: u32,
    },
    /// A scale-up that the scale set's capacity has no room for, because part of it has no instances.
    #[error(
        "growing by {delta} would take its capacity above its maximum of {max}: the scale set's capacity counts {unfilled} VMs that do not \
         exist, and lowering it could delete others; raise the maximum by {unfilled}, or replace the scale set"
    )]
    Unfilled {
        /// How many more nodes were asked for.
        delta: u32,
        /// How many VMs of the capacity do not exist.
        unfilled: u32,
        /// The maximum.
        max: u32,
    },
    /// Growing would take the capacity above the maximum until what CA gave back is taken out of it.
    #[error(
        "growing by {delta} would take its capacity above its maximum of {max}: it still counts {unfilled} nodes that the Cluster \
         Autoscaler gave back; once a list shows all VMs, it is lowered by them, but not below its minimum"
    )]
    NotLoweredYet {
        /// How many more nodes were asked for.
        delta: u32,
        /// How many nodes of the capacity were given back.
        unfilled: u32,
        /// The maximum.
        max: u32,
    },
    /// The group was deleted and created again since the caller named its instances.
    #[error("it was deleted and created again under its name; nothing was deleted; list its nodes again")]
    Recreated,
    /// The group cannot grow.
    #[error("it cannot grow: {reason}")]
    GrowthWithheld {
        /// Why, and what to do.
        reason: String,
    },
    /// The group seems to belong to another cluster.
    #[error(
        "{instance} is not a node of this cluster, and the node group seems to belong to another one: {reason}; set foreign: allow \
         under groups in headcount.yaml to delete it all the same"
    )]
    Foreign {
        /// An instance that was named.
        instance: ProviderId,
        /// Why.
        reason: String,
    },
    /// Headcount is read-only.
    #[error(
        "Headcount is read-only; it would {intended}; remove readOnly from headcount.yaml, or the flag --read-only, \
            to allow writes"
    )]
    ReadOnly {
        /// The write, as in "set the capacity from 3 to 5".
        intended: String,
    },
    /// The group's instances cannot be deleted.
    #[error("its instances cannot be deleted: {reason}")]
    RemovalWithheld {
        /// Why, and what to do.
        reason: String,
    },
}

/// Why a request of a node group failed. The driver adds the group.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
pub(crate) enum WriteError {
    /// The group's rules refuse it. Nothing was done.
    #[error("{0}")]
    Refused(Refusal),
    /// The cloud failed or refused the call. As far as is known, nothing was done.
    #[error("{0}")]
    Cloud(#[source] CloudError),
    /// Some of the named instances could not be deleted, each with the cloud's error; the others are.
    #[error("{} of the named instances cannot be deleted", .0.len())]
    PartlyRefused(Vec<(ProviderId, CloudError)>),
    /// The group kept changing under the write, or its readings contradict each other. Nothing was done.
    #[error("{0}; nothing was written; try again")]
    Contended(String),
    /// The deadline passed before anything was sent. Nothing was done, and nothing will be.
    #[error("not sent to the cloud within the caller's deadline")]
    NotSent,
    /// The deadline passed after part of it took effect. TargetSize and Nodes show that part.
    #[error("sent to the cloud in part within the caller's deadline")]
    StillRunning,
    /// It is unknown whether a write took effect, for this reason. It is not sent again until a read shows the outcome.
    #[error("the outcome of a write is unknown ({0})")]
    OutcomeUnknown(String),
    /// The cloud reports that the group no longer exists.
    #[error("the node group no longer exists")]
    Gone,
}

impl WriteError {
    /// Whether the same request may succeed a moment later.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Cloud(error) => error.may_pass() || matches!(error, CloudError::Conflict(_)),
            Self::Contended(_) | Self::NotSent => true,
            Self::Refused(_) | Self::PartlyRefused(_) | Self::StillRunning | Self::OutcomeUnknown(_) | Self::Gone => {
                false
            }
        }
    }
}

impl From<Refusal> for WriteError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<CloudError> for WriteError {
    fn from(error: CloudError) -> Self {
        Self::Cloud(error)
    }
}
