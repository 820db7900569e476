//! Reading groups: all of a source, or one.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, PoisonError};

use aws_sdk_autoscaling::types::AutoScalingGroup;

use super::api::{BATCH, Which};
use super::blueprint::Blueprint;
use super::{Aws, discovery, groups};
use crate::cloud::{CloudError, GroupName, GroupReading, Listing, NodeGroupSpec};

/// Pages of one query: 20 000 groups, which is more than an account may have.
const PAGES_MAX: usize = 200;

impl Aws {
    /// Lists the groups that the configuration names and those its discoveries find.
    pub(super) async fn list_all(&self) -> Result<Listing, CloudError> {
        let (found, absent) = self.find().await?;
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

    /// Finds those groups, and the names for which there is none.
    pub(super) async fn find(&self) -> Result<(HashMap<String, AutoScalingGroup>, Vec<GroupName>), CloudError> {
        let names: BTreeSet<&str> = self.settings.node_groups.iter().map(|spec| spec.name.as_str()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let mut found: HashMap<String, AutoScalingGroup> = HashMap::new();
        for batch in names.chunks(BATCH) {
            let which = Which::Named(batch.iter().map(|name| (*name).to_owned()).collect());
            self.pages(&which, &mut found).await?;
        }
        let absent = names.iter().filter(|name| !found.contains_key(**name)).map(|name| (*name).into()).collect();
        for query in &self.settings.auto_discovery {
            let filters = discovery::filters(query);
            if filters.is_empty() {
                continue; // No filters would find every group of the account.
            }
            self.pages(&Which::Filtered(filters), &mut found).await?;
        }
        Ok((found, absent))
    }

    /// Reads one group anew.
    pub(super) async fn observe_one(&self, name: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        let Some(group) = self.describe(name.as_str()).await? else { return Ok(None) };
        let misread = |reason| CloudError::unintelligible("DescribeAutoScalingGroups", name.as_str(), reason);
        self.read(&group).map(Some).map_err(misread)
    }

    /// Describes one group.
    pub(super) async fn describe(&self, name: &str) -> Result<Option<AutoScalingGroup>, CloudError> {
        let which = Which::Named(vec![name.to_owned()]);
        let page = self.scaling.describe_auto_scaling_groups(&which, None).await?;
        let groups = page.auto_scaling_groups.unwrap_or_default();
        Ok(groups.into_iter().find(|group| group.auto_scaling_group_name.as_deref() == Some(name)))
    }

    /// What a group said of its machines when it was read last.
    pub(super) fn remembered(&self, name: &GroupName) -> Option<Arc<Blueprint>> {
        self.blueprints.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    // A group that was found before is not read again.
    async fn pages(&self, which: &Which, found: &mut HashMap<String, AutoScalingGroup>) -> Result<(), CloudError> {
        let (mut token, mut tokens) = (None, HashSet::new());
        for _ in 0..PAGES_MAX {
            let page = self.scaling.describe_auto_scaling_groups(which, token).await?;
            for group in page.auto_scaling_groups.unwrap_or_default() {
                // The SDK fills in what a group must have and this one has not: a name that is missing is empty.
                match group.auto_scaling_group_name.clone().filter(|name| !name.is_empty()) {
                    Some(name) => drop(found.entry(name).or_insert(group)),
                    None => tracing::warn!(arn = group.auto_scaling_group_arn(), "a group without a name is left out"),
                }
            }
            token = page.next_token.filter(|token| !token.is_empty());
            match &token {
                None => return Ok(()),
                Some(token) if tokens.insert(token.clone()) => {}
                Some(_) => break,
            }
        }
        Err(CloudError::unintelligible("DescribeAutoScalingGroups", "all", "the pages have no end"))
    }

    fn read(&self, group: &AutoScalingGroup) -> Result<GroupReading, String> {
        let read = groups::read(group, self.spec(group.auto_scaling_group_name().unwrap_or_default()))?;
        let name = &read.reading.name;
        self.warnings.log_new(name, read.warnings);
        let blueprint = Arc::new(Blueprint::of(group));
        self.blueprints.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), blueprint);
        Ok(read.reading)
    }

    // Where a name is given twice, the first counts.
    fn spec(&self, name: &str) -> Option<&NodeGroupSpec> {
        self.settings.node_groups.iter().find(|spec| spec.name == name)
    }

    fn forget_others(&self, found: &HashMap<String, AutoScalingGroup>) {
        let mut blueprints = self.blueprints.lock().unwrap_or_else(PoisonError::into_inner);
        blueprints.retain(|name, _| found.contains_key(name.as_str()));
    }
}
