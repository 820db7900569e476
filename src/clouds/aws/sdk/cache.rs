//! A small memory with an end: entries age, and their number is bounded.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long `$Latest` and `$Default` of a launch template stay resolved, and which types satisfy requirements.
pub(in crate::clouds::aws) const RESOLVED_TTL: Duration = Duration::from_secs(5 * 60);
/// How long an EKS managed node group is remembered; DescribeNodegroup is throttled apart from everything else.
pub(in crate::clouds::aws) const NODEGROUP_TTL: Duration = Duration::from_secs(6 * 60);
/// How long what cannot change is remembered (a numbered launch template version, an image): until it may be deleted.
pub(in crate::clouds::aws) const IMMUTABLE_TTL: Duration = Duration::from_secs(60 * 60);
/// How long a refinement of a template that could not be read is gone without.
pub(in crate::clouds::aws) const FAILED_TTL: Duration = Duration::from_secs(60);
/// How long the batch form of a call is not tried again after AWS did not know it.
pub(in crate::clouds::aws) const UNKNOWN_FORM_TTL: Duration = Duration::from_secs(10 * 60);

/// Entries of one cache.
const ENTRIES_MAX: usize = 2_000;

/// A cache whose entries age.
#[derive(Debug)]
pub(in crate::clouds::aws) struct Cache<K, V>(Mutex<HashMap<K, (Instant, V)>>);

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self(Mutex::new(HashMap::new()))
    }
}

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    /// What is remembered under `key`.
    pub(in crate::clouds::aws) fn get(&self, key: &K) -> Option<V> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(key).filter(|(until, _)| Instant::now() < *until).map(|(_, value)| value.clone())
    }

    /// What was remembered under `key` last, however long ago: for when there is nothing newer to be had.
    pub(in crate::clouds::aws) fn get_aged(&self, key: &K) -> Option<V> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(key).map(|(_, value)| value.clone())
    }

    /// Remembers `value` for so long.
    pub(in crate::clouds::aws) fn put(&self, key: K, value: V, ttl: Duration) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if entries.len() >= ENTRIES_MAX {
            entries.retain(|_, (until, _)| now < *until);
        }
        if entries.len() >= ENTRIES_MAX {
            entries.clear();
        }
        entries.insert(key, (now + ttl, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn entries_age_and_are_bounded() {
        let cache = Cache::default();
        cache.put(0, "zero", Duration::from_secs(10));
        assert_eq!(cache.get(&0), Some("zero"));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!((cache.get(&0), cache.get_aged(&0)), (None, Some("zero")));
        for key in 0..=ENTRIES_MAX {
            cache.put(key, "x", Duration::from_secs(10));
        }
        assert_eq!(cache.get(&ENTRIES_MAX), Some("x"));
        assert!(cache.0.lock().expect("no panic").len() <= ENTRIES_MAX);
    }
}
