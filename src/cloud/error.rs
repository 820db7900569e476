//! Why a cloud call failed, classified by what a caller can do about it. Each cloud maps its own error codes to these
//! variants in one file (`clouds/aws/sdk/errors.rs`, `clouds/azure/arm/errors.rs`); `grpc` maps them to status codes in
//! one place.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// If a cloud asks for a longer pause, it is called again after this long: the longest window of a limit that is known,
/// Azure Compute's.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(30 * 60);

/// The circumstances of a failed cloud call.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
#[error("{operation} {subject}: {message}{}", code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default())]
pub struct Fault {
    /// The API operation, as the cloud's documentation names it.
    pub operation: Cow<'static, str>,
    /// The group, instance or type of the call.
    pub subject: String,
    /// The cloud's own error code.
    pub code: Option<String>,
    /// The cloud's own message, or what kept the call from the cloud.
    pub message: String,
    /// The SDK's error. A recording has its text.
    #[source]
    #[serde(with = "source_text")]
    pub source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// A failed cloud call.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
pub enum CloudError {
    /// The cloud asks for fewer calls. Nothing was done. Retryable after the given time.
    #[error("throttled: {fault}")]
    Throttled {
        /// How long the cloud asked to wait, if it did: [`RETRY_AFTER_MAX`] at most.
        retry_after: Option<Duration>,
        /// The circumstances.
        fault: Box<Fault>,
    },
    /// The cloud could not be reached, failed internally, or did not respond in time. Retryable. A write may have taken
    /// effect.
    #[error("unreachable: {0}")]
    Unreachable(Box<Fault>),
    /// No connection could be made, no token was there, or the token was refused, so a write had no effect. Retryable.
    #[error("not sent: {0}")]
    NotSent(Box<Fault>),
    /// Credentials or permissions are missing. Nothing was done. Not retryable until they are changed.
    #[error("denied: {0}")]
    Denied(Box<Fault>),
    /// The subject of the call does not exist. Nothing was done.
    #[error("not found: {0}")]
    NotFound(Box<Fault>),
    /// The group changed since it was read, or another operation is in progress. Nothing was done. Read again and
    /// retry.
    #[error("conflict: {0}")]
    Conflict(Box<Fault>),
    /// A quota or the cloud's capacity refused the write at once. Nothing was done.
    #[error("out of resources: {0}")]
    OutOfResources(Box<Fault>),
    /// The cloud refused the call. Nothing was done. Not retryable.
    #[error("refused: {0}")]
    Refused(Box<Fault>),
    /// The cloud does not offer the call for this subject. Nothing was done. Not retryable until the subject is
    /// changed.
    #[error("unsupported: {0}")]
    Unsupported(Box<Fault>),
    /// The response could not be decoded. A write may have taken effect.
    #[error("invalid response: {0}")]
    Unintelligible(Box<Fault>),
}

/// Errors that Headcount finds itself.
impl CloudError {
    /// The word for a cloud that does not respond.
    pub const UNREACHABLE: &str = "unreachable";

    /// One word for what went wrong. The probes show it to anyone, so it holds nothing that the cloud wrote.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Throttled { .. } => "throttled",
            Self::Unreachable(_) => Self::UNREACHABLE,
            Self::Denied(_) => "denied",
            Self::Unintelligible(_) => "unintelligible",
            _ => "refused",
        }
    }

    /// The request is invalid. The call was not made.
    pub fn refused(operation: &'static str, subject: &str, message: impl Into<String>) -> Self {
        Self::Refused(Fault::own(operation, subject, message.into()))
    }

    /// The cloud does not offer the call for this subject.
    pub fn unsupported(operation: &'static str, subject: &str, message: impl Into<String>) -> Self {
        Self::Unsupported(Fault::own(operation, subject, message.into()))
    }

    /// The call was not made because of another change to the group.
    pub fn conflict(operation: &'static str, subject: &str, message: impl Into<String>) -> Self {
        Self::Conflict(Fault::own(operation, subject, message.into()))
    }

    /// The subject of the call does not exist.
    pub fn not_found(operation: &'static str, subject: &str, message: impl Into<String>) -> Self {
        Self::NotFound(Fault::own(operation, subject, message.into()))
    }

    /// The call got no response, or was not made because an earlier one got none a moment ago.
    pub fn unreachable(operation: &'static str, subject: &str, message: impl Into<String>) -> Self {
        Self::Unreachable(Fault::own(operation, subject, message.into()))
    }

    /// The response is invalid or incomplete.
    pub fn unintelligible(operation: &'static str, subject: &str, message: impl Into<String>) -> Self {
        Self::Unintelligible(Fault::own(operation, subject, message.into()))
    }
}

impl Fault {
    fn own(operation: &'static str, subject: &str, message: String) -> Box<Self> {
        Box::new(Self { operation: operation.into(), subject: subject.to_owned(), code: None, message, source: None })
    }
}

impl CloudError {
    /// The circumstances.
    pub fn fault(&self) -> &Fault {
        match self {
            Self::Throttled { fault, .. }
            | Self::Unreachable(fault)
            | Self::NotSent(fault)
            | Self::Denied(fault)
            | Self::NotFound(fault)
            | Self::Conflict(fault)
            | Self::OutOfResources(fault)
            | Self::Refused(fault)
            | Self::Unsupported(fault)
            | Self::Unintelligible(fault) => fault,
        }
    }

    /// Whether the same call may succeed later without any change by the user.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Throttled { .. } | Self::Unreachable(_) | Self::NotSent(_) | Self::Unintelligible(_))
    }

    /// Whether a write that ended with this error did nothing, for a reason that may pass: it may be sent again.
    pub fn may_be_repeated(&self) -> bool {
        matches!(self, Self::Throttled { .. } | Self::Conflict(_) | Self::NotSent(_))
    }

    /// Whether a write that ended with this error may have taken effect.
    pub fn outcome_unknown(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Unintelligible(_))
    }
}

/// The source of an error in a recording: its text, and those of its own sources.
mod source_text {
    use std::error::Error as StdError;
    use std::sync::Arc;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
    use thiserror::Error;

    use crate::cloud::text::error_chain;

    /// An error of which only the text is known.
    #[derive(Debug, Error)]
    #[error("{0}")]
    struct Recorded(String);

    type Source = Option<Arc<dyn StdError + Send + Sync>>;

    pub(super) fn serialize<S: Serializer>(source: &Source, serializer: S) -> Result<S::Ok, S::Error> {
        source.as_ref().map(|source| error_chain(source.as_ref())).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Source, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        Ok(text.map(|text| Arc::new(Recorded(text)) as Arc<dyn StdError + Send + Sync>))
    }
}
