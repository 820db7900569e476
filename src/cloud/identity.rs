//! What tells a group or an instance from another one of the same name.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde::{Deserialize, Serialize};

/// Stands for what the cloud calls a thing: the ARN and creation time of an Auto Scaling group, the `uniqueId` of a
/// scale set, the `vmId` of a VM. A thing that was deleted and created again under its name has another identity.
///
/// It holds a hash, because a source can have 100,000 instances and identities are only compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Identity(u64);

impl Identity {
    /// The identity of what the cloud describes with these values. Clouds differ in the case of what they repeat.
    pub fn of(parts: &[&str]) -> Self {
        let mut hasher = DefaultHasher::new();
        parts.iter().for_each(|part| part.to_ascii_lowercase().hash(&mut hasher));
        Self(hasher.finish())
    }

    /// The identity among all clouds of what the cloud at this address calls so.
    pub fn at(self, endpoint: Option<&str>) -> Self {
        match endpoint {
            Some(endpoint) => Self::of(&[&self.0.to_string(), endpoint]),
            None => self,
        }
    }
}

/// Whether these are two things, as far as both identities are known.
pub fn differ(one: Option<Identity>, other: Option<Identity>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one != other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_known_identities_differ() {
        let (first, second) = (Identity::of(&["a", "1"]), Identity::of(&["a", "2"]));
        assert!(differ(Some(first), Some(second)));
        assert!(!differ(Some(first), None) && !differ(None, Some(second)) && !differ(None, None));
        assert!(differ(Some(first), Some(first.at(Some("http://127.0.0.1")))), "another cloud's");
        assert_eq!(Identity::of(&["7A3F"]), Identity::of(&["7a3f"]), "clouds differ in case");
    }
}
