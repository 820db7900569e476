//! Reads all groups of a source, or one group.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, PoisonError};

use aws_sdk_autoscaling::types::AutoScalingGroup;

use super::super::launch::LaunchSettings;
use super::super::sdk::api::{BATCH, GroupQuery};
use super::{Groups, discovery, reading};
use crate::cloud::{CloudError, GroupName, GroupReading, Listing, NodeGroupSpec};

/// Most pages of one query: 20,000 groups, which is more than an account may have.
const PAGES_MAX: usize = 200;

impl Groups {
    /// Reads the groups that the configuration names and those that its discovery specs match.
    pub(in crate::clouds::aws) async fn list(&self) -> Result<Listing, CloudError> {
        let (found, absent) = self.describe_all().await?;
        let mut listing = Listing { absent, ..Listing::default() };
        for (name, group) in &found {
            match self.read(group) {
                Ok(reading) => listing.groups.push(reading),
                Err(reason) => listing.broken.push((name.as_str().into(), reason)),
            }
        }
        listing.groups.sort_by(|one, other| one.name.cmp(&other.name));
        listing.broken.sort();
        self.forget_others(&found);
        Ok(listing)
    }

    /// Describes those groups. Also returns the names of configured groups that do not exist.
    pub(super) async fn describe_all(&self) -> Result<(HashMap<String, AutoScalingGroup>, Vec<GroupName>), CloudError> {
        let names: BTreeSet<&str> = self.settings.node_groups.iter().map(|spec| spec.name.as_str()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let mut found: HashMap<String, AutoScalingGroup> = HashMap::new();
        for batch in names.chunks(BATCH) {
            let query = GroupQuery::Named(batch.iter().map(|name| (*name).to_owned()).collect());
            self.pages(&query, &mut found).await?;
        }
        let absent = names.iter().filter(|name| !found.contains_key(**name)).map(|name| (*name).into()).collect();
        for query in &self.settings.auto_discovery {
            let filters = discovery::filters(query);
            if filters.is_empty() {
                continue; // A query without filters would return every group of the account.
            }
            self.pages(&GroupQuery::Filtered(filters), &mut found).await?;
        }
        Ok((found, absent))
    }

    /// Reads one group.
    pub(in crate::clouds::aws) async fn observe(&self, name: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        let found = self.describe(name.as_str()).await?.filter(|group| self.is_configured(name.as_str(), group));
        let Some(group) = found else { return Ok(None) };
        let misread = |reason| CloudError::unintelligible("DescribeAutoScalingGroups", name.as_str(), reason);
        self.read(&group).map(Some).map_err(misread)
    }

    /// Describes one group.
    pub(super) async fn describe(&self, name: &str) -> Result<Option<AutoScalingGroup>, CloudError> {
        let query = GroupQuery::Named(vec![name.to_owned()]);
        let page = self.scaling.describe_auto_scaling_groups(&query, None).await?;
        let groups = page.auto_scaling_groups.unwrap_or_default();
        Ok(groups.into_iter().find(|group| group.auto_scaling_group_name.as_deref() == Some(name)))
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

    // Keeps the first description of a group that several queries return.
    async fn pages(&self, query: &GroupQuery, found: &mut HashMap<String, AutoScalingGroup>) -> Result<(), CloudError> {
        let (mut token, mut tokens) = (None, HashSet::new());
        for _ in 0..PAGES_MAX {
            let page = self.scaling.describe_auto_scaling_groups(query, token).await?;
            for group in page.auto_scaling_groups.unwrap_or_default() {
                // The SDK replaces a missing name by an empty one.
                match group.auto_scaling_group_name.clone().filter(|name| !name.is_empty()) {
                    Some(name) => drop(found.entry(name).or_insert(group)),
                    None => tracing::warn!(
                        arn = group.auto_scaling_group_arn(),
                        "Auto Scaling group has no name; ignoring it"
                    ),
                }
            }
            token = page.next_token.filter(|token| !token.is_empty());
            match &token {
                None => return Ok(()),
                Some(token) if tokens.insert(token.clone()) => {}
                Some(_) => break,
            }
        }
        Err(CloudError::unintelligible("DescribeAutoScalingGroups", "all", "the list of pages does not end"))
    }

    fn read(&self, group: &AutoScalingGroup) -> Result<GroupReading, String> {
        let read = reading::read(group, self.spec(group.auto_scaling_group_name().unwrap_or_default()))?;
        let name = &read.reading.name;
        self.warnings.log_new(name, read.warnings);
        let settings = Arc::new(LaunchSettings::of(group));
        self.launch_settings.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), settings);
        Ok(read.reading)
    }

    // A discovered group that has lost its tags is no longer served, also where it is read by its name.
    fn is_configured(&self, name: &str, group: &AutoScalingGroup) -> bool {
        let queries = &self.settings.auto_discovery;
        queries.is_empty() || self.spec(name).is_some() || queries.iter().any(|query| discovery::matches(query, group))
    }

    // If a name is configured twice, the first entry wins.
    fn spec(&self, name: &str) -> Option<&NodeGroupSpec> {
        self.settings.node_groups.iter().find(|spec| spec.name == name)
    }

    fn forget_others(&self, found: &HashMap<String, AutoScalingGroup>) {
        let mut settings = self.launch_settings.lock().unwrap_or_else(PoisonError::into_inner);
        settings.retain(|name, _| found.contains_key(name.as_str()));
    }
}
