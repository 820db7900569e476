//! Why a call to the API server failed. None of it is retried at once: the next poll is the next try.

use std::time::Duration;

use hyper::StatusCode;
use thiserror::Error;

use super::access::AccessError;

/// Why a call failed.
#[derive(Debug, Error)]
pub enum KubernetesError {
    /// The files that say where the API server is and who calls cannot be used.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// There is no connection.
    #[error("cannot connect to the API server at {server}: {source}")]
    Connect {
        /// Host and port.
        server: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The connection broke, or does not speak HTTP.
    #[error("{operation}: the connection to the API server broke: {source}")]
    Broken {
        /// The call.
        operation: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The time was up.
    #[error("{operation}: no answer from the API server within {limit:?}")]
    Timeout {
        /// The call.
        operation: &'static str,
        /// The time.
        limit: Duration,
    },
    /// The API server refused the call.
    #[error("{operation}: {status}{}{message}{}", separator(.message), advice(*.status))]
    Refused {
        /// The call.
        operation: &'static str,
        /// The HTTP status.
        status: StatusCode,
        /// The API server's own words, short.
        message: String,
    },
    /// The answer makes no sense.
    #[error("{operation}: the answer cannot be understood: {source}")]
    Unintelligible {
        /// The call.
        operation: &'static str,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
}

fn separator(message: &str) -> &'static str {
    if message.is_empty() { "" } else { ": " }
}

fn advice(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "; the API server does not know the token or the certificate",
        StatusCode::FORBIDDEN => "; deploy/kubernetes-rbac.yaml allows it",
        _ => "",
    }
}

impl KubernetesError {
    /// Whether somebody else wrote the ConfigMap since it was read.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { status: StatusCode::CONFLICT, .. })
    }

    /// Whether the ConfigMap, or its namespace, is not there (any more).
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Refused { status: StatusCode::NOT_FOUND, .. })
    }
}
