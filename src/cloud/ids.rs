//! What a cloud calls a node group and an instance.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A node group's name in its cloud: the Auto Scaling group's or the scale set's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupName(pub Arc<str>);

/// An instance's ID, as the kubelet of its node has it in `spec.providerID`.
///
/// The Cluster Autoscaler compares the two as exact strings, so this keeps the kubelet's spelling for display. Azure's
/// APIs return the same ID in several spellings, so two IDs are equal if they differ in case only.
#[derive(Clone, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct ProviderId {
    text: Arc<str>,
    /// In lower case, made once: IDs are compared far more often than they are made.
    folded: Arc<str>,
}

impl ProviderId {
    /// The ID as the kubelet spells it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The ID in lower case.
    pub(super) fn folded(&self) -> &str {
        &self.folded
    }

    /// The cloud's own name of the instance: the last part, in lower case.
    pub fn instance(&self) -> &str {
        self.folded.rsplit('/').next().unwrap_or(&self.folded)
    }
}

impl From<Arc<str>> for ProviderId {
    fn from(text: Arc<str>) -> Self {
        let is_folded = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        let folded = if is_folded { Arc::clone(&text) } else { text.to_ascii_lowercase().into() };
        Self { text, folded }
    }
}

impl From<&str> for ProviderId {
    fn from(text: &str) -> Self {
        Self::from(Arc::<str>::from(text))
    }
}

impl From<String> for ProviderId {
    fn from(text: String) -> Self {
        Self::from(Arc::<str>::from(text))
    }
}

impl From<ProviderId> for String {
    fn from(id: ProviderId) -> Self {
        (*id.text).to_owned()
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl fmt::Debug for ProviderId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ProviderId({:?})", self.text)
    }
}

impl PartialEq for ProviderId {
    fn eq(&self, other: &Self) -> bool {
        self.folded == other.folded
    }
}

impl Eq for ProviderId {}

impl PartialOrd for ProviderId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ProviderId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.folded.cmp(&other.folded)
    }
}

impl Hash for ProviderId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.folded.hash(state);
    }
}

impl GroupName {
    /// The name itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for GroupName {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for GroupName {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
