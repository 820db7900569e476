//! Why a call to the API server failed. None of these calls is retried at once: the next poll is the retry.

use std::time::Duration;

use hyper::StatusCode;
use kube::runtime::watcher;
use thiserror::Error;

use super::Operation;
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
        operation: Operation,
        /// Why not.
        #[source]
        source: TransportError,
    },
    /// The API server does not know who calls.
    #[error(
        "{operation}: 401 Unauthorized{}{message}; the API server does not accept the token or the certificate",
        separator(.message)
    )]
    Unauthorized {
        /// The call.
        operation: Operation,
        /// The API server's own words, short.
        message: String,
    },
    /// The API server does not permit the call to this caller.
    #[error(
        "{operation}: 403 Forbidden{}{message}; grant Headcount's service account what {} lists", separator(.message),
        .operation.manifest()
    )]
    Forbidden {
        /// The call.
        operation: Operation,
        /// The API server's own words, short.
        message: String,
    },
    /// The API server refused the call for another reason.
    #[error("{operation}: {status}{}{message}", separator(.message))]
    Refused {
        /// The call.
        operation: Operation,
        /// The HTTP status.
        status: StatusCode,
        /// The API server's own words, short.
        message: String,
    },
    /// No complete list in time.
    #[error("{operation}: no complete list within {} s; is the API server overloaded?", limit.as_secs())]
    Slow {
        /// The call.
        operation: Operation,
        /// The time.
        limit: Duration,
    },
    /// A list that has too many pages.
    #[error("{operation}: the list has more pages than any cluster needs, or does not end")]
    TooLong {
        /// The call.
        operation: Operation,
    },
    /// The response is not what the API server should send.
    #[error("{operation}: the response cannot be parsed: {source}")]
    Unexpected {
        /// The call.
        operation: Operation,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

fn separator(message: &str) -> &'static str {
    if message.is_empty() { "" } else { ": " }
}

impl KubernetesError {
    /// A call through `kube` that failed.
    pub(super) fn of_call(operation: Operation, error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::refused(operation, &status),
            kube::Error::Service(source) => match source.downcast::<TransportError>() {
                Ok(source) => Self::Transport { operation, source: *source },
                Err(source) => Self::Unexpected { operation, source },
            },
            other => Self::Unexpected { operation, source: other.into() },
        }
    }

    /// A watch through `kube` that failed.
    pub(super) fn of_watch(list: Operation, watch: Operation, error: watcher::Error) -> Self {
        match error {
            watcher::Error::InitialListFailed(error) => Self::of_call(list, error),
            watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => Self::of_call(watch, error),
            watcher::Error::WatchError(status) => Self::refused(watch, &status),
            other @ watcher::Error::NoResourceVersion => Self::Unexpected { operation: list, source: other.into() },
        }
    }

    /// A list without an end.
    pub(super) fn too_long(operation: Operation) -> Self {
        Self::TooLong { operation }
    }

    fn refused(operation: Operation, status: &kube::core::Status) -> Self {
        let message = status.message.chars().take(MESSAGE_CHARACTERS_MAX).collect();
        match StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR) {
            StatusCode::UNAUTHORIZED => Self::Unauthorized { operation, message },
            StatusCode::FORBIDDEN => Self::Forbidden { operation, message },
            status => Self::Refused { operation, status, message },
        }
    }

    /// Whether the API server refuses the call, and not only because it is busy or a token has expired.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Forbidden { .. } => true,
            Self::Refused { status, .. } => status.is_client_error() && *status != StatusCode::TOO_MANY_REQUESTS,
            _ => false,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(operation: Operation, code: u16, message: &str) -> KubernetesError {
        let status = kube::core::Status { code, message: message.to_owned(), ..Default::default() };
        KubernetesError::of_call(operation, kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn what_the_api_server_does_not_permit_has_a_variant_and_says_what_grants_it() {
        let error = refused(Operation::ListNodes, 403, "nodes is forbidden");
        assert!(
            matches!(error, KubernetesError::Forbidden { operation: Operation::ListNodes, .. }) && error.is_refusal()
        );
        let expected = "list nodes: 403 Forbidden: nodes is forbidden; grant Headcount's service account what \
                        deploy/kubernetes-rbac.yaml lists";
        assert_eq!(error.to_string(), expected);
        let of_demo = refused(Operation::DeleteDemoNode, 403, "").to_string();
        assert!(of_demo.ends_with("403 Forbidden; grant Headcount's service account what deploy/demo/rbac.yaml lists"));
        let error = refused(Operation::WatchNodes, 401, "Unauthorized");
        assert!(matches!(error, KubernetesError::Unauthorized { .. }) && !error.is_refusal(), "a token may be renewed");
        let (gone, busy) = (refused(Operation::GetConfigMap, 404, ""), refused(Operation::GetConfigMap, 429, ""));
        assert!(gone.is_gone() && gone.is_refusal() && !busy.is_refusal());
        assert_eq!(gone.to_string(), "get the ConfigMap: 404 Not Found");
    }
}
