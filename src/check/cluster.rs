//! Why the cluster does not show what a check reads from it.

use std::sync::Arc;

use thiserror::Error;

use crate::kubernetes::{ClusterConfigError, KubernetesError};

/// Why something cannot be read from the cluster.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// It is not known where the API server is, or how to sign in.
    #[error(transparent)]
    Config(#[from] Arc<ClusterConfigError>),
    /// The call failed.
    #[error(transparent)]
    Call(#[from] KubernetesError),
    /// The API server did not respond in time.
    #[error("no response in time")]
    TimedOut,
}

impl ClusterError {
    /// What to do about it.
    pub(super) fn remedy(&self) -> &'static str {
        match self {
            Self::Call(KubernetesError::Forbidden { .. }) => "grant what deploy/kubernetes-rbac.yaml lists",
            Self::Call(KubernetesError::Unauthorized { .. }) => "renew the token or the certificate",
            Self::Call(_) | Self::Config(_) | Self::TimedOut => {
                "check the API server, its address (kubernetes.kubeconfig) and the network to it"
            }
        }
    }
}

/// Why the Deployment of the Cluster Autoscaler is not known.
#[derive(Debug, Error)]
pub enum DeploymentError {
    /// The Deployments cannot be listed.
    #[error(transparent)]
    List(#[from] ClusterError),
    /// None of them runs the Cluster Autoscaler.
    #[error("no Deployment in the namespace {namespace} runs cluster-autoscaler")]
    Find {
        /// The namespace that was searched.
        namespace: String,
    },
}
