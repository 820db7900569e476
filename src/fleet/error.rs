//! Why the fleet did not carry out a request. Only `grpc/status.rs` maps these errors to gRPC statuses.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::quota::Headroom;
use crate::cloud::text::shorten;
use crate::cloud::{CloudError, ProviderId};
use crate::group::{Refusal, WriteError};

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
    /// A quota of the account does not leave room. Nothing was done.
    #[error(
        "node group {group}: the quota {} has {} of {} vCPUs used and leaves room for {} nodes, not for {delta}; \
         nothing was done",
        headroom.quota, headroom.used, headroom.limit, headroom.nodes
    )]
    OverQuota {
        /// The group.
        group: Arc<str>,
        /// The requested number of nodes.
        delta: u32,
        /// What is left.
        headroom: Headroom,
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
    #[error("node group {group}: {} of the named nodes cannot be deleted (any others are being deleted): \
             {}", refused.len(), list(refused))]
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
        "node group {group}: the request was not sent to the cloud within the caller's deadline; nothing was done; try \
         again"
    )]
    NotSent {
        /// The group.
        group: Arc<str>,
    },
    /// The deadline passed after the write was sent. The write is still finished, and TargetSize and Nodes will show
    /// it.
    #[error(
        "node group {group}: the request was sent, but the cloud did not respond within the caller's deadline; the \
         next reads show the outcome"
    )]
    StillRunning {
        /// The group.
        group: Arc<str>,
    },
    /// It is unknown whether a write took effect: its response was lost. It is not sent again until a read shows the
    /// outcome.
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

/// The most characters of an ID in an error. No group's is longer; a call's may have megabytes.
const ID_SHOWN: usize = 512;

impl FleetError {
    /// No group has this ID.
    pub fn unknown_group(id: &str) -> Self {
        Self::UnknownGroup { id: shorten(id, ID_SHOWN) }
    }

    /// Why a request of this group failed.
    pub(super) fn of(group: Arc<str>, error: WriteError) -> Self {
        match error {
            WriteError::Refused(refusal) => Self::Refused { group, refusal },
            WriteError::Cloud(error) => Self::Cloud { group, error },
            WriteError::PartlyRefused(refused) => Self::PartlyRefused { group, refused },
            WriteError::Contended(reason) => Self::Contended { group, reason },
            WriteError::NotSent => Self::NotSent { group },
            WriteError::StillRunning => Self::StillRunning { group },
            WriteError::OutcomeUnknown(reason) => Self::OutcomeUnknown { group, reason },
            WriteError::Gone => Self::UnknownGroup { id: group.to_string() },
        }
    }
}

/// All refused nodes, many of them in short, and some reasons: who reads it has to know which of the named nodes are left.
fn list(refused: &[(ProviderId, CloudError)]) -> String {
    const FEW: usize = 5;
    let is_short = refused.len() > FEW;
    let names = refused.iter().map(|(id, _)| if is_short { id.instance() } else { id.as_str() });
    let names: Vec<&str> = names.collect();
    let mut reasons: Vec<String> = Vec::new();
    for (_, error) in refused {
        let reason = error.to_string();
        if reasons.len() < FEW && !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    format!("{}: {}", names.join(", "), reasons.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_all_nodes_that_are_not_deleted() {
        let refused = |number: u32| {
            let error = CloudError::refused("terminate", "web", "protected");
            (ProviderId::from(format!("aws:///us-east-1a/i-{number}").as_str()), error)
        };
        let error = FleetError::PartlyRefused { group: "web".into(), refused: (1..=8).map(refused).collect() };
        let text = error.to_string();
        assert!((1..=8).all(|number| text.contains(&format!("i-{number}"))), "{text}");
        assert_eq!(text.matches("protected").count(), 1, "{text}");
    }
}
