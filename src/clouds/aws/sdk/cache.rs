//! A bounded cache whose entries expire.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// For `$Latest` and `$Default` of a launch template. A version that they move to must show within 90 s, and the node
/// template of a source that is listed every 60 s is rebuilt as rarely. All groups share the call.
pub(in crate::clouds::aws) const MOVING_TTL: Duration = Duration::from_secs(20);
/// For the types that satisfy requirements.
pub(in crate::clouds::aws) const RESOLVED_TTL: Duration = Duration::from_secs(5 * 60);
/// For an EKS managed node group. DescribeNodegroup has a throttling limit of its own.
pub(in crate::clouds::aws) const NODEGROUP_TTL: Duration = Duration::from_secs(6 * 60);
/// For what cannot change, but can be deleted: a numbered launch template version, an image.
pub(in crate::clouds::aws) const IMMUTABLE_TTL: Duration = Duration::from_secs(60 * 60);
/// For optional details that could not be read, until they are read again.
pub(in crate::clouds::aws) const FAILED_TTL: Duration = Duration::from_secs(60);
/// For a call that all groups share and that failed: a group that needs it earlier gets the same error.
pub(in crate::clouds::aws) const FAILED_CALL_TTL: Duration = Duration::from_secs(5);
/// How long the batch form of a call is not used after AWS refused it as unknown.
pub(in crate::clouds::aws) const UNKNOWN_FORM_TTL: Duration = Duration::from_secs(10 * 60);

/// Most entries of one cache.
const ENTRIES_MAX: usize = 2_000;

/// A cache whose entries expire.
#[derive(Debug)]
pub(in crate::clouds::aws) struct Cache<K, V>(Mutex<HashMap<K, (Instant, V)>>);

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self(Mutex::new(HashMap::new()))
    }
}

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    /// The value of `key`, unless it has expired.
    pub(in crate::clouds::aws) fn get(&self, key: &K) -> Option<V> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(key).filter(|(until, _)| Instant::now() < *until).map(|(_, value)| value.clone())
    }

    /// The last value of `key`, even if it has expired. For use when a newer one cannot be read.
    pub(in crate::clouds::aws) fn get_expired(&self, key: &K) -> Option<V> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(key).map(|(_, value)| value.clone())
    }

    /// Stores `value` until `ttl` has passed.
    pub(in crate::clouds::aws) fn put(&self, key: K, value: V, ttl: Duration) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let is_full = |entries: &HashMap<K, (Instant, V)>| entries.len() >= ENTRIES_MAX && !entries.contains_key(&key);
        if is_full(&entries) {
            entries.retain(|_, (until, _)| now < *until);
        }
        if is_full(&entries) {
            entries.clear();
        }
        entries.insert(key, (now + ttl, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn entries_expire_and_their_number_is_bounded() {
        let cache = Cache::default();
        cache.put(0, "zero", Duration::from_secs(10));
        assert_eq!(cache.get(&0), Some("zero"));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!((cache.get(&0), cache.get_expired(&0)), (None, Some("zero")));
        for key in 0..=ENTRIES_MAX {
            cache.put(key, "x", Duration::from_secs(10));
        }
        assert_eq!(cache.get(&ENTRIES_MAX), Some("x"));
        assert!(cache.0.lock().expect("no panic").len() <= ENTRIES_MAX);
        let full = Cache::default();
        for key in (0..ENTRIES_MAX).chain([0]) {
            full.put(key, "x", Duration::from_secs(10));
        }
        assert_eq!((full.get(&0), full.get(&1)), (Some("x"), Some("x")), "to replace one takes no room");
    }
}
