//! Why the fleet did not carry out a request. Only `grpc/status.rs` maps these errors to gRPC statuses.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::cloud::{CloudError, ProviderId};

/// A request that the group's own rules refuse. Nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// A scale-up above the maximum.
    #[error("growing by {delta} would take it from {target} to {} nodes, above its maximum of {max}; raise the maximum to allow more", target.saturating_add(*delta))]
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
        "deleting {asked} healthy nodes would take it below its minimum of {min}; at most {room} can be deleted; lower the minimum to allow more"
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
        "Headcount is read-only; it would {intended}; remove readOnly from headcount.yaml, or the flag --read-only, to allow writes"
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

/// A request that failed.
#[derive(Clone, Debug, Error)]
pub enum FleetError {
    /// No group has this ID.
    #[error("there is no node group {id:?}; `headcount groups` lists those that are served")]
    UnknownGroup {
        /// The requested ID.
        id: String,
    },
    /// The request is invalid.
    #[error("{0}")]
    Malformed(String),
    /// The group's rules refuse it. Nothing was done.
    #[error("node group {group}: {refusal}")]
    Refused {
        /// The group.
        group: Arc<str>,
        /// The rule.
        refusal: Refusal,
    },
    /// The cloud failed or refused the call. As far as is known, nothing was done.
    #[error("node group {group}: {error}")]
    Cloud {
        /// The group.
        group: Arc<str>,
        /// The cloud's error.
        #[source]
        error: CloudError,
    },
    /// Some of the named nodes could not be deleted; the others are.
    #[error("node group {group}: {} of the named nodes cannot be deleted (any others are being deleted): {}", refused.len(), list(refused))]
    PartlyRefused {
        /// The group.
        group: Arc<str>,
        /// The nodes, each with the cloud's error.
        refused: Vec<(ProviderId, CloudError)>,
    },
    /// The group kept changing under the write, or its readings contradict each other. Nothing was done.
    #[error("node group {group}: {reason}; nothing was written; try again")]
    Contended {
        /// The group.
        group: Arc<str>,
        /// What kept changing.
        reason: String,
    },
    /// The deadline passed before anything was sent. Nothing was done, and nothing will be.
    #[error(
        "node group {group}: the request was not sent to the cloud within the caller's deadline; nothing was done; try again"
    )]
    NotSent {
        /// The group.
        group: Arc<str>,
    },
    /// The deadline passed after the write was sent. The write is still finished, and TargetSize and Nodes will show it.
    #[error(
        "node group {group}: the request was sent, but the cloud did not respond within the caller's deadline; the next reads show the outcome"
    )]
    StillRunning {
        /// The group.
        group: Arc<str>,
    },
    /// It is unknown whether a write took effect: its response was lost. It is not sent again until a read shows the outcome.
    #[error("node group {group}: the outcome of a write is unknown ({reason}); the next reads show it, then try again")]
    OutcomeUnknown {
        /// The group.
        group: Arc<str>,
        /// Why it is unknown.
        reason: String,
    },
    /// Too many requests wait for this group already.
    #[error("node group {group}: too many requests are waiting; try again")]
    Busy {
        /// The group.
        group: Arc<str>,
    },
    /// The group is no longer served, or its keeper is starting again.
    #[error("node group {group} is not served at the moment; try again")]
    NotServed {
        /// The group.
        group: Arc<str>,
    },
    /// Not every source has been listed yet, and it is too early to serve the others alone.
    #[error("not every source has been read yet: {reasons}")]
    NotReady {
        /// What is missing.
        reasons: String,
    },
    /// No source has been read recently enough.
    #[error("no source has been read in the last {}: {reasons}", humantime::format_duration(*limit))]
    Stale {
        /// The limit.
        limit: Duration,
        /// What is wrong with each.
        reasons: String,
    },
    /// The template cannot be built.
    #[error("node group {group}: no template: {reason}")]
    NoTemplate {
        /// The group.
        group: Arc<str>,
        /// Why, and what to do.
        reason: String,
    },
}

impl FleetError {
    /// Whether the same request may succeed a moment later.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Cloud { error, .. } => error.may_pass() || matches!(error, CloudError::Conflict(_)),
            Self::Contended { .. } | Self::NotSent { .. } => true,
            _ => false,
        }
    }
}

fn list(refused: &[(ProviderId, CloudError)]) -> String {
    const SHOWN: usize = 5;
    let mut text: Vec<String> = refused.iter().take(SHOWN).map(|(id, error)| format!("{id}: {error}")).collect();
    if refused.len() > SHOWN {
        text.push(format!("and {} more", refused.len() - SHOWN));
    }
    text.join("; ")
}
