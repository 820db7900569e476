//! What the configuration sets for groups, by their names.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use wildmatch::WildMatch;

use super::options::Options;
use super::snapshot::GroupKey;
use crate::cloud::{CapacityIs, GroupReading, GrowsBy};
use crate::template::GroupOverrides;

/// What the configuration sets for the groups whose name matches.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The pattern, with `*` and `?`. One with a slash also matches `source/name`.
    pub matches: WildMatch,
    /// What their nodes have.
    pub overrides: GroupOverrides,
    /// Options that override CA's flags for them.
    pub options: Options,
    /// What to do if they seem to belong to another cluster.
    pub foreign: Option<ForeignPolicy>,
    /// What their capacity is compared with when a new one is written.
    pub capacity_is: Option<CapacityIs>,
    /// Whether the quotas of the account limit them.
    pub quota: Option<QuotaPolicy>,
    /// How they are to grow, where their cloud can make them grow so.
    pub grows_by: Option<GrowsBy>,
    /// Whether each of their zones is a node group.
    pub zones: Option<ZonePolicy>,
}

impl Policy {
    /// One that matches every group and sets nothing.
    pub fn of_all() -> Self {
        Self {
            matches: WildMatch::new("*"),
            overrides: GroupOverrides::default(),
            options: Options::default(),
            foreign: None,
            capacity_is: None,
            quota: None,
            grows_by: None,
            zones: None,
        }
    }

    /// Whether it is for this group, whatever ID it is served under: that changes when another source gets a group of
    /// the same name.
    fn is_for(&self, group: &GroupKey) -> bool {
        let names_source = self.matches.pattern_chars().contains(&'/');
        self.matches.matches(group.name.as_str()) || (names_source && self.matches.matches(&group.to_string()))
    }
}

/// What to do with a node group that seems to belong to another cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForeignPolicy {
    /// Refuse to delete instances that are not nodes of this cluster.
    #[default]
    Refuse,
    /// Delete them.
    Allow,
}

/// Whether the quotas of the account limit a node group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuotaPolicy {
    /// It is offered up to what they leave.
    #[default]
    Respect,
    /// It is offered up to its own maximum.
    Ignore,
}

/// How a group of several zones is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZonePolicy {
    /// As one node group.
    #[default]
    Together,
    /// As one node group for each zone, `NAME/ZONE`.
    Separate,
}

/// All policies, in the configuration's order; later ones win.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policies(pub Vec<Policy>);

impl Policies {
    /// The patterns that match none of these groups. One with a slash may name a zone, so those are left out.
    pub fn unmatched(&self, groups: &[GroupKey]) -> Vec<String> {
        let is_unmatched = |policy: &&Policy| {
            !policy.matches.pattern_chars().contains(&'/') && !groups.iter().any(|group| policy.is_for(group))
        };
        self.0.iter().filter(is_unmatched).map(|policy| policy.matches.pattern()).collect()
    }
}

/// All matching policies of one group, merged.
#[derive(Clone, Debug, Default)]
pub struct GroupPolicy {
    /// What its nodes have.
    pub overrides: GroupOverrides,
    /// Options that override CA's flags for it.
    pub options: Options,
    /// What to do if it seems to belong to another cluster.
    pub foreign: ForeignPolicy,
    /// What its capacity is compared with when a new one is written; `None` if its cloud says it.
    pub capacity_is: Option<CapacityIs>,
    /// Whether the quotas of the account limit it.
    pub quota: QuotaPolicy,
    /// How it is to grow, where its cloud can make it grow so; `None` if its cloud says it.
    pub grows_by: Option<GrowsBy>,
    /// How it is served if it has several zones.
    pub zones: ZonePolicy,
}

impl GroupPolicy {
    /// Whether each zone of this group is served as a node group. A group without zones is served as it is.
    pub fn separates(&self, reading: &GroupReading) -> bool {
        self.zones == ZonePolicy::Separate && !reading.zones.names.is_empty()
    }
}

impl Policies {
    /// Merges all policies that match a group. A zone of a group that is served by zones has those of the group.
    pub fn of(&self, group: &GroupKey) -> GroupPolicy {
        let mut all = GroupPolicy::default();
        for policy in self.0.iter().filter(|policy| policy.is_for(group)) {
            all.overrides.merge(policy.overrides.clone());
            all.options = policy.options.merge(&all.options);
            all.foreign = policy.foreign.unwrap_or(all.foreign);
            all.capacity_is = policy.capacity_is.or(all.capacity_is);
            all.quota = policy.quota.unwrap_or(all.quota);
            all.grows_by = policy.grows_by.or(all.grows_by);
            all.zones = policy.zones.unwrap_or(all.zones);
        }
        all
    }
}

/// The current policies. They can be replaced while the fleet runs.
#[derive(Debug)]
pub struct LivePolicies {
    current: ArcSwap<Policies>,
    /// Those of the start, which decide which groups are served by zones.
    at_start: Arc<Policies>,
    revision: AtomicU64,
}

impl LivePolicies {
    /// Starts with these.
    pub fn new(policies: Arc<Policies>) -> Self {
        Self { current: ArcSwap::new(Arc::clone(&policies)), at_start: policies, revision: AtomicU64::new(0) }
    }

    /// The current policies for a group, merged. A zone of a group that is served by zones has those of the group.
    pub fn of(&self, group: &GroupKey) -> GroupPolicy {
        self.current.load().of(group)
    }

    /// The reading of a group, with what the configuration says about its capacity and its growth.
    pub(super) fn applied_to(&self, group: &GroupKey, mut reading: GroupReading) -> GroupReading {
        let policy = self.of(group);
        // Where the cloud says what its capacity is, the configuration has nothing to add.
        if let Some(capacity_is) = policy.capacity_is.filter(|_| reading.consistency.capacity_is == CapacityIs::Unknown)
        {
            reading.consistency.capacity_is = capacity_is;
        }
        if self.at_start.of(group).separates(&reading) {
            reading.consistency.grows_by = GrowsBy::LaunchInZone;
        } else if let Some(grows_by) = policy.grows_by.filter(|_| reading.launch_zone().is_ok()) {
            reading.consistency.grows_by = grows_by;
        }
        reading
    }

    /// Replaces the policies.
    pub(super) fn replace(&self, policies: Policies) {
        self.current.store(Arc::new(policies));
        self.revision.fetch_add(1, Ordering::Release);
    }

    /// Grows with each replacement: templates that were built before it are built again.
    pub(super) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(pattern: &str, zones: Option<ZonePolicy>, foreign: Option<ForeignPolicy>) -> Policy {
        Policy { matches: WildMatch::new(pattern), zones, foreign, ..Policy::of_all() }
    }

    fn key(source: &str, name: &str) -> GroupKey {
        GroupKey { source: source.into(), name: name.into() }
    }

    #[test]
    fn a_policy_is_for_the_groups_of_a_name_or_for_that_of_one_source() {
        let allow = Some(ForeignPolicy::Allow);
        let matches = |pattern: &str, group: &GroupKey| {
            Policies(vec![policy(pattern, None, allow)]).of(group).foreign == ForeignPolicy::Allow
        };
        let (us, eu) = (key("us", "web"), key("eu", "web"));
        assert!(matches("w?b", &us) && matches("w?b", &eu));
        assert!(matches("eu/web", &eu) && !matches("eu/web", &us));
        assert!(matches("eu/*", &eu) && !matches("eu/*", &us));
        assert!(matches("team/db", &key("us", "team/db")), "a name with a slash");
        assert!(!matches("e*", &eu), "a pattern without a slash is for names");
    }

    #[test]
    fn a_pattern_that_matches_no_group_is_probably_a_typing_error() {
        let policies = Policies(["wbe", "w*", "eu/wbe", "web"].map(|pattern| policy(pattern, None, None)).into());
        assert_eq!(policies.unmatched(&[key("us", "web"), key("eu", "db")]), ["wbe"]);
    }

    #[test]
    fn what_a_zone_is_served_as_changes_only_with_a_restart() {
        let zones = |zones| Policies(vec![policy("web", zones, Some(ForeignPolicy::Allow))]);
        let live = LivePolicies::new(Arc::new(zones(Some(ZonePolicy::Separate))));
        live.replace(zones(None));
        let group = key("us", "web");
        assert_eq!(live.of(&group).foreign, ForeignPolicy::Allow);
        assert_eq!(live.at_start.of(&group).zones, ZonePolicy::Separate);
    }
}
