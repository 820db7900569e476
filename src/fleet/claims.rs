//! Which source serves a group that several sources match. Two keepers of one group would undo each other's writes, and
//! its nodes would be instances of one of the two, so that the other one lacks all of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::snapshot::GroupKey;
use crate::cloud::{GroupName, Identity};

/// The groups that sources serve, by what the cloud says they are.
#[derive(Debug, Default)]
pub(super) struct Claims(Mutex<HashMap<GroupKey, Claim>>);

/// What a source knows of a group that it has found.
#[derive(Debug)]
enum Claim {
    /// It serves the group, which the cloud says is this one.
    Serves(Identity),
    /// That source found the group first.
    LeavesTo(Arc<str>),
}

impl Claims {
    /// The source that serves this group: the first one that found it, for as long as it finds it. A group that was
    /// created again stays with the same source, whichever of them sees that first.
    pub(super) fn claim(&self, key: &GroupKey, identity: Identity) -> Arc<str> {
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Whether another source serves the same group.
        let is_same = |other: &GroupKey, claim: &Claim| {
            is_same_name(other, key)
                && other.source != key.source
                && matches!(claim, Claim::Serves(served) if *served == identity)
        };
        match claims.get_mut(key) {
            Some(Claim::LeavesTo(first)) => return Arc::clone(first),
            Some(Claim::Serves(served)) => {
                let is_another = std::mem::replace(served, identity) != identity;
                if is_another {
                    claims.iter_mut().filter(|(other, claim)| is_same(other, claim)).for_each(|(other, claim)| {
                        warn_of_both(&key.name, &key.source, &other.source);
                        *claim = Claim::LeavesTo(Arc::clone(&key.source));
                    });
                }
                return Arc::clone(&key.source);
            }
            None => {}
        }
        let first =
            claims.iter().find(|(other, claim)| is_same(other, claim)).map(|(other, _)| Arc::clone(&other.source));
        let claim = first.clone().map_or(Claim::Serves(identity), Claim::LeavesTo);
        if let Some(first) = &first {
            warn_of_both(&key.name, first, &key.source);
        }
        claims.insert(key.clone(), claim);
        first.unwrap_or_else(|| Arc::clone(&key.source))
    }

    /// Whether another source serves this group since it was created again.
    pub(super) fn is_left(&self, key: &GroupKey) -> bool {
        let claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(claims.get(key), Some(Claim::LeavesTo(_)))
    }

    /// The source does not find the group any more: another one that does may serve it.
    pub(super) fn release(&self, key: &GroupKey) {
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        claims.remove(key);
        claims.retain(|other, claim| {
            !is_same_name(other, key) || !matches!(claim, Claim::LeavesTo(first) if *first == key.source)
        });
    }
}

fn warn_of_both(group: &GroupName, serves: &str, ignores: &str) {
    tracing::warn!(
        %group, serves, ignores, "two sources match the same node group; it is served once; remove it from one of them"
    );
}

/// Azure's names are the same in any case, and each source serves them as its configuration spells them.
fn is_same_name(one: &GroupKey, other: &GroupKey) -> bool {
    one.name.as_str().eq_ignore_ascii_case(other.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(source: &str) -> GroupKey {
        GroupKey { source: Arc::from(source), name: GroupName::from("web") }
    }

    #[test]
    fn a_group_is_one_however_sources_spell_its_name() {
        let (claims, identity) = (Claims::default(), Identity::of(&["vmss", "1"]));
        let other = GroupKey { name: GroupName::from("Web"), ..key("b") };
        assert_eq!((&*claims.claim(&key("a"), identity), &*claims.claim(&other, identity)), ("a", "a"));
        claims.release(&key("a"));
        assert_eq!(&*claims.claim(&other, identity), "b");
    }

    #[test]
    fn a_group_that_was_created_again_is_left_to_the_source_that_had_it_by_one_that_finds_it_only_now() {
        let (claims, anew) = (Claims::default(), Identity::of(&["arn", "2"]));
        assert_eq!(&*claims.claim(&key("a"), Identity::of(&["arn", "1"])), "a");
        // Only the new one has the tag that this source looks for. It lists first.
        assert_eq!(&*claims.claim(&key("b"), anew), "b");
        assert_eq!(&*claims.claim(&key("a"), anew), "a");
        assert_eq!(&*claims.claim(&key("b"), anew), "a");
        assert!(claims.is_left(&key("b")) && !claims.is_left(&key("a")));
    }

    #[test]
    fn the_first_source_that_finds_a_group_serves_it_until_it_finds_it_no_more() {
        let (claims, identity) = (Claims::default(), Identity::of(&["arn", "1"]));
        let serves = |source, identity| claims.claim(&key(source), identity).to_string();
        assert_eq!((serves("a", identity), serves("b", identity)), ("a".to_owned(), "a".to_owned()));
        assert_eq!(serves("c", Identity::of(&["other", "1"])), "c", "another account's");
        let anew = Identity::of(&["arn", "2"]);
        assert_eq!((serves("b", anew), serves("a", anew)), ("a".to_owned(), "a".to_owned()), "created again");
        claims.release(&key("b"));
        assert_eq!(serves("a", anew), "a");
        claims.release(&key("a"));
        assert_eq!((serves("b", anew), serves("a", anew)), ("b".to_owned(), "b".to_owned()));
    }
}
