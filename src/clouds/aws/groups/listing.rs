//! Reads all groups of a source, or one group.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, PoisonError};

use aws_sdk_autoscaling::types::AutoScalingGroup;

use super::super::launch::LaunchSettings;
use super::super::sdk::api::{BATCH, BrokenGroup, GroupQuery, GroupsPage};
use super::{Groups, discovery, reading};
use crate::cloud::{CloudError, GroupName, GroupReading, Listing, NodeGroupSpec};
use crate::clouds::listing_size::{AWS_LIST_BYTES_MAX, ListSize};
use crate::clouds::page_walk::PageWalk;

/// The most pages of one query: 20,000 groups, which is more than an account may have.
const PAGES_MAX: usize = 200;

/// The most pages on which one group is looked for. AWS may return an empty page before others.
const PAGES_OF_ONE_MAX: usize = 10;

/// A list that is too long, or that does not end.
fn endless(reason: String) -> CloudError {
    CloudError::unintelligible("DescribeAutoScalingGroups", "all", reason)
}

/// A group that cannot be read.
fn misread(name: &str, reason: String) -> CloudError {
    CloudError::unintelligible("DescribeAutoScalingGroups", name, reason)
}

/// The groups that the queries of a listing returned so far.
#[derive(Debug, Default)]
pub(super) struct Found {
    names: HashSet<String>,
    /// Whether one can be neither decoded nor named: it may be any group that was not found.
    has_nameless: bool,
}

impl Groups {
    /// Reads the groups that the configuration names and those that its discovery specs match.
    pub(in crate::clouds::aws) async fn list(&self) -> Result<Listing, CloudError> {
        let (mut groups, mut broken) = (Vec::new(), Vec::new());
        let mut add = |page: Listing| {
            groups.extend(page.groups);
            broken.extend(page.broken);
        };
        let absent = self.list_pages(&mut add).await?;
        groups.sort_by(|one: &GroupReading, other| one.name.cmp(&other.name));
        broken.sort();
        Ok(Listing { groups, broken, absent })
    }

    /// Reads the same groups, and passes on each page as it arrives. Returns the names of configured groups that do
    /// not exist.
    pub(in crate::clouds::aws) async fn list_pages(
        &self,
        page: &mut (dyn FnMut(Listing) + Send),
    ) -> Result<Vec<GroupName>, CloudError> {
        let mut read_page = |described: GroupsPage| {
            let mut listing = Listing::default();
            for BrokenGroup { name, reason } in described.broken {
                listing.broken.extend(name.map(|name| (name.into(), reason)));
            }
            for group in described.groups {
                match self.read(&group) {
                    Ok(reading) => listing.groups.push(reading),
                    Err(reason) => {
                        listing.broken.push((group.auto_scaling_group_name().unwrap_or_default().into(), reason));
                    }
                }
            }
            page(listing);
        };
        let (found, absent) = self.describe_all(&mut read_page).await?;
        if !found.has_nameless {
            self.forget_others(&found.names);
        }
        Ok(absent)
    }

    /// Describes those groups, page by page, each group once. Returns what was found, and the names of configured
    /// groups that do not exist.
    pub(super) async fn describe_all(
        &self,
        page: &mut (dyn FnMut(GroupsPage) + Send),
    ) -> Result<(Found, Vec<GroupName>), CloudError> {
        let names: BTreeSet<&str> = self.settings.node_groups.iter().map(|spec| spec.name.as_str()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let (mut found, mut size) = (Found::default(), ListSize::of_at_most(AWS_LIST_BYTES_MAX));
        for batch in names.chunks(BATCH) {
            let query = GroupQuery::Named(batch.iter().map(|name| (*name).to_owned()).collect());
            self.pages(&query, &mut found, &mut size, page).await?;
        }
        let is_absent = |name: &&&str| !found.has_nameless && !found.names.contains(**name);
        let absent = names.iter().filter(is_absent).map(|name| (*name).into()).collect();
        for query in &self.settings.auto_discovery {
            let filters = discovery::filters(query);
            if filters.is_empty() {
                continue; // A query without filters would return every group of the account.
            }
            self.pages(&GroupQuery::Filtered(filters), &mut found, &mut size, page).await?;
        }
        Ok((found, absent))
    }

    /// Reads one group.
    pub(in crate::clouds::aws) async fn observe(&self, name: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        let found = self.describe(name.as_str()).await?.filter(|group| self.is_configured(name.as_str(), group));
        let Some(group) = found else { return Ok(None) };
        self.read(&group).map(Some).map_err(|reason| misread(name.as_str(), reason))
    }

    /// Describes one group.
    pub(super) async fn describe(&self, name: &str) -> Result<Option<AutoScalingGroup>, CloudError> {
        let query = GroupQuery::One(name.to_owned());
        let (mut token, mut walk) = (None, PageWalk::default());
        for _ in 0..PAGES_OF_ONE_MAX {
            let page = self.scaling.describe_auto_scaling_groups(&query, token).await?;
            let mut groups = page.groups.into_iter();
            if let Some(found) = groups.find(|group| group.auto_scaling_group_name.as_deref() == Some(name)) {
                return Ok(Some(found));
            }
            // One whose name cannot be decoded may be this one. Unknown is not gone.
            let mut broken = page.broken.into_iter();
            if let Some(broken) = broken.find(|broken| broken.name.as_deref().is_none_or(|broken| broken == name)) {
                return Err(misread(name, broken.reason));
            }
            token = walk.token(page.next_token).map_err(|reason| endless(reason.to_owned()))?;
            if token.is_none() {
                return Ok(None);
            }
        }
        Err(endless(format!("more than {PAGES_OF_ONE_MAX} pages for one group")))
    }

    /// The launch settings of a group as of `reading`. Describes the group again if they changed since.
    pub(in crate::clouds::aws) async fn launch_settings(
        &self,
        reading: &GroupReading,
    ) -> Result<Arc<LaunchSettings>, CloudError> {
        let known = self.launch_settings.lock().unwrap_or_else(PoisonError::into_inner).get(&reading.name).cloned();
        if let Some(known) = known.filter(|known| known.launch_fingerprint == reading.launch_fingerprint) {
            return Ok(known);
        }
        let name = reading.name.as_str();
        let group = self.describe(name).await?;
        let group = group
            .ok_or_else(|| CloudError::not_found("DescribeAutoScalingGroups", name, "the group does not exist"))?;
        Ok(Arc::new(LaunchSettings::of(&group)))
    }

    // Passes on each group once, even if several queries return it.
    async fn pages(
        &self,
        query: &GroupQuery,
        found: &mut Found,
        size: &mut ListSize,
        page: &mut (dyn FnMut(GroupsPage) + Send),
    ) -> Result<(), CloudError> {
        let (mut token, mut walk) = (None, PageWalk::default());
        for _ in 0..PAGES_MAX {
            let mut described = self.scaling.describe_auto_scaling_groups(query, token).await?;
            size.add(described.bytes).map_err(endless)?;
            let next_token = described.next_token.take();
            described.groups.retain(|group| {
                // The SDK replaces a missing name with an empty one.
                let name = group.auto_scaling_group_name().unwrap_or_default();
                if name.is_empty() {
                    let arn = group.auto_scaling_group_arn();
                    tracing::warn!(arn, "Auto Scaling group has no name; ignoring it");
                }
                let is_asked_for = query.names(name).unwrap_or_else(|| self.is_configured(name, group));
                !name.is_empty() && is_asked_for && found.names.insert(name.to_owned())
            });
            described.broken.retain(|BrokenGroup { name, reason }| {
                let Some(name) = name else {
                    found.has_nameless = true;
                    tracing::warn!(%reason, "Auto Scaling group can be neither decoded nor named; ignoring it");
                    return false;
                };
                // Its tags are not known, and AWS says that they match.
                query.names(name).unwrap_or(true) && found.names.insert(name.clone())
            });
            self.shifts.refresh(&described.groups).await;
            page(described);
            token = walk.token(next_token).map_err(|reason| endless(reason.to_owned()))?;
            if token.is_none() {
                return Ok(());
            }
        }
        Err(endless(format!("more than {PAGES_MAX} pages")))
    }

    fn read(&self, group: &AutoScalingGroup) -> Result<GroupReading, String> {
        let spec = self.spec(group.auto_scaling_group_name().unwrap_or_default());
        let mut read = reading::read(group, spec, &self.region)?;
        self.shifts.apply(group, &mut read.reading);
        let name = &read.reading.name;
        self.warnings.log_new(name, read.warnings);
        let settings = Arc::new(LaunchSettings::of(group));
        self.check_account(name, &settings)?;
        self.launch_settings.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), settings);
        Ok(read.reading)
    }

    /// A group that is created again stays in its account: credentials of another account show that account's group of
    /// the same name, and its instances are not this cluster's.
    fn check_account(&self, name: &GroupName, settings: &LaunchSettings) -> Result<(), String> {
        let known = self.launch_settings.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        match (known.as_ref().and_then(|known| known.account.as_ref()), &settings.account) {
            (Some(known), Some(account)) if known != account => Err(format!(
                "the credentials show a group of account {account}, and account {known} had it: restore the credentials \
                 of that account, or restart Headcount if the group has moved"
            )),
            _ => Ok(()),
        }
    }

    // A discovered group that has lost its tags is no longer served, even if it is read by name.
    fn is_configured(&self, name: &str, group: &AutoScalingGroup) -> bool {
        let queries = &self.settings.auto_discovery;
        queries.is_empty() || self.spec(name).is_some() || queries.iter().any(|query| discovery::matches(query, group))
    }

    // If a name is configured twice, the first entry wins.
    fn spec(&self, name: &str) -> Option<&NodeGroupSpec> {
        self.settings.node_groups.iter().find(|spec| spec.name == name)
    }

    fn forget_others(&self, found: &HashSet<String>) {
        let mut settings = self.launch_settings.lock().unwrap_or_else(PoisonError::into_inner);
        settings.retain(|name, _| found.contains(name.as_str()));
    }
}
