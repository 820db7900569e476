//! Why a call to the API server failed. None of these calls is retried at once: the next poll is the retry.

use std::time::Duration;

use hyper::StatusCode;
use kube::runtime::watcher;
use thiserror::Error;

use super::transport::TransportError;

/// The longest message of a refusal that an error repeats.
const MESSAGE_CHARACTERS_MAX: usize = 300;

/// Why a call failed.
#[derive(Debug, Error)]
pub enum KubernetesError {
    /// There is no response.
    #[error("{operation}: {source}")]
    Transport {
        /// The call.
        operation: &'static str,
        /// Why not.
        #[source]
        source: TransportError,
    },
    /// The API server refused the call.
    #[error("{operation}: {status}{}{message}{}", separator(.message), advice(*.status, .operation))]
    Refused {
        /// The call.
        operation: &'static str,
        /// The HTTP status.
        status: StatusCode,
        /// The API server's own words, short.
        message: String,
    },
    /// No complete list in time.
    #[error("{operation}: no complete list within {} s; is the API server overloaded?", limit.as_secs())]
    Slow {
        /// The call.
        operation: &'static str,
        /// The time.
        limit: Duration,
    },
    /// A list that has too many pages.
    #[error("{operation}: the list has more pages than any cluster needs, or does not end")]
    TooLong {
        /// The call.
        operation: &'static str,
    },
    /// The response is not what the API server should send.
    #[error("{operation}: the response cannot be parsed: {source}")]
    Unexpected {
        /// The call.
        operation: &'static str,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

fn separator(message: &str) -> &'static str {
    if message.is_empty() { "" } else { ": " }
}

fn advice(status: StatusCode, operation: &str) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "; the API server does not accept the token or the certificate",
        StatusCode::FORBIDDEN if operation.contains("the demo") => "; deploy/demo/rbac.yaml grants it",
        StatusCode::FORBIDDEN => "; grant Headcount's service account what deploy/kubernetes-rbac.yaml lists",
        _ => "",
    }
}

impl KubernetesError {
    /// A call through `kube` that failed.
    pub(super) fn of_call(operation: &'static str, error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::refused(operation, &status),
            kube::Error::Service(source) => match source.downcast::<TransportError>() {
                Ok(source) => Self::Transport { operation, source: *source },
                Err(source) => Self::Unexpected { operation, source },
            },
            other => Self::Unexpected { operation, source: other.into() },
        }
    }

    /// A watch of the nodes through `kube` that failed.
    pub(super) fn of_watch(error: watcher::Error) -> Self {
        const LIST: &str = "list nodes";
        const WATCH: &str = "watch nodes";
        match error {
            watcher::Error::InitialListFailed(error) => Self::of_call(LIST, error),
            watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => Self::of_call(WATCH, error),
            watcher::Error::WatchError(status) => Self::refused(WATCH, &status),
            other @ watcher::Error::NoResourceVersion => Self::Unexpected { operation: LIST, source: other.into() },
        }
    }

    /// A watch of the ResourceSlices through `kube` that failed.
    pub(super) fn of_slice_watch(error: watcher::Error) -> Self {
        const LIST: &str = "list ResourceSlices";
        const WATCH: &str = "watch ResourceSlices";
        match error {
            watcher::Error::InitialListFailed(error) => Self::of_call(LIST, error),
            watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => Self::of_call(WATCH, error),
            watcher::Error::WatchError(status) => Self::refused(WATCH, &status),
            other @ watcher::Error::NoResourceVersion => Self::Unexpected { operation: LIST, source: other.into() },
        }
    }

    /// A list without an end.
    pub(super) fn too_long(operation: &'static str) -> Self {
        Self::TooLong { operation }
    }

    fn refused(operation: &'static str, status: &kube::core::Status) -> Self {
        let message = status.message.chars().take(MESSAGE_CHARACTERS_MAX).collect();
        let status = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self::Refused { operation, status, message }
    }

    /// Whether the API server refuses the call, and not only because it is busy or a token has expired.
    pub fn is_refusal(&self) -> bool {
        let may_pass = [StatusCode::TOO_MANY_REQUESTS, StatusCode::UNAUTHORIZED];
        matches!(self, Self::Refused { status, .. } if status.is_client_error() && !may_pass.contains(status))
    }

    fn has_status(&self, expected: StatusCode) -> bool {
        matches!(self, Self::Refused { status, .. } if *status == expected)
    }

    /// Whether another client wrote the ConfigMap since it was read.
    pub fn is_conflict(&self) -> bool {
        self.has_status(StatusCode::CONFLICT)
    }

    /// Whether the ConfigMap or its namespace does not exist (any more).
    pub fn is_gone(&self) -> bool {
        self.has_status(StatusCode::NOT_FOUND)
    }

    /// Whether a watch has to start over with a list: the API server no longer has the version that it resumed from.
    pub(super) fn is_expired(&self) -> bool {
        self.has_status(StatusCode::GONE)
    }
}
