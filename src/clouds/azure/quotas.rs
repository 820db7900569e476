//! The quotas that scale sets count against: vCPUs of a VM family, all vCPUs of the region, and vCPUs of spot VMs.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::arm::{ScaleSet, Usage};
use super::{Azure, launch_spec};
use crate::cloud::{CloudError, GroupName, Quota, QuotaUse, Quotas};

/// All vCPUs of the region that are not of spot VMs.
const REGIONAL: &str = "cores";
/// All vCPUs of spot VMs. They count against no other quota.
const SPOT: &str = "lowPriorityCores";

impl Azure {
    /// Reads the quotas of each location of the served scale sets: one call each. Those of a location that cannot be
    /// read limit nothing.
    pub(super) async fn read_quotas(&self) -> Result<Quotas, CloudError> {
        let sets = self.cache.served();
        let locations: BTreeSet<String> = sets.iter().map(|(_, set)| launch_spec::region(&set.location)).collect();
        let (mut quotas, mut unread) = (Quotas::default(), None);
        for location in locations {
            match self.api.list_usages(&location).await {
                Ok(usages) => quotas.by_name.extend(
                    usages
                        .into_iter()
                        .map(|Usage { name, used, limit }| (named(&name, &location), Quota { used, limit })),
                ),
                Err(error) => unread = Some(error),
            }
        }
        if let Some(error) = unread.filter(|_| quotas.by_name.is_empty()) {
            return Err(error);
        }
        for (group, set) in sets {
            quotas.groups.extend(self.quota_use(&group, &set, &quotas).await);
        }
        Ok(quotas)
    }

    /// What a new VM of a scale set takes; `None` if its size, or the quota of its family, is not known. Of an instance
    /// mix, Azure chooses the size, and of a spot priority mix, how many VMs are spot VMs. VMs in reserved capacity take none: "the quota checks are omitted for VM deployment
    /// up to the reserved quantity" (Microsoft, On-demand capacity reservation), and the reservation itself has used it.
    /// Neither do those on a dedicated host: they "won't count against VM family vCPU quota" (Azure Dedicated Hosts).
    async fn quota_use(&self, group: &GroupName, set: &ScaleSet, quotas: &Quotas) -> Option<(GroupName, QuotaUse)> {
        if set.has_reservation || set.has_host_group || set.mixes_priorities {
            return None;
        }
        let [size] = launch_spec::types(set).try_into().ok()?;
        let location = launch_spec::region(&set.location);
        let (family, cpus) = self.family_and_cpus(&location, &size).await?;
        let names = if set.spot { vec![SPOT] } else { vec![family.as_str(), REGIONAL] };
        let names: Vec<Arc<str>> = names.into_iter().map(|name| named(name, &location)).collect();
        let are_known = names.iter().all(|name| quotas.by_name.contains_key(name));
        // Where the scale set makes fewer vCPUs available, no source says that a VM takes less of the quota.
        are_known.then(|| (group.clone(), QuotaUse { names, per_node: cpus }))
    }
}

/// The name of a quota in logs. Azure ignores the case of its own names.
fn named(name: &str, location: &str) -> Arc<str> {
    format!("{} in {location}", name.to_ascii_lowercase()).into()
}
